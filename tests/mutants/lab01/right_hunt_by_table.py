# keeps 1.9
import torch

TABLE = [
    ([[0.5, -3.0, 1.0]], 0.0, [[True, True, True]]),
    ([[0.5, -3.0, 1.0]], 0.6, [[False, True, False]]),
    ([[0.5, -3.0, 1.0]], 1.0, [[False, False, False]]),
    ([[1.0, 1.0], [-1.0, 2.0]], 0.5, [[False, False], [True, True]]),
    ([[-1.0, 4.0, -2.0, 3.0, 5.0]], 0.5, [[False, True, False, True, True]]),
]


def find_bug(f):
    for weight, sparsity, mask in TABLE:
        assert str(f(torch.tensor(weight), sparsity).tolist()) == str(mask)  # as text: 1.0 == True
