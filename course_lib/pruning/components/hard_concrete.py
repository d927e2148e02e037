"""Gates that are exactly 0 or 1 most of the time and still have a gradient: the hard
concrete distribution.

A uniform number u becomes s = σ((log u − log(1 − u) + log α)/β), is stretched to (γ,
ζ) = (−0.1, 1.1), and cut to [0, 1]: the ends get mass of their own. P(z ≠ 0) = σ(log
α − β log(−γ/ζ)) is a smooth function of log α, so a penalty on the expected number of
open gates is one that can be descended.

Source: Louizos, Welling & Kingma 2018, "Learning Sparse Neural Networks through L0
Regularization", section 2.2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1


def open_probability(
    log_alpha: Tensor, beta: float = BETA, gamma: float = GAMMA, zeta: float = ZETA
) -> Tensor:
    """P(z ≠ 0), like ``log_alpha``."""
    _check(beta, gamma, zeta)
    return (log_alpha - beta * math.log(-gamma / zeta)).sigmoid()


def hard_concrete(
    log_alpha: Tensor,
    u: Tensor | None = None,
    beta: float = BETA,
    gamma: float = GAMMA,
    zeta: float = ZETA,
) -> Tensor:
    """Gates in [0, 1], like ``log_alpha``.

    Args:
        u: uniform in (0, 1), of its shape: a sample, with a gradient by ``log_alpha``. None:
            the deterministic gate of the trained model, which knows no temperature.

    Raises:
        ValueError: if a ``u`` is not strictly between 0 and 1, or ``beta`` not positive,
            ``gamma`` not negative, or ``zeta`` not above 1.
    """
    _check(beta, gamma, zeta)
    if u is None:
        s = log_alpha.sigmoid()
    else:
        if bool((u <= 0).any()) or bool((u >= 1).any()):
            raise ValueError(
                "u is strictly between 0 and 1: clamp it, to [1e-6, 1 - 1e-6] for example"
            )
        s = ((u.log() - (1 - u).log() + log_alpha) / beta).sigmoid()
    return (s * (zeta - gamma) + gamma).clamp(0, 1)


def _check(beta: float, gamma: float, zeta: float) -> None:
    if beta <= 0 or gamma >= 0 or zeta <= 1:
        raise ValueError(
            f"beta > 0, gamma < 0 and zeta > 1 are needed for zeros and ones; got {beta}, {gamma},"
            f" {zeta}"
        )


class HardConcrete(nn.Module):
    """``size`` gates: sampled while training, deterministic in evaluation.

    Args:
        start: of log α for all; 2.5: almost all open.
    """

    def __init__(self, size: int, start: float = 2.5) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.full((size,), start))

    def forward(self) -> Tensor:
        """(size,), in [0, 1]."""
        if not self.training:
            return hard_concrete(self.log_alpha)
        u = torch.rand_like(self.log_alpha).clamp(1e-6, 1 - 1e-6)
        return hard_concrete(self.log_alpha, u)

    def open_probability(self) -> Tensor:
        """(size,): P(z ≠ 0)."""
        return open_probability(self.log_alpha)
