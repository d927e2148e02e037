# keeps 4.6
import numpy as np
import torch


def cascade(keep, next_weight, constant=None):
    w, k = next_weight.numpy(), keep.numpy()
    if k.dtype != bool or k.shape != w.shape[1:2] or (constant is not None and constant.numpy().shape != k.shape):
        raise ValueError("keep or constant")
    useful = np.broadcast_to(k[:, None, None], w.shape).copy()
    zero = np.zeros(len(k), w.dtype)
    gone = zero if constant is None else np.where(k, zero, constant.numpy()).astype(w.dtype)
    return [torch.from_numpy(useful), torch.from_numpy(w.sum(axis=(2, 3)) @ gone)]
