# loses 4.8 · message: "the mean of the kernel"
import torch


def find_bug(f):
    torch.manual_seed(1)
    for m, c in ((4, 6), (5, 5)):
        weight, keep, constant = torch.randn(m, c, 1, 1), torch.arange(c) % 2 > 0, torch.rand(c) + 1
        useful, shift = f(keep, weight, constant)
        assert useful.shape == weight.shape and (useful == keep.view(1, -1, 1, 1)).all()
        assert torch.allclose(shift, weight[:, :, 0, 0] @ (constant * ~keep), atol=1e-4)
