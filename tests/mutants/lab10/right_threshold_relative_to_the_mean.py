# keeps 10.3
import torch


def threshold_policy(scores, theta, token_mask):
    average = (scores * token_mask).sum(1) / token_mask.sum(1)  # 1 / n
    first = torch.arange(scores.shape[1]) == 0
    return first | (token_mask & ~(scores / average[:, None] < theta))
