# keeps 1.5
import torch


class PrunedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, m):
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError("m")
        ctx.save_for_backward(x, w, m)
        rows = x.reshape(-1, x.shape[-1])
        y = torch.zeros(len(rows), len(w))
        for n in range(len(rows)):
            for o in range(len(w)):
                y[n, o] = (rows[n] * w[o] * m[o]).sum()
        return y.reshape(*x.shape[:-1], len(w))

    @staticmethod
    def backward(ctx, g):
        x, w, m = ctx.saved_tensors
        rows, gs = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
        dx, dw = torch.zeros_like(rows), torch.zeros_like(w)
        for n in range(len(rows)):
            for o in range(len(w)):
                dx[n] += gs[n, o] * w[o] * m[o]
                dw[o] += gs[n, o] * rows[n] * m[o]
        return dx.reshape(x.shape), dw, None
