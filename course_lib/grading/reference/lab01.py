"""Lab 01, magnitude pruning: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading.reference import Asked
from course_lib.pruning import weights as library

_PRUNE = ("torch.nn.utils.prune",)
QUESTIONS = {
    "1.1": Asked(("magnitude_mask",), _PRUNE),
    "1.2": Asked(("threshold_mask",), (*_PRUNE, "torch.nn.functional.hardshrink", "torch.hardshrink")),
    "1.3": Asked(("grouped_mask",), _PRUNE),
    "1.4": Asked(("global_masks",), _PRUNE),
    "1.5": Asked(("PrunedLinear",), plain=False),
    "1.6": Asked(("sensitivity",), _PRUNE, plain=False),
    "1.7": Asked(("cubic_schedule", "iterative_prune"), _PRUNE, plain=False),
    "1.8": Asked(("answer_1_8a", "answer_1_8b"), plain=False),
    "1.9": Asked(("find_bug",), plain=False),
}

PrunedLinear = library.PrunedLinear


def magnitude_mask(weight: Tensor, sparsity: float) -> Tensor:
    """1.1: exactly round(sparsity · n) of the smallest |w| go."""
    return library.smallest(library.magnitude({"w": weight})["w"], sparsity)


def threshold_mask(weight: Tensor, a: float) -> Tensor:
    """1.2: |w| >= a stays."""
    if not a >= 0:
        raise ValueError(f"a is a threshold on |w|, so at least 0, got {a}")
    return library.threshold(library.magnitude({"w": weight})["w"], a)


def grouped_mask(weight: Tensor, sparsity: float, granularity: str) -> Tensor:
    """1.3: whole rows, kernels or filters go, by L1 norm."""
    if weight.ndim not in (2, 4):
        raise ValueError(f"weight should be (M, C, R, S) or (out, in), got {weight.ndim} dimensions")
    return library.local_masks(library.magnitude({"w": weight}), sparsity, granularity)["w"]


def global_masks(weights: dict[str, Tensor], sparsity: float) -> dict[str, Tensor]:
    """1.4: one threshold over all layers with two or more dimensions."""
    return library.global_masks(library.magnitude({k: w for k, w in weights.items() if w.ndim >= 2}), sparsity)


def sensitivity(model: nn.Module, evaluate: Callable[..., float], sparsities: list[float]) -> dict[str, list[float]]:
    """1.6: one layer at a time."""
    return library.sensitivity(model, evaluate, sparsities)


def cubic_schedule(final: float, steps: int) -> list[float]:
    """1.7: final · (1 − (1 − t/steps)³)."""
    return library.cubic(final, steps)


def iterative_prune(model: nn.Module, targets: list[float], finetune: Callable[..., Any]) -> library.Masks:
    """1.7: prune to each target, fine-tune, prune on."""
    return library.prune_iteratively(model, targets, finetune)


def find_bug(f: Callable[[Tensor, float], Tensor]) -> None:
    """1.9: raises AssertionError for a wrong version of ``magnitude_mask``."""
    generator = torch.Generator().manual_seed(0)
    for shape in ((7,), (5, 3), (2, 3, 3, 2)):
        for weight in (
            torch.randn(shape, generator=generator),
            torch.randint(-2, 3, shape, generator=generator).float(),
        ):
            for sparsity in (0.0, 0.3, 0.5, 0.77, 1.0):
                mask = f(weight, sparsity)
                assert mask.dtype == torch.bool, f"a mask of {mask.dtype}"  # torch.equal takes 1.0 for True
                assert torch.equal(mask, magnitude_mask(weight, sparsity)), f"{shape}, sparsity {sparsity}"
