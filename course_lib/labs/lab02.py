"""Lab 02, what the loss says: its contracts answered by the library.

Modules come as plain data (:class:`course_lib.student_code.plain_data.Model`) where the grader
answers a call of the student's code.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning.weights import criteria, iterative, masks, proximal, wanda
from course_lib.student_code.plain_data import built

lab = Contract("lab02", imports=("pandas",))
_PRUNE = ("torch.nn.utils.prune",)
_SHRINK = (
    "torch.nn.functional.softshrink",
    "torch.nn.Softshrink",
    "torch.nn.functional.hardshrink",
)


def _of(scores: dict[str, Tensor], names: list[str]) -> dict[str, Tensor]:
    if missing := [name for name in names if name not in (scores or {})]:
        raise ValueError(f"score(model) says nothing of {', '.join(missing)}")
    return {name: scores[name] for name in names}


@lab.asks("2.1")
def loss_change(weight: Tensor, gradient: Tensor, curvature: Tensor | None = None) -> Tensor:
    """2.1: −g·w + ½·h·w²."""
    return criteria.loss_change(weight, gradient, curvature)


@lab.asks("2.2")
def empirical_fisher(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """2.2: the mean of squared gradients, a sample each."""
    return criteria.empirical_fisher(built(model), x, y)


@lab.asks("2.3", forbidden=("torch.func.hessian", "torch.autograd.functional.hessian"))
def curvature(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """2.3: the Gauss–Newton diagonal."""
    return criteria.curvature(built(model), x)


@lab.asks("2.4", forbidden=_PRUNE, plain=False)
def prune_rescored(
    model: nn.Module, score: Callable[[nn.Module], dict[str, Tensor]], targets: list[float]
) -> dict[str, Tensor]:
    """2.4: to each target in turn, by the scores of the model as it is then."""
    if any(b <= a for a, b in zip(targets, targets[1:], strict=False)):
        raise ValueError(f"targets rise; got {targets}")
    names = list(masks.prunable(model))
    return iterative.prune_rescored(model, targets, lambda now: _of(score(now), names))


lab.asks("2.5", "magnitude_is_wrong", forbidden=_PRUNE)


@lab.asks("2.5", forbidden=_PRUNE, plain=False)
def input_aware_mask(weight: Tensor, x: Tensor, sparsity: float) -> Tensor:
    """2.5: in each row the smallest |w|·‖x‖ go."""
    if x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"x has {x.shape[-1]} inputs, and the weight a column for each of {weight.shape[1]}"
        )
    norm = x.double().reshape(-1, weight.shape[1]).square().sum(0).sqrt()
    return wanda.per_output_masks({"": weight.double().abs() * norm}, sparsity)[""]


@lab.asks("2.6", forbidden=_SHRINK)
def soft_threshold(w: Tensor, t: float | Tensor) -> Tensor:
    """2.6: the proximal operator of t·|·|."""
    return proximal.soft_threshold(w, t)


@lab.asks("2.6", forbidden=_SHRINK)
def proximal_step(
    weights: dict[str, Tensor], gradients: dict[str, Tensor], lr: float, lam: float
) -> dict[str, Tensor]:
    """2.6: a gradient step, and the proximal step behind it."""
    return {name: _step(w, gradients[name], lr, lam) for name, w in weights.items()}


@lab.asks("2.7", forbidden=_SHRINK, optional=True)
def reweighted(weight: Tensor, lam: float, eps: float) -> Tensor:
    """2.7: λ/(|w| + ε)."""
    return proximal.reweighted(weight, lam, eps)


@lab.asks("2.7", forbidden=_SHRINK, optional=True)
def reweighted_step(
    weights: dict[str, Tensor], gradients: dict[str, Tensor], lr: float, lam: float, eps: float
) -> dict[str, Tensor]:
    """2.7: each weight with the penalty of its value before the step."""
    return {
        name: _step(w, gradients[name], lr, reweighted(w, lam, eps)) for name, w in weights.items()
    }


def _step(w: Tensor, gradient: Tensor, lr: float, lam: float | Tensor) -> Tensor:
    moved = w - lr * gradient
    return proximal.soft_threshold(moved, lr * torch.as_tensor(lam)) if w.ndim >= 2 else moved


lab.asks("2.8", "answer_2_8a", "answer_2_8b")
lab.asks("2.9", "find_bug", optional=True)
