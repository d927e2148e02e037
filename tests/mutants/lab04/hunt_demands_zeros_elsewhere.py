# loses 4.8 · message: "accused a right version"
import torch


def find_bug(f):
    torch.manual_seed(1)
    weight, keep, constant = torch.randn(5, 5, 3, 3), torch.arange(5) % 2 > 0, torch.rand(5) + 1
    useful, shift = f(keep, weight, constant)
    assert (weight[~useful] == 0).all()
    assert torch.allclose(shift, weight.sum((2, 3)) @ (constant * ~keep), atol=1e-4)
