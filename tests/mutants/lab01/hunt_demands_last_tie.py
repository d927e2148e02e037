# loses 1.9 · message: "find_bug accused a right version"
import torch


def find_bug(f):
    w = torch.tensor([1.0, 1.0, 1.0, -5.0, 0.5])
    assert f(w, 0.4).tolist() == [True, True, False, True, False]
