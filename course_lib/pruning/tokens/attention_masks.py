"""The attention mask of fewer tokens: sliced on both axes, in whatever form the model
uses.

transformers hands a layer one of these: None (nothing is hidden), bool (B, 1, L, L)
with True = may look (SDPA), or the same in floats, 0 = may look and the least float = may
not (eager).
"""

from __future__ import annotations

import torch
from torch import Tensor

FORMS = {"eager": "float", "sdpa": "bool"}


def mask_form(implementation: str | None) -> str:
    """Which form a mask must have for an attention implementation: "float" or "bool".

    Raises:
        ValueError: if its masks are of another kind.
    """
    if implementation not in FORMS:
        raise ValueError(
            f"the masks of attention {implementation!r} cannot be sliced here: call "
            'model.set_attn_implementation("sdpa") (or "eager") before'
        )
    return FORMS[implementation]


def visible(mask: Tensor | None, hidden: Tensor) -> Tensor:
    """The tokens that any query may look at, bool (B, L): those that are not padding.

    Raises:
        ValueError: if ``mask`` has none of the forms above.
    """
    B, L = hidden.shape[:2]
    if mask is None:
        return torch.ones(B, L, dtype=torch.bool, device=hidden.device)
    if mask.ndim != 4 or mask.shape[3] != L:
        raise ValueError(f"an attention mask is (B, 1, L, L) with L = {L}, got {tuple(mask.shape)}")
    # expanded over the queries: one row says it all
    mask = mask[:, :, :1] if mask.stride(2) == 0 else mask
    return _open(mask).any(2).any(1).expand(B, L)


def slice_mask(
    mask: Tensor | None, index: Tensor, valid: Tensor, hidden: Tensor, form: str
) -> Tensor | None:
    """The mask for the tokens at ``index``, with those that are not ``valid`` hidden
    from all; None if it hides nothing.

    Args:
        mask: in any of the forms, for L tokens.
        index: int64 (B, k), where they stood; valid: bool (B, k).
        hidden: (B, k, E), for dtype and device.
        form: what to make where there was no mask, see :func:`mask_form`.

    Returns:
        (B, 1 or heads, 1 or k, k).
    """
    B, k = index.shape
    if mask is not None:
        mask = mask.expand(B, -1, -1, -1)
        H, Q = mask.shape[1], mask.shape[2]
        if Q > 1 and mask.stride(2) != 0:
            # the queries that are left
            mask = mask.gather(2, index[:, None, :, None].expand(B, H, k, mask.shape[3]))
        else:
            mask = mask[:, :, :1]  # the same for all queries
        # and the keys
        mask = mask.gather(3, index[:, None, None, :].expand(B, H, mask.shape[2], k))
        if bool(_open(mask).all()):
            mask = None
    if bool(valid.all()):
        return mask
    hide = ~valid[:, None, None, :]  # (B, 1, 1, k)
    if mask is None:
        return (
            ~hide
            if form == "bool"
            else hidden.new_zeros(hide.shape).masked_fill(hide, _least(hidden.dtype))
        )
    return mask & ~hide if mask.dtype == torch.bool else mask.masked_fill(hide, _least(mask.dtype))


def weigh_mask(mask: Tensor | None, log_weights: Tensor, dtype: torch.dtype) -> Tensor:
    """A float mask under which key i counts exp(log_weights[:, i]) times; log_weights
    (B, L), all finite.
    """
    bias = log_weights[:, None, None, :].to(dtype)  # (B, 1, 1, L)
    if mask is None:
        return bias
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, _least(dtype))
    return torch.where(_open(mask), mask + bias, mask)


def _open(mask: Tensor) -> Tensor:
    return mask if mask.dtype == torch.bool else mask > _least(mask.dtype) / 2


def _least(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).min
