# loses 10.3 · message: "is wrong"
import torch


def threshold_policy(scores, theta, token_mask):
    order = scores.argsort(dim=1, descending=True, stable=True)
    mass = scores.gather(1, order).cumsum(1)
    keep = torch.zeros_like(token_mask).scatter(1, order, mass <= theta) & token_mask
    keep[:, 0] = True
    return keep
