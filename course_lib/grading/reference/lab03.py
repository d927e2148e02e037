"""Lab 03, lottery tickets: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading.reference import Asked
from course_lib.pruning.weights import lottery, masks, sparse_training

_PRUNE = ("torch.nn.utils.prune",)
QUESTIONS = {
    "3.1": Asked(("shrink",), _PRUNE),
    "3.2": Asked(("rewind",), _PRUNE, plain=False, in_place=True),
    "3.3": Asked(("find_ticket",), _PRUNE, plain=False),
    "3.4": Asked(("random_ticket", "reinitialise"), _PRUNE, plain=False),
    "3.5": Asked(("early_stop",)),
    "3.6": Asked(("drop_and_grow",), _PRUNE),
    "3.7": Asked(("answer_3_7a", "answer_3_7b"), plain=False),
    "3.8": Asked(("find_bug",), plain=False),
}

Masks = masks.Masks


def shrink(weights: dict[str, Tensor], masks: Masks, rate: float, output_rate: float | None = None) -> Masks:
    """3.1: in every layer, exactly round(rate · survivors) of the smallest survivors go."""
    return lottery.shrink(weights, masks, rate, output_rate)


def rewind(model: nn.Module, state: dict[str, Tensor], masks: Masks) -> None:
    """3.2: parameters and buffers back to ``state``, pruned weights to zero."""
    lottery.rewind(model, state, masks)


def find_ticket(
    build: Callable[[], nn.Module],
    train: Callable[..., Any],
    rounds: int,
    rate: float,
    rewind_step: int = 0,
) -> list[dict[str, Any]]:
    """3.3: train, prune, rewind, and again."""
    return lottery.find_ticket(build, train, rounds, rate, rewind_step)


def random_ticket(masks: Masks, generator: torch.Generator) -> Masks:
    """3.4: as many weights in each layer, elsewhere."""
    return lottery.random_ticket(masks, generator)


def reinitialise(model: nn.Module, masks: Masks, seed: int) -> None:
    """3.4: the same places, fresh weights."""
    lottery.reinitialise(model, masks, seed)


def early_stop(losses: list[float], every: int = 1) -> int:
    """3.5: the step of the first minimum."""
    return lottery.early_stop(losses, every)


def drop_and_grow(weight: Tensor, dense_grad: Tensor, mask: Tensor, fraction: float) -> tuple[Tensor, Tensor]:
    """3.6: the smallest weights go, the largest gradients say what comes."""
    return sparse_training.drop_and_grow(weight, dense_grad, mask, fraction)


def find_bug(f: Callable[..., Masks]) -> None:
    """3.8: raises AssertionError for a wrong version of ``shrink``."""
    generator = torch.Generator().manual_seed(0)
    for smooth in (True, False):
        weights = {
            name: scale * torch.randn(shape, generator=generator) if smooth else _ties(shape, generator)
            for name, shape, scale in (("a", (9, 5), 10.0), ("b", (5, 3, 3), 0.1), ("c", (4, 7), 1.0))
        }
        for kept in (1.0, 0.5):
            alive = {name: torch.rand(w.shape, generator=generator) < kept for name, w in weights.items()}
            for rates in ((0.0,), (0.3,), (0.5, 0.5), (0.77, 0.0), (1.0, 1.0)):
                right, given = shrink(weights, alive, *rates), f(weights, alive, *rates)
                assert list(given) == list(right), f"the keys {list(given)}"
                for name, mask in right.items():
                    assert given[name].dtype == torch.bool, f"a mask of {given[name].dtype}"  # equal takes 1.0 for True
                    assert torch.equal(given[name], mask), f"layer {name}, rates {rates}"


def _ties(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(-2, 3, shape, generator=generator).float()
