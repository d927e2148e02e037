# loses 4.4 · message: "a torch tensor"
def absorb_removed(conv, bn, next_conv, keep):
    channels = conv.out_channels
    if not keep or any(a >= b for a, b in zip(keep, keep[1:])) or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    gone = [i for i in range(channels) if i not in keep]
    shift = 0
    for i in gone:
        shift = shift + next_conv.weight.detach()[:, i].sum((1, 2)) * max(bn.bias[i].item(), 0)
    return shift
