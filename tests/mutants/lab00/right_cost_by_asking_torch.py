# keeps 0.1
import torch
from torch import nn


def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    if min(M, C, R, S, H, W, stride, bits) < 1 or padding < 0 or R > H + 2 * padding or S > W + 2 * padding:
        raise ValueError("these numbers make no convolution")
    with torch.device("meta"):
        layer = nn.Conv2d(C, M, (R, S), stride=stride, padding=padding, bias=False)
        x = torch.empty(1, C, H, W)
        y = layer(x)
    macs = y.numel() * layer.weight[0].numel()
    sizes = {
        "weight_bits": layer.weight.numel() * bits,
        "input_bits": x.numel() * bits,
        "output_bits": y.numel() * bits,
    }
    return {"macs": macs} | sizes


def linear_cost(batch, d_in, d_out, bits=32):
    return conv_cost(d_out, d_in, 1, 1, 1, 1, bits=bits) if batch == 1 else _rows(batch, d_in, d_out, bits)


def _rows(batch, d_in, d_out, bits):
    if batch < 1:
        raise ValueError("a batch has at least one row")
    one = linear_cost(1, d_in, d_out, bits)
    return {key: value if key == "weight_bits" else batch * value for key, value in one.items()}
