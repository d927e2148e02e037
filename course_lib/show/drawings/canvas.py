"""What a drawing is made of: a figure without axes in units of cells, boxes, rows of boxes, arrows."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from course_lib.show.output import new_figure
from course_lib.show.style import INK

FAINT = "#dddddd"


def canvas(height: float, width: float, rows: float) -> tuple[Figure, Axes]:
    """A figure without axes whose units are cells of the drawing, y downwards."""
    fig = new_figure(height)
    ax = fig.add_subplot()
    ax.set(xlim=(0, width), ylim=(rows, 0), aspect="equal")
    ax.axis("off")
    return fig, ax


def box(ax: Axes, x: float, y: float, text: str = "", *, fill: str = "white", edge: str = INK, ink: str = INK) -> None:
    """One cell, its upper left corner at (x, y), with a text in it."""
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor=edge, linewidth=1.1))
    if text:
        ax.text(x + 0.5, y + 0.53, text, ha="center", va="center", color=ink, fontsize=12)


def row(ax: Axes, x: float, y: float, name: str, values: Sequence[object], fill: str = "white") -> None:
    """Cells side by side from (x, y) on, their name on the left."""
    ax.text(x - 0.3, y + 0.53, name, ha="right", va="center", fontsize=12.5)
    for i, value in enumerate(values):
        box(ax, x + i, y, f"{value}", fill=fill)


def arrow(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], *, ink: str = INK, style: str = "-|>"
) -> None:
    """From ``start`` to ``end``, in cells; ``style`` as matplotlib's ``arrowstyle``."""
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle=style, mutation_scale=10, color=ink))
