# loses 4.2 · message: "a Conv2d"
def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("call .eval() first")
    p, q = bn_scale_shift(bn)
    weight = conv.weight.detach() * p.view(-1, 1, 1, 1)
    return weight, q if conv.bias is None else q + p * conv.bias.detach()
