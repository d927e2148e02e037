# loses 10.3 · message: "[CLS] is one of the n"
import torch


def threshold_policy(scores, theta, token_mask):
    n = token_mask.sum(1, keepdim=True) - 1
    keep = (n * scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
