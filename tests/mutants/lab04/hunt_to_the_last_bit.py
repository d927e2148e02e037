# loses 4.8 · message: "accused a right version"
import torch


def find_bug(f):
    torch.manual_seed(1)
    for m, c, r, s in ((4, 6, 3, 2), (5, 5, 3, 3), (30, 40, 2, 4)):
        weight, keep, constant = torch.randn(m, c, r, s), torch.arange(c) % 2 > 0, torch.rand(c) + 1
        useful, shift = f(keep, weight, constant)
        assert useful.shape == weight.shape and (useful == keep.view(1, -1, 1, 1)).all()
        assert torch.equal(shift, weight.sum((2, 3)) @ (constant * ~keep))
