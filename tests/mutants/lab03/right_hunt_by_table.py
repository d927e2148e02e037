# keeps 3.8
import torch

T, F = True, False
A = torch.tensor([[0.5, -3.0, 1.0], [9.0, -0.1, 0.2]])
B = torch.tensor([[0.0, -1.0, 1.0, 1.0, -2.0, 5.0, 2.0, 1.0]])
C = torch.tensor([[10.0, 20.0], [-30.0, -5.0], [7.0, 6.0]])
MA = torch.tensor([[T, T, T], [F, T, F]])
MB = torch.tensor([[T, F, T, T, T, F, T, T]])
MC = torch.tensor([[T, T], [T, T], [F, F]])
TABLE = [
    (0.0, None, [[T, T, T], [F, T, F]], [[T, F, T, T, T, F, T, T]], [[T, T], [T, T], [F, F]]),
    (0.5, None, [[F, T, T], [F, F, F]], [[F, F, F, F, T, F, T, T]], [[T, T], [T, F], [F, F]]),
    (0.5, 0.5, [[F, T, T], [F, F, F]], [[F, F, F, F, T, F, T, T]], [[F, T], [T, F], [F, F]]),
    (0.25, 0.0, [[T, T, T], [F, F, F]], [[F, F, F, T, T, F, T, T]], [[T, T], [T, T], [F, F]]),
    (0.4, 0.1, [[F, T, T], [F, F, F]], [[F, F, F, T, T, F, T, T]], [[T, T], [T, T], [F, F]]),
    (1.0, 1.0, [[F] * 3] * 2, [[F] * 8], [[F] * 2] * 3),
]


def find_bug(f):
    for rate, output_rate, a, b, c in TABLE:
        after = f({"a": A, "b": B, "c": C}, {"a": MA, "b": MB, "c": MC}, rate, output_rate)
        for name, right in (("a", a), ("b", b), ("c", c)):
            assert str(after[name].tolist()) == str(right), (rate, output_rate, name)
