"""What slides and labs draw: rows in three formats, matrices in blocks and packed, rounds
of pruning, heads as a sum, gates, a text that loses its tokens; and what a drawing is made
of, for those that stand in a deck.

A drawing is as wide as a slide's text, all words in letters that can be read from the last
row. Its text alternative is its title, which is not drawn, and all that is written in it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from course_lib.cost.block_formats import nm_bits, nm_compress
from course_lib.cost.encodings import csr_encode, index_width, rle_encode
from course_lib.pruning.components.low_rank import BETA, GAMMA, ZETA
from course_lib.pruning.weights.columns import combine_columns
from course_lib.pruning.weights.lottery import shrink
from course_lib.pruning.weights.nm import nm_mask
from course_lib.show import plots
from course_lib.show.output import new_figure
from course_lib.show.style import (
    BLUE,
    GREEN,
    GREY,
    INCHES,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    SLIDE_TEXT,
    VERMILLION,
    minus_sign,
    pt,
    style,
)

FAINT = "#dddddd"
_FILLS = (SKY, ORANGE, PURPLE, GREEN)  # a group's colour; its letter says the same
_SIGNED = LinearSegmentedColormap.from_list("sign and size", [VERMILLION, "#F4F4F4", BLUE])


# ------------------------------------------------------------------ what a drawing is made of
def canvas(title: str, width: float, rows: float, tall: float = 1.0) -> tuple[Figure, Axes]:
    """A figure without axes whose units are cells of the drawing, y downwards.

    Args:
        title: what it shows, for its text alternative.
        width, rows: of the drawing, in cells.
        tall: a cell's height by its width.
    """
    fig = new_figure(INCHES * rows * tall / width)
    fig.set_label(title)
    fig.set_layout_engine("none")
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(rows, 0), aspect=tall)
    ax.axis("off")
    return fig, ax


def write(ax: Axes, x: float, y: float, text: str, size: float = SLIDE_TEXT, **look: Any) -> None:
    """Words with their middle at (x, y), unless ``look`` says ``ha`` or ``va``."""
    with mpl.rc_context(style()):
        ax.text(x, y, text, fontsize=size, **{"ha": "center", "va": "center", "color": INK, **look})


def box(
    ax: Axes,
    x: float,
    y: float,
    text: object = "",
    *,
    size: tuple[float, float] = (1, 1),
    fill: Any = "white",
    edge: str = INK,
    ink: str = INK,
    **look: Any,
) -> None:
    """A box, its upper left corner at (x, y), with a text or a number in it.

    Args:
        size: width and height, in cells.
        fill, edge, ink: the colours of the area, the border and the text.
        look: other properties of matplotlib's ``Rectangle``.
    """
    look = {"facecolor": fill, "edgecolor": edge, "linewidth": 1.6, **look}
    ax.add_patch(Rectangle((x, y), *size, **look))
    text = text if isinstance(text, str) else minus_sign(f"{float(text):.3g}")  # type: ignore[arg-type]
    if text:
        write(ax, x + size[0] / 2, y + size[1] / 2 + 0.03, text, color=ink)


def row(
    ax: Axes, x: float, y: float, name: str, values: Any, fill: Any = "white", grey: bool = False
) -> None:
    """Cells side by side from (x, y) on, their name on the left; zeros in ``grey``."""
    write(ax, x - 0.3, y + 0.53, name, ha="right")
    for i, value in enumerate(values):
        box(ax, x + i, y, value, fill=fill, ink=GREY if grey and not value else INK)


def arrow(ax: Axes, *points: tuple[float, float], ink: str = INK, width: float = 1.6) -> None:
    """A line through the points, in cells, with a head at the last one."""
    if len(points) > 2:
        ax.plot(*zip(*points[:-1], strict=True), color=ink, linewidth=width)
    head: Any = {"arrowstyle": "-|>", "mutation_scale": 18, "color": ink, "linewidth": width}
    ax.add_patch(FancyArrowPatch(*points[-2:], **head, shrinkA=0, shrinkB=0))


# ----------------------------------------------------------------------------- the drawings
def stored_row(x: Tensor) -> Figure:
    """A row of numbers, and what a bitmap, run lengths (of 2 bits) and CSR store for it.

    Args:
        x: (n,), at most 16 small whole numbers.
    """
    kept, columns, pointers = csr_encode(x[None])
    runs, values, _ = rle_encode(x, 2)
    left = 5.5  # of the cells, behind their names
    fig, ax = canvas("A row of numbers, stored in three ways", left + len(x) + 0.4, 9.6)
    row(ax, left, 0.2, "one row", x, grey=True)
    for y, name, places, numbers in (
        (2.2, "bitmap", (x != 0).int(), kept),
        (4.8, "run lengths", runs, values),
        (7.4, "CSR, columns", columns, kept),
    ):
        row(ax, left, y, name, places, FAINT)
        row(ax, left, y + 1.05, "values", numbers)
    text = f"and where the row ends: {int(pointers[-1])}"
    write(ax, left + len(columns) + 1, 7.93, text, ha="left")
    return fig


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

    def start(cell: int, block: int) -> float:
        return cell + 0.4 * (cell // block)

    wide, stored = start(columns - 1, m) + 1, start(values.shape[1] - 1, n) + 1
    first = 0.2 + wide + 1.2
    second = first + stored + 1.0
    fig, ax = canvas(f"A matrix pruned to {n}:{m} and stored", second + stored + 0.2, rows + 2.6)
    for r, c in np.ndindex(rows, columns):
        look: Any = {"fill": SKY} if kept[r, c] else {"ink": GREY}
        box(ax, 0.2 + start(c, m), 1.2 + r, weight[r, c], edge=GREY, **look)
    for r, k in np.ndindex(*values.shape):
        box(ax, first + start(k, n), 1.2 + r, values[r, k], fill=SKY, edge=GREY)
        box(ax, second + start(k, n), 1.2 + r, index[r, k], fill=FAINT)
    for x, cells, name in (
        (0.2, wide, f"{rows} × {columns} weights, {n}:{m}"),
        (first, stored, "values"),
        (second, stored, "places"),
    ):
        write(ax, x + cells / 2, 0.6, name)
    dense, packed = weight.numel() * bits, nm_bits(rows, columns, n, m, bits)
    said = (
        f"dense {weight.numel()} × {bits} = {dense:,} bits, stored {values.numel()} ×"
        f" ({bits} + {index_width(m)}) = {packed:,}"
    )
    write(ax, 0.2, rows + 2.0, said, ha="left")
    return fig


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
    first = 0.2 + columns + 2.6
    second = first + len(groups) + 1.4
    title = "Columns of a sparse matrix, packed group by group"
    fig, ax = canvas(title, second + len(groups) + 1.6, rows + 3.1, 0.8)
    top = 1.9
    for c in range(columns):
        write(ax, 0.7 + c, 1.35, f"{c}", color=GREY)
    for g, group in enumerate(groups):
        for r, c in np.ndindex(rows, columns):
            value = weight[r, c] if weight[r, c] else ""
            if c not in group:
                continue
            box(ax, 0.2 + c, top + r, fill=_FILLS[g] if value != "" else "white", edge=GREY)
            if value != "" and not kept[r, c]:
                for ends in ((0.1, 0.9), (0.9, 0.1)):  # under the number, which must be read, too
                    down = [top + r + end for end in ends]
                    ax.plot([0.3 + c, 1.1 + c], down, color="white", linewidth=4)
            box(ax, 0.2 + c, top + r, value, fill="none", edge=GREY)
        for c in group:
            write(ax, 0.7 + c, top + rows + 0.6, "ABCD"[g])
        for left, numbers, colour in ((first, packed, _FILLS[g]), (second, channel, FAINT)):
            write(ax, left + g + 0.5, top + rows + 0.6, "ABCD"[g])
            for r in range(rows):
                used = bool(channel[r, g] >= 0)
                text, fill = (numbers[r, g], colour) if used else ("", "white")
                box(ax, left + g, top + r, text, fill=fill, edge=GREY)
    arrow(ax, (0.6 + columns, top + rows / 2), (first - 0.4, top + rows / 2))
    for x, text in (
        (0.2 + columns / 2, "columns"),
        (first + len(groups) / 2, "packed"),
        (second + len(groups) / 2, "channel"),
    ):
        write(ax, x, 0.5, text)
    return fig


def heads_as_a_sum(heads: int = 4, gated: Sequence[int] = ()) -> Figure:
    """Multi-head attention as a sum: one term per head, each with its own block of the
    output projection.

    Args:
        heads: H, at most 6. gated: those with a gate of 0, from 0.
    """
    fig, ax = canvas("Multi-head attention as a sum over heads", 24, 1.6 * heads)
    middle = 1.6 * heads / 2
    write(ax, 0.4, middle, "x")
    for h in range(heads):
        y = 0.2 + 1.6 * h
        ink, fill = (GREY, "white") if h in gated else (INK, FAINT)
        arrow(ax, (0.8, middle), (2.0, y + 0.65), ink=ink)
        box(ax, 2.1, y, rf"$A_{h + 1}$ = softmax($QK^\top$) $V$", size=(9.6, 1.3), fill=fill,
            edge=ink, ink=ink)  # fmt: skip
        box(ax, 12.4, y, f"ξ = {int(h not in gated)}", size=(2.5, 1.3),
            fill=ORANGE if h in gated else "white", edge=ink)  # fmt: skip
        box(ax, 15.6, y, f"$W_O^{{({h + 1})}}$", size=(2.9, 1.3), fill=fill, edge=ink, ink=ink)
        arrow(ax, (11.7, y + 0.65), (12.4, y + 0.65), ink=ink)
        arrow(ax, (14.9, y + 0.65), (15.6, y + 0.65), ink=ink)
        arrow(ax, (18.5, y + 0.65), (20.0, middle), ink=ink)
    write(ax, 20.5, middle, "Σ", 26)
    arrow(ax, (21.0, middle), (21.9, middle))
    write(ax, 23.0, middle, "+ $b_O$")
    return fig


def stretched_and_cut(log_alpha: float) -> Figure:
    """The hard concrete distribution in three steps: s in (0, 1); stretched to
    (−0.1, 1.1); what lies beyond 0 and 1 cut, and gathered there.

    The bars are exact probabilities, all three times of the same share of the draws.

    Args:
        log_alpha: of the gate; β is 2/3.
    """
    edge = torch.linspace(0, 1, 25, dtype=torch.float64)  # 0 and 1 are edges of bars
    # P(s ≤ edge): s = σ((L + log α)/β) with L logistic
    share = (BETA * edge.logit() - log_alpha).sigmoid().diff()  # (bars,)
    middle = (edge[1:] + edge[:-1]) / 2
    stretched = middle * (ZETA - GAMMA) + GAMMA
    inside = (stretched > 0) & (stretched < 1)
    ends = [float(share[stretched < 0].sum()), float(share[stretched > 1].sum())]
    colours = [BLUE if within else ORANGE for within in inside]
    wide = 0.9 / len(share)
    with mpl.rc_context(style()):
        fig = new_figure(2.6)
        fig.set_label(f"A hard concrete gate with log α = {log_alpha:g}, stretched and cut")
        panels = fig.subplots(1, 3, sharey=True)
        panels[0].bar(middle, share, wide, color=BLUE)
        panels[1].bar(stretched, share, 1.2 * wide, color=colours)
        panels[2].bar(stretched[inside], share[inside], 1.2 * wide, color=BLUE)
        panels[2].bar([0, 1], ends, 1.2 * wide, color=ORANGE)
        for place, value in enumerate(ends):
            look: Any = {"ha": "center", "va": "bottom", "fontsize": pt(12)}
            panels[2].text(place, value, f"{100 * value:.0f} %", **look)
        titles = ("s", minus_sign(f"stretched to {GAMMA:g} … {ZETA:g}"), "cut: the gate g")
        for ax, title in zip(panels, titles, strict=True):
            ax.set(xlim=(GAMMA - 0.05, ZETA + 0.05), xticks=[0, 1], yticks=[])
            ax.set_title(title, fontsize=pt(12), fontweight="normal", loc="center")
            ax.grid(visible=False)
            ax.spines["left"].set_visible(False)
        panels[0].set_ylim(0, 1.25 * max(*ends, float(share.max())))
    return fig


def tokens_leaving(
    words: Sequence[str], kept: Sequence[Sequence[int]], *, marked: Sequence[int], title: str
) -> Figure:
    """A text, layer by layer: a token that is dropped in a layer is faint from there on.

    Args:
        words: the text's pieces, [CLS] first.
        kept: for each layer the positions in ``words``, from 0, that are left after it.
            What has left never comes back.
        marked: positions of the words that decide: blue and bold.
        title: what the model reads from [CLS] in the end.
    """
    size = pt(9.5)
    width = int(INCHES * 72 / (0.602 * size)) - 17  # letters of a line, beside the names
    lines = textwrap.wrap(" ".join(words), width, break_long_words=False, break_on_hyphens=False)
    places = [(sum(map(len, line.split()[:i])) + i, y) for y, line in enumerate(lines)
              for i in range(len(line.split()))]  # fmt: skip
    step = len(lines) + 0.4  # lines of one stage
    with mpl.rc_context(style()):
        fig = new_figure(0.5 + 0.0175 * size * step * len(kept) * 1.6)
        ax = fig.add_subplot()
        ax.set(xlim=(-9, width + 8), ylim=(step * len(kept) - 0.6, -0.8))
        ax.axis("off")
        look: Any = {"va": "center", "fontsize": size}
        for stage, there in enumerate(kept):
            y = step * stage
            ax.text(-9, y, f"layer {stage + 1}", weight="bold", **look)
            ax.text(width + 1, y, f"{len(there)} kept", weight="bold", ha="left", **look)
            for i, (word, (x, line)) in enumerate(zip(words, places, strict=True)):
                ax.text(
                    x, y + line, word, family="DejaVu Sans Mono", alpha=1 if i in there else 0.3,
                    color=BLUE if i in marked else INK, **look,
                    weight="bold" if i in marked else "normal",
                )  # fmt: skip
        fig.suptitle(title)
    return fig


def pruning_rounds(
    rounds: int = 3, rate: float = 0.2, *, rewind: bool = True, rewind_to: int = 0
) -> Figure:
    """Iterative magnitude pruning, a round a column: train, prune a share of what is
    left, rewind what stays; again.

    The matrices come from a real search, in a layer that learns by gradient descent to
    copy another one; a weight's colour is its sign and size, and a pruned one is a dot.

    Args:
        rounds: how often to prune, 1 to 4.
        rate: the share of the weights left that goes in each round, in (0, 1).
        rewind: put what stays back to its early values; False: the conventional way,
            train on from the trained values.
        rewind_to: k, the step to go back to; 0 is the first weights, and a training has
            30 steps.
    """
    w_0, w_k, found = _search(rounds, rate, rewind, rewind_to)
    rows, width = w_0.shape
    early = f"w_{{{rewind_to}}}"
    first = width + 1.6 if rewind_to else 0.0  # room for w_0 on its way to w_k
    pitch, drop, left, top = width + 4.0, rows + 2.6, first + 5.2, 2.4
    total, lines = left + rounds * pitch + width + 0.8, 2 * drop + rows + 4.9
    title = "Iterative magnitude pruning with rewinding" if rewind else "Pruning without rewinding"
    # a slide has words below it, too
    fig, ax = canvas(title, total, lines, min(0.75, 3.1 * total / (INCHES * lines)))
    scale = max(float(trained.abs().max()) for _, trained, _, _ in found)
    tops = [top, top + drop, top + 2 * drop]
    for y, name in zip(tops, ("start", "trained", "pruned"), strict=True):
        below = 1.1 if rewind_to and y == top else 0.0  # the arrow to w_k is there
        write(ax, left - 0.6, y + rows / 2 + below, name, ha="right")
    if rewind_to:
        _weights(ax, 0.2, top, w_0, found[0][2], scale)
        write(ax, 0.2 + width / 2, top - 0.35, "$w_0$", va="bottom")
        arrow(ax, (width + 0.5, top + 1.7), (left - 0.3, top + 1.7))
        write(ax, (width + 0.3 + left) / 2, top + 1.4, f"{rewind_to} steps", va="bottom")
    for t, (start, trained, mask, kept) in enumerate(found):
        x = left + t * pitch
        started = early if not t else rf"m_{t} \odot {early}"
        named = f"${started}$" if rewind or not t else "trained on"
        write(ax, x + width / 2, top - 0.35, named, va="bottom")
        for y, values, there in zip(
            tops, (start, trained, trained), (mask, mask, kept), strict=True
        ):
            _weights(ax, x, y, values, there, scale)
        for y, words in ((tops[0], "train"), (tops[1], f"−{100 * rate:.0f} %")):
            arrow(ax, (x + width / 2, y + rows + 0.2), (x + width / 2, y + drop - 0.15))
            write(ax, x + width / 2 - 0.2, y + rows + 1.2, words, ha="right")
        share = f"{100 * (1 - rate) ** (t + 1):.0f} %"
        share = f"{1 - rate:.3g}{'²³⁴'[t - 1]} = {share}" if t else share
        write(ax, x + width / 2, tops[2] + rows + 0.35, share, va="top")
        # from what a round has left, up to the start of the next
        bend, low, high = x + width + 2.0, tops[2] + rows / 2, tops[0] + rows / 2
        ink, thick, word = (ORANGE, 3.2, "rewind") if rewind else (INK, 1.6, "keep")
        ends = (x + width + 0.3, low), (bend, low), (bend, high), (x + pitch - 0.3, high)
        arrow(ax, *ends, ink=ink, width=thick)
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        write(ax, bend, tops[1] + rows / 2, word, rotation=90, bbox=behind)
    x = left + rounds * pitch
    _, trained, _, kept = found[-1]
    named = rf"$m_{rounds} \odot {early}$" if rewind else "pruned"
    write(ax, x + width / 2, top - 0.35, named, va="bottom")
    _weights(ax, x, top, w_k if rewind else trained, kept, scale, ORANGE if rewind else INK)
    words = f"the\nticket:\n$m_{rounds}$, ${early}$" if rewind else "to be\nfine-\ntuned"
    write(ax, x + width / 2, top + rows + 0.5, words, va="top", fontweight="bold")
    write(ax, left - 0.6, tops[2] + rows + 0.35, "kept", ha="right", va="top")
    return fig


def _search(
    rounds: int, rate: float, rewind: bool, rewind_to: int
) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor, Tensor, Tensor]]]:
    """The first weights, those at the step ``rewind_to``, and of each round the weights at
    its start and trained, and the masks of its training and after it: of a linear layer of
    4 × 6 weights that learns to copy another one.
    """
    shape, generator = (4, 6), torch.Generator().manual_seed(0)
    x = torch.randn(64, shape[1], generator=generator)
    target, w_0 = (torch.randn(shape, generator=generator) for _ in range(2))

    def train(w: Tensor, mask: Tensor, steps: int) -> Tensor:
        for _ in range(steps):  # gradient descent on the squared error
            w = (w - 0.06 * (w - target) @ (x.T @ x) / len(x)) * mask
        return w

    mask = torch.ones(shape, dtype=torch.bool)
    w_k = start = train(w_0, mask, rewind_to)
    found = []
    for _ in range(rounds):
        trained = train(start, mask, 30 - rewind_to)
        kept = shrink({"w": trained}, {"w": mask}, rate, output_rate=rate)["w"]
        found.append((start, trained, mask, kept))
        mask, start = kept, (w_k if rewind else trained) * kept
    return w_0, w_k, found


def _weights(
    ax: Axes, x: float, y: float, values: Tensor, mask: Tensor, scale: float, edge: str = FAINT
) -> None:
    """Cells for the weights that are there, coloured by sign and size; a dot where one
    has gone.
    """
    rows, columns = mask.shape
    frame, thick = (columns + 0.24, rows + 0.24), 1.0 if edge == FAINT else 2.2
    box(ax, x - 0.12, y - 0.12, size=frame, fill="none", edge=edge, linewidth=thick)
    for r, c in np.ndindex(rows, columns):
        if mask[r, c]:
            colour = _SIGNED(0.5 + 0.5 * float((values[r, c] / scale).clamp(-1, 1)))
            box(ax, x + c, y + r, fill=colour, edge="white", linewidth=0.8)
        else:
            ax.plot(x + c + 0.5, y + r + 0.5, marker=".", markersize=4, color=GREY)


def forecast() -> Figure:
    """The loss along one weight w = 0.8, nearly a parabola, and what is forecast at w: by
    the gradient alone, and with the curvature. Pruning is a step to 0.
    """
    w, at = 0.8, np.linspace(-0.1, 1.3, 57)
    g, h = 2 * (w - 1.3) + (w - 1.3) ** 3, 2 + 3 * (w - 1.3) ** 2
    loss = (at - 1.3) ** 2 + 0.25 * (at - 1.3) ** 4
    here, step = float(np.interp(w, at, loss)), at - w
    lines = {"true loss": loss, "−gw alone": here + g * step}
    lines["−gw + ½hw²"] = lines["−gw alone"] + h * step**2 / 2
    table = pd.DataFrame(lines, pd.Index(at, name="weight")).melt(
        var_name="method", value_name="loss", ignore_index=False
    )
    fig = plots.curves(
        table.reset_index().query("method == 'true loss' or weight <= 0.81"), x="weight", y="loss",
        control=None, title="The loss along one weight w, and two forecasts made at w",
        ylabel="loss",
    )  # fmt: skip
    fig.set_figheight(3.6)
    (ax,) = fig.axes
    ax.plot([w], [here], "o", color=plots.COLOURS["dense"], markersize=11, zorder=5)
    ax.set_xticks([0, w], ["0: pruned", "w"])
    return fig
