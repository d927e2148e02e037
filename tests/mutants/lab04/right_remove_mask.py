# keeps 4.3
import copy

import torch


@torch.no_grad()
def remove_filters(conv, bn, next_conv, keep):
    n = conv.out_channels
    mask = torch.tensor([i in keep for i in range(n)])
    if not len(keep) or int(mask.sum()) != len(keep) or mask.nonzero().flatten().tolist() != list(keep):
        raise ValueError("keep: indices, strictly increasing")
    small = [copy.deepcopy(layer) for layer in (conv, bn, next_conv)]
    for tensor in [small[0].weight, small[0].bias, small[1].weight, small[1].bias]:
        if tensor is not None:
            tensor.data = tensor.data[mask]
    for name in ("running_mean", "running_var"):
        setattr(small[1], name, getattr(small[1], name)[mask])
    small[2].weight.data = small[2].weight.data[:, mask].contiguous()
    small[0].out_channels = small[1].num_features = small[2].in_channels = int(mask.sum())
    return small
