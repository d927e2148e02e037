"""What pruning puts in the place of a linear layer: two smaller ones, or zeros."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from course_lib.models.conv1d import cut, sizes


class LowRank(nn.Sequential):
    """Two plain linear layers in a row, in -> r -> out; of r = 0 the bias is left."""

    def __init__(self, p: Tensor, q: Tensor, bias: Tensor | None) -> None:
        super().__init__(linear_of(q, None), linear_of(p, bias))
        self.in_features, self.out_features = q.shape[1], len(p)

    @property
    def weight(self) -> Tensor:
        """(out, in)."""
        return self[1].weight @ self[0].weight  # type: ignore[operator]

    @property
    def bias(self) -> Tensor | None:
        return self[1].bias  # type: ignore[return-value]

    def cut(self, inputs: Tensor | None, outputs: Tensor | None) -> None:
        """Keep these inputs and outputs; the rank stays."""
        cut(self[0], inputs=inputs)
        cut(self[1], outputs=outputs)
        self.in_features, self.out_features = sizes(self[0])[0], sizes(self[1])[1]


class ZeroLinear(nn.Module):
    """What is left of a linear layer without inputs or without outputs: zeros of this
    width, or as wide as the input where the width is None.

    Its weight and bias have no elements. They are saved, so that ``from_pretrained``
    alone fails on the sizes and does not make a part of random weights.
    """

    in_features = 0

    def __init__(self, width: int | None) -> None:
        super().__init__()
        self.out_features = width
        self.weight = nn.Parameter(torch.empty(width or 0, 0))
        self.bias = nn.Parameter(torch.empty(0))

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        """(…, any) -> (…, width)."""
        width = x.shape[-1] if self.out_features is None else self.out_features
        # not x.new_zeros alone: what is in front of it still has a gradient, of 0
        return x @ x.new_zeros(x.shape[-1], width)


def linear_of(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A linear layer with a copy of these (out, in), also where one of them is 0."""
    layer = nn.Linear(1, 1, bias=bias is not None)
    layer.out_features, layer.in_features = weight.shape
    layer.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone())
    return layer


def put_in_place(model: nn.Module, path: str, new: nn.Module) -> None:
    """Make ``new`` the submodule at ``path``."""
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, new)
