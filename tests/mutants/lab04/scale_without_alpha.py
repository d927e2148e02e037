# loses 4.1 · message: "α is missing"
import torch


def bn_scale_shift(bn):
    p = 1 / torch.sqrt(bn.running_var + bn.eps)
    return p, bn.bias.detach() - p * bn.running_mean
