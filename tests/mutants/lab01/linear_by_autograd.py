# loses 1.5 · message: "torch differentiated your forward by itself"
import torch


class PrunedLinear:
    @staticmethod
    def apply(x, w, m):
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError("mask")
        return torch.nn.functional.linear(x, w * m)
