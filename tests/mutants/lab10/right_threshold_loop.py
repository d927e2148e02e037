# keeps 10.3
import torch


def threshold_policy(scores, theta, token_mask):
    keep = torch.zeros_like(token_mask)
    for b in range(scores.shape[0]):
        n = int(token_mask[b].sum())
        for i in range(scores.shape[1]):
            keep[b, i] = i == 0 or (bool(token_mask[b, i]) and n * float(scores[b, i]) >= theta)
    return keep
