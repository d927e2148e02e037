"""A small convolutional net with batch norm."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F


class SmallConvNet(nn.Module):
    """3x3 convolutions with batch norm and ReLU, a global average, one linear layer; for images of 8x8 to 32x32."""

    def __init__(self, in_channels: int = 1, classes: int = 10, widths: Sequence[int] = (32, 32, 64, 64)) -> None:
        super().__init__()
        self.depth = len(widths)
        for i, (c, m) in enumerate(zip([in_channels, *widths[:-1]], widths, strict=True), start=1):
            self.add_module(f"conv{i}", nn.Conv2d(c, m, 3, padding=1, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(m))
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(1, self.depth + 1):
            x = F.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))  # (B, M, E, F)
            if min(x.shape[-2:]) >= 8:
                x = F.max_pool2d(x, 2)
        return self.fc(x.mean((2, 3)))  # (B, classes)
