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
    return of_columns(attn.mean(1), token_mask.to(attn.dtype))


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
    log_counts = key.new_zeros(token_mask.shape).masked_fill(~token_mask, float("-inf"))
    return attention_rows(query, key, log_counts, query.shape[3] ** -0.5, None).mean(1)


def attention_rows(
    query: Tensor, key: Tensor, log_counts: Tensor, scale: float, heads: Tensor | None
) -> Tensor:
    """Attention weights of some queries, averaged over heads: (B, H, R, d), (B, H, L,
    d) -> (B, R, L), float32 at least.

    ``log_counts`` (B, L): the log of how often each key counts, -inf for padding.
    """
    scores = query @ key.mT * scale  # (B, H, R, L)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return mean_over_heads((scores + log_counts[:, None, None, :]).softmax(-1), heads)


def mean_over_heads(attn: Tensor, heads: Tensor | None) -> Tensor:
    """The mean of (B, H, R, L) over the heads that vote, bool (H,) or (B, H); None: all."""
    if heads is None:
        return attn.mean(1)
    B, H = attn.shape[:2]
    check_mask(heads, "heads", (H,) if heads.ndim == 1 else (B, H))
    votes = heads.reshape(-1, H).to(attn)
    return (attn * (votes / votes.sum(1, keepdim=True))[:, :, None, None]).sum(1)


def of_columns(rows: Tensor, counts: Tensor) -> Tensor:
    """The mean of the rows of (B, L, L), of which each counts ``counts`` (B, L) times;
    what counts 0 is set to 0 and the rest scaled to sum 1: (B, L).
    """
    real = counts > 0
    # filled: a padded row may be NaN
    columns = (rows * counts[:, :, None]).masked_fill(~real[:, :, None], 0).sum(1)
    columns = columns.masked_fill(~real, 0)
    return columns / columns.sum(1, keepdim=True)


def _check_mask(token_mask: Tensor, B: int, L: int) -> None:
    check_mask(token_mask, "token_mask", (B, L))
    if not bool(token_mask.any(1).all()):
        raise ValueError(
            f"token_mask says that text {int((~token_mask.any(1)).nonzero()[0])} has no real token"
        )
