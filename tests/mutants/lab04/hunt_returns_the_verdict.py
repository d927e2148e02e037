# loses 4.8 · message: "speaks by raising"
import torch


def find_bug(f):
    torch.manual_seed(1)
    for m, c, r, s in ((4, 6, 3, 2), (5, 5, 3, 3), (3, 4, 2, 4)):
        weight, keep, constant = torch.randn(m, c, r, s), torch.arange(c) % 2 > 0, torch.rand(c) + 1
        useful, shift = f(keep, weight, constant)
        if useful.shape != weight.shape or not torch.allclose(
            shift, weight.sum((2, 3)) @ (constant * ~keep), atol=1e-4
        ):
            return False
    return True
