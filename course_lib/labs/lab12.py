"""Lab 12, language models: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib import perplexity as of_text
from course_lib.labs.contract import Contract
from course_lib.pruning import weights
from course_lib.pruning.layers.influence import turned
from course_lib.pruning.weights.column_loop import bits_per_weight as bits_of
from course_lib.pruning.weights.column_loop import nearest_value, value_grid

lab = Contract("lab12")


class _Stored(nn.Module):
    """A model that answers with the logits that it is given."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, logits: Tensor) -> tuple[Tensor]:
        return (logits,)


@lab.asks("12.1")
def perplexity(batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> float:
    """12.1: exp(Σ −ln p / Σ tokens)."""
    windows = [
        {"input_ids": ids, "attention_mask": mask.long(), "logits": logits}
        for logits, ids, mask in batches
    ]
    return of_text.perplexity(_Stored(), windows)


@lab.asks("12.2")
def influence(states: Sequence[Tensor], mask: Tensor) -> Tensor:
    """12.2: (layers,), 1 − cos of each layer's input and output."""
    rows = [state[mask] for state in states]
    return torch.stack([turned(*pair).mean() for pair in zip(rows, rows[1:], strict=False)])


@lab.asks("12.3", plain=False)
def wanda_walk(layers: Sequence[nn.Module], x: Tensor, sparsity: float) -> Tensor:
    """12.3: each layer pruned by what the pruned layers before it pass on."""
    with torch.no_grad():
        for layer in layers:
            scores = weights.input_aware(layer, [x])
            weights.apply(layer, weights.per_output_masks(scores, sparsity))
            x = layer(x)
    return x


@lab.asks("12.4")
def remove_in_turn(row: Tensor, H: Tensor, gone: Sequence[int]) -> Tensor:
    """12.4: the loop makes up to the right: the columns that go come first."""
    order = [*gone, *sorted({*range(len(row))} - {*gone})]
    mask = torch.arange(len(row))[None] >= len(gone)
    new = torch.empty_like(row)
    new[order] = weights.prune_and_round(
        row[order][None], H[order][:, order], mask=mask, damping=0
    )[0]
    return new


@lab.asks("12.5")
def column_loop(
    W: Tensor, U: Tensor, width: int, count: int, dim: int | None = None,
    bits: int | None = None, group: int = 64,
) -> Tensor:  # fmt: skip
    """12.5: in blocks of ``width``, or N:M."""
    gram = (U.double().T @ U.double()).inverse()
    how: dict[str, Any] = {"bits": bits, "group": group, "block": width, "damping": 0}
    if dim is None:
        return weights.prune_and_round(W, gram, count / (len(W) * width), **how)
    return weights.prune_and_round(W, gram, pattern=(width - count, width), **how)


@lab.asks("12.6")
def grid(part: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """12.6: low and step of each row's values."""
    return value_grid(part, bits)


@lab.asks("12.6")
def nearest(column: Tensor, low: Tensor, step: Tensor, bits: int) -> Tensor:
    """12.6: the nearest value of each weight."""
    return nearest_value(column, low, step, bits)


@lab.asks("12.6")
def bits_per_weight(bits: int, kept: float = 1.0, group: int | None = None) -> float:
    """12.6: kept weights, places of the zeros, grids."""
    return bits_of(bits, kept, group)


lab.asks("12.7", "answer_12_7a", "answer_12_7b")


lab.asks("12.8", "expert_importance", "route", optional=True)
lab.asks("12.9", "witness", "repaired", optional=True)
