"""Lab 05, between single weights and whole filters: its contracts answered by the
library.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.cost import block_formats
from course_lib.labs.contract import Contract
from course_lib.pruning.activations import gates, selection
from course_lib.pruning.weights import columns, nm

lab = Contract("lab05")
_PRUNE = ("torch.nn.utils.prune", "torch.ao.pruning", "torch_pruning")


@lab.asks("5.1", forbidden=_PRUNE)
def nm_mask(weight: Tensor, n: int, m: int, dim: int) -> Tensor:
    """5.1: in every block of m neighbours the n largest |w| stay."""
    return nm.nm_mask(weight, n, m, dim)


@lab.asks("5.2")
def combine_columns(weight: Tensor, groups: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """5.2: in each row of a group the largest stays."""
    return columns.combine_columns(weight, groups)


@lab.asks("5.3", forbidden=_PRUNE)
def topk_activation(x: Tensor, k: int) -> Tensor:
    """5.3: of each sample the k largest |x|."""
    return selection.topk_activation(x, k)


@lab.asks("5.3", forbidden=_PRUNE)
def nm_activation(x: Tensor, n: int, m: int, dim: int = 1) -> Tensor:
    """5.3: of every m neighbours the n largest |x|."""
    return selection.nm_activation(x, n, m, dim)


@lab.asks("5.4", plain=False)
class ChannelGate(gates.ChannelGate):
    """5.4: open or closed, by image."""


@lab.asks("5.5", forbidden=_PRUNE)
def joint_nm(x: Tensor, weight: Tensor, n_x: int, n_w: int, m: int) -> tuple[Tensor, int]:
    """5.5: weights and activations by N:M, and the products that are left."""
    sparse_x, sparse_w = (
        selection.nm_activation(x, n_x, m, 1),
        weight.masked_fill(~nm.nm_mask(weight, n_w, m, 1), 0),
    )
    return torch.nn.functional.linear(sparse_x, sparse_w), block_formats.joint_products(
        sparse_x, sparse_w
    )


lab.asks("5.6", "answer_5_6")
