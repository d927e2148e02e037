"""What goes with a filter: the cascade through batch norm to the next layer, and who
must agree where layers add.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas, write
from course_lib.show.output import alt
from course_lib.show.style import INK, ORANGE, SKY


def filter_cascade(
    filters: int = 5,
    channels: int = 3,
    next_filters: int = 4,
    removed: Sequence[int] = (1,),
    *,
    kernel: int = 3,
    maps: tuple[int, int] = (8, 8),
) -> Figure:
    """All that goes with a filter: its row, its entries of batch norm, its map, and the
    next layer's column.

    Args:
        filters: M of layer i; channels: C that it reads; next_filters: of layer i + 1,
            which reads M. At most 8 each.
        removed: filters of layer i that go, from 0.
        kernel: R = S of both layers; a cell of a weight is one kernel.
        maps: E × F, both layers' outputs. The counts below the drawing follow from
            these numbers.
    """
    gone = sorted(set(removed))
    own = len(gone) * channels * kernel**2
    follow = len(gone) * next_filters * kernel**2
    whole = filters * (channels + next_filters) * kernel**2
    places = maps[0] * maps[1]
    tall = max(filters, next_filters)
    norm, stack = 1 + channels + 1.6, 1 + channels + 1.6 + 4 + 1.6
    ahead = stack + 1 + 2.2
    width = ahead + filters + 1
    fig, ax = canvas(width, tall + 5.3, 0.75)
    top = 1.9 + (tall - filters) / 2
    below = 1.9 + (tall - next_filters) / 2

    _weight(ax, 1, top, filters, channels, rows=gone)
    for j, name in enumerate(("α", "β", "μ", "σ²")):
        write(ax, norm + j + 0.5, top - 0.4, name)
        for m in range(filters):
            _cell(ax, norm + j, top + m, ORANGE if m in gone else FAINT)
    for m in range(filters):
        _cell(ax, stack, top + m, ORANGE if m in gone else "white", INK)
        middle = top + m + 0.5
        for start, end in ((1 + channels, norm), (norm + 4, stack)):
            arrow(
                ax, (start + 0.15, middle), (end - 0.15, middle), ink=ORANGE if m in gone else INK
            )
    _weight(ax, ahead, below, next_filters, filters, columns=gone)
    arrow(ax, (stack + 1.25, top + filters / 2), (ahead - 0.25, top + filters / 2))

    end = 1.9 + tall + 0.65
    for x, title, count in (
        (1 + channels / 2, f"layer i: {filters} × {channels}", f"−{own} weights"),
        (norm + 2, "batch norm", f"−{4 * len(gone)} entries"),
        (stack + 0.5, "maps", f"−{len(gone)} of {filters}"),
        (ahead + filters / 2, f"layer i + 1: {next_filters} × {filters}", f"−{follow} weights"),
    ):
        write(ax, x, 0.55, title)
        write(ax, x, end, count)
    parameters, macs = own + follow + 2 * len(gone), (own + follow) * places
    total = (
        f"Together {parameters:,} parameters of {whole + 2 * filters:,} and {macs:,} MACs of"
        f" {whole * places:,} ({100 * macs / (whole * places):.0f} %), on"
        f" {maps[0]} × {maps[1]} maps"
    )
    write(ax, width / 2, end + 1.6, textwrap.fill(total, 56))
    return alt(
        fig,
        f"The weights of a layer as {filters} rows of {channels} kernels, batch norm's four"
        f" vectors, {filters} maps, and the next layer's weights as {next_filters} rows of"
        f" {filters} kernels. {_named(gone, 'Filter')} out: crossed are the row of each, the"
        f" entries in all four vectors, the map, and the next layer's column. {total}.",
    )


def residual_agreement(
    stream: int = 4,
    inner: int = 3,
    removed: Sequence[int] = (1,),
    inner_removed: Sequence[int] = (),
    *,
    channels: int = 2,
    next_filters: int = 3,
) -> Figure:
    """Two convolutions that add into one stream: a channel of it is a row of both, and
    a column of all that read it.

    Channels inside the block are nobody else's: a row of conv 1 and a column of conv 2.

    Args:
        stream: channels of the stream, which conv 0 makes and conv 2 adds to; inner:
            those that conv 1 makes and conv 2 reads; channels: those that conv 0 reads;
            next_filters: of conv 3, which reads the sum. At most 8 each.
        removed: channels of the stream that go, from 0. inner_removed: channels inside
            the block that go.
    """
    gone = sorted(set(removed))
    free = sorted(set(inner_removed))

    gap, tall = 1.5, max(stream, inner, next_filters)
    middle = 1.3 + tall / 2
    lefts = [1.0]
    # conv 0, stream, conv 1, conv 2, +, stream; then conv 3
    for width in (channels, 1, stream, inner, 1, 1):
        lefts.append(lefts[-1] + width + gap)
    right = lefts[6] + stream + 1
    fig, ax = canvas(right, tall + 2.7 + bool(gone) + bool(free))
    _weight(ax, lefts[0], middle - stream / 2, stream, channels, rows=gone)
    _weight(
        ax, lefts[2], middle - inner / 2, inner, stream, rows=free, columns=gone, row_colour=SKY
    )
    _weight(
        ax, lefts[3], middle - stream / 2, stream, inner, rows=gone, columns=free, column_colour=SKY
    )
    _weight(ax, lefts[6], middle - next_filters / 2, next_filters, stream, columns=gone)
    for left in (lefts[1], lefts[5]):
        for c in range(stream):
            _cell(ax, left, middle - stream / 2 + c, ORANGE if c in gone else "white", INK)
    plus = lefts[4] + 0.5
    write(ax, plus, middle, "+", 28)
    ends = [
        left + width for left, width in zip(lefts, (channels, 1, stream, inner, 1, 1), strict=False)
    ]
    for start, end in zip(ends, lefts[1:], strict=True):
        arrow(ax, (start + 0.15, middle), (end - 0.15, middle))
    over = middle - stream / 2 - 0.9
    ax.plot(
        [lefts[1] + 0.5] * 2 + [plus],
        [middle - stream / 2 - 0.15, over, over],
        color=INK,
        linewidth=1.6,
    )
    arrow(ax, (plus, over), (plus, middle - 0.55))
    below = middle + tall / 2 + 0.6
    for i, cells, name in (
        (0, channels, "conv 0"),
        (1, 1, "stream"),
        (2, stream, "conv 1"),
        (3, inner, "conv 2"),
        (5, 1, "stream"),
        (6, stream, "conv 3"),
    ):
        write(ax, lefts[i] + cells / 2, below, name)
    said = []
    if gone:
        said.append(
            f"{_named(gone, 'stream channel')}: rows of conv 0 and 2, columns of conv 1 and 3"
        )
    if free:
        said.append(
            f"{_named(free, 'inner channel')}: row of conv 1, column of conv 2, nothing else"
        )
    for line, text in enumerate(said):
        write(ax, right / 2, below + 1.2 + line, text)
    return alt(
        fig,
        f"A residual block: conv 0 makes a stream of {stream} channels, conv 1 and conv 2 compute"
        f" something from it through {inner} inner channels, their result is added to the stream,"
        f" and conv 3 reads the sum. Removed: {'; '.join(said) if said else 'nothing'}.",
    )


def _weight(
    ax: Axes,
    x: float,
    y: float,
    filters: int,
    channels: int,
    *,
    rows: Collection[int] = (),
    columns: Collection[int] = (),
    row_colour: str = ORANGE,
    column_colour: str = ORANGE,
) -> None:
    """A weight as filters × channels kernels, its upper left corner at (x, y); removed
    rows and columns are crossed.
    """
    for m in range(filters):
        for c in range(channels):
            fill = row_colour if m in rows else column_colour if c in columns else FAINT
            _cell(ax, x + c, y + m, fill)


def _cell(ax: Axes, x: float, y: float, fill: str, edge: str = "white") -> None:
    """One kernel, entry or map; what is removed has a cross as well as a colour."""
    box(ax, x, y, "×" if fill in (ORANGE, SKY) else "", fill=fill, edge=edge)


def _named(gone: Sequence[int], what: str) -> str:
    """As they are named on the slide: from 1."""
    return f"{what}{'s' if len(gone) > 1 else ''} {', '.join(str(i + 1) for i in gone)}"
