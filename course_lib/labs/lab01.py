"""Lab 01, magnitude pruning: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning import weights as library

lab = Contract("lab01", imports=("pandas",))
_PRUNE = ("torch.nn.utils.prune",)

PrunedLinear = lab.asks("1.5", plain=False)(library.PrunedLinear)


@lab.asks("1.1", forbidden=_PRUNE)
def magnitude_mask(weight: Tensor, sparsity: float) -> Tensor:
    """1.1: exactly round(sparsity · n) of the smallest |w| go."""
    return library.smallest(library.magnitude({"w": weight})["w"], sparsity)


@lab.asks("1.2", forbidden=(*_PRUNE, "torch.nn.functional.hardshrink", "torch.hardshrink"))
def threshold_mask(weight: Tensor, a: float) -> Tensor:
    """1.2: |w| >= a stays."""
    if not a >= 0:
        raise ValueError(f"a is a threshold on |w|, so at least 0, got {a}")
    return library.threshold(library.magnitude({"w": weight})["w"], a)


@lab.asks("1.3", forbidden=_PRUNE)
def grouped_mask(weight: Tensor, sparsity: float, granularity: str) -> Tensor:
    """1.3: whole rows, kernels or filters go, by L1 norm."""
    if weight.ndim not in (2, 4):
        raise ValueError(
            f"weight should be (M, C, R, S) or (out, in), got {weight.ndim} dimensions"
        )
    return library.local_masks(library.magnitude({"w": weight}), sparsity, granularity)["w"]


@lab.asks("1.4", forbidden=_PRUNE)
def global_masks(weights: dict[str, Tensor], sparsity: float) -> dict[str, Tensor]:
    """1.4: one threshold over all layers with two or more dimensions."""
    return library.global_masks(
        library.magnitude({k: w for k, w in weights.items() if w.ndim >= 2}), sparsity
    )


@lab.asks("1.6", forbidden=_PRUNE, plain=False)
def sensitivity(
    model: nn.Module, evaluate: Callable[..., float], sparsities: list[float]
) -> dict[str, list[float]]:
    """1.6: one layer at a time."""
    return library.sensitivity(model, evaluate, sparsities)


@lab.asks("1.7", forbidden=_PRUNE, plain=False)
def cubic_schedule(final: float, steps: int) -> list[float]:
    """1.7: final · (1 − (1 − t/steps)³)."""
    return library.cubic(final, steps)


@lab.asks("1.7", forbidden=_PRUNE, plain=False)
def iterative_prune(
    model: nn.Module, targets: list[float], finetune: Callable[..., Any]
) -> library.Masks:
    """1.7: prune to each target, fine-tune, prune on."""
    return library.prune_iteratively(model, targets, finetune)


lab.asks("1.8", "answer_1_8a", "answer_1_8b")
lab.asks("1.9", "find_bug")
