# loses 10.3 · message: "is wrong"
import torch


def threshold_policy(scores, theta, token_mask):
    keep = (scores >= theta * scores.mean()) & token_mask
    keep[:, 0] = True
    return keep
