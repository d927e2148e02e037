# keeps 1.5
import torch


class PrunedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, m):
        if m.shape != w.shape or m.dtype is not torch.bool:
            raise ValueError("m is no mask of w")
        ctx.save_for_backward(x, w, m)
        return torch.einsum("...i,oi,oi->...o", x, w, m.to(w.dtype))

    @staticmethod
    def backward(ctx, g):
        x, w, m = ctx.saved_tensors
        mask = m.to(w.dtype)
        dx = torch.einsum("...o,oi,oi->...i", g, w, mask)
        dw = torch.einsum("no,ni,oi->oi", g.reshape(-1, w.shape[0]), x.reshape(-1, w.shape[1]), mask)
        return dx, dw, None
