"""Sparse columns laid on top of each other, and what their conflicts cost."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from course_lib.pruning.weights.columns import combine_columns, utilisation
from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas, format_number, write
from course_lib.show.output import alt
from course_lib.show.style import GREEN, GREY, ORANGE, PURPLE, SKY

_FILLS = (SKY, ORANGE, PURPLE, GREEN)  # a group's colour; its letter says the same


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
