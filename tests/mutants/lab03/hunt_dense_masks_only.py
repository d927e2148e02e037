# loses 3.8 · message: "find_bug let a wrong version pass"
import torch


def find_bug(f):
    torch.manual_seed(0)
    weights = {"a": 10 * torch.randn(7, 5), "b": torch.randn(4, 3, 2), "c": torch.randn(3, 5)}
    masks = {n: torch.ones_like(w, dtype=torch.bool) for n, w in weights.items()}
    for rate in (0.0, 0.3, 0.5, 1.0):
        after = f(weights, masks, rate)
        right = shrink(weights, masks, rate)
        assert all(torch.equal(after[n], right[n]) for n in weights)
