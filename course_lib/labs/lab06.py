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


TopV = lab.asks("6.2", plain=False)(moved.TopV)


@lab.asks("6.3")
def movement(history: list[tuple[Tensor, Tensor]], lr: float) -> Tensor:
    """6.3: what SGD leaves in the scores."""
    return moved.movement(history, lr)


@lab.asks("6.4", plain=False)
def soft_mask(scores: Tensor, tau: float) -> Tensor:
    """6.4: σ(S) > tau, and the gradient unchanged."""
    return moved.soft_mask(scores, tau)


@lab.asks("6.4", plain=False)
def soft_penalty(scores: list[Tensor], lam: float) -> Tensor:
    """6.4: λ times the mean of σ(S) over all entries."""
    return moved.soft_penalty(scores, lam)


@lab.asks("6.5", plain=False)
def proximal_after(
    params: list[nn.Parameter], lr: float | Callable[[], float], lam: float, eps: float, every: int
) -> Callable[[], None]:
    """6.5: the proximal step after each optimizer step, reweighted every so often."""
    l1 = proximal.Proximal(params, lam)
    count = 0

    def post_step() -> None:
        nonlocal count
        l1.step(lr() if callable(lr) else lr)
        count += 1
        if count % every == 0:
            l1.reweight(eps)

    return post_step


@lab.asks("6.6")
def factorise(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """6.6: the best P·Q of this rank."""
    return components.factorise(weight, rank)


@lab.asks("6.7")
def sample_gate(
    log_alpha: Tensor, u: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """6.7: a gate in [0, 1], with mass at both ends and a gradient."""
    return components.hard_concrete(log_alpha, u, beta, gamma, zeta)


@lab.asks("6.7")
def expected_l0(
    log_alpha: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """6.7: P(g ≠ 0)."""
    return components.open_probability(log_alpha, beta, gamma, zeta)


@lab.asks("6.7")
def gate_at_test(log_alpha: Tensor, gamma: float = -0.1, zeta: float = 1.1) -> Tensor:
    """6.7: without noise."""
    return components.hard_concrete(log_alpha, None, 1.0, gamma, zeta)


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
