# loses 10.3 · message: "the mean length of the batch"
import torch


def threshold_policy(scores, theta, token_mask):
    n = token_mask.sum(1).double().mean()
    keep = (n * scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
