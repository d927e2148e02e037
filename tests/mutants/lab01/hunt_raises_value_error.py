# loses 1.9 · message: "where it should say so by an AssertionError"
import torch


def find_bug(f):
    for w in (torch.randn(5, 3), torch.ones(5, 3)):
        for s in (0.0, 0.1, 0.3, 0.5, 0.77, 1.0):
            mask = f(w, s)
            if mask.shape != w.shape or int((~mask).sum()) != round(s * 15):
                raise ValueError("wrong number pruned")
            if mask.any() and not mask.all() and w[mask].abs().min() < w[~mask].abs().max():
                raise ValueError("wrong weights pruned")
