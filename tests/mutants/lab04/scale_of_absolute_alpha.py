# loses 4.1 · message: "α lost its sign"
import torch


def bn_scale_shift(bn):
    p = bn.weight.detach().abs() / torch.sqrt(bn.running_var + bn.eps)
    return p, bn.bias.detach() - p * bn.running_mean
