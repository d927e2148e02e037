# loses 4.8 · message: "find_bug let a wrong version pass"
import torch


def find_bug(f):
    torch.manual_seed(1)
    for m, c, r, s in ((4, 6, 3, 2), (5, 5, 3, 3), (3, 4, 2, 4)):
        weight, keep = torch.randn(m, c, r, s), torch.arange(c) % 2 > 0
        useful, shift = f(keep, weight, None)
        assert useful.shape == weight.shape and (useful == keep.view(1, -1, 1, 1)).all()
        assert not shift.any()
