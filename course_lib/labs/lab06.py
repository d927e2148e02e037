"""Lab 06, BERT's weights: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning import components
from course_lib.pruning import weights as library
from course_lib.pruning.weights import movement as moved
from course_lib.pruning.weights import proximal

lab = Contract("lab06", imports=("pandas",))
_PRUNE = ("torch.nn.utils.prune",)


@lab.asks("6.1", forbidden=_PRUNE, plain=False)
def prune_then_finetune(
    model: nn.Module,
    masks: dict[str, Tensor],
    finetune: Callable[[nn.Module, Callable[[], None]], None],
    hold: bool,
) -> None:
    """6.1: prune, then fine-tune, with zeros held or not."""
    library.prune_then_finetune(model, masks, finetune, hold)


@lab.asks("6.2")
def regime(dense: float, held: list[float], deleted: list[float], tolerance: float) -> list[str]:
    """6.2: free, information lost, or cannot fit."""
    return library.regime(dense, held, deleted, tolerance)


TopV = lab.asks("6.3", plain=False)(moved.TopV)


@lab.asks("6.4")
def movement(history: list[tuple[Tensor, Tensor]], lr: float) -> Tensor:
    """6.4: what SGD leaves in the scores."""
    return moved.movement(history, lr)


@lab.asks("6.4")
def quadrants(before: Tensor, after: Tensor, kept: Tensor) -> dict[str, int]:
    """6.4: away from zero, toward it, or over it."""
    return moved.quadrants(before, after, kept)


@lab.asks("6.5", plain=False)
def soft_mask(scores: Tensor, tau: float) -> Tensor:
    """6.5: σ(S) > tau, and the gradient unchanged."""
    return moved.soft_mask(scores, tau)


@lab.asks("6.5", plain=False)
def soft_penalty(scores: list[Tensor], lam: float) -> Tensor:
    """6.5: λ times the mean of σ(S) over all entries."""
    return moved.soft_penalty(scores, lam)


@lab.asks("6.6", plain=False, optional=True)
def proximal_after(
    params: list[nn.Parameter], lr: float | Callable[[], float], lam: float, eps: float, every: int
) -> Callable[[], None]:
    """6.6: the proximal step after each optimizer step, reweighted every so often."""
    l1 = proximal.Proximal(params, lam)
    count = 0

    def post_step() -> None:
        nonlocal count
        l1.step(lr() if callable(lr) else lr)
        count += 1
        if count % every == 0:
            l1.reweight(eps)

    return post_step


@lab.asks("6.7")
def factorise(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """6.7: the best P·Q of this rank."""
    return components.factorise(weight, rank)


@lab.asks("6.7")
def compact(P: Tensor, z: Tensor, Q: Tensor) -> tuple[Tensor, Tensor]:
    """6.7: without the components whose gate is 0."""
    return components.compact(P, z, Q)


@lab.asks("6.8", plain=False)
def size_left(p_open: list[Tensor], shapes: list[tuple[int, int]]) -> Tensor:
    """6.8: the expected share of the dense parameters."""
    return components.size_left(p_open, shapes)


@lab.asks("6.8", plain=False)
def lagrangian(size: Tensor, target: float, lam1: float, lam2: float) -> Tensor:
    """6.8: λ₁·(size − target) + λ₂·(size − target)²."""
    return components.lagrangian(torch.as_tensor(size), target, lam1, lam2)


@lab.asks("6.8", plain=False)
def dual_step(
    size: float, target: float, lam1: float, lam2: float, lr: float
) -> tuple[float, float]:
    """6.8: one step of ascent."""
    return components.dual_step(size, target, lam1, lam2, lr)


lab.asks("6.9", "answer_6_9a", "answer_6_9b")
lab.asks("6.10", "find_bug", optional=True)
