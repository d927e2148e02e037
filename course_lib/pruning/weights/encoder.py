"""Which weights of a transformer are its layers': what papers on pruning BERT count,
without embeddings, pooler and classifier.
"""

from __future__ import annotations

from collections import Counter

from torch import nn

from course_lib.models.attention import find_attention
from course_lib.models.layouts import layout_of
from course_lib.pruning.weights.masks import prunable


def encoder_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weight matrices of every layer that holds attention: its projections and its
    feed-forward part.

    Args:
        model: of any family that the attention registry knows
            (:mod:`course_lib.models.attention`): encoders, decoders, both.

    Returns:
        Name -> the parameter itself, tied ones once, in the model's order. BERT: six
        matrices a layer. A mixture without lists of layers has the attention's own
        projections alone.

    Raises:
        ValueError: if the model has no attention that is known.

    Source: Gordon, Duh & Andrews 2020, "Compressing BERT: Studying the Effects of
    Weight Pruning on Transfer Learning", section 3.
    """
    found = find_attention(model)
    layers = {_layer(a.name, [(b.name, b.kind) for b in found]) for a in found}
    inside = tuple(f"{layer}." for layer in sorted(layers) if layer)
    return {
        name: p
        for name, p in prunable(model).items()
        if (p.ndim == 2 or layout_of(p).stacked)
        and (name.startswith(inside) or "" in layers)
        and not _is_table(model, name)
    }


def _layer(name: str, attention: list[tuple[str, str]]) -> str:
    """The outermost item of a list round this attention in which no kind of attention
    comes twice.
    """
    parts = name.split(".")
    for end, part in enumerate(parts, 1):
        if part.isdigit():
            prefix = ".".join(parts[:end])
            kinds = Counter(
                kind
                for other, kind in attention
                if other == prefix or other.startswith(f"{prefix}.")
            )
            if max(kinds.values()) == 1:
                return prefix
    return name


def _is_table(model: nn.Module, name: str) -> bool:
    """An embedding: it is looked up, not multiplied with (T5 keeps its position bias in
    one).
    """
    return isinstance(model.get_submodule(name.rpartition(".")[0]), nn.Embedding)
