# loses 10.3 · message: "a real token may have the score 0"
import torch


def threshold_policy(scores, theta, token_mask):
    n = (scores > 0).sum(1, keepdim=True)
    keep = (n * scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
