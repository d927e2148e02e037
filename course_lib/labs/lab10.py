"""Lab 10, tokens: its contracts answered by the library."""

from __future__ import annotations

from torch import Tensor

from course_lib import cost
from course_lib.labs.contract import Contract
from course_lib.pruning import tokens
from course_lib.pruning.tokens import SoftThreshold

# by the handout's first cell
lab = Contract("lab10", imports=("datasets", "transformers.utils.logging"))


@lab.asks("10.1")
def attention_received(attn: Tensor, token_mask: Tensor) -> Tensor:
    """10.1: the mean column over heads and real queries, scaled to sum to 1."""
    return tokens.attention_received(attn, token_mask)


@lab.asks("10.2")
def keep_tokens(
    hidden: Tensor, token_mask: Tensor, scores: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """10.2: the best k rows in their order, where the library lets padding come
    last.
    """
    rows, mask, index = tokens.keep_tokens(hidden, token_mask, scores, k)
    index, order = index.sort(dim=1)  # (B, k')
    return rows.gather(1, order[:, :, None].expand_as(rows)), mask.gather(1, order), index


@lab.asks("10.3")
def progressive(lengths: Tensor, layers: int, final: float) -> Tensor:
    """10.3: the share falls by the same factor from layer to layer."""
    return tokens.progressive(lengths, layers, final)


@lab.asks("10.3")
def threshold_policy(scores: Tensor, theta: float, token_mask: Tensor) -> Tensor:
    """10.3: n · s ≥ θ."""
    return tokens.threshold_policy(scores, theta, token_mask)


@lab.asks("10.5")
def cascade_step(
    token_scores: Tensor,
    head_scores: Tensor,
    alive_tokens: Tensor,
    alive_heads: Tensor,
    n_tokens: int,
    n_heads: int,
) -> tuple[Tensor, Tensor]:
    """10.5: the best of those that are alive."""
    return tokens.cascade_step(
        token_scores, head_scores, alive_tokens, alive_heads, n_tokens, n_heads
    )


@lab.asks("10.6")
def token_macs(lengths_per_layer: list[int], E: int) -> int:
    """10.6: the products of all layers, each with its own length."""
    return cost.token_macs(lengths_per_layer, E)


lab.asks("10.4", plain=False)(SoftThreshold)

lab.asks("10.7", "answer_10_7a", "answer_10_7b")
lab.asks("10.8", "find_bug")
