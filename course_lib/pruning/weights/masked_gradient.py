"""The gradient of a pruned linear layer, written out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class PrunedLinear(torch.autograd.Function):
    """``PrunedLinear.apply(x, w, m)`` is y = x (w∘m)ᵀ with its backward pass by hand.

    With g = ∂L/∂y: ∂L/∂x = g (w∘m), through the weights that are there;
    ∂L/∂w = (gᵀx)∘m, since a pruned weight has no influence on the loss. Pruned entries
    are filled with zeros rather than multiplied: NaN or inf in them does no harm.

    Args (of ``apply``):
        x: (..., d_in); w: (d_out, d_in); m: bool (d_out, d_in), True = kept.

    Returns:
        (..., d_out). Gradients of gradients and ``torch.func`` (vmap: gradients per
        sample) work too.

    Raises:
        ValueError: if ``m`` is not bool of the shape of ``w``, or the last dimension of
            ``x`` is not d_in.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, m: Tensor) -> Tensor:
        if m.dtype != torch.bool or m.shape != w.shape or w.ndim != 2:
            raise ValueError(
                "w should be (d_out, d_in) and m a bool mask of the same shape, got w"
                f" {tuple(w.shape)} and m {m.dtype} {tuple(m.shape)}"
            )
        if x.ndim < 1 or x.shape[-1] != w.shape[1]:
            raise ValueError(
                f"x should end in d_in = {w.shape[1]}, the columns of w, got x {tuple(x.shape)}"
            )
        return x @ w.masked_fill(~m, 0).T  # (..., d_in) @ (d_in, d_out)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, w, m = ctx.saved_tensors
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = g @ w.masked_fill(~m, 0)  # (..., d_out) @ (d_out, d_in)
        if ctx.needs_input_grad[1]:
            # all leading dimensions as one, N
            rows, cols = g.reshape(-1, w.shape[0]), x.reshape(-1, w.shape[1])
            grad_w = (rows.T @ cols).masked_fill(~m, 0)  # (d_out, N) @ (N, d_in)
        return grad_x, grad_w, None
