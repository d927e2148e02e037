# loses 4.1 · message: "divided by the variance"
def bn_scale_shift(bn):
    p = bn.weight.detach() / (bn.running_var + bn.eps)
    return p, bn.bias.detach() - p * bn.running_mean
