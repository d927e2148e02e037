# loses 10.3 · message: "without n"
import torch


def threshold_policy(scores, theta, token_mask):
    keep = (scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
