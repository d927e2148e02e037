"""Random numbers that follow from a seed, for a while."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int, devices: Iterable[torch.device] = ()) -> Iterator[None]:
    """Inside the block random numbers follow from ``seed``; after it the global state
    is what it was before.

    Covers torch (CPU, the current CUDA device and those among ``devices``), numpy's
    and Python's global generators. They are one per process: threads that draw from them
    at the same time share one stream, in whatever order they come.
    """
    cuda = {device.index for device in devices if device.type == "cuda"}
    if torch.cuda.is_available():
        cuda.add(torch.cuda.current_device())
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=sorted(cuda)):
            # not torch.manual_seed: it would also reseed devices whose state is not put
            # back
            torch.default_generator.manual_seed(seed)
            for index in cuda:
                torch.cuda.default_generators[index].manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
