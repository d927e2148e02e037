# loses 10.3 · message: "[CLS] stays whatever"
import torch


def threshold_policy(scores, theta, token_mask):
    n = token_mask.sum(1, keepdim=True)
    keep = (n * scores >= theta) & token_mask
    keep[:, 0] |= ~keep.any(1)
    return keep
