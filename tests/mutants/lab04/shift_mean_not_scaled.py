# loses 4.1 · message: "μ was subtracted as it is"
import torch


def bn_scale_shift(bn):
    p = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)
    return p, bn.bias.detach() - bn.running_mean
