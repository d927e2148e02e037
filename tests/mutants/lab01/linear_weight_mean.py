# loses 1.5 · message: "was divided by the batch size"
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
        rows = x.reshape(-1, w.shape[1])
        grad_w = grad_y.reshape(-1, w.shape[0]).T @ rows / len(rows)
        return grad_y @ w, grad_w * m, None
