# loses 4.1 · message: "p comes first"
import torch


def bn_scale_shift(bn):
    p = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)
    return bn.bias.detach() - p * bn.running_mean, p
