# loses 10.3 · message: "your function changed the scores"
import torch


def threshold_policy(scores, theta, token_mask):
    n = token_mask.sum(1, keepdim=True)
    scores *= n
    keep = (scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
