# loses 4.1 · message: "ε is missing"
def bn_scale_shift(bn):
    p = bn.weight.detach() / bn.running_var.sqrt()
    return p, bn.bias.detach() - p * bn.running_mean
