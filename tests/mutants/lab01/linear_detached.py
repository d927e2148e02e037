# loses 1.5 · message: "y does not depend on x and w as far as autograd knows"
import torch


class PrunedLinear(torch.autograd.Function):
    @staticmethod
    def apply(x, w, m):
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError("mask")
        with torch.no_grad():
            return x @ (w * m).T
