# keeps 10.3
import torch


def threshold_policy(scores, theta, token_mask):
    keep = scores >= theta / token_mask.sum(dim=1, keepdim=True)
    keep = torch.logical_and(keep, token_mask)
    keep[:, 0] = True
    return keep
