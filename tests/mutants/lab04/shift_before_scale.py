# loses 4.1 · message: "β was multiplied by p"
import torch


def bn_scale_shift(bn):
    p = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)
    return p, p * (bn.bias.detach() - bn.running_mean)
