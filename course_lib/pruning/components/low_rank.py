"""Matrices as sums of components, of which some can go: W ≈ P·diag(z)·Q, one gate z_k
for each column of P and row of Q.

A factored layer is smaller than the dense one only below r* = out·in/(out + in)
components.

Source: Wang, Wohlwend & Lei 2020, "Structured Pruning of Large Language Models",
sections 3.1 and 3.2.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.models.conv1d import REMEDY, is_conv1d
from course_lib.pruning.components.hard_concrete import HardConcrete

RANKS = "ranks.json"
WEIGHTS = "model.safetensors"


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
        linear: whose weight is factorised, and whose bias is kept. rank: how many
            components; None: all, min(out, in).
    """

    def __init__(self, linear: nn.Linear, rank: int | None = None) -> None:
        super().__init__()
        p, q = factorise(linear.weight, min(linear.weight.shape) if rank is None else rank)
        self.p, self.q = nn.Parameter(p), nn.Parameter(q)
        self.gates = HardConcrete(p.shape[1])
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

    @property
    def shape(self) -> tuple[int, int]:
        """(out, in)."""
        return self.p.shape[0], self.q.shape[1]

    @property
    def weight(self) -> Tensor:
        """(out, in), as it is computed with in evaluation."""
        return (self.p * self.gates()) @ self.q

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)."""
        return F.linear(F.linear(x, self.q) * self.gates(), self.p, self.bias)  # (…, r) between


class LowRank(nn.Sequential):
    """Two plain linear layers in a row, in -> r -> out; of r = 0 the bias is left."""

    def __init__(self, p: Tensor, q: Tensor, bias: Tensor | None) -> None:
        super().__init__(_plain(q, None), _plain(p, bias))

    @property
    def weight(self) -> Tensor:
        """(out, in)."""
        return self[1].weight @ self[0].weight  # type: ignore[operator]


def _plain(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A linear layer with these (out, in), also where one of them is 0."""
    layer = nn.Linear(1, 1, bias=bias is not None)
    layer.out_features, layer.in_features = weight.shape
    layer.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone())
    return layer


def gate_components(model: nn.Module, names: Iterable[str], rank: int | None = None) -> nn.Module:
    """A copy of the model in which every linear layer whose weight is named is a
    :class:`GatedLinear`.

    Raises:
        ValueError: if a name is not the weight of an ``nn.Linear``.
    """
    model = copy.deepcopy(model)
    for name in names:
        _replace(model, name, GatedLinear(_linear(model, name), rank))
    return model


def truncate(model: nn.Module, ranks: Mapping[str, int]) -> nn.Module:
    """A copy in which the linear layers whose weights are named have these ranks, by
    singular values alone: two plain layers each.

    Raises:
        ValueError: if a name is not the weight of an ``nn.Linear``, or a rank is not in
            0 … min(out, in).
    """
    model = copy.deepcopy(model)
    for name, rank in ranks.items():
        linear = _linear(model, name)
        if not 0 <= rank <= min(linear.weight.shape):
            raise ValueError(
                f"{name!r} is {tuple(linear.weight.shape)} and has ranks 0 …"
                f" {min(linear.weight.shape)}, got {rank}"
            )
        p, q = factorise(linear.weight, max(1, rank))
        _replace(model, name, LowRank(p[:, :rank], q[:rank], linear.bias))
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
            plain = _plain(p @ q, layer.bias)
        _replace(model, f"{path}.weight", plain)
    return model


def save_low_rank(model: nn.Module, folder: str | PathLike[str]) -> None:
    """Write a model with :class:`LowRank` layers: its weights, the ranks, and its
    configuration if it is of transformers.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, str(folder / WEIGHTS))
    config: Any = getattr(model, "config", None)
    if config is not None:
        config.architectures = [type(model).__name__]
        config.save_pretrained(folder)
    ranks = {name: m[0].out_features for name, m in model.named_modules() if isinstance(m, LowRank)}
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    (folder / RANKS).write_text(
        json.dumps({"dtype": dtype, "ranks": ranks}, indent=1) + "\n", encoding="utf-8"
    )


def load_low_rank(
    folder: str | PathLike[str], build: Callable[[], nn.Module] | None = None
) -> nn.Module:
    """The model that :func:`save_low_rank` wrote, in evaluation mode.

    Args:
        build: a function that makes the model with dense layers; None: the transformers
            class that was saved.

    Raises:
        FileNotFoundError: if there is no ``ranks.json``. ValueError: if it is not known
            what to build, or ranks do not fit it.
    """
    folder = Path(folder)
    if not (folder / RANKS).is_file():
        raise FileNotFoundError(
            f"there is no {RANKS} in {folder}: save the model with save_low_rank(model, folder)"
        )
    note = json.loads((folder / RANKS).read_text(encoding="utf-8"))
    if build is None:
        build = _saved(folder)
    model = build().to(getattr(torch, note["dtype"]))
    for path, rank in note["ranks"].items():
        linear = _linear(model, f"{path}.weight")
        rows, columns = linear.weight.shape
        _replace(
            model,
            f"{path}.weight",
            LowRank(
                linear.weight.new_zeros(rows, rank),
                linear.weight.new_zeros(rank, columns),
                linear.bias,
            ),
        )
    load_model(model, str(folder / WEIGHTS))
    return model.eval()


def _saved(folder: Path) -> Callable[[], nn.Module]:
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"{folder} holds no transformers model: pass build=, a function that makes it with"
            " dense layers"
        )
    import transformers

    name = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    cls: Any = getattr(transformers, name, None)
    if cls is None:
        raise ValueError(f"transformers has no {name}, which {folder} was saved from: pass build=")
    return lambda: cls(cls.config_class.from_pretrained(folder))


def _linear(model: nn.Module, name: str) -> nn.Linear:
    path, _, attribute = name.rpartition(".")
    module = dict(model.named_modules()).get(path)
    if attribute != "weight" or not isinstance(module, nn.Linear):
        what = f"that of {REMEDY}" if is_conv1d(module) else "not the weight of an nn.Linear of it"
        raise ValueError(f"{name!r} is {what}")
    return module


def _replace(model: nn.Module, name: str, new: nn.Module) -> None:
    parent, _, attribute = name.removesuffix(".weight").rpartition(".")
    setattr(model.get_submodule(parent), attribute, new)
