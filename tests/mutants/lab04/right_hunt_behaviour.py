# keeps 4.8
import torch
from torch.nn import functional as F


def find_bug(f):
    """What a convolution gives with all channels is what the useful weights give, plus the shift."""
    generator = torch.Generator().manual_seed(5)
    for m, c, r, s in ((3, 5, 2, 3), (4, 4, 3, 3)):
        weight = torch.randn(m, c, r, s, generator=generator, dtype=torch.float64)
        keep = torch.tensor([True, False, True, True, False][:c])
        constant = torch.rand(c, generator=generator, dtype=torch.float64) + 0.5
        x = torch.randn(2, c, 7, 8, generator=generator, dtype=torch.float64)
        x[:, ~keep] = constant[~keep].view(1, -1, 1, 1)
        useful, shift = f(keep, weight, constant)
        assert useful.dtype == torch.bool and useful.shape == weight.shape, "no mask"
        assert torch.equal(useful.any((0, 2, 3)), keep), "which channels?"
        with_all = F.conv2d(x, weight)
        without = F.conv2d(x, weight * useful, shift)
        assert torch.allclose(with_all, without), "not the same output"
