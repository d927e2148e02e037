# loses 4.1 · message: "ε was taken to be 1e-5"
import torch


def bn_scale_shift(bn):
    p = bn.weight.detach() / torch.sqrt(bn.running_var + 1e-5)
    return p, bn.bias.detach() - p * bn.running_mean
