# loses 4.1 · message: "without gradient"
import torch


def bn_scale_shift(bn):
    p = bn.weight / torch.sqrt(bn.running_var + bn.eps)
    return p, bn.bias - p * bn.running_mean
