# loses 4.4 · message: "only one weight of each kernel"
def absorb_removed(conv, bn, next_conv, keep):
    channels = conv.out_channels
    if not keep or any(a >= b for a, b in zip(keep, keep[1:])) or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    gone = [i for i in range(channels) if i not in keep]
    w = next_conv.weight.detach()[:, gone]
    return w[:, :, w.shape[2] // 2, w.shape[3] // 2] @ bn.bias.detach()[gone].relu()
