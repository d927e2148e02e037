"""LeNet-300-100, the fully connected net on which most pruning papers begin."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class LeNet300(nn.Module):
    """Two hidden layers with ReLU: ``fc1``, ``fc2``, and ``fc3`` for the logits.
    Flattens the images it is given.

    Args:
        in_features: C*H*W of an image: 64 for digits, 784 for MNIST (then 266,200
            weights and 410 biases).
        classes: number of classes.
        hidden: units of the two hidden layers.

    Source: LeCun et al. 1998, "Gradient-based learning applied to document
    recognition", section III.
    """

    def __init__(
        self, in_features: int = 64, classes: int = 10, hidden: tuple[int, int] = (300, 100)
    ) -> None:
        super().__init__()
        first, second = hidden
        self.fc1 = nn.Linear(in_features, first)
        self.fc2 = nn.Linear(first, second)
        self.fc3 = nn.Linear(second, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)  # (B, C, H, W) -> (B, C*H*W)
        x = F.relu(self.fc1(x))  # (B, 300)
        x = F.relu(self.fc2(x))  # (B, 100)
        return self.fc3(x)  # (B, classes)
