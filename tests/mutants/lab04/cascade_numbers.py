# loses 4.6 · message: "bool"
import torch


def cascade(keep, next_weight, constant=None):
    channels = next_weight.shape[1]
    if keep.dtype != torch.bool or keep.shape != (channels,):
        raise ValueError("keep")
    if constant is not None and constant.shape != (channels,):
        raise ValueError("constant")
    constant = torch.zeros(channels) if constant is None else constant
    constant = constant.to(next_weight.dtype)
    useful = keep.view(1, -1, 1, 1).expand_as(next_weight).clone()
    shift = next_weight.sum((2, 3)) @ (constant * ~keep)
    return useful.float(), shift
