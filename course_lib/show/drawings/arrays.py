"""A convolution as loops, a row in three formats, a stream of runs, the arrays of CSR."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.cost.encodings import csr_encode, rle_encode
from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas, row, write
from course_lib.show.output import alt
from course_lib.show.style import BLUE, GREY, INK, ORANGE

_RUN_BITS = 2  # of a run; a longer one needs a filler pair (longest run, 0)


def convolution() -> Figure:
    """One output of a convolution (stride 1, no padding): the window of the input that it
    reads, in every channel, and one filter.
    """
    size, kernel, at = 5, 3, (1, 2)  # H = W; R = S; the output's row and column
    fig, ax = canvas(21, 7.9)
    for channel in (2, 1, 0):  # the last one is in front
        shift = 0.45 * channel
        front = channel == 0
        for r, c in np.ndindex(size, size):
            inside = 0 <= r - at[0] < kernel and 0 <= c - at[1] < kernel
            fill = BLUE if inside and front else "white"
            box(ax, 1.2 + c + shift, 1.0 + r - shift, fill=fill)
        for r, c in np.ndindex(kernel, kernel):
            box(ax, 9 + c + shift, 2.0 + r - shift, fill=ORANGE if front else "white")
    outputs = size - kernel + 1
    for r, c in np.ndindex(outputs, outputs):
        box(ax, 15.4 + c, 2.0 + r, fill=INK if (r, c) == at else "white")
    write(ax, 3.7, 7.0, f"input\nC × {size} × {size}")
    write(ax, 10.6, 7.0, f"one of M filters\nC × {kernel} × {kernel}")
    write(ax, 16.9, 7.0, f"one of M outputs\n{outputs} × {outputs}")
    write(ax, 8.15, 3.6, "∗", 32)
    write(ax, 14.1, 3.6, "=", 32)
    return alt(
        fig,
        f"A convolution: a {kernel} by {kernel} window in all channels of a {size} by {size}"
        f" input, times one filter of the same size, gives one number of a {outputs} by {outputs}"
        " output.",
    )


def rle_stream(x: Tensor) -> Figure:
    """A row of numbers and its run-length code: pairs of (zeros before, value), fillers
    marked. A run has 2 bits.

    Args:
        x: (n,), at most 16 numbers, whole ones look best.
    """
    runs, values, _ = rle_encode(x, _RUN_BITS)
    pairs = list(zip(runs.tolist(), values.tolist(), strict=True))
    first = 4.0  # where the numbers begin
    fig, ax = canvas(first + len(x) + 0.4, 5.6)
    _numbers(ax, first, f"{len(x)} numbers", x)
    ends = np.cumsum(runs.numpy() + 1)  # a pair covers its zeros and its value
    gap = len(x) / max(1, len(runs))
    for i, (run, value) in enumerate(pairs):
        left = first + gap * i + (gap - 2) / 2
        box(ax, left, 3.0, f"{run}", fill=FAINT)
        box(ax, left + 1, 3.0, f"{value:g}", fill="white" if value else ORANGE)
        arrow(ax, (first - 0.5 + ends[i], 1.25), (left + 1, 2.95), ink=GREY, style="-")
    write(ax, first - 0.3, 3.53, "zeros | value", ha="right")
    fillers = int((values == 0).sum())
    text = f"a run is {_RUN_BITS} bits: up to {2**_RUN_BITS - 1} zeros; {fillers} filler"
    write(ax, first, 4.9, text + "s" * (fillers != 1), ha="left")
    return alt(
        fig,
        f"The numbers {', '.join(_texts(x))} and their run-length code:"
        f" {', '.join(f'({run}, {value:g})' for run, value in pairs)}.",
    )


def stored_row(x: Tensor) -> Figure:
    """A row of numbers, and what a bitmap, run lengths (of 2 bits) and CSR store for it.

    Args:
        x: (n,), at most 16 small whole numbers.
    """
    kept, columns, pointers = csr_encode(x[None])
    runs, values, _ = rle_encode(x, _RUN_BITS)
    left = 5.5  # of the cells, behind their names
    fig, ax = canvas(left + len(x) + 0.4, 9.6)
    _numbers(ax, left, "one row", x)
    for y, name, places, numbers in (
        (2.2, "bitmap", (x != 0).int(), kept),
        (4.8, "run lengths", runs, values),
        (7.4, "CSR, columns", columns, kept),
    ):
        row(ax, left, y, name, _texts(places), FAINT)
        row(ax, left, y + 1.05, "values", _texts(numbers))
    text = f"and where the row ends: {int(pointers[-1])}"
    write(ax, left + len(columns) + 1, 7.93, text, ha="left")
    return alt(
        fig,
        f"The numbers {', '.join(_texts(x))} stored in three ways. Bitmap:"
        f" {''.join(_texts((x != 0).int()))} and the values {', '.join(_texts(kept))}. Run lengths:"
        f" {', '.join(_texts(runs))} zeros before the values {', '.join(_texts(values))}. CSR:"
        f" the columns {', '.join(_texts(columns))} of the values, and where the row ends.",
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
    first, end = pointers[marked : marked + 2].tolist()
    left = width + 5.0  # of the arrays, behind their names
    fig, ax = canvas(left + len(v) + 0.3, 6.0)
    for r, c in np.ndindex(rows, width):
        value = x[r, c].item()
        fill = BLUE if r == marked and value else "white"
        ink = "white" if fill == BLUE else INK if value else GREY
        box(ax, 0.2 + c, 0.6 + r, f"{value:g}", ink=ink, fill=fill)
    for y, name, array, places, colour in (
        (0.1, "v", v, range(first, end), BLUE),
        (1.7, "COL_INDEX", columns, range(first, end), BLUE),
        (3.3, "ROW_INDEX", pointers, (marked, marked + 1), ORANGE),
    ):
        row(ax, left, y, name, _texts(array))
        for i in places:
            box(ax, left + i, y, fill="none", edge=colour, linewidth=4)
    text = f"row {marked}: entries {first} to {end - 1} of v and COL_INDEX"
    write(ax, 0.2, 5.3, text, ha="left")
    return alt(
        fig,
        f"A {rows} by {width} matrix and its CSR arrays: v {v.tolist()}, COL_INDEX"
        f" {columns.tolist()}, ROW_INDEX {pointers.tolist()}; row {marked} is entries {first} to"
        f" {end - 1}.",
    )


def _texts(numbers: Tensor) -> list[str]:
    return [f"{number:g}" for number in numbers.tolist()]


def _numbers(ax: Axes, left: float, name: str, x: Tensor) -> None:
    """The row of numbers above the others, zeros in grey."""
    write(ax, left - 0.3, 0.73, name, ha="right")
    for i, value in enumerate(x.tolist()):
        box(ax, left + i, 0.2, f"{value:g}", ink=INK if value else GREY)
