"""Lab 08, specialised heads: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning import heads as library

lab = Contract("lab08", imports=("pandas",))


@lab.asks("8.1", plain=False)
def train_with_gates(
    model: nn.Module,
    log_alpha: Tensor,
    batches: Iterable[Any],
    loss_fn: Callable[[nn.Module, Any, Tensor], Tensor],
    lam: float,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> list[float]:
    """8.1: one step per batch, with fresh noise and a price for every open gate."""
    return library.train_with_gates(model, log_alpha, batches, loss_fn, lam, optimizer, generator)


@lab.asks("8.2")
def points_to(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    """8.2: how often a head looks most at its target."""
    return library.points_to(attn, target, token_mask)


@lab.asks("8.2")
def arc_baseline(target: Tensor, token_mask: Tensor) -> tuple[int, float]:
    """8.2: the best fixed offset."""
    return library.arc_baseline(target, token_mask)


@lab.asks("8.3")
def disable(context: Tensor, values: Tensor, token_mask: Tensor, off: Tensor) -> Tensor:
    """8.3: equal attention in place of a head's own."""
    return library.disable(context, values, token_mask, off)


@lab.asks("8.4")
def fixed_patterns(length: int) -> Tensor:
    """8.4: seven maps without a query."""
    return library.fixed_patterns(length)


@lab.asks("8.4")
def frozen_attention(learned: Tensor, lengths: Tensor) -> Tensor:
    """8.4: all but the last head fixed."""
    return library.frozen_attention(learned, lengths)


@lab.asks("8.5")
def prune_by_kind(scores: dict[str, Tensor], kind: str, fraction: float) -> dict[str, Tensor]:
    """8.5: the least important heads of one kind."""
    return library.prune_by_kind(scores, kind, fraction)


lab.asks("8.6", "answer_8_6a", "answer_8_6b")
