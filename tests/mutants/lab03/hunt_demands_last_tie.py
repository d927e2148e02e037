# loses 3.8 · message: "find_bug accused a right version"
import torch


def find_bug(f):
    w = {"a": torch.ones(2, 4), "b": torch.ones(2, 4)}
    m = {n: torch.ones_like(v, dtype=torch.bool) for n, v in w.items()}
    assert f(w, m, 0.5)["a"].tolist() == [[True] * 4, [False] * 4]
