# keeps 7.1
import torch
from torch.nn import functional as F


def attention_as_sum(x, Wq, Wk, Wv, Wo, heads):
    E = x.shape[2]
    if E % heads != 0:
        raise ValueError(f"{heads} heads of {E} features")
    d = E // heads
    q, k, v = (torch.einsum("ble,hde->hbld", x, W.reshape(heads, d, E)) for W in (Wq, Wk, Wv))
    a = F.softmax(torch.einsum("hbld,hbmd->hblm", q, k) * d**-0.5, dim=3)
    return torch.einsum("hblm,hbmd,ehd->hble", a, v, Wo.reshape(E, heads, d))
