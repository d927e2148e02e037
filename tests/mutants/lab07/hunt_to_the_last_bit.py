# loses 7.8 · message: "accused a right version"
import torch


def find_bug(f):
    torch.manual_seed(0)
    for B, L, E, heads in ((2, 5, 12, 3), (3, 4, 8, 4)):
        x, W = torch.randn(B, L, E), [torch.randn(E, E) for _ in range(4)]
        assert torch.equal(f(x, *W, heads), attention_as_sum(x, *W, heads))
