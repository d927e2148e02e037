# loses 1.9 · message: "cuts the fraction of s · n off"
import torch


def find_bug(f):
    w = torch.tensor([[0.1, -0.2, 0.3, 2.0], [-1.0, 0.4, -0.4, 0.4]])
    for s, kept in (
        (0.0, [True] * 8),
        (0.5, [False, False, False, True, True, False, True, True]),
        (0.75, [False, False, False, True, True, False, False, False]),
        (1.0, [False] * 8),
    ):
        mask = f(w, s)
        assert mask.shape == w.shape
        assert mask.flatten().tolist() == kept
