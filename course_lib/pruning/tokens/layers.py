"""Where rows can be dropped in an encoder layer: a small registry, so that layers are
found and not assumed.

Between attention and the feed-forward block (FFN) the two usual layouts differ.
Post-norm (BERT): the attention block has added its input and normalised before it hands
on one tensor, which the FFN reads and adds to its own output. Drop rows of that tensor,
and the rest of the layer is shorter. Pre-norm (ViT): the tensor that the FFN's output
is added to stays inside the layer's ``forward``. So the FFN gets fewer rows, its
outputs are put back at their places, and the layer hands on the rows that stay.

Where queries and keys are made is in the registry of
:mod:`course_lib.models.attention`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from course_lib.models.attention import Attention, find_attention
from course_lib.wrapped import refuse_wrapped


@dataclass(frozen=True)
class LayerLayout:
    """What one class of encoder layers is made of; names are paths from the layer.

    - ``cut``: post-norm: the module whose output both the FFN and its residual
      connection read, a tensor or a tuple that begins with it. Pre-norm: the FFN
      itself.
    - ``prenorm``: which of the two.
    - ``protected``: rows at the start that the model's answer is read from: 1 for
      [CLS].
    """

    cut: str
    prenorm: bool = False
    protected: int = 1


@dataclass(frozen=True)
class EncoderLayer:
    """One layer of a model: the module, its layout, and its attention (with paths from
    the layer).
    """

    module: nn.Module
    layout: LayerLayout
    attention: Attention


# by name, so that transformers need not be imported to look something up
_REGISTRY: dict[str, LayerLayout] = {
    "transformers.models.bert.modeling_bert.BertLayer": LayerLayout("attention"),
    "transformers.models.roberta.modeling_roberta.RobertaLayer": LayerLayout("attention"),
    "transformers.models.electra.modeling_electra.ElectraLayer": LayerLayout("attention"),
    "transformers.models.distilbert.modeling_distilbert.TransformerBlock": LayerLayout(
        "sa_layer_norm"
    ),
    "transformers.models.vit.modeling_vit.ViTLayer": LayerLayout("mlp", prenorm=True),
    # its second token is the distillation token, which one of the two classifiers reads
    "transformers.models.deit.modeling_deit.DeiTLayer": LayerLayout(
        "mlp", prenorm=True, protected=2
    ),
}


def register_encoder_layer(layer: type[nn.Module] | str, layout: LayerLayout) -> None:
    """Make a class of encoder layers known, so that tokens can be dropped in models
    that consist of them.

    Its ``forward`` takes the rows (B, L, E) first and the attention mask second or as
    ``attention_mask=``, and returns the rows, by themselves or as the first of a tuple.
    Its attention must be known too: ``register_attention``.

    The layout is right if dropping equals masking: see
    ``tests/unit/pruning/tokens/test_dropping.py`` for how to compare.

    Args:
        layer: the class, or its full name ("package.module.Class"). Subclasses count
            too, unless they are registered.
        layout: what it is made of.
    """
    _REGISTRY[layer if isinstance(layer, str) else _full_name(layer)] = layout


def encoder_layers(model: nn.Module) -> list[EncoderLayer]:
    """The layers of the one encoder in ``model``, in order.

    Raises:
        ValueError: if there is none that is known, or more than one, or it is a
            decoder; or its attention is unknown.
    """
    found = [
        (name, m, layout)
        for name, m in model.named_modules()
        if (layout := _layout(type(m))) is not None
    ]
    if not found:
        refuse_wrapped(model, "parallel", "compile", "prune")
        known = ", ".join(sorted(name.rpartition(".")[2] for name in _REGISTRY))
        raise ValueError(
            f"{type(model).__name__} has no encoder layer that is known here; known are {known}."
            " For another, say what its layers are made of:"
            ' register_encoder_layer("package.module.ItsLayer", LayerLayout(cut=...))'
        )
    stacks = sorted({name.rpartition(".")[0] for name, _, _ in found})
    if len(stacks) > 1:
        raise ValueError(
            f"{type(model).__name__} has several stacks of layers, {', '.join(stacks)}: pass the"
            " part of the model with the one whose tokens are to be dropped"
        )
    layers = []
    for name, module, layout in found:
        attention = find_attention(module)
        if len(attention) != 1 or attention[0].kind != "encoder":
            kinds = " and ".join(a.kind for a in attention)
            raise ValueError(
                f"layer {name!r} has {kinds} attention, so this is a decoder: its first token sees"
                " no other, and what it generates next needs the tokens that would be gone. Tokens"
                " are dropped in encoders"
            )
        layers.append(EncoderLayer(module, layout, attention[0]))
    return layers


def _layout(kind: type) -> LayerLayout | None:
    return next(
        (_REGISTRY[name] for c in kind.__mro__ if (name := _full_name(c)) in _REGISTRY), None
    )


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
