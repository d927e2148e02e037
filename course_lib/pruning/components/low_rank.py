"""Matrices as sums of components, of which some can go: W ≈ P·diag(z)·Q, one gate z_k
for each column of P and row of Q.

A factored layer is smaller than the dense one only below r* = out·in/(out + in)
components.

Source: Wang, Wohlwend & Lei 2020, "Structured Pruning of Large Language Models",
sections 3.1 and 3.2.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.models.conv1d import REMEDY, is_conv1d
from course_lib.models.parts import LowRank, linear_of, put_in_place
from course_lib.pruning.components.hard_concrete import HardConcrete
from course_lib.wrapped import refuse_wrapped


def factorise(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """P (out, rank) and Q (rank, in) with P·Q the best approximation of that rank, and
    PᵀP = QQᵀ.

    Args:
        weight: (out, in).

    Raises:
        ValueError: if ``rank`` is not in 1 … min(out, in).

    Source: Eckart & Young 1936: the largest singular values; each factor gets √σ.
    """
    if weight.ndim != 2 or not 1 <= rank <= min(weight.shape):
        raise ValueError(
            f"a matrix (out, in) has ranks 1 … min(out, in); got {tuple(weight.shape)} and rank"
            f" {rank}"
        )
    # (out, k), (k,), (k, in)
    u, sigma, v = torch.linalg.svd(weight.detach().double(), full_matrices=False)
    root = sigma[:rank].sqrt()
    return (u[:, :rank] * root).to(weight.dtype), (root[:, None] * v[:rank]).to(weight.dtype)


def compact(p: Tensor, z: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Without the components whose gate is 0: P' (out, r') and Q' (r', in) with
    P'·Q' = P·diag(z)·Q; r' may be 0.

    Args:
        p: (out, r). z: (r,), not negative. q: (r, in).
    """
    there = z != 0
    return p[:, there] * z[there], q[there]


def size_left(p_open: Sequence[Tensor], shapes: Sequence[tuple[int, int]]) -> Tensor:
    """The expected share of the *dense* layers' weights: Σ_i Σ_k
    p_i[k]·(out_i + in_i) / Σ_i out_i·in_i; differentiable, may exceed 1.

    Args:
        p_open: for each layer the probability of each component to be open, (r_i,).
            shapes: (out, in) of each.
    """
    if not shapes or len(p_open) != len(shapes):
        raise ValueError(
            f"{len(p_open)} layers' gates and {len(shapes)} shapes: one each, and at least one"
        )
    left = torch.stack(
        [p.sum() * (rows + columns) for p, (rows, columns) in zip(p_open, shapes, strict=True)]
    )
    return left.sum() / sum(rows * columns for rows, columns in shapes)


class GatedLinear(nn.Module):
    """A linear layer as P·diag(z)·Q with hard concrete gates z.

    Args:
        linear: whose weight is factorised into min(out, in) components, and whose bias is
            kept.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        p, q = factorise(linear.weight, min(linear.weight.shape))
        self.p, self.q = nn.Parameter(p), nn.Parameter(q)
        self.gates = HardConcrete(p.shape[1])
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

    @property
    def shape(self) -> tuple[int, int]:
        """(out, in)."""
        return self.p.shape[0], self.q.shape[1]

    @property
    def in_features(self) -> int:
        return self.q.shape[1]

    @property
    def out_features(self) -> int:
        return self.p.shape[0]

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

    Raises:
        ValueError: if a name is not the weight of an ``nn.Linear``, or the model is under
            ``torch.nn.utils.prune``.
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

    Raises:
        ValueError: if a name is not the weight of an ``nn.Linear``, a rank is not in
            0 … min(out, in), or the model is under ``torch.nn.utils.prune``.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    model = copy.deepcopy(model)
    for name, rank in ranks.items():
        linear = _linear(model, name)
        if not 0 <= rank <= min(linear.weight.shape):
            raise ValueError(
                f"{name!r} is {tuple(linear.weight.shape)} and has ranks 0 …"
                f" {min(linear.weight.shape)}, got {rank}"
            )
        weight = linear.weight
        p, q = factorise(weight, rank) if rank else (weight[:, :0], weight[:0])
        put_in_place(model, name.removesuffix(".weight"), LowRank(p, q, linear.bias))
    return model


def gated_layers(model: nn.Module) -> dict[str, GatedLinear]:
    """Path -> gated layer."""
    return {
        name: module for name, module in model.named_modules() if isinstance(module, GatedLinear)
    }


def expected_size(model: nn.Module) -> Tensor:
    """:func:`size_left` of all gated layers."""
    layers = gated_layers(model).values()
    return size_left(
        [layer.gates.open_probability() for layer in layers], [layer.shape for layer in layers]
    )


@torch.no_grad()
def compact_components(model: nn.Module) -> nn.Module:
    """A copy in which every gated layer is plain: two linear layers of its open
    components, or one dense layer where that is smaller.
    """
    model = copy.deepcopy(model).eval()
    for path, layer in gated_layers(model).items():
        p, q = compact(layer.p, layer.gates(), layer.q)
        rows, columns = layer.shape
        if p.shape[1] * (rows + columns) < rows * columns:
            plain: nn.Module = LowRank(p, q, layer.bias)
        else:
            plain = linear_of(p @ q, layer.bias)
        put_in_place(model, path, plain)
    return model


def _linear(model: nn.Module, name: str) -> nn.Linear:
    path, _, attribute = name.rpartition(".")
    module = dict(model.named_modules()).get(path)
    if attribute != "weight" or not isinstance(module, nn.Linear):
        what = f"that of {REMEDY}" if is_conv1d(module) else "not the weight of an nn.Linear of it"
        raise ValueError(f"{name!r} is {what}")
    return module
