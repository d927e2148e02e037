"""How much a token matters: the attention that it *receives*.

A row of an attention matrix sums to 1 whatever its token is worth: it says where that
token looks. What others take from a token stands in its column. So a token's score is
the mean of its column, over heads and over the queries that are real.

The whole matrix is not needed for it, and the fast attention kernels never have it.
Where one row decides what the model answers, the row of [CLS], that row alone can be
computed: one query against all keys, l products of width E and not l².

Source: Goyal et al. 2020, "PoWER-BERT", section 3.1 (significance of a word-vector);
Kim et al. 2022, "Learned Token Pruning for Transformers", section 3.2, equation 2; the
[CLS] row: Liang et al. 2022, "Not All Patches are What You Need", section 3.2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.checks import check_mask


def attention_received(attn: Tensor, token_mask: Tensor) -> Tensor:
    """The mean of each token's column of ``attn``, over heads and real queries; padding
    0, the rest scaled to sum 1.

    Args:
        attn: attention weights (B, H, L, L), [b, h, j, i] = how much query j looks at
            key i in head h.
        token_mask: bool (B, L), True = a real token.

    Returns:
        (B, L) in the dtype of ``attn``; each row sums to 1.

    Raises:
        ValueError: if the shapes do not fit, or a text has no real token.
    """
    if attn.ndim != 4 or attn.shape[2] != attn.shape[3]:
        raise ValueError(f"attn holds attention weights (B, H, L, L), got {tuple(attn.shape)}")
    _check_mask(token_mask, attn.shape[0], attn.shape[3])
    return received(attn, token_mask.to(attn.dtype), None)


def cls_attention(query: Tensor, key: Tensor, token_mask: Tensor) -> Tensor:
    """What [CLS] takes from each token: softmax(q·Kᵀ/√d) for the query of [CLS] alone,
    mean over heads.

    Args:
        query: (B, H, R, d), the queries of the rows that the answer is read from, R = 1
            for [CLS]; over several (DeiT has a distillation token too) the mean is
            taken.
        key: (B, H, L, d).
        token_mask: as in :func:`attention_received`.

    Returns:
        (B, L), float32 at least; padding 0, each row sums to 1.

    Raises:
        ValueError: as :func:`attention_received` does.
    """
    _check_mask(token_mask, key.shape[0], key.shape[2])
    bias = key.new_zeros(token_mask.shape).masked_fill(~token_mask, float("-inf"))
    return weights_of(query, key, bias, query.shape[3] ** -0.5, None).mean(1)


def weights_of(
    query: Tensor, key: Tensor, bias: Tensor | None, scale: float, heads: Tensor | None
) -> Tensor:
    """Attention weights of some queries, averaged over heads: (B, H, R, d), (B, H, L,
    d) -> (B, R, L).

    ``bias`` (B, L) is added to the scores of each key: the log of how much it counts,
    -inf for padding; None = 0.
    """
    scores = query @ key.mT * scale  # (B, H, R, L)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if bias is not None:
        scores = scores + bias[:, None, None, :]
    return _mean_over_heads(scores.softmax(-1), heads)


def received(attn: Tensor, weights: Tensor, heads: Tensor | None) -> Tensor:
    """:func:`attention_received` without checks, for tokens that count ``weights`` (B,
    L) times: 0 for padding, 1 if real.
    """
    rows = _mean_over_heads(attn, heads)  # (B, L, L)
    return of_columns(rows, weights)


def of_columns(rows: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean of the rows (B, R, L), R = L, padding set to 0 and the rest
    scaled to sum 1: (B, L).
    """
    real = weights > 0
    # filled: a padded row may be NaN
    columns = (rows * weights[:, :, None]).masked_fill(~real[:, :, None], 0).sum(1)
    columns = columns.masked_fill(~real, 0)
    return columns / columns.sum(1, keepdim=True)


def head_weights(heads: Tensor | None, like: Tensor) -> Tensor | None:
    """Shares of the heads in the mean, (B or 1, H), from a bool (H,) or (B, H)."""
    if heads is None:
        return None
    B, H = like.shape[:2]
    check_mask(heads, "heads", (H,) if heads.ndim == 1 else (B, H))
    alive = heads.reshape(-1, H).to(like)
    if not bool(heads.reshape(-1, H).any(1).all()):
        raise ValueError(
            "no head of this layer counts, so nothing there attends to any token: score at another"
            " layer"
        )
    return alive / alive.sum(1, keepdim=True)


def _mean_over_heads(attn: Tensor, heads: Tensor | None) -> Tensor:
    return attn.mean(1) if heads is None else (attn * heads[:, :, None, None]).sum(1)


def _check_mask(token_mask: Tensor, B: int, L: int) -> None:
    check_mask(token_mask, "token_mask", (B, L))
    if not bool(token_mask.any(1).all()):
        raise ValueError(
            f"text {int((~token_mask.any(1)).nonzero()[0])} has no real token at all: look at"
            " token_mask"
        )
