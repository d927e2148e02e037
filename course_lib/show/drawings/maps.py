"""Attention maps side by side, and where a model's attention is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.models.attention import Attention
from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas, write
from course_lib.show.output import alt, new_figure
from course_lib.show.style import BLUE, GREY, INCHES, ORANGE, SKY, SLIDE_TEXT, style

_SHADES = LinearSegmentedColormap.from_list("attention", ["#F4F6F8", SKY, BLUE])


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
