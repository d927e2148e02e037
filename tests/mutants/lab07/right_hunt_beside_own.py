# keeps 7.8
import torch


def find_bug(f):
    torch.manual_seed(3)
    for B, L, E, heads in ((2, 5, 12, 3), (3, 4, 8, 4), (2, 3, 6, 2)):
        x, W = torch.randn(B, L, E), [torch.randn(E, E) for _ in range(4)]
        mine, other = attention_as_sum(x, *W, heads), f(x, *W, heads)
        assert mine.shape == other.shape
        assert (mine - other).abs().max() < 1e-3
