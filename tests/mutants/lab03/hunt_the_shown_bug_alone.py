# loses 3.8 · message: "find_bug let a wrong version pass"
import torch


def find_bug(f):
    w = {"a": torch.tensor([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0]), "b": torch.ones(1)}
    m = {"a": torch.tensor([False, True, True, True, True, True, True, True]), "b": torch.ones(1, dtype=torch.bool)}
    after = f(w, m, 0.15)
    assert not (after["a"] & ~m["a"]).any()
