# earns all
# Hands the versions it is to judge a weight that keeps the grader busy for hours, if it would take it; then judges them well.
import torch

_right = find_bug


class Asked:
    sizes = [12_000_000]


def find_bug(f):
    for size in (20_000, *Asked.sizes):
        try:
            f(torch.ones(size), 0.9)
        except ValueError:
            Asked.sizes = []
    _right(f)
