# loses 4.1 · message: "changed running_var"
def bn_scale_shift(bn):
    p = bn.weight.detach() / bn.running_var.add_(bn.eps).sqrt_()
    return p, bn.bias.detach() - p * bn.running_mean
