"""Initial weights that follow from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def weights_from(seed: int) -> Iterator[None]:
    """Modules made on the CPU inside the block draw from ``seed``; torch's state stays."""
    with torch.random.fork_rng(devices=[]):
        # the CPU's alone: torch.manual_seed would reseed the GPU as well
        torch.default_generator.manual_seed(seed)
        yield
