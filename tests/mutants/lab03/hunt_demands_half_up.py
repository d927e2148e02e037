# loses 3.8 · message: "find_bug accused a right version"
import math

import torch


def find_bug(f):
    w = {"a": torch.randn(9, 5), "b": torch.randn(5)}
    m = {n: torch.ones_like(v, dtype=torch.bool) for n, v in w.items()}
    for rate in (0.1, 0.3, 0.5, 0.7):
        assert int((~f(w, m, rate)["a"]).sum()) == math.floor(45 * rate + 0.5)
