# loses 4.8 · message: "as many of both"
import torch


def find_bug(f):
    torch.manual_seed(1)
    for _ in range(5):
        weight, keep, constant = torch.randn(4, 6, 3, 2), torch.rand(6) > 0.5, torch.rand(6) + 1
        useful, shift = f(keep, weight, constant)
        assert useful.shape == weight.shape and (useful == keep.view(1, -1, 1, 1)).all()
        assert torch.allclose(shift, weight.sum((2, 3)) @ (constant * ~keep), atol=1e-4)
