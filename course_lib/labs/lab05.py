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
_SEMI = (*_PRUNE, "torch.sparse.to_sparse_semi_structured")


@lab.asks("5.1", forbidden=_PRUNE)
def nm_mask(weight: Tensor, n: int, m: int, dim: int) -> Tensor:
    """5.1: in every block of m neighbours the n largest |w| stay."""
    return nm.nm_mask(weight, n, m, dim)


@lab.asks("5.2", forbidden=_SEMI)
def nm_compress(weight: Tensor, n: int, m: int) -> tuple[Tensor, Tensor]:
    """5.2: the values of every block, and their places in it."""
    return block_formats.nm_compress(weight, n, m)


@lab.asks("5.2", forbidden=_SEMI)
def nm_decompress(values: Tensor, index: Tensor, n: int, m: int) -> Tensor:
    """5.2: the matrix again."""
    return block_formats.nm_decompress(values, index, n, m)


@lab.asks("5.2", forbidden=_SEMI)
def nm_bits(rows: int, columns: int, n: int, m: int, bits: int = 32) -> int:
    """5.2: n·(bits + ⌈log₂ m⌉) a block."""
    return block_formats.nm_bits(rows, columns, n, m, bits)


@lab.asks("5.3", forbidden=_SEMI)
def nm_linear(x: Tensor, values: Tensor, index: Tensor, n: int, m: int) -> Tensor:
    """5.3: x·Wᵀ from the compressed form."""
    return block_formats.nm_linear(x, values, index, n, m)


@lab.asks("5.4", optional=True)
def group_columns(weight: Tensor, size: int, gamma: float) -> list[list[int]]:
    """5.4: dense columns first, each to the group that is then fullest."""
    return columns.group_columns(weight, size, gamma)


@lab.asks("5.5", optional=True)
def combine_columns(weight: Tensor, groups: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """5.5: in each row of a group the largest stays."""
    return columns.combine_columns(weight, groups)


@lab.asks("5.6", forbidden=_PRUNE)
def topk_activation(x: Tensor, k: int) -> Tensor:
    """5.6: of each sample the k largest |x|."""
    return selection.topk_activation(x, k)


@lab.asks("5.6", forbidden=_PRUNE)
def nm_activation(x: Tensor, n: int, m: int, dim: int = 1) -> Tensor:
    """5.6: of every m neighbours the n largest |x|."""
    return selection.nm_activation(x, n, m, dim)


@lab.asks("5.7", plain=False)
class ChannelGate(gates.ChannelGate):
    """5.7: open or closed, by image."""


@lab.asks("5.7", plain=False)
def gated_macs(gates_: list[Tensor], dense: list[float]) -> Tensor:
    """5.7: multiply-accumulates of each image."""
    return gates.gated_macs(gates_, dense)


@lab.asks("5.8", forbidden=_PRUNE)
def joint_nm(x: Tensor, weight: Tensor, n_x: int, n_w: int, m: int) -> tuple[Tensor, int]:
    """5.8: weights and activations by N:M, and the products that are left."""
    sparse_x, sparse_w = (
        selection.nm_activation(x, n_x, m, 1),
        weight.masked_fill(~nm.nm_mask(weight, n_w, m, 1), 0),
    )
    return torch.nn.functional.linear(sparse_x, sparse_w), block_formats.joint_products(
        sparse_x, sparse_w
    )


lab.asks("5.9", "answer_5_9a", "answer_5_9b")
lab.asks("5.10", "find_bug", optional=True)
