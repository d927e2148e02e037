"""Small models to prune. They know nothing of data sets or masks: plain modules that
take images and return logits.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from course_lib import devices
from course_lib.models.convnet import SmallConvNet
from course_lib.models.initial import weights_from
from course_lib.models.lenet import LeNet300

__all__ = ["LeNet300", "SmallConvNet", "build"]


def build(name: str, data: Any, seed: int = 0) -> nn.Module:
    """A fresh model for ``data`` on the course's device, initialised from ``seed``; the global
    random state stays as it was.

    Args:
        name: "lenet300" (LeNet-300-100) or "convnet" (SmallConvNet).
        data: what has ``classes`` and the ``shape`` (C, H, W) of an image, such as what
            ``course_lib.data.images.load`` returns.
    """
    if name not in ("lenet300", "convnet"):
        raise ValueError(f'there is no model {name!r}: choose "lenet300" or "convnet"')
    channels, height, width = data.shape
    with weights_from(seed):
        if name == "convnet":
            return SmallConvNet(channels, data.classes).to(devices.current())
        return LeNet300(channels * height * width, data.classes).to(devices.current())
