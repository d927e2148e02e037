"""Lab 10, tokens: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib import cost
from course_lib.grading.reference import Asked
from course_lib.pruning import tokens
from course_lib.pruning.tokens import SoftThreshold  # noqa: F401  (10.4, as it is)

IMPORTS = ("datasets", "transformers.utils.logging")  # by the handout's first cell
QUESTIONS = {
    "10.1": Asked(("attention_received",)),
    "10.2": Asked(("keep_tokens",)),
    "10.3": Asked(("progressive", "threshold_policy")),
    "10.4": Asked(("SoftThreshold",), plain=False),
    "10.5": Asked(("cascade_step",)),
    "10.6": Asked(("token_macs",)),
    "10.7": Asked(("answer_10_7a", "answer_10_7b"), plain=False),
    "10.8": Asked(("find_bug",), plain=False),
}


def attention_received(attn: Tensor, token_mask: Tensor) -> Tensor:
    """10.1: the mean column over heads and real queries, scaled to sum to 1."""
    return tokens.attention_received(attn, token_mask)


def keep_tokens(hidden: Tensor, token_mask: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """10.2: the best k rows in their order, where the library lets padding come last."""
    rows, mask, index = tokens.keep_tokens(hidden, token_mask, scores, k)
    index, order = index.sort(dim=1)  # (B, k')
    return rows.gather(1, order[:, :, None].expand_as(rows)), mask.gather(1, order), index


def progressive(lengths: Tensor, layers: int, final: float) -> Tensor:
    """10.3: the share falls by the same factor from layer to layer."""
    return tokens.progressive(lengths, layers, final)


def threshold_policy(scores: Tensor, theta: float, token_mask: Tensor) -> Tensor:
    """10.3: n · s ≥ θ."""
    return tokens.threshold_policy(scores, theta, token_mask)


def cascade_step(
    token_scores: Tensor, head_scores: Tensor, alive_tokens: Tensor, alive_heads: Tensor, n_tokens: int, n_heads: int
) -> tuple[Tensor, Tensor]:
    """10.5: the best of those that are alive."""
    return tokens.cascade_step(token_scores, head_scores, alive_tokens, alive_heads, n_tokens, n_heads)


def token_macs(lengths_per_layer: list[int], E: int) -> int:
    """10.6: Σ 12·l·E² + 2·l²·E."""
    return cost.token_macs(lengths_per_layer, E)


def find_bug(f: Callable[[Tensor, Tensor], Tensor]) -> None:
    """10.8: raises AssertionError for a wrong version of ``attention_received``."""
    generator = torch.Generator().manual_seed(0)
    for lengths, heads in (((6, 4, 1), 3), ((5, 5), 2), ((2, 7), 1)):
        L = max(lengths)
        token_mask = torch.arange(L) < torch.tensor(lengths)[:, None]  # (B, L)
        raw = 2 * torch.randn(len(lengths), heads, L, L, generator=generator, dtype=torch.float64)
        for attn in (raw.softmax(-1), raw.masked_fill(~token_mask[:, None, None], -torch.inf).softmax(-1)):
            right, given = attention_received(attn, token_mask), f(attn, token_mask)
            assert given.shape == right.shape, f"shape {tuple(given.shape)} for {tuple(right.shape)}"
            assert torch.allclose(given.double(), right), f"lengths {lengths}, {heads} heads"
