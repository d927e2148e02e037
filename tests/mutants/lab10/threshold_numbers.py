# loses 10.3 · message: "dtype bool"
import torch


def threshold_policy(scores, theta, token_mask):
    n = token_mask.sum(1, keepdim=True)
    keep = ((n * scores >= theta) & token_mask).float()
    keep[:, 0] = 1
    return keep
