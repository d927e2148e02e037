"""Which activations stay: by size, in all of a sample or in every block; at random as
the control.

A product with a mask, so the gradient is 1 where kept and 0 elsewhere, as that of ReLU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.checks import check_count
from course_lib.pruning.weights.nm import nm_mask


def topk_activation(x: Tensor, k: int) -> Tensor:
    """Of each sample the k largest |x|, all its entries together; the others become 0.

    Args:
        x: (B, …). k: how many stay; at least all: all. Of equal |x| that with the lower
            index goes first.

    Raises:
        ValueError: if k is negative.
    """
    check_count(k, "k")
    flat = x.detach().abs().flatten(1)  # (B, entries)
    goes = flat.argsort(dim=1, stable=True)[:, : max(0, flat.shape[1] - k)]
    kept = torch.ones_like(flat, dtype=torch.bool).scatter_(1, goes, False)
    return x.masked_fill(~kept.view(x.shape), 0)


def nm_activation(x: Tensor, n: int, m: int, dim: int = 1) -> Tensor:
    """Of every m neighbours along ``dim`` the n largest |x|; see
    :func:`course_lib.pruning.weights.nm.nm_mask` for order and errors.

    Source: Zhang et al. 2024, "JointNF".
    """
    return x.masked_fill(~nm_mask(x, n, m, dim), 0)


def random_activation(x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """The control: of each sample ``round(share · entries)`` stay, drawn anew."""
    score = torch.rand(x.shape, generator=generator).to(x.device)
    kept = topk_activation(score + 1, round(share * x[0].numel())) != 0
    return x.masked_fill(~kept, 0)
