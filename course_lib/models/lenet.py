"""LeNet-300-100, the fully connected net of most pruning papers."""

from torch import Tensor, nn
from torch.nn import functional as F


class LeNet300(nn.Module):
    """Two hidden layers of 300 and 100 units with ReLU."""

    def __init__(self, in_features: int = 64, classes: int = 10, hidden: tuple[int, int] = (300, 100)) -> None:
        super().__init__()
        self.fc1 = nn.Linear(in_features, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.fc3 = nn.Linear(hidden[1], classes)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)  # (B, in_features)
        x = F.relu(self.fc1(x))  # (B, 300)
        x = F.relu(self.fc2(x))  # (B, 100)
        return self.fc3(x)  # (B, classes)
