# loses 1.9 · message: "find_bug speaks by raising, not by returning"
import torch


def find_bug(f):
    w = torch.tensor([0.1, -3.0, 0.3, 0.3, -0.4])
    right = torch.equal(f(w, 0.3), torch.tensor([False, True, False, True, True]))
    right = right and torch.equal(f(w, 0.5), torch.tensor([False, True, False, True, True]))
    return not right
