"""A convolution as loops, a row in three formats, a stream of runs, the arrays of CSR."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lib.cost.encodings import csr_encode, rle_encode
from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas, row, write
from course_lib.show.output import alt
from course_lib.show.style import BLUE, GREY, INK, ORANGE


def convolution(
    height: int = 5, width: int = 5, kernel: int = 3, at: tuple[int, int] = (1, 2)
) -> Figure:
    """One output of a convolution: the window of the input that it reads, in every
    channel, and one filter.

    Args:
        height, width: H, W of the input. kernel: R = S. at: the output's row and column
            (stride 1, no padding).
    """
    E, F = height - kernel + 1, width - kernel + 1
    fig, ax = canvas(21, 7.9)
    for channel in (2, 1, 0):  # the last one is in front
        shift = 0.45 * channel
        for r in range(height):
            for c in range(width):
                inside = 0 <= r - at[0] < kernel and 0 <= c - at[1] < kernel
                box(
                    ax,
                    1.2 + c + shift,
                    1.0 + r - shift,
                    fill=BLUE if inside and channel == 0 else "white",
                )
        for r in range(kernel):
            for c in range(kernel):
                box(ax, 9 + c + shift, 2.0 + r - shift, fill=ORANGE if channel == 0 else "white")
    for r in range(E):
        for c in range(F):
            box(ax, 15.4 + c, 2.0 + r, fill=INK if (r, c) == at else "white")
    for x, y, text in (
        (3.7, 7.0, f"input\nC × {height} × {width}"),
        (10.6, 7.0, f"one of M filters\nC × {kernel} × {kernel}"),
        (16.9, 7.0, f"one of M outputs\n{E} × {F}"),
    ):
        write(ax, x, y, text)
    write(ax, 8.15, 3.6, "∗", 32)
    write(ax, 14.1, 3.6, "=", 32)
    return alt(
        fig,
        f"A convolution: a {kernel} by {kernel} window in all channels of a {height} by {width}"
        f" input, times one filter of the same size, gives one number of a {E} by {F} output.",
    )


def rle_stream(x: Tensor, run_bits: int = 2) -> Figure:
    """A row of numbers and its run-length code: pairs of (zeros before, value), fillers
    marked.

    Args:
        x: (n,), at most 16 numbers, whole ones look best.
        run_bits: bits of a run; a longer one needs a filler pair (longest run, 0).
    """
    runs, values, _ = rle_encode(x, run_bits)
    first = 4.0  # where the numbers begin
    fig, ax = canvas(first + len(x) + 0.4, 5.6)
    write(ax, first - 0.3, 0.73, f"{len(x)} numbers", ha="right")
    for i, value in enumerate(x.tolist()):
        box(ax, first + i, 0.2, f"{value:g}", ink=INK if value else GREY)
    ends = np.cumsum(runs.numpy() + 1)  # a pair covers its zeros and its value
    gap = len(x) / max(1, len(runs))
    for i, (run, value, end) in enumerate(
        zip(runs.tolist(), values.tolist(), ends.tolist(), strict=True)
    ):
        left = first + gap * i + (gap - 2) / 2
        filler = value == 0
        box(ax, left, 3.0, f"{run}", fill=FAINT)
        box(ax, left + 1, 3.0, f"{value:g}", fill=ORANGE if filler else "white")
        arrow(ax, (first - 0.5 + end, 1.25), (left + 1, 2.95), ink=GREY, style="-")
    write(ax, first - 0.3, 3.53, "zeros | value", ha="right")
    fillers = int((values == 0).sum())
    said = f"a run is {run_bits} bits: up to {2**run_bits - 1} zeros; {fillers} filler" + "s" * (
        fillers != 1
    )
    write(ax, first, 4.9, said, ha="left")
    pairs = ", ".join(f"({r}, {v:g})" for r, v in zip(runs.tolist(), values.tolist(), strict=True))
    return alt(
        fig,
        f"The numbers {', '.join(f'{v:g}' for v in x.tolist())} and their run-length code:"
        f" {pairs}.",
    )


def stored_row(x: Tensor, run_bits: int = 2) -> Figure:
    """A row of numbers, and what a bitmap, run lengths and CSR write down for it.

    Args:
        x: (n,), at most 16 small whole numbers.
        run_bits: bits of a run.
    """
    kept, columns, pointers = csr_encode(x[None])
    runs, values, _ = rle_encode(x, run_bits)

    def texts(numbers: Tensor) -> list[str]:
        return [f"{number:g}" for number in numbers.tolist()]

    left = 5.5  # of the cells, behind their names
    fig, ax = canvas(left + len(x) + 0.4, 9.6)
    for i, value in enumerate(x.tolist()):
        box(ax, left + i, 0.2, f"{value:g}", ink=INK if value else GREY)
    write(ax, left - 0.3, 0.73, "one row", ha="right")
    lines = (
        (2.2, "bitmap", texts((x != 0).int()), texts(kept)),
        (4.8, "run lengths", texts(runs), texts(values)),
        (7.4, "CSR, columns", texts(columns), texts(kept)),
    )
    for y, name, places, numbers in lines:
        row(ax, left, y, name, places, FAINT)
        row(ax, left, y + 1.05, "values", numbers)
    write(
        ax, left + len(columns) + 1, 7.93, f"and where the row ends: {int(pointers[-1])}", ha="left"
    )
    return alt(
        fig,
        f"The numbers {', '.join(texts(x))} stored in three ways. Bitmap:"
        f" {''.join(lines[0][2])} and the values {', '.join(texts(kept))}. Run lengths:"
        f" {', '.join(texts(runs))} zeros before the values {', '.join(texts(values))}. CSR:"
        f" the columns {', '.join(texts(columns))} of the values, and where the row ends.",
    )


def csr_arrays(x: Tensor) -> Figure:
    """A matrix and its three arrays in CSR, the entries of one row marked in all of
    them.

    Args:
        x: (rows, columns), small whole numbers.
    """
    v, columns, pointers = csr_encode(x)
    rows, width = x.shape
    marked = int((pointers[1:] - pointers[:-1]).argmax())  # the fullest row
    left = width + 5.0  # of the arrays, behind their names
    fig, ax = canvas(left + len(v) + 0.3, 6.0)
    for r in range(rows):
        for c in range(width):
            value = x[r, c].item()
            fill = BLUE if r == marked and value else "white"
            box(
                ax,
                0.2 + c,
                0.6 + r,
                f"{value:g}",
                ink="white" if fill == BLUE else INK if value else GREY,
                fill=fill,
            )
    for y, (name, array) in zip((0.1, 1.7), {"v": v, "COL_INDEX": columns}.items(), strict=True):
        row(ax, left, y, name, [f"{value:g}" for value in array.tolist()])
        for i in range(int(pointers[marked]), int(pointers[marked + 1])):
            ax.add_patch(
                Rectangle((left + i, y), 1, 1, facecolor="none", edgecolor=BLUE, linewidth=4)
            )
    row(ax, left, 3.3, "ROW_INDEX", pointers.tolist())
    for i in (marked, marked + 1):
        ax.add_patch(
            Rectangle((left + i, 3.3), 1, 1, facecolor="none", edgecolor=ORANGE, linewidth=4)
        )
    first, last = int(pointers[marked]), int(pointers[marked + 1])
    write(
        ax, 0.2, 5.3, f"row {marked}: entries {first} to {last - 1} of v and COL_INDEX", ha="left"
    )
    return alt(
        fig,
        f"A {rows} by {width} matrix and its CSR arrays: v {v.tolist()}, COL_INDEX"
        f" {columns.tolist()}, ROW_INDEX {pointers.tolist()}; row {marked} is entries {first} to"
        f" {last - 1}.",
    )
