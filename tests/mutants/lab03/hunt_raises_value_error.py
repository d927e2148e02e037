# loses 3.8 · message: "where it should say so by an AssertionError"
import torch


def find_bug(f):
    torch.manual_seed(0)
    for many in (1, 1000):
        weights = {"a": 10 * torch.randn(7, 5), "b": torch.randn(4, 3, 2), "c": torch.randn(3, 5)}
        weights = {n: (many * w).round() / many for n, w in weights.items()}
        masks = {n: torch.rand(w.shape) < 0.5 for n, w in weights.items()}
        for rate, output_rate in ((0.0, None), (0.3, None), (0.5, 0.5), (0.4, 0.0), (0.77, 0.1), (1.0, 1.0)):
            after = f(weights, masks, rate, output_rate)
            right = shrink(weights, masks, rate, output_rate)
            if not all(torch.equal(after[n], right[n]) for n in weights):
                raise ValueError("wrong")
