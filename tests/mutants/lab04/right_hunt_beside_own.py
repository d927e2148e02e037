# keeps 4.8
import torch


def find_bug(f):
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        for m, c, r, s in ((4, 6, 3, 2), (5, 5, 2, 2), (1, 3, 1, 1)):
            weight = torch.randn(m, c, r, s, generator=generator)
            keep = torch.rand(c, generator=generator) > 0.5
            keep[0] = not keep[1]
            constant = torch.rand(c, generator=generator) + 0.1
            mine, his = cascade(keep, weight, constant), f(keep, weight, constant)
            assert his[0].dtype == torch.bool and torch.equal(mine[0], his[0]), "mask"
            assert mine[1].shape == his[1].shape, "shape"
            torch.testing.assert_close(mine[1], his[1])
