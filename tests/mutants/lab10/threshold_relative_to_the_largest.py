# loses 10.3 · message: "the largest score"
import torch


def threshold_policy(scores, theta, token_mask):
    keep = (scores / scores.amax(1, keepdim=True) >= theta) & token_mask
    keep[:, 0] = True
    return keep
