# keeps 4.6
import torch


def cascade(keep, next_weight, constant=None):
    M, C, R, S = next_weight.shape
    if keep.dtype != torch.bool or keep.shape != (C,) or (constant is not None and constant.shape != (C,)):
        raise ValueError("shapes")
    useful = torch.empty(M, C, R, S, dtype=torch.bool)
    shift = torch.zeros(M, dtype=next_weight.dtype)
    for m in range(M):
        for c in range(C):
            useful[m, c] = bool(keep[c])
            if not keep[c] and constant is not None:
                shift[m] += float(constant[c]) * next_weight[m, c].sum()
    return useful, shift
