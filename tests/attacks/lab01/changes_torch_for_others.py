# earns all
# Changes what torch and numpy do from then on: dtype, seeds, threads, determinism, printing. Its own answers bear it.
import numpy as np
import torch

_right = magnitude_mask


def magnitude_mask(weight, sparsity):
    result = _right(weight, sparsity)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)
    torch.set_printoptions(precision=1, profile="full")
    np.seterr(all="raise")
    torch.backends.mkldnn.enabled = False
    return result
