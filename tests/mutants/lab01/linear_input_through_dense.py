# loses 1.5 · message: "went back through the dense W"
import torch


class PrunedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, m):
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError("mask")
        ctx.save_for_backward(x, w, m)
        return x @ (w * m).T

    @staticmethod
    def backward(ctx, grad_y):
        x, w, m = ctx.saved_tensors
        grad_w = grad_y.reshape(-1, w.shape[0]).T @ x.reshape(-1, w.shape[1])
        return grad_y @ w, grad_w * m, None
