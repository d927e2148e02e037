# loses 4.8 · message: "counts the constants of kept channels"
import torch
from torch import nn


def find_bug(f):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(6, 8, 3, 3, generator=generator)
    keep = torch.arange(8) % 2 == 0
    constant = torch.randn(8, generator=generator).relu()
    constant[keep] = 0
    useful, shift = f(keep, weight, constant)
    assert useful.shape == weight.shape and not useful[:, ~keep].any() and useful[:, keep].all()
    maps = constant[:, None, None].expand(8, 3, 3)
    assert torch.allclose(shift, nn.functional.conv2d(maps[None], weight)[0, :, 0, 0], atol=1e-5)
