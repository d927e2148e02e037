# loses 4.6 · message: "0 · NaN is NaN"
import torch


def cascade(keep, next_weight, constant=None):
    channels = next_weight.shape[1]
    if keep.dtype != torch.bool or keep.shape != (channels,):
        raise ValueError("keep")
    if constant is not None and constant.shape != (channels,):
        raise ValueError("constant")
    constant = torch.zeros(channels) if constant is None else constant
    useful = keep.view(1, -1, 1, 1).expand_as(next_weight).clone()
    return useful, next_weight.sum((2, 3)) @ (constant * ~keep).to(next_weight.dtype)
