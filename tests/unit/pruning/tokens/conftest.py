from __future__ import annotations

import pytest
import torch


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)
