"""Training and evaluation mode, for a while. The mode is a property of every module, not of
the model: a frozen batch norm is to stay in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def restoring_modes(model: nn.Module) -> Iterator[None]:
    """After the block every module is back in the mode that it had before."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode: dropout is off and the statistics of batch norm stay."""
    with restoring_modes(model):
        model.eval()
        yield
