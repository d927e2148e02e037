# loses 4.1 · message: "μ was multiplied by α, not by p"
import torch


def bn_scale_shift(bn):
    alpha, beta = bn.weight.detach(), bn.bias.detach()
    return alpha / torch.sqrt(bn.running_var + bn.eps), beta - alpha * bn.running_mean
