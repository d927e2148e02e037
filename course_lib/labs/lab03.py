"""Lab 03, lottery tickets: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning.weights import lottery, masks, sparse_training

lab = Contract("lab03")
_PRUNE = ("torch.nn.utils.prune",)

Masks = masks.Masks


@lab.asks("3.1", forbidden=_PRUNE)
def shrink(
    weights: dict[str, Tensor], masks: Masks, rate: float, output_rate: float | None = None
) -> Masks:
    """3.1: in every layer, exactly round(rate · survivors) of the smallest survivors
    go.
    """
    return lottery.shrink(weights, masks, rate, output_rate)


@lab.asks("3.2", forbidden=_PRUNE, plain=False, in_place=True)
def rewind(model: nn.Module, state: dict[str, Tensor], masks: Masks) -> None:
    """3.2: parameters and buffers back to ``state``, pruned weights to zero."""
    lottery.rewind(model, state, masks)


@lab.asks("3.3", forbidden=_PRUNE, plain=False)
def find_ticket(
    build: Callable[[], nn.Module],
    train: Callable[..., Any],
    rounds: int,
    rate: float,
    rewind_step: int = 0,
) -> list[dict[str, Any]]:
    """3.3: train, prune, rewind, and again."""
    return lottery.find_ticket(build, train, rounds, rate, rewind_step)


@lab.asks("3.4", forbidden=_PRUNE, plain=False)
def random_ticket(masks: Masks, generator: torch.Generator) -> Masks:
    """3.4: as many weights in each layer, elsewhere."""
    return lottery.random_ticket(masks, generator)


lab.asks("3.4", "answer_3_4", forbidden=_PRUNE, plain=False)


@lab.asks("3.5", forbidden=_PRUNE)
def drop_and_grow(
    weight: Tensor, dense_grad: Tensor, mask: Tensor, fraction: float
) -> tuple[Tensor, Tensor]:
    """3.5: the smallest weights go, the largest gradients say what comes."""
    return sparse_training.drop_and_grow(weight, dense_grad, mask, fraction)


lab.asks("3.6", "answer_3_6a", "answer_3_6b")
