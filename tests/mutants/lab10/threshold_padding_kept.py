# loses 10.3 · message: "padding was kept"
import torch


def threshold_policy(scores, theta, token_mask):
    n = token_mask.sum(1, keepdim=True)
    keep = n * scores >= theta
    keep[:, 0] = True
    return keep
