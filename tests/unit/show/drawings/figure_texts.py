"""What stands in a figure, for tests of what is drawn."""

from __future__ import annotations

from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text


def written(fig: Figure) -> list[str]:
    """All texts of a figure that are not empty."""
    return [text.get_text() for text in fig.findobj(Text) if text.get_text()]


def cells(fig: Figure, colour: str) -> int:
    """How many boxes have this colour."""
    patches = fig.findobj(Rectangle)
    return sum(to_hex(patch.get_facecolor()).upper() == colour for patch in patches)


def strokes(fig: Figure) -> int:
    """How many white lines cross a number out."""
    return sum(line.get_color() == "white" for line in fig.axes[0].lines)
