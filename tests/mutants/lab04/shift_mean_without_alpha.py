# loses 4.1 · message: "α is forgotten there"
import torch


def bn_scale_shift(bn):
    root = torch.sqrt(bn.running_var + bn.eps)
    return bn.weight.detach() / root, bn.bias.detach() - bn.running_mean / root
