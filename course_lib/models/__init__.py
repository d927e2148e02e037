"""Small models to prune."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

from course_lib.models.convnet import SmallConvNet
from course_lib.models.lenet import LeNet300

__all__ = ["LeNet300", "SmallConvNet", "build"]


class HasShape(Protocol):
    """What ``build`` needs to know of a data set (an ``ImageData`` has both)."""

    classes: int

    @property
    def shape(self) -> tuple[int, int, int]: ...


def build(name: str, data: HasShape, seed: int = 0) -> nn.Module:
    """A fresh model that fits ``data``, initialised from ``seed`` without touching the global random state."""
    channels, height, width = data.shape
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if name == "lenet300":
            return LeNet300(channels * height * width, data.classes)
        if name == "convnet":
            return SmallConvNet(channels, data.classes)
    raise ValueError(f'unknown model {name!r}: there are "lenet300" and "convnet"')
