# loses 7.8 · message: "stumbled"
import torch


def find_bug(f):
    torch.manual_seed(0)
    for B, L, E, heads in ((2, 5, 12, 3), (3, 4, 8, 4)):
        x, W = torch.randn(B, L, E).double(), [torch.randn(E, E).double() for _ in range(4)]
        if not torch.allclose(f(x, *W, heads), attention_as_sum(x, *W, heads)):
            raise ValueError("a bug")
