# loses 1.5 · message: "with x of shape"
import torch


class PrunedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, m):
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError("mask")
        w = w * m
        ctx.save_for_backward(x, w, m)
        return x @ w.T

    @staticmethod
    def backward(ctx, grad_y):
        x, w, m = ctx.saved_tensors
        g, a = grad_y, x
        while g.ndim > 2:
            g, a = g[0], a[0]
        g, a = g.reshape(-1, g.shape[-1]), a.reshape(-1, a.shape[-1])
        return grad_y @ w, (g.T @ a) * m, None
