"""Small models to prune. They know nothing of data sets or masks: plain modules that
take images and return logits.
"""

from __future__ import annotations

from typing import Protocol

from torch import nn

from course_lib import devices
from course_lib.models.convnet import SmallConvNet
from course_lib.models.initial import weights_from
from course_lib.models.lenet import LeNet300

__all__ = ["LeNet300", "SmallConvNet", "build"]


class ImageShaped(Protocol):
    """What ``build`` has to know of a data set: its classes, and the (C, H, W) of an
    image.
    """

    @property
    def classes(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int, int]: ...


def build(name: str, data: ImageShaped, seed: int = 0) -> nn.Module:
    """A fresh model for ``data`` on the course's device, initialised from ``seed``; the global
    random state stays as it was.

    Args:
        name: "lenet300" (LeNet-300-100) or "convnet" (SmallConvNet).
        data: anything with ``shape`` (C, H, W) and ``classes``, such as what
            ``course_lib.data.images.load`` returns.
        seed: the same seed gives the same weights.

    Raises:
        ValueError: if there is no model of that name.
    """
    channels, height, width = data.shape
    with weights_from(seed):
        if name == "lenet300":
            return LeNet300(channels * height * width, data.classes).to(devices.current())
        if name == "convnet":
            return SmallConvNet(channels, data.classes).to(devices.current())
    raise ValueError(f'there is no model {name!r}: choose "lenet300" or "convnet"')
