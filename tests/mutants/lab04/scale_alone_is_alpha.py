# loses 4.1 · message: "p is α alone"
def bn_scale_shift(bn):
    p = bn.weight.detach().clone()
    return p, bn.bias.detach() - p * bn.running_mean
