"""A small convolutional net with batch norm: big enough to have something to prune,
small enough to train in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.fx
from torch import Tensor, nn
from torch.nn import functional as F


# one step to torch.fx, which does not know the size of the image that the branch depends on
@torch.fx.wrap
def halve_large_maps(x: Tensor, block: int) -> Tensor:
    """2x2 max pooling behind block ``block`` (from 1), where the maps (B, M, H, W) are
    large enough for it.
    """
    size = min(x.shape[-2:])
    return F.max_pool2d(x, 2) if size > 16 or (block % 2 == 0 and size >= 8) else x


class SmallConvNet(nn.Module):
    """3x3 convolutions with batch norm and ReLU, a global average, one linear layer.

    The layers are ``conv1``, ``bn1``, ``conv2``, ``bn2``, … and ``fc``. A convolution
    has no bias: the shift of the batch norm behind it does that job. 2x2 max pooling
    halves the maps after every second block while they are at least 8x8, and after any
    block while they are larger than 16x16. With the default widths the last maps are 4x4
    for an 8x8 image, 7x7 for 28x28, 8x8 for 32x32.

    Args:
        in_channels: C of the images. classes: how many.
        widths: filters M of each convolution, 1 or more; its length is the depth.
    """

    def __init__(
        self, in_channels: int = 1, classes: int = 10, widths: Sequence[int] = (32, 32, 64, 64)
    ) -> None:
        super().__init__()
        if not widths or min(widths) < 1:
            raise ValueError(f"widths are filters of each convolution, 1 or more; got {widths}")
        self.depth = len(widths)
        for i, (c, m) in enumerate(zip([in_channels, *widths[:-1]], widths, strict=True), start=1):
            self.add_module(f"conv{i}", nn.Conv2d(c, m, 3, padding=1, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(m))
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(1, self.depth + 1):  # x: (B, C, H, W)
            # (B, M, H, W)
            x = F.relu(self.get_submodule(f"bn{i}")(self.get_submodule(f"conv{i}")(x)))
            if i < self.depth:
                x = halve_large_maps(x, i)  # (B, M, H // 2, W // 2), or as it is
        return self.fc(x.mean((2, 3)))  # (B, M) -> (B, classes)
