# loses 10.3 · message: "[CLS] stays whatever"
import torch


def threshold_policy(scores, theta, token_mask):
    n = token_mask.sum(1, keepdim=True)
    return (n * scores >= theta) & token_mask
