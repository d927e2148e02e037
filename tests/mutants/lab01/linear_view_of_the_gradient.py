# loses 1.5 · message: "view size is not compatible"
import torch


class PrunedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, m):
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError("mask")
        wm = w * m
        ctx.save_for_backward(x, wm, m)
        return x @ wm.T

    @staticmethod
    def backward(ctx, grad_y):
        x, wm, m = ctx.saved_tensors
        grad_w = grad_y.view(-1, wm.shape[0]).T @ x.reshape(-1, wm.shape[1])
        return grad_y @ wm, grad_w * m, None
