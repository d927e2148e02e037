# keeps 4.2
import torch
from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("evaluation mode first, please")
    folded = nn.Conv2d(
        in_channels=conv.in_channels,
        out_channels=conv.out_channels,
        kernel_size=conv.kernel_size,
        stride=conv.stride,
        padding=conv.padding,
        dilation=conv.dilation,
        groups=conv.groups,
        padding_mode=conv.padding_mode,
        dtype=conv.weight.dtype,
    )
    deviation = torch.sqrt(bn.running_var + bn.eps)
    with torch.no_grad():
        old_bias = torch.zeros_like(bn.running_mean) if conv.bias is None else conv.bias
        folded.weight.copy_(conv.weight * (bn.weight / deviation).reshape(-1, 1, 1, 1))
        folded.bias.copy_((old_bias - bn.running_mean) / deviation * bn.weight + bn.bias)
    return folded.eval()
