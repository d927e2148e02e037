# loses 4.1 · message: "changed weight"
import torch


def bn_scale_shift(bn):
    p, q = bn.weight.data, bn.bias.data
    p /= torch.sqrt(bn.running_var + bn.eps)
    q -= p * bn.running_mean
    return p.clone(), q.clone()
