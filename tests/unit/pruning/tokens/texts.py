"""Random attention and scores over padded texts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def mask_of(lengths: Sequence[int], L: int) -> Tensor:
    return torch.arange(L) < torch.tensor(lengths)[:, None]  # (B, L)


def attention(rng: torch.Generator, B: int, M: int, L: int, token_mask: Tensor) -> Tensor:
    scores = torch.randn(B, M, L, L, generator=rng, dtype=torch.float64)
    return scores.masked_fill(~token_mask[:, None, None, :], -math.inf).softmax(-1)


def scores_of(rng: torch.Generator, token_mask: Tensor) -> Tensor:
    raw = torch.rand(token_mask.shape, generator=rng, dtype=torch.float64) * token_mask
    return raw / raw.sum(1, keepdim=True)
