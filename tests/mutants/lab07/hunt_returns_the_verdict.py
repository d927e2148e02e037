# loses 7.8 · message: "speaks by raising"
import torch


def find_bug(f):
    torch.manual_seed(0)
    x, W = torch.randn(2, 5, 12).double(), [torch.randn(12, 12).double() for _ in range(4)]
    return torch.allclose(f(x, *W, 3), attention_as_sum(x, *W, 3))
