"""What slides draw: a convolution as loops, a stream of runs, the arrays of CSR. Figures from data, for ``plots.show``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from course_lib.cost.encodings import csr_encode, rle_encode
from course_lib.show.output import alt, new_figure
from course_lib.show.style import BLUE, GREY, INK, ORANGE

_FAINT = "#dddddd"


def _canvas(height: float, width: float, rows: float) -> tuple[Figure, Axes]:
    """A figure without axes whose units are cells of the drawing, y downwards."""
    fig = new_figure(height)
    ax = fig.add_subplot()
    ax.set(xlim=(0, width), ylim=(rows, 0), aspect="equal")
    ax.axis("off")
    return fig, ax


def _box(ax: Axes, x: float, y: float, text: str = "", *, fill: str = "white", edge: str = INK, ink: str = INK) -> None:
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor=edge, linewidth=1.1))
    if text:
        ax.text(x + 0.5, y + 0.53, text, ha="center", va="center", color=ink, fontsize=12)


def _row(ax: Axes, x: float, y: float, name: str, values: Sequence[object], fill: str = "white") -> None:
    ax.text(x - 0.3, y + 0.53, name, ha="right", va="center", fontsize=12.5)
    for i, value in enumerate(values):
        _box(ax, x + i, y, f"{value}", fill=fill)


def convolution(height: int = 5, width: int = 5, kernel: int = 3, at: tuple[int, int] = (1, 2)) -> Figure:
    """One output of a convolution: the window of the input that it reads, in every channel, and one filter.

    Args:
        height, width: H, W of the input. kernel: R = S. at: the output's row and column (stride 1, no padding).
    """
    E, F = height - kernel + 1, width - kernel + 1
    if not (0 <= at[0] < E and 0 <= at[1] < F):
        raise ValueError(f"the output has {E} × {F} places, there is no {at}")
    fig, ax = _canvas(3.7, 19, 7.4)
    for channel in (2, 1, 0):  # the last one is in front
        shift = 0.45 * channel
        for r in range(height):
            for c in range(width):
                inside = 0 <= r - at[0] < kernel and 0 <= c - at[1] < kernel
                _box(ax, 0.4 + c + shift, 1.6 + r - shift, fill=BLUE if inside and channel == 0 else "white")
        for r in range(kernel):
            for c in range(kernel):
                _box(ax, 8 + c + shift, 2.6 + r - shift, fill=ORANGE if channel == 0 else "white")
    for r in range(E):
        for c in range(F):
            _box(ax, 14.2 + c, 2.6 + r, fill=INK if (r, c) == at else "white")
    for x, y, text in (
        (2.9, 7.1, f"input: C × {height} × {width}"),
        (9.6, 7.1, f"one of M filters: C × {kernel} × {kernel}"),
        (15.7, 7.1, f"one of M outputs: {E} × {F}"),
        (7.25, 4.2, "∗"),
        (13.0, 4.2, "="),
    ):
        ax.text(x, y, text, ha="center", va="center", fontsize=11.5 if len(text) > 1 else 22)
    return alt(
        fig,
        f"A convolution: a {kernel} by {kernel} window in all channels of a {height} by {width} input, times one filter of the "
        f"same size, gives one number of a {E} by {F} output.",
    )


def rle_stream(x: Tensor, run_bits: int = 2) -> Figure:
    """A row of numbers and its run-length code: pairs of (zeros before, value), fillers marked.

    Args:
        x: (n,), at most 16 numbers, whole ones look best.
        run_bits: bits of a run; a longer one needs a filler pair (longest run, 0).
    """
    runs, values, _ = rle_encode(x, run_bits)
    fig, ax = _canvas(2.7, 19, 5.4)
    ax.text(2.7, 0.93, f"{len(x)} numbers", ha="right", va="center", fontsize=12.5)
    for i, value in enumerate(x.tolist()):
        _box(ax, 3 + i, 0.4, f"{value:g}", ink=INK if value else GREY)
    ends = np.cumsum(runs.numpy() + 1)  # a pair covers its zeros and its value
    gap = len(x) / max(1, len(runs))
    for i, (run, value, end) in enumerate(zip(runs.tolist(), values.tolist(), ends.tolist(), strict=True)):
        left = 3 + gap * i + (gap - 2) / 2
        filler = value == 0
        _box(ax, left, 3.2, f"{run}", fill=_FAINT)
        _box(ax, left + 1, 3.2, f"{value:g}", fill=ORANGE if filler else "white")
        tip = (2.5 + end, 1.45)
        ax.add_patch(FancyArrowPatch(tip, (left + 1, 3.15), arrowstyle="-", linewidth=0.9, color=GREY))
    ax.text(2.7, 3.73, "zeros | value", ha="right", va="center", fontsize=12.5)
    fillers = int((values == 0).sum())
    ax.text(
        3,
        4.95,
        f"a run is {run_bits} bits: up to {2**run_bits - 1} zeros; {fillers} filler" + "s" * (fillers != 1),
        fontsize=12,
    )
    pairs = ", ".join(f"({r}, {v:g})" for r, v in zip(runs.tolist(), values.tolist(), strict=True))
    return alt(fig, f"The numbers {', '.join(f'{v:g}' for v in x.tolist())} and their run-length code: {pairs}.")


def csr_arrays(x: Tensor) -> Figure:
    """A matrix and its three arrays in CSR, the entries of one row marked in all of them.

    Args:
        x: (rows, columns), small whole numbers.
    """
    v, columns, pointers = csr_encode(x)
    rows, width = x.shape
    marked = int((pointers[1:] - pointers[:-1]).argmax())  # the fullest row
    fig, ax = _canvas(3.3, 22, 6.0)
    for r in range(rows):
        for c in range(width):
            value = x[r, c].item()
            fill = BLUE if r == marked and value else "white"
            _box(ax, 0.4 + c, 0.9 + r, f"{value:g}", ink="white" if fill == BLUE else INK if value else GREY, fill=fill)
    for y, (name, array) in zip((0.6, 2.2), {"v": v, "COL_INDEX": columns}.items(), strict=True):
        _row(ax, 12.2, y, name, [f"{value:g}" for value in array.tolist()])
        for i in range(int(pointers[marked]), int(pointers[marked + 1])):
            ax.add_patch(Rectangle((12.2 + i, y), 1, 1, facecolor="none", edgecolor=BLUE, linewidth=3))
    _row(ax, 12.2, 3.8, "ROW_INDEX", pointers.tolist())
    for i in (marked, marked + 1):
        ax.add_patch(Rectangle((12.2 + i, 3.8), 1, 1, facecolor="none", edgecolor=ORANGE, linewidth=3))
    first, last = int(pointers[marked]), int(pointers[marked + 1])
    ax.text(12.2, 5.5, f"row {marked}: entries {first} to {last - 1} of v and COL_INDEX", fontsize=12)
    return alt(
        fig,
        f"A {rows} by {width} matrix and its CSR arrays: v {v.tolist()}, COL_INDEX {columns.tolist()}, ROW_INDEX {pointers.tolist()}; "
        f"row {marked} is entries {first} to {last - 1}.",
    )


def heads_as_a_sum(heads: int = 4, gated: Sequence[int] = ()) -> Figure:
    """Multi-head attention as what it is: one term a head, each with its own slice of the output projection, added up.

    Args:
        heads: M, at most 6. gated: those with a gate of 0, from 0.
    """
    fig, ax = _canvas(0.62 * heads + 1.0, 20, 1.55 * heads + 1.6)
    middle = 1.55 * heads / 2
    ax.text(0.7, middle, "x", ha="center", va="center", fontsize=15)
    for h in range(heads):
        y = 0.25 + 1.55 * h
        off = h in gated
        ink, fill = (GREY, "white") if off else (INK, _FAINT)
        ax.add_patch(FancyArrowPatch((1.0, middle), (2.8, y + 0.5), arrowstyle="-|>", mutation_scale=10, color=ink))
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
            ax.add_patch(
                FancyArrowPatch((start, y + 0.5), (end, y + 0.5), arrowstyle="-|>", mutation_scale=10, color=ink)
            )
        ax.add_patch(FancyArrowPatch((14.7, y + 0.5), (16.7, middle), arrowstyle="-|>", mutation_scale=10, color=ink))
    ax.text(17.1, middle, "Σ", ha="center", va="center", fontsize=20)
    ax.add_patch(FancyArrowPatch((17.5, middle), (18.3, middle), arrowstyle="-|>", mutation_scale=10, color=INK))
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
    fig, ax = _canvas(3.6, 2 * n + 6.0, n + 2.2)
    for left, name, by_row in ((1.0, "W_Q, W_K, W_V", True), (n + 4.0, "W_O", False)):
        for r in range(n):
            for c in range(n):
                cut = (r if by_row else c) // size in gone
                _box(ax, left + c, 0.4 + r, fill=ORANGE if cut else _FAINT, edge="white")
        ax.text(left + n / 2, n + 1.4, f"{name}: {n} × {n}", ha="center", va="center", fontsize=12)
    named = ", ".join(str(h + 1) for h in gone)
    return alt(
        fig,
        f"Matrices of {heads} heads of {size} features: heads {named} own rows of the query, key and value matrices and columns of the output matrix.",
    )
