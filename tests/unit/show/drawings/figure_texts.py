"""What stands in a figure, for tests of what is drawn."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.text import Text


def written(fig: Figure) -> list[str]:
    """All texts of a figure that are not empty."""
    return [text.get_text() for text in fig.findobj(Text) if text.get_text()]
