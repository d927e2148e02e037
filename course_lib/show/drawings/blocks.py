"""N:M in numbers: a matrix and what is stored of it, and two factors whose zeros meet
block by block; sparse columns packed into one, and what their conflicts cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.cost.block_formats import nm_bits, nm_compress
from course_lib.cost.encodings import index_width
from course_lib.pruning.weights.columns import combine_columns, utilisation
from course_lib.pruning.weights.nm import nm_mask
from course_lib.show.drawings.canvas import (
    FAINT,
    arrow,
    box,
    canvas,
    format_number,
    format_tensor,
    write,
)
from course_lib.show.output import alt
from course_lib.show.style import GREEN, GREY, INK, ORANGE, PURPLE, SKY

_GAP = 0.4  # between blocks, in cells
_FILLS = (SKY, ORANGE, PURPLE, GREEN)  # a group's colour; its letter says the same


def nm_blocks(weight: Tensor, n: int, m: int) -> Figure:
    """A matrix in blocks of m with the n largest of each marked; beside it the values
    and places that are stored, and below how many bits that is.

    Args:
        weight: (R, C), at most 4 × 12, C a multiple of m; whole numbers look best.
        n, m: the pattern, along the rows.
    """
    bits = 32  # of a value
    kept = nm_mask(weight, n, m, 1)
    values, index = nm_compress(weight * kept, n, m)
    rows, columns = weight.shape
    stored = values.shape[1]
    first = 0.2 + _width(columns, m) + 1.2
    second = first + _width(stored, n) + 1.0
    fig, ax = canvas(second + _width(stored, n) + 0.2, rows + 2.6)
    for r in range(rows):
        for c in range(columns):
            _number(ax, 0.2 + _start(c, m), 1.2 + r, weight[r, c], bool(kept[r, c]))
        for k in range(stored):
            _number(ax, first + _start(k, n), 1.2 + r, values[r, k], True)
            box(ax, second + _start(k, n), 1.2 + r, f"{int(index[r, k])}", fill=FAINT)
    for x, cells, name in (
        (0.2, _width(columns, m), f"{rows} × {columns} weights, {n}:{m}"),
        (first, _width(stored, n), "values"),
        (second, _width(stored, n), "places"),
    ):
        write(ax, x + cells / 2, 0.6, name)
    dense, packed = weight.numel() * bits, nm_bits(rows, columns, n, m, bits)
    said = (
        f"dense {weight.numel()} × {bits} = {dense:,} bits, stored {values.numel()} ×"
        f" ({bits} + {index_width(m)}) = {packed:,}"
    )
    write(ax, 0.2, rows + 2.0, said, ha="left")
    return alt(
        fig,
        f"A matrix {format_tensor(weight)} of which in each block of {m} neighbours in a row the"
        f" {n} largest stay, stored as values {format_tensor(values)} and places in their blocks"
        f" {format_tensor(index)}: {said}.",
    )


def joint_blocks(x: Tensor, weight: Tensor, n_x: int, n_w: int, m: int) -> Figure:
    """An input and a row of weights, both pruned block by block, and which of their
    products are left.

    Args:
        x: (C,), an input. weight: (C,), a row of a layer's matrix; C a multiple of m
            and at most 12; whole numbers look best.
        n_x, n_w: how many of every m stay in each.
    """
    kept_x, kept_w = nm_mask(x, n_x, m, 0), nm_mask(weight, n_w, m, 0)
    products = x * kept_x * weight * kept_w
    left = (products != 0).reshape(-1, m).sum(1).tolist()  # of each block
    first = 4.8
    width = first + _width(len(x), m) + 0.3
    fig, ax = canvas(width, 5.6)
    for y, name, values, kept in (
        (0.1, f"input, {n_x}:{m}", x, kept_x),
        (1.3, f"weights, {n_w}:{m}", weight, kept_w),
    ):
        write(ax, first - 0.4, y + 0.53, name, ha="right")
        for c in range(len(x)):
            _number(ax, first + _start(c, m), y, values[c], bool(kept[c]))
    write(ax, first - 0.4, 3.03, "products", ha="right")
    for c, value in enumerate(products.tolist()):
        text = format_number(value) if value else ""
        box(ax, first + _start(c, m), 2.5, text, fill=ORANGE if value else "white", edge=GREY)
    for block, count in enumerate(left):
        write(ax, first + _start(block * m, m) + m / 2, 4.0, f"{count} left")
    least, most = max(0, n_x + n_w - m), min(n_x, n_w)
    bound = f"whatever the input, at most min({n_x}, {n_w}) = {most} a block"
    bound += f", at least {least}" if least else ""
    write(ax, first - 0.4, 4.0, f"{sum(left)} of {len(x)}", ha="right", fontweight="bold")
    write(ax, width - 0.3, 5.1, bound, ha="right")
    return alt(
        fig,
        f"An input {format_tensor(x)} pruned to {n_x}:{m} and a row of weights"
        f" {format_tensor(weight)} pruned to {n_w}:{m}. {sum(left)} of {len(x)} products are"
        f" left, by block {', '.join(map(str, left))}; {bound}.",
    )


def columns_packed(weight: Tensor, groups: Sequence[Sequence[int]]) -> Figure:
    """A sparse matrix with its columns' groups in colours, and the dense one that they
    are packed into, with each cell's channel.

    A weight that loses its cell to a larger one of its group is crossed out.

    Args:
        weight: (R, C), at most 8 × 10; whole numbers look best.
        groups: of columns, at most four, as
            :func:`~course_lib.pruning.weights.group_columns` gives them. A column in no
            group is left out.
    """
    packed, channel, kept = combine_columns(weight, groups)
    rows, columns = weight.shape
    group_of = {c: g for g, group in enumerate(groups) for c in group}
    first = 0.2 + columns + 2.6
    second = first + len(groups) + 1.4
    fig, ax = canvas(second + len(groups) + 1.6, rows + 3.1, 0.8)
    top = 1.9
    for c in range(columns):
        write(ax, 0.7 + c, 1.35, f"{c}", color=GREY)
        if c in group_of:
            write(ax, 0.7 + c, top + rows + 0.6, "ABCD"[group_of[c]])
        for r in range(rows):
            value = float(weight[r, c])
            in_group = bool(value) and c in group_of
            fill = _FILLS[group_of[c]] if in_group else "white"
            box(ax, 0.2 + c, top + r, fill=fill, edge=GREY)
            if in_group and not kept[r, c]:
                for ends in ((0.1, 0.9), (0.9, 0.1)):  # under the number, which must be read, too
                    across, down = [0.3 + c, 1.1 + c], [top + r + end for end in ends]
                    ax.plot(across, down, color="white", linewidth=4)
            if value:
                write(ax, 0.7 + c, top + r + 0.53, format_number(value), zorder=4)
    arrow(ax, (0.6 + columns, top + rows / 2), (first - 0.4, top + rows / 2))
    for g in range(len(groups)):
        for left, texts, colour in (
            (first, [format_number(value) for value in packed[:, g]], _FILLS[g]),
            (second, [f"{number}" for number in channel[:, g].tolist()], FAINT),
        ):
            write(ax, left + g + 0.5, top + rows + 0.6, "ABCD"[g])
            for r, text in enumerate(texts):
                text, fill = (text, colour) if channel[r, g] >= 0 else ("", "white")
                box(ax, left + g, top + r, text, fill=fill, edge=GREY)
    for x, text in (
        (0.2 + columns / 2, "columns"),
        (first + len(groups) / 2, "packed"),
        (second + len(groups) / 2, "channel"),
    ):
        write(ax, x, 0.5, text)
    before = int((weight != 0).sum())
    lost = int((weight[:, list(group_of)] != 0).sum() - kept.sum())
    return alt(
        fig,
        f"A {rows} by {columns} matrix with {before} weights, its columns in groups"
        f" {'; '.join(', '.join(map(str, group)) for group in groups)}, packed into"
        f" {len(groups)} columns: weights that lose their cell: {lost}; {int(kept.sum())} of"
        f" {rows * len(groups)} cells are used ({utilisation(kept, groups):.0%}; before,"
        f" {before / weight.numel():.0%}).",
    )


def _start(cell: int, block: int) -> float:
    """Where a cell of a row begins, with a gap between blocks."""
    return cell + _GAP * (cell // block)


def _width(cells: int, block: int) -> float:
    """Of a row of so many cells."""
    return _start(cells - 1, block) + 1


def _number(ax: Axes, x: float, y: float, value: Tensor, kept: bool) -> None:
    """One number, coloured where it is kept, grey where it is pruned."""
    fill, ink = (SKY, INK) if kept else ("white", GREY)
    box(ax, x, y, format_number(value), fill=fill, edge=GREY, ink=ink)
