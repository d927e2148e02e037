"""What a transformer costs whose layers have unequally many heads, by formula.

``model_cost`` counts a model as it is, pruned or not. Here is what the same counts must come to, and what they depend on: a
layer with h heads of d features each has projections of width h·d where they were E wide, and nothing else changes. So half
of the heads are half of the attention's products, but a sixth of the layer's: the feed-forward block keeps its 8BLE².

Source: the lecture on pruning, "Computational Cost of Transformer"; Michel et al. 2019, "Are Sixteen Heads Really Better than
One?", section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence


def pruned_transformer_macs(
    B: int, L: int, E: int, heads: Sequence[int], head_size: int, ffn: int | None = None, S: int | None = None
) -> dict[str, int]:
    """MACs and weights of transformer layers of which the l-th has ``heads[l]`` heads left.

    Args:
        B, L, E: batch, sequence length, embedding width.
        heads: heads of each layer; 0 where all are gone.
        head_size: features of a head, E / heads of the full model.
        ffn: inner width of the feed-forward block, 4E unless given; 0 for layers without one.
        S: length of the sequence that is attended to, L unless given (cross-attention).

    Returns:
        The keys of ``transformer_macs``: ``projections`` Σ 2BE·hd·(L+S), ``attention`` Σ 2BLS·hd, ``ffn`` 2BLE·ffn for each
        layer, their ``total``, and ``scores`` Σ BhLS; and ``weights``, Σ (4E·hd + 2E·ffn), biases not counted.

    Raises:
        ValueError: if a size is negative, or B, L, E, S or ``head_size`` is 0.
    """
    S = L if S is None else S
    ffn = 4 * E if ffn is None else ffn
    for name, size in {"B": B, "L": L, "E": E, "S": S, "head_size": head_size}.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    if ffn < 0 or min(heads, default=0) < 0:
        raise ValueError(f"a width or a number of heads cannot be negative, got ffn {ffn} and heads {list(heads)}")
    kept = sum(heads)
    projections = 2 * B * E * kept * head_size * (L + S)
    attention = 2 * B * L * S * kept * head_size
    feed_forward = 2 * B * L * E * ffn * len(heads)
    return {
        "projections": projections,
        "attention": attention,
        "ffn": feed_forward,
        "total": projections + attention + feed_forward,
        "scores": B * kept * L * S,
        "weights": 4 * E * kept * head_size + 2 * E * ffn * len(heads),
    }
