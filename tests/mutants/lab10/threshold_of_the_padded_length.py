# loses 10.3 · message: "padding was counted in n"
import torch


def threshold_policy(scores, theta, token_mask):
    keep = (scores.shape[1] * scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
