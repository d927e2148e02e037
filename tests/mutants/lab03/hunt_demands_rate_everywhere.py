# loses 3.8 · message: "find_bug accused a right version"
import torch


def find_bug(f):
    w = {"a": torch.randn(4, 5), "b": torch.randn(4, 5)}
    m = {n: torch.ones_like(v, dtype=torch.bool) for n, v in w.items()}
    after = f(w, m, 0.2)
    assert all(int((~v).sum()) == 4 for v in after.values())
