# loses 10.3 · message: "the longest text"
import torch


def threshold_policy(scores, theta, token_mask):
    n = token_mask.sum(1).max()
    keep = (n * scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
