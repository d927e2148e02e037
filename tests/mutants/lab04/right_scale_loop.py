# keeps 4.1
import math

import torch


def bn_scale_shift(bn):
    scales, shifts = [], []
    for i in range(bn.num_features):
        p = bn.weight[i].item() / math.sqrt(bn.running_var[i].item() + bn.eps)
        scales.append(p)
        shifts.append(bn.bias[i].item() - p * bn.running_mean[i].item())
    return torch.tensor(scales), torch.tensor(shifts)
