# loses 4.6 · message: "should raise a ValueError"
import torch


def cascade(keep, next_weight, constant=None):
    channels = next_weight.shape[1]
    constant = torch.zeros(channels) if constant is None else constant
    gone = ~keep.bool()
    useful = keep.bool().view(1, -1, 1, 1).expand(len(next_weight), -1, *next_weight.shape[2:]).clone()
    shift = (next_weight.sum((2, 3)) * (constant * gone).to(next_weight.dtype)).sum(1)
    return useful, shift
