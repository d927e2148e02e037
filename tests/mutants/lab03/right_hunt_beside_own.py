# keeps 3.8
import torch


def find_bug(f):
    generator = torch.Generator().manual_seed(5)
    for _ in range(12):
        weights = {
            n: 4 * torch.randn(s, generator=generator) for n, s in (("x", (6, 5)), ("y", (4, 3, 3)), ("z", (5, 7)))
        }
        for w in (weights, {n: w.round() for n, w in weights.items()}):
            masks = {n: torch.rand(v.shape, generator=generator) < 0.6 for n, v in w.items()}
            for rates in ((0.2,), (0.35,), (0.5, 0.5), (0.9, 0.0), (1.0, 1.0), (0.0,)):
                mine, theirs = shrink(w, masks, *rates), f(w, masks, *rates)
                assert list(mine) == list(theirs)
                for n in mine:
                    assert theirs[n].dtype == torch.bool and torch.equal(mine[n], theirs[n]), (n, rates)
    for bad in (-0.1, 1.1):
        try:
            f(weights, masks, bad)
        except ValueError:
            continue
        raise AssertionError("a bad rate is accepted")
