# loses 4.1 · message: "ε was added to the root"
def bn_scale_shift(bn):
    p = bn.weight.detach() / (bn.running_var.sqrt() + bn.eps)
    return p, bn.bias.detach() - p * bn.running_mean
