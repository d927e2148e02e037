# keeps 4.6
import torch


def cascade(keep, next_weight, constant=None):
    m, c, r, s = next_weight.shape
    if constant is None:
        constant = next_weight.new_zeros(c)
    if keep.dtype is not torch.bool or tuple(keep.shape) != (c,) or tuple(constant.shape) != (c,):
        raise ValueError("keep is bool (C,), constant (C,)")
    useful = torch.zeros_like(next_weight, dtype=torch.bool)
    useful[:, keep] = True
    gone = torch.where(keep, torch.zeros(c, dtype=next_weight.dtype), constant.to(next_weight.dtype))
    return useful, torch.einsum("mcrs,c->m", next_weight, gone)
