# loses 7.8 · message: "let a wrong version pass"
import torch


def find_bug(f):
    W = [torch.randn(12, 12) for _ in range(4)]
    assert f(torch.randn(2, 5, 12), *W, 3).shape == (3, 2, 5, 12)
