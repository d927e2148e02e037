"""Where rows can be dropped in an encoder layer: between attention and the feed-forward
block (FFN), where the two usual layouts differ.

Post-norm (BERT): the attention block has added its input and normalised before it hands
on one tensor, which the FFN reads and adds to its own output. Drop rows of that tensor,
and the rest of the layer is shorter. Pre-norm (ViT): the tensor that the FFN's output
is added to stays inside the layer's ``forward``. So the FFN gets fewer rows, its
outputs are put back at their places, and the layer hands on the rows that stay.

What the parts are called is in the table of :mod:`course_lib.models.families`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from course_lib.models.attention import Attention, find_attention
from course_lib.models.families import RELATIVE, LayerLayout, known, rows_of
from course_lib.wrapped import refuse_wrapped

__all__ = ["EncoderLayer", "LayerLayout", "encoder_layers"]


@dataclass(frozen=True)
class EncoderLayer:
    """One layer of a model: the module, its layout, and its attention (with paths from
    the layer).
    """

    module: nn.Module
    layout: LayerLayout
    attention: Attention


def encoder_layers(model: nn.Module) -> list[EncoderLayer]:
    """The layers of the one encoder in ``model``, in order.

    Raises:
        ValueError: if there is none that is known, or more than one, or it is a
            decoder; or its attention is unknown.
    """
    layers, stacks = [], set()
    for name, module in model.named_modules():
        layout = next((row.tokens for row in rows_of(type(module)) if row.tokens), None)
        if layout is None:
            continue
        if not isinstance(layout, str) and getattr(module, layout.unless or "", None) is not None:
            layout = RELATIVE
        if isinstance(layout, str):
            raise ValueError(
                f"tokens cannot be dropped in a {type(module).__name__} ({name!r}): {layout}"
            )
        attention = find_attention(module)
        if len(attention) != 1 or attention[0].kind != "encoder":
            raise ValueError(
                f"layer {name!r} has {' and '.join(a.kind for a in attention)} attention, so this"
                " is a decoder: its first token sees no other, and what it generates next needs"
                " the tokens that would be gone. Tokens are dropped in encoders"
            )
        layers.append(EncoderLayer(module, layout, attention[0]))
        stacks.add(name.rpartition(".")[0])
    if not layers:
        refuse_wrapped(model, "parallel", "compile", "prune")
        raise ValueError(
            f"{type(model).__name__} has no encoder layer that is known here; known are"
            f" {', '.join(known('tokens'))}. For another, say what its layers are made of:"
            ' register("package.module.ItsLayer", tokens=LayerLayout(cut=...))'
        )
    if len(stacks) > 1:
        raise ValueError(
            f"{type(model).__name__} has several stacks of layers, {', '.join(sorted(stacks))}:"
            " pass the part of the model with the one whose tokens are to be dropped"
        )
    return layers
