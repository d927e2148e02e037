# loses 4.1 · message: "q is β alone"
import torch


def bn_scale_shift(bn):
    return bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps), bn.bias.detach().clone()
