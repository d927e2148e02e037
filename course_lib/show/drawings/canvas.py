"""What a drawing is made of: a figure without axes in units of cells, boxes, rows of
boxes, arrows, words, numbers.

Drawings are for slides: as wide as a slide's text, all words in letters that can be
read from the last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.textpath import TextPath
from torch import Tensor

from course_lib.show.output import new_figure
from course_lib.show.style import INCHES, INK, SLIDE_TEXT, style

FAINT = "#dddddd"
_LINE = 1.6  # pt


def canvas(width: float, rows: float, tall: float = 1.0) -> tuple[Figure, Axes]:
    """A figure without axes whose units are cells of the drawing, y downwards.

    Args:
        width, rows: of the drawing, in cells.
        tall: a cell's height by its width.
    """
    fig = new_figure(INCHES * rows * tall / width)
    fig.set_layout_engine("none")
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(rows, 0), aspect=tall)
    ax.axis("off")
    return fig, ax


def write(ax: Axes, x: float, y: float, text: str, size: float = SLIDE_TEXT, **look: Any) -> None:
    """Words with their middle at (x, y), unless ``look`` says ``ha`` or ``va``;
    ``size`` in points, for signs.
    """
    with mpl.rc_context(style()):
        ax.text(x, y, text, fontsize=size, **{"ha": "center", "va": "center", "color": INK, **look})


def box(
    ax: Axes,
    x: float,
    y: float,
    text: str = "",
    *,
    size: tuple[float, float] = (1, 1),
    fill: Any = "white",
    edge: str = INK,
    ink: str = INK,
    **look: Any,
) -> None:
    """A box, its upper left corner at (x, y), with a text in it.

    Args:
        size: width and height, in cells.
        fill, edge, ink: the colours of the area, the border and the text.
        look: other properties of matplotlib's ``Rectangle``.
    """
    look = {"facecolor": fill, "edgecolor": edge, "linewidth": _LINE, **look}
    ax.add_patch(Rectangle((x, y), *size, **look))
    if text:
        write(ax, x + size[0] / 2, y + size[1] / 2 + 0.03, text, color=ink)


def row(
    ax: Axes, x: float, y: float, name: str, values: Sequence[object], fill: str = "white"
) -> None:
    """Cells side by side from (x, y) on, their name on the left."""
    write(ax, x - 0.3, y + 0.53, name, ha="right")
    for i, value in enumerate(values):
        box(ax, x + i, y, f"{value}", fill=fill)


def arrow(
    ax: Axes,
    *points: tuple[float, float],
    ink: str = INK,
    width: float = _LINE,
    style: str = "-|>",
) -> None:
    """A line through the points, in cells, with a head at the last one; ``width`` in
    points; ``style`` as matplotlib's ``arrowstyle``.
    """
    if len(points) > 2:
        ax.plot(*zip(*points[:-1], strict=True), color=ink, linewidth=width)
    head: dict[str, Any] = {
        "arrowstyle": style,
        "mutation_scale": 18,
        "color": ink,
        "linewidth": width,
    }
    ax.add_patch(FancyArrowPatch(*points[-2:], **head, shrinkA=0, shrinkB=0))


def text_widths(words: Sequence[str], width: float) -> list[float]:
    """How wide words are, in cells of a drawing of this width."""
    with mpl.rc_context(style()):
        font = FontProperties(size=SLIDE_TEXT)
        inches = [
            TextPath((0, 0), word, prop=font).get_extents().width / 72 if word else 0.0
            for word in words
        ]
    return [inch * width / INCHES for inch in inches]


def format_number(value: Tensor | float) -> str:
    """At most two decimals, without zeros at the end, and with a real minus sign."""
    text = f"{float(value):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def format_tensor(values: Tensor) -> str:
    """A vector or matrix in brackets, its rows apart by semicolons."""
    lines = torch.atleast_2d(values).tolist()
    return "[" + "; ".join(", ".join(format_number(v) for v in line) for line in lines) + "]"
