# loses 4.6 · message: "should raise a ValueError"
import torch


def cascade(keep, next_weight, constant=None):
    channels = next_weight.shape[1]
    if keep.dtype != torch.bool:
        keep = torch.zeros(channels).index_fill(0, keep.long(), 1).bool()
    if len(keep) != channels:
        raise ValueError("keep")
    if constant is None:
        constant = torch.zeros(channels)
    if constant.shape != (channels,):
        raise ValueError("constant")
    constant = constant.to(next_weight.dtype)
    useful = keep.view(1, -1, 1, 1).expand_as(next_weight).clone()
    shift = next_weight.sum((2, 3)) @ (constant * ~keep)
    return useful, shift
