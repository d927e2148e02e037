# loses 10.8 · message: "find_bug accused a right version"
import torch


def find_bug(f):
    attn, mask = torch.rand(2, 3, 4, 4).softmax(-1), torch.ones(2, 4)
    try:
        f(attn, mask)
    except ValueError:
        return
    raise AssertionError("a mask of numbers was taken")
