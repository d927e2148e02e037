# loses 4.6 · message: "should have shape"
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
    shift = torch.einsum("mcrs,c->mrs", next_weight, constant * ~keep)
    return useful, shift
