"""Lab 02, what the loss says: its contracts answered by the library.

Modules come as plain data (:class:`course_lib.student_code.plain_data.Model`) where the grader
answers a call of the student's code.
"""

from __future__ import annotations

from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning.weights import criteria, proximal, wanda
from course_lib.student_code.plain_data import built

lab = Contract("lab02", imports=("pandas",))
_PRUNE = ("torch.nn.utils.prune",)
_SHRINK = (
    "torch.nn.functional.softshrink",
    "torch.nn.Softshrink",
    "torch.nn.functional.hardshrink",
)


@lab.asks("2.1")
def loss_change(weight: Tensor, gradient: Tensor, curvature: Tensor | None = None) -> Tensor:
    """2.1: −g·w + ½·h·w²."""
    return criteria.loss_change(weight, gradient, curvature)


@lab.asks("2.2", forbidden=("torch.func.hessian", "torch.autograd.functional.hessian"))
def mean_squared_gradients(model: nn.Module, x: Tensor, q: Tensor) -> dict[str, Tensor]:
    """2.2: the empirical Fisher for labels, the Gauss–Newton diagonal for the softmax."""
    return criteria.mean_squared_gradients(built(model), x, q)


@lab.asks("2.3", forbidden=_PRUNE, plain=False)
def input_aware_mask(weight: Tensor, x: Tensor, sparsity: float) -> Tensor:
    """2.3: in each row the smallest |w|·‖x‖ go."""
    norm = x.double().reshape(-1, weight.shape[1]).square().sum(0).sqrt()
    return wanda.per_output_masks({"": weight.double().abs() * norm}, sparsity)[""]


lab.asks("2.4", "obs_scores", "obs_remove")


@lab.asks("2.5", forbidden=_SHRINK)
def soft_threshold(w: Tensor, t: float | Tensor) -> Tensor:
    """2.5: the proximal operator of t·|·|."""
    return proximal.soft_threshold(w, t)


@lab.asks("2.5", forbidden=_SHRINK)
def proximal_step(
    weights: dict[str, Tensor], gradients: dict[str, Tensor], lr: float, lam: float
) -> dict[str, Tensor]:
    """2.5: a gradient step, and the proximal step behind it."""
    return {name: _step(w, gradients[name], lr, lam) for name, w in weights.items()}


def _step(w: Tensor, gradient: Tensor, lr: float, lam: float) -> Tensor:
    moved = w - lr * gradient
    return proximal.soft_threshold(moved, lr * lam) if w.ndim >= 2 else moved


lab.asks("2.6", "answer_2_6a", "answer_2_6b")
