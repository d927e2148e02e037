# loses 1.9 · message: "prunes all weights that equal the threshold"
import torch


def find_bug(f):
    w = torch.randn(5, 3)
    for s in (0.0, 0.1, 0.3, 0.5, 0.77, 1.0):
        mask = f(w, s)
        assert mask.shape == w.shape and mask.dtype == torch.bool
        assert int((~mask).sum()) == round(s * 15)
        if mask.any() and not mask.all():
            assert w[mask].abs().min() >= w[~mask].abs().max()
