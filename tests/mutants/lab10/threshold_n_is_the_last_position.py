# loses 10.3 · message: "padding may stand between"
import torch


def threshold_policy(scores, theta, token_mask):
    n = (torch.arange(1, scores.shape[1] + 1) * token_mask).amax(1, keepdim=True)
    keep = (n * scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
