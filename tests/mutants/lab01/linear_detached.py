# loses 1.5 · message: "as far as autograd knows, y does not depend"
import torch


class PrunedLinear(torch.autograd.Function):
    @staticmethod
    def apply(x, w, m):
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError("mask")
        with torch.no_grad():
            return x @ (w * m).T
