# keeps 4.3
import torch
from torch import nn


def remove_filters(conv, bn, next_conv, keep):
    """By state dicts, and every convolution gets a bias: zeros where there was none."""
    ok = len(keep) > 0 and all(0 <= i < conv.out_channels for i in keep) and list(keep) == sorted(set(keep))
    if not ok:
        raise ValueError(f"keep = {keep}")

    def like(layer, state, c, m):
        new = nn.Conv2d(
            c,
            m,
            layer.kernel_size,
            layer.stride,
            layer.padding,
            layer.dilation,
            padding_mode=layer.padding_mode,
            dtype=layer.weight.dtype,
        )
        state.setdefault("bias", torch.zeros(m))
        new.load_state_dict(state)
        return new.train(layer.training)

    first = like(conv, {k: v[keep] for k, v in conv.state_dict().items()}, conv.in_channels, len(keep))
    second = like(
        next_conv,
        {k: v[:, keep] if k == "weight" else v for k, v in next_conv.state_dict().items()},
        len(keep),
        next_conv.out_channels,
    )
    norm = nn.BatchNorm2d(len(keep), eps=bn.eps, momentum=bn.momentum, dtype=bn.weight.dtype)
    norm.load_state_dict({k: v[keep] if v.dim() == 1 else v for k, v in bn.state_dict().items()})
    return first, norm.train(bn.training), second
