# loses 1.5 · message: "a mask with one row for all of W"
import torch


class PrunedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, m):
        if m.dtype != torch.bool:
            raise ValueError("mask")
        w = w * m
        ctx.save_for_backward(x, w, m)
        return x @ w.T

    @staticmethod
    def backward(ctx, grad_y):
        x, w, m = ctx.saved_tensors
        grad_w = grad_y.reshape(-1, w.shape[0]).T @ x.reshape(-1, w.shape[1])
        return grad_y @ w, grad_w * m, None
