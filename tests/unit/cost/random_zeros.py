"""Tensors with zeros in random places, for counts of what is left."""

from __future__ import annotations

import torch


def sparse(*shape: int, p: float = 0.5, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator) * (torch.rand(shape, generator=generator) >= p)
