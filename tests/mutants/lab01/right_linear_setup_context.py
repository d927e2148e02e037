# keeps 1.5
import torch


class PrunedLinear(torch.autograd.Function):
    @staticmethod
    def forward(x, w, m):
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError("expected a bool mask like w")
        return torch.nn.functional.linear(x, torch.where(m, w, torch.zeros_like(w)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, w, m = ctx.saved_tensors
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output.matmul(torch.where(m, w, 0.0))
        if ctx.needs_input_grad[1]:
            outer = grad_output.unsqueeze(-1) * x.unsqueeze(-2)  # (..., d_out, d_in)
            grad_w = outer.reshape(-1, *w.shape).sum(0) * m
        return grad_x, grad_w, None
