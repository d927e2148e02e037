"""Matrices as sums of components, of which some can go: W ≈ P·diag(z)·Q, one gate z_k
for each column of P and row of Q. A factored layer is smaller than the dense one only below
r* = out·in/(out + in) components.

The gates are hard concrete, exactly 0 or 1 most of the time and still with a gradient: a uniform
number u becomes s = σ((log u − log(1 − u) + log α)/β), is stretched to (γ, ζ) = (−0.1, 1.1), and
cut to [0, 1]. P(z ≠ 0) = σ(log α − β log(−γ/ζ)) is smooth in log α, so a penalty on the expected
number of open gates can be descended. A target size is met, not searched for: min over weights
and gates, max over λ₁ and λ₂, of loss + λ₁·(size − target) + λ₂·(size − target)².

Source: Wang, Wohlwend & Lei 2020, "Structured Pruning of Large Language Models", section 3;
gates: Louizos, Welling & Kingma 2018, "Learning Sparse Neural Networks through L0
Regularization", section 2.2.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.models.conv1d import REMEDY, is_conv1d
from course_lib.models.parts import LowRank, linear_of, put_in_place
from course_lib.wrapped import refuse_wrapped

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
    """
    _check(beta, gamma, zeta)
    if u is None:
        s = log_alpha.sigmoid()
    elif not bool(((u > 0) & (u < 1)).all()):
        raise ValueError("u is strictly between 0 and 1: clamp it, to [1e-6, 1 - 1e-6] for example")
    else:
        s = ((u.log() - (1 - u).log() + log_alpha) / beta).sigmoid()
    return (s * (zeta - gamma) + gamma).clamp(0, 1)


def _check(beta: float, gamma: float, zeta: float) -> None:
    if beta <= 0 or gamma >= 0 or zeta <= 1:
        got = f"{beta}, {gamma}, {zeta}"
        raise ValueError(f"beta > 0, gamma < 0 and zeta > 1 give zeros and ones; got {got}")


class HardConcrete(nn.Module):
    """``size`` gates: sampled while training, deterministic in evaluation. ``start``: of log α
    for all; 2.5: almost all open.
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
    """The penalty of a target, and its multipliers."""

    target: float  # may be moved on the way, from 1 down to where it is to end
    lr: float = 0.2  # of the ascent
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


def factorise(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """P (out, rank) and Q (rank, in) with P·Q the best approximation of that rank of
    ``weight`` (out, in), and PᵀP = QQᵀ.

    Source: Eckart & Young 1936: the largest singular values; each factor gets √σ.
    """
    if weight.ndim != 2 or not 1 <= rank <= min(weight.shape):
        got = f"{tuple(weight.shape)} and rank {rank}"
        raise ValueError(f"a matrix (out, in) has ranks 1 … min(out, in); got {got}")
    # (out, k), (k,), (k, in)
    u, sigma, v = torch.linalg.svd(weight.detach().double(), full_matrices=False)
    root = sigma[:rank].sqrt()
    return (u[:, :rank] * root).to(weight.dtype), (root[:, None] * v[:rank]).to(weight.dtype)


def compact(p: Tensor, z: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Without the components whose gate z (r,) is 0: P' (out, r') and Q' (r', in) with
    P'·Q' = P·diag(z)·Q; r' may be 0.
    """
    there = z != 0
    return p[:, there] * z[there], q[there]


def size_left(p_open: Sequence[Tensor], shapes: Sequence[tuple[int, int]]) -> Tensor:
    """The expected share of the *dense* layers' weights: Σ_i Σ_k p_i[k]·(out_i + in_i) /
    Σ_i out_i·in_i, of each layer's probabilities of components to be open, (r_i,), and its
    shape (out, in); differentiable, may exceed 1.
    """
    if not shapes or len(p_open) != len(shapes):
        raise ValueError(
            f"{len(p_open)} layers' gates and {len(shapes)} shapes: one each, not none"
        )
    left = [p.sum() * sum(shape) for p, shape in zip(p_open, shapes, strict=True)]
    return torch.stack(left).sum() / sum(rows * columns for rows, columns in shapes)


class GatedLinear(nn.Module):
    """A linear layer as P·diag(z)·Q of min(out, in) components with hard concrete gates z;
    its bias is kept.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.out_features, self.in_features = linear.weight.shape
        p, q = factorise(linear.weight, min(linear.weight.shape))
        self.p, self.q = nn.Parameter(p), nn.Parameter(q)
        self.gates = HardConcrete(p.shape[1])
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

    @property
    def weight(self) -> Tensor:
        """(out, in), as it is computed with in evaluation."""
        return (self.p * self.gates()) @ self.q

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)."""
        return F.linear(F.linear(x, self.q) * self.gates(), self.p, self.bias)  # (…, r) between


def gate_components(model: nn.Module, names: Iterable[str]) -> nn.Module:
    """A copy of the model in which every linear layer whose weight is named is a
    :class:`GatedLinear`.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    model = copy.deepcopy(model)
    for name in names:
        put_in_place(model, name.removesuffix(".weight"), GatedLinear(_linear(model, name)))
    return model


def truncate(model: nn.Module, ranks: Mapping[str, int]) -> nn.Module:
    """A copy in which the linear layers whose weights are named have these ranks, by
    singular values alone: two plain layers each. ``save_pruned`` of
    :mod:`course_lib.pruning.heads` stores it.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    model = copy.deepcopy(model)
    for name, rank in ranks.items():
        linear = _linear(model, name)
        weight, most = linear.weight, min(linear.weight.shape)
        if not 0 <= rank <= most:
            shape = tuple(weight.shape)
            raise ValueError(f"{name!r} is {shape} and has ranks 0 … {most}, got {rank}")
        p, q = factorise(weight, rank) if rank else (weight[:, :0], weight[:0])
        put_in_place(model, name.removesuffix(".weight"), LowRank(p, q, linear.bias))
    return model


def gated_layers(model: nn.Module) -> dict[str, GatedLinear]:
    """Path -> gated layer."""
    return {path: m for path, m in model.named_modules() if isinstance(m, GatedLinear)}


def expected_size(model: nn.Module) -> Tensor:
    """:func:`size_left` of all gated layers."""
    layers = gated_layers(model).values()
    shapes = [(layer.out_features, layer.in_features) for layer in layers]
    return size_left([open_probability(layer.gates.log_alpha) for layer in layers], shapes)


@torch.no_grad()
def compact_components(model: nn.Module) -> nn.Module:
    """A copy in which every gated layer is plain: two linear layers of its open
    components, or one dense layer where that is smaller.
    """
    model = copy.deepcopy(model).eval()
    for path, layer in gated_layers(model).items():
        p, q = compact(layer.p, layer.gates(), layer.q)
        smaller = p.numel() + q.numel() < layer.out_features * layer.in_features
        plain = LowRank(p, q, layer.bias) if smaller else linear_of(p @ q, layer.bias)
        put_in_place(model, path, plain)
    return model


def _linear(model: nn.Module, name: str) -> nn.Linear:
    path, _, attribute = name.rpartition(".")
    module = dict(model.named_modules()).get(path)
    if attribute != "weight" or not isinstance(module, nn.Linear):
        what = f"that of {REMEDY}" if is_conv1d(module) else "not the weight of an nn.Linear of it"
        raise ValueError(f"{name!r} is {what}")
    return module
