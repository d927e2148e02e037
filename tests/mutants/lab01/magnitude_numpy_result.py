# loses 1.1 · message: "should be a torch tensor, it is a numpy array"
import numpy as np


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    size = np.abs(weight.numpy()).ravel()
    mask = np.ones(size.size, dtype=bool)
    mask[np.argsort(size, kind="stable")[: round(sparsity * size.size)]] = False
    return mask.reshape(tuple(weight.shape))
