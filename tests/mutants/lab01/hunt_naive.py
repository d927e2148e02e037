# loses 1.9 · message: "forgets the absolute value"
import torch


def find_bug(f):
    w = torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert f(w, 0.5).tolist() == [False, False, True, True]
    assert f(w, 0.0).all()
