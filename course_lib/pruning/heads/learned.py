"""Heads that a network learns to do without: a hard concrete gate on each, and a price
for every one that is open.

Source: Voita et al. 2019, "Analyzing Multi-Head Self-Attention: Specialized Heads Do
the Heavy Lifting, the Rest Can Be Pruned", section 4; gates: Louizos et al. 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

from course_lib.modes import restoring_modes
from course_lib.pruning.components.hard_concrete import hard_concrete, open_probability

Batch = TypeVar("Batch")


def train_with_gates(
    model: nn.Module,
    log_alpha: Tensor,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch, Tensor], Tensor],
    lam: float,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> list[float]:
    """One step for each batch, on its loss with sampled gates plus λ times the expected number
    of open ones. Returns for each batch that number before its step.

    Args:
        model: in training mode meanwhile. log_alpha: a leaf of any shape, changed by the
            optimizer.
        loss_fn: ``loss_fn(model, batch, gates)``, a scalar; it puts the gates on
            (:func:`~course_lib.pruning.heads.gated`).
        lam: 0 or more. optimizer: holds the model's parameters and ``log_alpha``, each with
            its own rate.
        generator: fresh noise for every batch.
    """
    if lam < 0:
        raise ValueError(f"lam is the price of an open gate, 0 or more; got {lam}")
    found = []
    with restoring_modes(model):
        model.train()
        for batch in batches:
            u = torch.rand(log_alpha.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
            expected = open_probability(log_alpha).sum()
            found.append(expected.item())
            optimizer.zero_grad()
            loss = loss_fn(model, batch, hard_concrete(log_alpha, u)) + lam * expected
            loss.backward()
            optimizer.step()
    return found
