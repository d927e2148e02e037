# loses 10.3 · message: "your function changed token_mask"
import torch


def threshold_policy(scores, theta, token_mask):
    n = token_mask.sum(1, keepdim=True)
    token_mask &= n * scores >= theta
    token_mask[:, 0] = True
    return token_mask
