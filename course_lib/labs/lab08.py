"""Lab 08, specialised heads: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning import heads as library
from course_lib.pruning.components import hard_concrete, open_probability

lab = Contract("lab08", imports=("pandas",))


@lab.asks("8.1")
def sample_gate(
    log_alpha: Tensor, u: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """8.1: a gate in [0, 1], with mass at both ends and a gradient."""
    return hard_concrete(log_alpha, u, beta, gamma, zeta)


@lab.asks("8.1")
def expected_l0(
    log_alpha: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """8.1: P(gate ≠ 0)."""
    return open_probability(log_alpha, beta, gamma, zeta)


@lab.asks("8.1")
def gate_at_test(log_alpha: Tensor, gamma: float = -0.1, zeta: float = 1.1) -> Tensor:
    """8.1: without noise."""
    return hard_concrete(log_alpha, None, 1.0, gamma, zeta)


@lab.asks("8.2", plain=False)
def train_with_gates(
    model: nn.Module,
    log_alpha: Tensor,
    batches: Iterable[Any],
    loss_fn: Callable[[nn.Module, Any, Tensor], Tensor],
    lam: float,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> list[float]:
    """8.2: one step a batch, with fresh noise and a price for every open gate."""
    return library.train_with_gates(model, log_alpha, batches, loss_fn, lam, optimizer, generator)


@lab.asks("8.3")
def points_to(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    """8.3: how often a head looks most at its target."""
    return library.points_to(attn, target, token_mask)


@lab.asks("8.3")
def neighbour(token_mask: Tensor, offset: int) -> Tensor:
    """8.3: the place some words away."""
    return library.neighbour(token_mask, offset)


@lab.asks("8.3")
def rarest(tokens: Tensor, counts: Tensor, token_mask: Tensor) -> Tensor:
    """8.3: the place of the rarest word."""
    return library.rarest(tokens, counts, token_mask)


@lab.asks("8.3")
def arc_baseline(target: Tensor, token_mask: Tensor) -> tuple[int, float]:
    """8.3: the best fixed offset."""
    return library.arc_baseline(target, token_mask)


@lab.asks("8.4", optional=True)
def attention_pattern(
    attn: Tensor, special: Tensor, segment: Tensor | None, share: float = 0.5
) -> str:
    """8.4: one of five classes."""
    return library.attention_pattern(attn, special, segment, share)


@lab.asks("8.4", optional=True)
def disable(context: Tensor, values: Tensor, token_mask: Tensor, off: Tensor) -> Tensor:
    """8.4: equal attention in place of a head's own."""
    return library.disable(context, values, token_mask, off)


@lab.asks("8.4", optional=True)
def attention_change(before: Tensor, after: Tensor, token_mask: Tensor) -> Tensor:
    """8.4: 1 − cosine of the maps."""
    return library.attention_change(before, after, token_mask)


@lab.asks("8.5")
def fixed_patterns(length: int) -> Tensor:
    """8.5: seven maps without a query."""
    return library.fixed_patterns(length)


@lab.asks("8.5")
def frozen_attention(learned: Tensor, lengths: Tensor) -> Tensor:
    """8.5: all but the last head fixed."""
    return library.frozen_attention(learned, lengths)


@lab.asks("8.6")
def prune_by_kind(scores: dict[str, Tensor], kind: str, fraction: float) -> dict[str, Tensor]:
    """8.6: the least important heads of one kind."""
    return library.prune_by_kind(scores, kind, fraction)


@lab.asks("8.6")
def prunable_share(curve: Sequence[tuple[float, float]], tolerance: float = 0.1) -> float:
    """8.6: up to where the score holds."""
    return library.prunable_share(curve, tolerance)


lab.asks("8.7", "answer_8_7a", "answer_8_7b")
lab.asks("8.8", "find_bug", optional=True)
