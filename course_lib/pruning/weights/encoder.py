"""Which weights of a transformer are its layers': what papers on pruning BERT count, without
embeddings, pooler and classifier.
"""

from __future__ import annotations

import re

from torch import nn

from course_lib.models.attention import looks_like_attention
from course_lib.models.families import rows_of
from course_lib.models.layouts import layout_of
from course_lib.pruning.weights.masks import prunable


def encoder_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weight matrices of every layer that holds attention: its projections and its feed-forward
    part.

    Attention is what the table of :mod:`course_lib.models.families` lists, torch's own, and every
    module whose class is called "...Attention". BERT: six matrices per layer; the experts of a
    mixture that lie in one tensor (experts, outputs, inputs) are among them, an adapter's matrices
    (peft) are not. Tied ones come once; names and order are the model's.

    Source: Gordon, Duh & Andrews 2020, "Compressing BERT: Studying the Effects of Weight Pruning on
    Transfer Learning", section 3.
    """
    holds = [name for name, module in model.named_modules() if _is_attention(module)]
    inside = {n: f"{n}." if n else "" for n in holds}  # of attention in attention the inner one
    attention = [n for n in holds if not any(o.startswith(inside[n]) for o in holds if o != n)]
    if not attention:
        raise ValueError(f"model has no attention: use weights.prunable for {type(model).__name__}")
    layers = {_layer(name, attention) for name in attention}
    prefixes = tuple(f"{layer}." for layer in layers if layer)
    return {
        name: p
        for name, p in prunable(model).items()
        if (p.ndim == 2 or layout_of(p).stacked)
        and (name.startswith(prefixes) or "" in layers)
        and not _is_table(model, name)
        and not _is_adapter(model, name)
    }


def _is_attention(module: nn.Module) -> bool:
    return (
        isinstance(module, nn.MultiheadAttention)
        or any(row.attention for row in rows_of(type(module)))
        or looks_like_attention(module)
    )


def _layer(name: str, attention: list[str]) -> str:
    """The outermost item of a list round this attention that holds no attention twice at the same
    place of two items of a list.
    """
    parts = name.split(".")
    for end, part in enumerate(parts, 1):
        if re.search(r"\d$", part):
            prefix = ".".join(parts[:end])
            places = [
                re.sub(r"\d+", "#", other.removeprefix(prefix))
                for other in attention
                if other == prefix or other.startswith(f"{prefix}.")
            ]
            if len(set(places)) == len(places):
                return prefix
    return name


def _is_table(model: nn.Module, name: str) -> bool:
    """An embedding, or a table of position biases: it is looked up, not multiplied with."""
    owner = model.get_submodule(name.rpartition(".")[0])
    return isinstance(owner, nn.Embedding) or "Position" in type(owner).__name__


def _is_adapter(model: nn.Module, name: str) -> bool:
    """Beside the layer that it adapts, as peft keeps it: q_proj.lora_A, with q_proj.base_layer."""
    parts = name.split(".")
    return any(
        hasattr(model.get_submodule(".".join(parts[:end])), "base_layer")
        and parts[end] != "base_layer"
        for end in range(1, len(parts))
    )
