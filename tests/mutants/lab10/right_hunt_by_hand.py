# keeps 10.8
import torch


def find_bug(f):
    # one text of two tokens and one of padding; the numbers are chosen so that fractions come out
    first = [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0, 0.0, 1.0]]
    second = [[0.25, 0.25, 0.5], [0.125, 0.375, 0.5], [1.0, 0.0, 0.0]]
    third = [[0.125, 0.125, 0.75], [1.0, 0.0, 0.0], [0.25, 0.25, 0.5]]
    attn = torch.tensor([[first, second], [third, first]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    a = (0.5 + 0.125 + 0.25 + 0.125) / 4
    b = (0.25 + 0.75 + 0.25 + 0.375) / 4
    expected = [a / (a + b), b / (a + b), 0.0]
    full = [2.0 / 6, 1.375 / 6, 2.625 / 6]
    scores = f(attn, mask)
    assert tuple(scores.shape) == (2, 3)
    for got, right in zip(scores.flatten().tolist(), expected + full):
        assert abs(got - right) < 1e-5, scores
