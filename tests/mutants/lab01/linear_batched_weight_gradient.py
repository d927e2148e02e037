# loses 1.5 · message: "Every leading dimension is one more batch dimension"
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
        grad_w = grad_y.transpose(-1, -2) @ x  # one matrix for each entry of the batch
        if grad_w.ndim == 3:
            grad_w = grad_w.sum(0)
        return grad_y @ w, grad_w * m, None
