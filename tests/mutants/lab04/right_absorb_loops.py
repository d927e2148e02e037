# keeps 4.4
import torch


def absorb_removed(conv, bn, next_conv, keep):
    channels = conv.out_channels
    if not keep or any(a >= b for a, b in zip(keep, keep[1:])) or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    gone = [i for i in range(channels) if i not in keep]
    shifts = []
    for m in range(next_conv.out_channels):
        shift = 0.0
        for c in gone:
            beta = float(bn.bias[c])
            if beta > 0:
                shift += beta * float(next_conv.weight[m, c].sum())
        shifts.append(shift)
    return torch.tensor(shifts)
