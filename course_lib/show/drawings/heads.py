"""Multi-head attention as a sum, and what goes with a head."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas
from course_lib.show.output import alt
from course_lib.show.style import GREY, INK, ORANGE


def heads_as_a_sum(heads: int = 4, gated: Sequence[int] = ()) -> Figure:
    """Multi-head attention as what it is: one term a head, each with its own slice of the output projection, added up.

    Args:
        heads: M, at most 6. gated: those with a gate of 0, from 0.
    """
    fig, ax = canvas(0.62 * heads + 1.0, 20, 1.55 * heads + 1.6)
    middle = 1.55 * heads / 2
    ax.text(0.7, middle, "x", ha="center", va="center", fontsize=15)
    for h in range(heads):
        y = 0.25 + 1.55 * h
        off = h in gated
        ink, fill = (GREY, "white") if off else (INK, FAINT)
        arrow(ax, (1.0, middle), (2.8, y + 0.5), ink=ink)
        for left, width, text, colour in (
            (2.9, 5.0, f"head {h + 1}: softmax(QKᵀ) V", fill),
            (8.6, 1.9, f"ξ = {0 if off else 1}", ORANGE if off else "white"),
            (11.7, 3.0, f"W_O, rows {h + 1}", fill),
        ):
            ax.add_patch(Rectangle((left, y), width, 1, facecolor=colour, edgecolor=ink, linewidth=1.1))
            ax.text(
                left + width / 2, y + 0.52, text, ha="center", va="center", fontsize=10.5, color=INK if not off else ink
            )
        for start, end in ((7.9, 8.6), (10.5, 11.7)):
            arrow(ax, (start, y + 0.5), (end, y + 0.5), ink=ink)
        arrow(ax, (14.7, y + 0.5), (16.7, middle), ink=ink)
    ax.text(17.1, middle, "Σ", ha="center", va="center", fontsize=20)
    arrow(ax, (17.5, middle), (18.3, middle))
    ax.text(19.1, middle, "+ b_O", ha="center", va="center", fontsize=12)
    off_text = f" The gates of heads {', '.join(str(h + 1) for h in gated)} are 0." if gated else ""
    return alt(
        fig,
        f"Multi-head attention as a sum: {heads} heads compute side by side, each goes through a gate and its own rows of the "
        f"output projection, the results are added, and the bias once.{off_text}",
    )


def head_rows(heads: int = 4, size: int = 2, gone: Sequence[int] = (1, 2)) -> Figure:
    """What goes when heads go: their rows of W_Q, W_K, W_V, and their columns of W_O.

    Args:
        heads: M. size: d, features of a head. gone: heads removed, from 0.
    """
    n = heads * size
    fig, ax = canvas(3.6, 2 * n + 6.0, n + 2.2)
    for left, name, by_row in ((1.0, "W_Q, W_K, W_V", True), (n + 4.0, "W_O", False)):
        for r in range(n):
            for c in range(n):
                cut = (r if by_row else c) // size in gone
                box(ax, left + c, 0.4 + r, fill=ORANGE if cut else FAINT, edge="white")
        ax.text(left + n / 2, n + 1.4, f"{name}: {n} × {n}", ha="center", va="center", fontsize=12)
    named = ", ".join(str(h + 1) for h in gone)
    return alt(
        fig,
        f"Matrices of {heads} heads of {size} features: heads {named} own rows of the query, key and value matrices and columns of the output matrix.",
    )
