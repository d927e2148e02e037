# loses 7.8 · message: "let a wrong version pass"
import torch


def find_bug(f):
    torch.manual_seed(0)
    x, W = torch.randn(2, 5, 12).double(), torch.eye(12).double()
    assert torch.allclose(f(x, W, W, W, W, 3), attention_as_sum(x, W, W, W, W, 3))
