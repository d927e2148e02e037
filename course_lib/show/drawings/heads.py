"""Attention heads: multi-head attention as a sum, what is removed with a head, a gate
that is exactly 0 or 1 most of the time, attention maps, and where a head looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.models.attention import Attention
from course_lib.pruning.components.low_rank import BETA, GAMMA, ZETA
from course_lib.show.drawings.canvas import (
    FAINT,
    arrow,
    box,
    canvas,
    format_number,
    text_widths,
    write,
)
from course_lib.show.output import alt, new_figure
from course_lib.show.style import (
    BLUE,
    GREY,
    INCHES,
    INK,
    ORANGE,
    SKY,
    SLIDE_TEXT,
    pt,
    readable,
    style,
)

_BARS = 24  # of (γ, ζ): 0 and 1 are edges of bars
_SHADES = LinearSegmentedColormap.from_list("attention", ["#F4F6F8", SKY, BLUE])
_UNITS = 28.4  # the drawing's width in cells
_PAD, _SPACE = 0.2, 0.12  # on either side of a word in its box; between boxes
_ABOVE, _BELOW = 1.65, 1.5  # room for what stands above and below a sentence


def heads_as_a_sum(heads: int = 4, gated: Sequence[int] = ()) -> Figure:
    """Multi-head attention as a sum: one term per head, each with its own block of the
    output projection.

    Args:
        heads: H, at most 6. gated: those with a gate of 0, from 0.
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
    off_text = f" The gate of head {closed} is 0." if gated else ""
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


def stretched_and_cut(log_alpha: float) -> Figure:
    """The hard concrete distribution in three steps: s in (0, 1); stretched to
    (−0.1, 1.1); what lies beyond 0 and 1 cut, and gathered there.

    The bars are exact probabilities, all three times of the same share of the draws.

    Args:
        log_alpha: of the gate; β is 2/3.
    """
    edge = torch.linspace(0, 1, _BARS + 1, dtype=torch.float64)
    # P(s ≤ edge): s = σ((L + log α)/β) with L logistic
    below = (BETA * edge.logit() - log_alpha).sigmoid()
    share = below.diff()  # (bars,)
    stretched = edge * (ZETA - GAMMA) + GAMMA
    middle = (stretched[1:] + stretched[:-1]) / 2
    inside = (middle > 0) & (middle < 1)
    zero, one = float(share[middle < 0].sum()), float(share[middle > 1].sum())
    with mpl.rc_context(style()):
        fig = new_figure(2.6)
        panels = fig.subplots(1, 3, sharey=True)
        for ax, edges, title in zip(
            panels,
            (edge, stretched, stretched),
            ("s", f"stretched to {GAMMA:g} … {ZETA:g}".replace("-", "−"), "cut: the gate g"),
            strict=True,
        ):
            wide = edges.diff()
            if ax is panels[2]:
                ax.bar(middle[inside], share[inside], wide[inside] * 0.9, color=BLUE)
                ax.bar([0, 1], [zero, one], float(wide[0]) * 0.9, color=ORANGE)
            else:
                colours = [BLUE if within or ax is panels[0] else ORANGE for within in inside]
                ax.bar((edges[1:] + edges[:-1]) / 2, share, wide * 0.9, color=colours)
            ax.set(xlim=(GAMMA - 0.05, ZETA + 0.05), xticks=[0, 1], yticks=[])
            ax.set_title(title, fontsize=pt(12), fontweight="normal", loc="center")
            ax.tick_params(labelsize=pt(12))
            ax.grid(visible=False)
            ax.spines["left"].set_visible(False)
        panels[0].set_ylim(0, 1.25 * max(zero, one, float(share.max())))
        for place, value in ((0, zero), (1, one)):
            text = f"{100 * value:.0f} %"
            panels[2].text(place, value, text, ha="center", va="bottom", fontsize=pt(12), color=INK)
    return alt(
        fig,
        f"A hard concrete gate with log α = {log_alpha:g}: s between 0 and 1, the same stretched"
        f" beyond both ends, and cut: then {100 * zero:.0f} % of the draws are exactly 0,"
        f" {100 * one:.0f} % exactly 1, and {100 * (1 - zero - one):.0f} % between.",
    )


def attention_maps(maps: Mapping[str, Tensor]) -> Figure:
    """Small maps, query by key, each with its name below, four in a row; darker is more,
    each map by its own largest weight.

    Args:
        maps: {name: (L, L)}, rows sum to 1; at most eight.
    """
    columns = 4
    rows = math.ceil(len(maps) / columns)
    with mpl.rc_context(style()):
        fig = new_figure(rows * (0.95 * INCHES / columns + 0.35))
        panels = fig.subplots(rows, columns, squeeze=False).flat
        fig.set_layout_engine("constrained", wspace=0.06)
        for ax, (name, attn) in zip(panels, maps.items(), strict=False):
            ax.imshow(attn, cmap=_SHADES, vmin=0, vmax=float(attn.max()), interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            ax.grid(visible=False)
            ax.set_xlabel(name, fontsize=SLIDE_TEXT, labelpad=4)
            for spine in ax.spines.values():
                spine.set(visible=True, color=GREY)
        for ax in list(fig.axes)[len(maps) :]:
            ax.set_visible(False)
    length = len(next(iter(maps.values())))
    most = ", ".join(f"{name} {float(attn.max()):.2f}" for name, attn in maps.items())
    return alt(
        fig,
        f"Attention maps of {length} words, a row for each query, a column for each key; the"
        f" largest weight of each: {most}.",
    )


def kinds_of_attention(found: Sequence[Attention]) -> Figure:
    """An encoder–decoder with its three kinds of attention, and how many heads each has.

    Args:
        found: as :func:`~course_lib.models.attention.find_attention` gives them, of a
            model with all three kinds and at most four layers a side.
    """
    by_kind = {
        kind: [a for a in found if a.kind == kind] for kind in ("encoder", "decoder", "cross")
    }
    layers, below = len(by_kind["encoder"]), len(by_kind["decoder"])
    step, high = 2.2, 1.2  # from a layer to the next; of a module
    bottom = 0.1 + high + step * (max(layers, 2 * below) - 1)
    fig, ax = canvas(28.4, bottom + 2.6)

    def module(x: float, number: int, text: str, fill: str) -> float:
        """One module, the lowest is number 0; returns the height of its middle."""
        y = bottom - high - step * number
        box(ax, x, y, text, size=(11, high), fill=fill)
        arrow(ax, (x + 5.5, y + step), (x + 5.5, y + high + 0.05))
        return y + high / 2

    for i, own in enumerate(by_kind["encoder"]):
        top = module(0.6, i, f"encoder: {own.heads} heads", SKY)
    for i, (own, cross) in enumerate(zip(by_kind["decoder"], by_kind["cross"], strict=True)):
        module(16.8, 2 * i, f"decoder: {own.heads} heads", FAINT)
        middle = module(16.8, 2 * i + 1, f"encoder–decoder: {cross.heads} heads", ORANGE)
        arrow(ax, (11.7, top), (16.7, middle))
    write(ax, 6.1, bottom + 1.6, "source")
    write(ax, 22.3, bottom + 1.6, "target, so far")
    heads = {kind: sum(a.heads for a in modules) for kind, modules in by_kind.items()}
    return alt(
        fig,
        "An encoder–decoder with three kinds of attention. The encoder's own, to the source:"
        f" {heads['encoder']} heads in layers: {layers}. The decoder's own, to what is written:"
        f" {heads['decoder']} heads in layers: {below}. The decoder's to the encoder's output:"
        f" {heads['cross']} heads.",
    )


@dataclass(frozen=True)
class Look:
    """One query of one head.

    Attributes:
        words: of the sentence, without padding and end mark.
        attention: (words,), of the query to each of them.
        query: its place. target: the place where a rule wants it to look.
    """

    words: Sequence[str]
    attention: Tensor
    query: int
    target: int


def where_it_looks(looks: Sequence[Look], offset: int) -> Figure:
    """Sentences, one below the other: above each an arrow from its query to the largest
    attention, below it a dashed one to the place that a fixed offset names; the true
    target has a thick frame.

    A word's shade is the attention that it gets from the query.

    Args:
        looks: at most three.
        offset: of the baseline (:func:`~course_lib.pruning.heads.arc_baseline`).

    Raises:
        ValueError: where a sentence is too long to be read on a slide.
    """
    step = _ABOVE + 1 + _BELOW
    fig, ax = canvas(_UNITS, step * len(looks))
    said = [_sentence(ax, look, offset, step * i + _ABOVE) for i, look in enumerate(looks)]
    return alt(
        fig,
        f"Where a head looks, and where a fixed offset of {offset:+d} would. " + " ".join(said),
    )


def _sentence(ax: Axes, look: Look, offset: int, y: float) -> str:
    """Draws one; returns what is to be seen."""
    n = len(look.words)
    widths = [width + 2 * _PAD for width in text_widths(look.words, _UNITS)]
    if sum(widths) + _SPACE * (n - 1) > _UNITS:
        raise ValueError(
            f"{' '.join(look.words)!r} does not fit into a line in letters that can be read on a"
            " slide: take a shorter sentence"
        )
    found = int(look.attention.argmax())
    x, middles = (_UNITS - sum(widths) - _SPACE * (n - 1)) / 2, []
    for i, (word, width) in enumerate(zip(look.words, widths, strict=True)):
        shade = float(look.attention[i].clamp(0, 1))
        fill, alpha = (ORANGE, 1.0) if i == look.query else (SKY, shade)
        box(ax, x, y, size=(width, 1), fill=fill, edge="none", alpha=alpha)
        edge = INK if i in (look.target, look.query) else GREY
        thick = 3.5 if i == look.target else 1.2
        box(ax, x, y, word, size=(width, 1), fill="none", edge=edge, linewidth=thick)
        middles.append(x + width / 2)
        x += width + _SPACE
    share = f"{100 * float(look.attention[found]):.0f} %"
    _bracket(ax, middles[look.query], middles[found], (y - 0.1, y - 0.85), share, BLUE)
    guess = look.query + offset
    if 0 <= guess < n:
        text = f"{offset:+d}".replace("-", "−")
        _bracket(ax, middles[look.query], middles[guess], (y + 1.1, y + 1.85), text, GREY)
    named = f"{look.words[guess]!r}" if 0 <= guess < n else "no word"
    return (
        f"In {' '.join(look.words)!r} {look.words[look.query]!r} looks at"
        f" {look.words[found]!r} ({'right' if found == look.target else 'wrong'}, attention"
        f" {format_number(look.attention[found])}); the offset names {named}"
        f" ({'right' if guess == look.target else 'wrong'})."
    )


def _bracket(
    ax: Axes, start: float, end: float, heights: tuple[float, float], text: str, ink: str
) -> None:
    """From a word over the others to another one: its two heights are those at the
    words and of the line between them; in it a text.
    """
    at, away = heights
    look: Any = {"linestyle": "-" if away < at else "--", "solid_joinstyle": "miter"}
    ax.plot([start, start, end], [at, away, away], color=ink, linewidth=2.6, **look)
    arrow(ax, (end, away), (end, at), ink=ink)
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    write(ax, (start + end) / 2, away, text, color=readable(ink), bbox=behind)
