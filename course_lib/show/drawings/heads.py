"""Multi-head attention as a sum, and what is removed with a head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas, write
from course_lib.show.output import alt
from course_lib.show.style import GREY, INK, ORANGE


def heads_as_a_sum(heads: int = 4, gated: Sequence[int] = ()) -> Figure:
    """Multi-head attention as a sum: one term per head, each with its own block of the
    output projection.

    Args:
        heads: M, at most 6. gated: those with a gate of 0, from 0.
    """
    fig, ax = canvas(24, 1.6 * heads)
    middle = 1.6 * heads / 2
    write(ax, 0.4, middle, "x")
    for h in range(heads):
        y = 0.2 + 1.6 * h
        off = h in gated
        ink, fill = (GREY, "white") if off else (INK, FAINT)
        arrow(ax, (0.8, middle), (2.0, y + 0.65), ink=ink)
        for left, width, text, colour in (
            (2.1, 9.6, rf"$A_{h + 1}$ = softmax($QK^\top$) $V$", fill),
            (12.4, 2.5, f"ξ = {0 if off else 1}", ORANGE if off else "white"),
            (15.6, 2.9, f"$W_O^{{({h + 1})}}$", fill),
        ):
            box(ax, left, y, size=(width, 1.3), fill=colour, edge=ink)
            # grey on orange cannot be read
            write(ax, left + width / 2, y + 0.67, text, color=INK if colour == ORANGE else ink)
        for start, end in ((11.7, 12.4), (14.9, 15.6)):
            arrow(ax, (start, y + 0.65), (end, y + 0.65), ink=ink)
        arrow(ax, (18.5, y + 0.65), (20.0, middle), ink=ink)
    write(ax, 20.5, middle, "Σ", 26)
    arrow(ax, (21.0, middle), (21.9, middle))
    write(ax, 23.0, middle, "+ $b_O$")
    closed = ", ".join(str(h + 1) for h in gated)
    several = "The gates of heads {} are 0." if len(gated) > 1 else "The gate of head {} is 0."
    off_text = f" {several.format(closed)}" if gated else ""
    return alt(
        fig,
        f"Multi-head attention as a sum: {heads} heads compute side by side, each goes through a"
        " gate and its own block of the output projection, the results are added, and the bias"
        f" once.{off_text}",
    )


def head_rows() -> Figure:
    """What is removed with the second and the third of four heads: their rows of W_Q, W_K
    and W_V, and their columns of W_O.
    """
    heads, size, removed = 4, 2, (1, 2)
    n = heads * size
    fig, ax = canvas(3.0 * n, n + 1.4)
    for left, name, by_row in ((0.25 * n, "$W_Q$, $W_K$, $W_V$", True), (1.75 * n, "$W_O$", False)):
        for r, c in np.ndindex(n, n):
            is_removed = (r if by_row else c) // size in removed
            box(ax, left + c, 0.1 + r, fill=ORANGE if is_removed else FAINT, edge="white")
        write(ax, left + n / 2, n + 0.75, f"{name}: {n} × {n}")
    named = ", ".join(str(h + 1) for h in removed)
    return alt(
        fig,
        f"Matrices of {heads} heads of {size} features: heads {named} own rows of the query, key"
        " and value matrices and columns of the output matrix.",
    )
