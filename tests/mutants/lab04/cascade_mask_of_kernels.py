# loses 4.6 · message: "one entry for each weight"
import torch


def cascade(keep, next_weight, constant=None):
    channels = next_weight.shape[1]
    if keep.dtype != torch.bool or keep.shape != (channels,):
        raise ValueError("keep")
    if constant is not None and constant.shape != (channels,):
        raise ValueError("constant")
    constant = torch.zeros(channels) if constant is None else constant
    constant = constant.to(next_weight.dtype)
    shift = next_weight.sum((2, 3)) @ (constant * ~keep)
    return keep.expand(len(next_weight), channels).clone(), shift
