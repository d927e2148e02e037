# loses 1.9 · message: "find_bug accused a right version"
import math

import torch


def find_bug(f):
    w = torch.randn(9)
    for s in (0.0, 0.3, 0.5, 1.0):
        assert (~f(w, s)).sum() == math.floor(9 * s + 0.5)
