"""What is removed with a filter: its entries of batch norm and the next layer's column,
and the same channel in every layer that adds into one stream.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas, write
from course_lib.show.output import alt
from course_lib.show.style import INK, ORANGE, SKY


def filter_cascade(
    filters: int,
    channels: int,
    next_filters: int,
    removed: Sequence[int],
) -> Figure:
    """All that is removed with a filter: its row, its entries of batch norm, its map, and
    the next layer's column. A cell of a weight is one 3 × 3 kernel, a map is 8 × 8.

    Args:
        filters: M of layer i; channels: C that it reads; next_filters: of layer i + 1,
            which reads M. At most 8 each.
        removed: filters of layer i, from 0, ascending.
    """
    own = 9 * len(removed) * channels
    follow = 9 * len(removed) * next_filters
    weights = 9 * filters * (channels + next_filters)
    places = 8 * 8
    tall = max(filters, next_filters)
    norm = channels + 2.6  # the left ends of the four pictures' parts; layer i is at 1
    stack = norm + 5.6
    ahead = stack + 3.2
    width = ahead + filters + 1
    fig, ax = canvas(width, tall + 5.3, 0.75)
    top = 1.9 + (tall - filters) / 2
    below = 1.9 + (tall - next_filters) / 2

    marks = dict.fromkeys(removed, ORANGE)
    _weight(ax, 1, top, filters, channels, rows=marks)
    for j, name in enumerate(("α", "β", "μ", "σ²")):
        write(ax, norm + j + 0.5, top - 0.4, name)
        _weight(ax, norm + j, top, filters, 1, rows=marks)
    _stream(ax, stack, top, filters, removed)
    for m in range(filters):
        middle, ink = top + m + 0.5, ORANGE if m in removed else INK
        arrow(ax, (channels + 1.15, middle), (norm - 0.15, middle), ink=ink)
        arrow(ax, (norm + 4.15, middle), (stack - 0.15, middle), ink=ink)
    _weight(ax, ahead, below, next_filters, filters, columns=marks)
    arrow(ax, (stack + 1.25, top + filters / 2), (ahead - 0.25, top + filters / 2))

    end = 1.9 + tall + 0.65
    for x, title, count in (
        (1 + channels / 2, f"layer i: {filters} × {channels}", f"−{own} weights"),
        (norm + 2, "batch norm", f"−{4 * len(removed)} entries"),
        (stack + 0.5, "maps", f"−{len(removed)} of {filters}"),
        (ahead + filters / 2, f"layer i + 1: {next_filters} × {filters}", f"−{follow} weights"),
    ):
        write(ax, x, 0.55, title)
        write(ax, x, end, count)
    parameters, macs = own + follow + 2 * len(removed), (own + follow) * places
    total = (
        f"Together {parameters:,} parameters of {weights + 2 * filters:,} and {macs:,} MACs of"
        f" {weights * places:,} ({100 * macs / (weights * places):.0f} %), on 8 × 8 maps"
    )
    write(ax, width / 2, end + 1.6, textwrap.fill(total, 56))
    return alt(
        fig,
        f"The weights of a layer as {filters} rows of {channels} kernels, batch norm's four"
        f" vectors, {filters} maps, and the next layer's weights as {next_filters} rows of"
        f" {filters} kernels. {_named(removed, 'Filter')} out: crossed are the row of each, the"
        f" entries in all four vectors, the map, and the next layer's column. {total}.",
    )


def residual_agreement(
    stream: int, inner: int, removed: Sequence[int], inner_removed: Sequence[int]
) -> Figure:
    """Two convolutions that add into one stream: a channel of it is a row of both, and
    a column of all that read it. Conv 0 reads two channels, conv 3 has three filters.

    Channels inside the block belong to it alone: a row of conv 1 and a column of conv 2.

    Args:
        stream: channels of the stream, which conv 0 makes and conv 2 adds to; inner:
            those that conv 1 makes and conv 2 reads. At most 8 each.
        removed: channels of the stream, from 0, ascending. inner_removed: channels inside
            the block.
    """
    channels, next_filters = 2, 3
    gap, tall = 1.5, max(stream, inner, next_filters)
    middle = 1.3 + tall / 2
    widths = np.array([channels, 1, stream, inner, 1, 1, stream])
    # of conv 0, stream, conv 1, conv 2, +, stream, conv 3
    lefts = 1.0 + np.cumsum([0, *(widths[:-1] + gap)])
    right = lefts[6] + stream + 1
    fig, ax = canvas(right, tall + 4.7)
    top = middle - stream / 2
    outer, inside = dict.fromkeys(removed, ORANGE), dict.fromkeys(inner_removed, SKY)
    _weight(ax, lefts[0], top, stream, channels, rows=outer)
    _weight(ax, lefts[2], middle - inner / 2, inner, stream, rows=inside, columns=outer)
    _weight(ax, lefts[3], top, stream, inner, rows=outer, columns=inside)
    _weight(ax, lefts[6], middle - next_filters / 2, next_filters, stream, columns=outer)
    _stream(ax, lefts[1], top, stream, removed)
    _stream(ax, lefts[5], top, stream, removed)
    plus, over = lefts[4] + 0.5, top - 0.9
    write(ax, plus, middle, "+", 28)
    for left, width, following in zip(lefts, widths, lefts[1:], strict=False):
        arrow(ax, (left + width + 0.15, middle), (following - 0.15, middle))
    first = lefts[1] + 0.5
    arrow(ax, (first, top - 0.15), (first, over), (plus, over), (plus, middle - 0.55))
    below = middle + tall / 2 + 0.6
    names = ("conv 0", "stream", "conv 1", "conv 2", "", "stream", "conv 3")
    for left, width, name in zip(lefts, widths, names, strict=True):
        write(ax, left + width / 2, below, name)
    lines = (
        f"{_named(removed, 'stream channel')}: rows of conv 0 and 2, columns of conv 1 and 3",
        f"{_named(inner_removed, 'inner channel')}: row of conv 1, column of conv 2, nothing else",
    )
    for line, text in enumerate(lines):
        write(ax, right / 2, below + 1.2 + line, text)
    return alt(
        fig,
        f"A residual block: conv 0 makes a stream of {stream} channels, conv 1 and conv 2 compute"
        f" something from it through {inner} inner channels, their result is added to the stream,"
        f" and conv 3 reads the sum. Removed: {'; '.join(lines)}.",
    )


def _weight(
    ax: Axes,
    x: float,
    y: float,
    filters: int,
    channels: int,
    rows: Mapping[int, str] = MappingProxyType({}),
    columns: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """A weight as filters × channels kernels, its upper left corner at (x, y); removed
    rows and columns have a colour, {number: colour}, and a cross.
    """
    for m, c in np.ndindex(filters, channels):
        colour = rows.get(m) or columns.get(c)
        box(ax, x + c, y + m, "×" if colour else "", fill=colour or FAINT, edge="white")


def _stream(ax: Axes, x: float, y: float, channels: int, removed: Collection[int]) -> None:
    """One map per channel, removed ones as in a weight."""
    for m in range(channels):
        text, fill = ("×", ORANGE) if m in removed else ("", "white")
        box(ax, x, y + m, text, fill=fill)


def _named(removed: Sequence[int], what: str) -> str:
    """As they are named on the slide: from 1."""
    return f"{what}{'s' if len(removed) > 1 else ''} {', '.join(str(i + 1) for i in removed)}"
