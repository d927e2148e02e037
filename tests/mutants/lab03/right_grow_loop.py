# keeps 3.6
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if not (fraction >= 0 and fraction <= 1):
        raise ValueError("a share")
    w = [float(v) for v in weight.flatten()]
    g = [abs(float(v)) for v in dense_grad.flatten()]
    m = mask.flatten().tolist()
    on = sorted((i for i in range(len(m)) if m[i]), key=lambda i: (abs(w[i]), i))
    off = sorted((i for i in range(len(m)) if not m[i]), key=lambda i: (-g[i], i))
    k = min(round(fraction * len(on)), len(off))
    for i in off:
        w[i] = 0.0
    for i in on[:k]:
        w[i], m[i] = 0.0, False
    for i in off[:k]:
        m[i] = True
    return torch.tensor(w, dtype=weight.dtype).reshape(weight.shape), torch.tensor(m).reshape(mask.shape)
