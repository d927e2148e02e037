"""A target size that is met, not searched for: its multipliers are learned by ascent
while the model descends.

min over weights and gates, max over λ₁ and λ₂, of
loss + λ₁·(size − target) + λ₂·(size − target)².

Source: Wang, Wohlwend & Lei 2020, "Structured Pruning of Large Language Models",
section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


def lagrangian(size: Tensor, target: float, lam1: float, lam2: float) -> Tensor:
    """λ₁·(size − target) + λ₂·(size − target)²; differentiable by ``size``."""
    return lam1 * (size - target) + lam2 * (size - target).square()


def dual_step(
    size: float | Tensor, target: float, lam1: float, lam2: float, lr: float
) -> tuple[float, float]:
    """One step of gradient ascent for both multipliers. λ₁ may become negative: a model
    that is too small is pulled back.
    """
    gap = float(size) - target
    return lam1 + lr * gap, lam2 + lr * gap**2


@dataclass
class Lagrangian:
    """The penalty of a target, and its multipliers.

    ``target`` may be moved on the way (from 1 down to where it is to end); ``lr`` is
    that of the ascent.

    Raises:
        ValueError: if the target is negative.
    """

    target: float
    lr: float = 0.2
    lam1: float = 0.0
    lam2: float = 0.0

    def __post_init__(self) -> None:
        if self.target < 0:
            raise ValueError(f"target is a share of the dense size, from 0 up; got {self.target}")

    def __call__(self, size: Tensor) -> Tensor:
        """The term to add to the loss. The multipliers make their step with it."""
        penalty = lagrangian(size, self.target, self.lam1, self.lam2)
        self.lam1, self.lam2 = dual_step(size.detach(), self.target, self.lam1, self.lam2, self.lr)
        return penalty
