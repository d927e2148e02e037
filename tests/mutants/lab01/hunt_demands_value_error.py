# loses 1.9 · message: "find_bug accused a right version (one that sorts)"
import torch


def find_bug(f):
    for w in (torch.randn(5, 3), torch.ones(5, 3)):
        for s in (0.0, 0.1, 0.3, 0.5, 0.77, 1.0):
            mask = f(w, s)
            assert mask.shape == w.shape and mask.dtype == torch.bool
            assert int((~mask).sum()) == round(s * 15)
            if mask.any() and not mask.all():
                assert w[mask].abs().min() >= w[~mask].abs().max()
    for bad in (-0.1, 1.1):
        try:
            f(torch.ones(4), bad)
        except ValueError:
            continue
        raise AssertionError("bad sparsity accepted")
