# loses 4.1 · message: "the tuple (p, q)"
import torch


def bn_scale_shift(bn):
    p = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)
    return {"p": p, "q": bn.bias.detach() - p * bn.running_mean}
