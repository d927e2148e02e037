"""Lab 09, layers and subnetworks: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning import layers as library

# of which a model is handed in
lab = Contract("lab09", imports=("transformers.models.bert.modeling_bert",))


@lab.asks("9.1", plain=False)
def layerdrop(
    layers: nn.ModuleList, p: float, generator: torch.Generator
) -> AbstractContextManager[None]:
    """9.1: each call of a training layer is skipped with probability p."""
    return library.layerdrop(layers, p, generator)


@lab.asks("9.2")
def layers_to_keep(layers: int, depth: int) -> list[int]:
    """9.2: evenly spaced, the first among them."""
    return library.layers_to_keep(layers, depth)


@lab.asks("9.3", plain=False)
def gated_mlps(model: nn.Module, nu: Tensor) -> AbstractContextManager[None]:
    """9.3: the output of every feed-forward block times its gate."""
    return library.gated_mlps(model, nu)


@lab.asks("9.3", plain=False)
def joint_importance(
    model: nn.Module, batches: Iterable[Any], loss_fn: Callable[[nn.Module, Any], Tensor]
) -> tuple[Tensor, Tensor]:
    """9.3: heads and feed-forward blocks from one backward pass."""
    return library.joint_importance(model, batches, loss_fn)


lab.helps("gated_mlps", "gated", of="parts")


@lab.asks("9.4", plain=False)
def prune_while(
    evaluate: Callable[[Tensor, Tensor], float],
    importance: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    layers: int,
    heads: int,
    share: float = 0.9,
    step: float = 0.1,
) -> list[tuple[Tensor, Tensor, float]]:
    """9.4: prune round by round, while enough of the score is left."""
    return library.prune_while(evaluate, importance, layers, heads, share, step)


@lab.asks("9.5", plain=False)
def subnetworks(
    xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, generator: torch.Generator
) -> dict[str, tuple[Tensor, Tensor]]:
    """9.5: good, random and bad, of the same sizes."""
    return library.subnetworks(xi, nu, I_h, I_mlp, generator)


@lab.asks("9.6")
def overlap(a: Tensor, b: Tensor) -> tuple[int, float]:
    """9.6: the number shared, and the number expected of random masks."""
    return library.overlap(a, b)


lab.asks("9.7", "answer_9_7a", "answer_9_7b")
