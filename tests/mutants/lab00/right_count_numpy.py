# keeps 0.3
import numpy as np


def nonzero_macs(weight, x, stride=1, padding=0):
    w, a = weight.numpy() != 0, x.numpy() != 0
    if w.ndim != a.ndim or w.shape[1] != a.shape[1]:
        raise ValueError("the shapes do not belong together")
    if w.ndim == 2:
        return int(w.sum(0) @ a.sum(0))
    a = np.pad(a, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(a, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return int((w.sum(0) * windows.sum((0, 2, 3))).sum())
