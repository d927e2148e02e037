"""Experts of a mixture of experts: how important each one is, and the router without some of them.

Source: Lasby et al. 2025, "REAP the Experts", section 3 (importance).
"""

from __future__ import annotations

import torch
from torch import Tensor


def expert_importance(gates: Tensor, outputs: Tensor) -> Tensor:
    """Of each expert the mean of gate · ‖output‖₂ over the tokens routed to it: (X,).

    Args:
        gates: (T, X), tokens × experts, 0 where a token is not routed to an expert.
        outputs: (X, T, E). An expert to which no token is routed has importance 0.
    """
    weighted = gates.T * torch.linalg.vector_norm(outputs, dim=-1)  # (X, T)
    return weighted.sum(1) / (gates.T > 0).sum(1).clamp(min=1)


def route_to_kept(logits: Tensor, keep: Tensor, top: int) -> Tensor:
    """Gates (T, X) of a router that chooses among the kept experts: softmax over the ``top``
    largest of their logits, 0 elsewhere.

    Args:
        logits: (T, X). keep: bool (X,), True = kept.

    Raises:
        ValueError: if fewer than ``top`` experts are kept.
    """
    if int(keep.sum()) < top:
        raise ValueError(f"top is {top}, but keep has {int(keep.sum())} experts: keep more")
    values, chosen = logits.masked_fill(~keep, -torch.inf).topk(top, dim=1)  # (T, top)
    return torch.zeros_like(logits).scatter(1, chosen, values.softmax(1))
