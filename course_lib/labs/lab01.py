"""Lab 01, magnitude pruning: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from course_lib.capstone.measured import given
from course_lib.labs.contract import Contract
from course_lib.pruning import weights as library

lab = Contract("lab01", imports=("pandas",))
_PRUNE = ("torch.nn.utils.prune",)

PrunedLinear = lab.asks("1.5", plain=False)(library.PrunedLinear)


@lab.asks("1.1", forbidden=_PRUNE)
def magnitude_mask(weight: Tensor, sparsity: float) -> Tensor:
    """1.1: exactly round(sparsity · n) of the smallest |w| go."""
    return library.smallest(library.magnitude({"w": weight})["w"], sparsity)


@lab.asks("1.2", forbidden=_PRUNE)
def grouped_mask(weight: Tensor, sparsity: float, granularity: str) -> Tensor:
    """1.2: whole rows, kernels or filters go, by L1 norm."""
    return library.local_masks(library.magnitude({"w": weight}), sparsity, granularity)["w"]


@lab.asks("1.3", forbidden=_PRUNE)
def global_masks(weights: dict[str, Tensor], sparsity: float) -> dict[str, Tensor]:
    """1.3: one threshold over all layers with two or more dimensions."""
    return library.global_masks(
        library.magnitude({k: w for k, w in weights.items() if w.ndim >= 2}), sparsity
    )


@lab.asks("1.4")
def choose_sparsities() -> dict[str, float]:
    """1.4: what one threshold for all layers prunes of each layer of a stored network."""
    weights = library.prunable(given("cnn"))
    masks = library.global_masks(library.magnitude(weights), 0.9501)
    return {
        name.removesuffix(".weight"): 1 - kept.double().mean().item()
        for name, kept in masks.items()
    }


@lab.asks("1.6", forbidden=_PRUNE, plain=False)
def cubic_schedule(final: float, steps: int) -> list[float]:
    """1.6: final · (1 − (1 − t/steps)³)."""
    return library.cubic(final, steps)


@lab.asks("1.6", forbidden=_PRUNE, plain=False)
def iterative_prune(
    model: nn.Module, targets: list[float], finetune: Callable[..., Any]
) -> library.Masks:
    """1.6: prune to each target, fine-tune, prune on."""
    return library.prune_iteratively(model, targets, finetune)


lab.asks("1.7", "answer_1_7a", "answer_1_7b")
lab.asks("1.8", "find_bug", optional=True)
