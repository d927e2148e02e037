# keeps 3.8
import torch


def find_bug(f):
    torch.manual_seed(3)
    for trial in range(6):
        scale = {"first": 100.0, "mid": 0.01, "last": 1.0}
        w = {n: s * torch.randn(5 + trial % 3, 7) for n, s in scale.items()}
        if trial % 2:
            w = {n: (v / scale[n]).round() for n, v in w.items()}
        m = {n: torch.rand_like(v) < (1.0, 0.7, 0.4)[trial % 3] for n, v in w.items()}
        for rate in (0.0, 0.25, 0.5, 0.8, 1.0):
            for output_rate in (None, 0.0, 0.3, 1.0):
                new = f(w, m, rate, output_rate)
                assert isinstance(new, dict) and list(new) == ["first", "mid", "last"]
                for n, v in new.items():
                    assert v.dtype is torch.bool and v.shape == w[n].shape
                    r = rate if n != "last" else rate / 2 if output_rate is None else output_rate
                    before = m[n].flatten().nonzero().flatten().tolist()
                    after = v.flatten().nonzero().flatten().tolist()
                    assert set(after) <= set(before), "revived"
                    assert len(before) - len(after) == round(r * len(before)), "count"
                    size = w[n].abs().flatten().tolist()
                    ranked = sorted(before, key=lambda i: (size[i], i))
                    assert sorted(ranked[len(before) - len(after) :]) == after, "order"
