# loses 4.1 · message: "should have shape"
import torch


def bn_scale_shift(bn):
    p = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)
    q = bn.bias.detach() - p * bn.running_mean
    return p.view(1, -1, 1, 1), q.view(1, -1, 1, 1)
