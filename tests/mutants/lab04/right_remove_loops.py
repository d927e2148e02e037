# keeps 4.3
import copy

import torch
from torch import nn


def remove_filters(conv, bn, next_conv, keep):
    last = -1
    for i in keep:
        if i <= last or i > conv.weight.size(0) - 1:
            raise ValueError(f"channel {i}")
        last = i
    if last == -1:
        raise ValueError("nothing kept")
    layers = copy.deepcopy((conv, bn, next_conv))

    def pick(tensor, dim=0):
        return torch.stack([tensor.detach().select(dim, i) for i in keep], dim)

    layers[0].weight = nn.Parameter(pick(conv.weight))
    if conv.bias is not None:
        layers[0].bias = nn.Parameter(torch.index_select(conv.bias.detach(), 0, torch.tensor(keep)))
    for name, parameter in bn.named_parameters():
        setattr(layers[1], name, nn.Parameter(pick(parameter)))
    layers[1].register_buffer("running_mean", pick(bn.running_mean))
    layers[1].register_buffer("running_var", pick(bn.running_var))
    layers[2].weight = nn.Parameter(pick(next_conv.weight, 1))
    layers[0].out_channels = len(keep)
    layers[1].num_features = len(keep)
    layers[2].in_channels = len(keep)
    return layers
