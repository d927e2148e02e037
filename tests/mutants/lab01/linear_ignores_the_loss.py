# loses 1.5 · message: "as if ∂L/∂y were all ones"
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
        ones = torch.ones_like(grad_y)
        grad_w = ones.reshape(-1, w.shape[0]).T @ x.reshape(-1, w.shape[1])
        return ones @ w, grad_w * m, None
