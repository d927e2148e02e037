"""MACs of an encoder whose sequences get shorter from layer to layer, and whose layers
may have lost heads.

A layer on l tokens of width E multiplies 4·l·E·W for its four projections,
W = heads · head size, 2·l²·W for Q·Kᵀ and A·V, and 2·l·E·F for a feed-forward block
(FFN) of width F. With all heads (W = E) and F = 4E that is 12·l·E² + 2·l²·E. Where
tokens are dropped between attention and FFN, the FFN has its own, smaller l.

A text costs what its real tokens cost, without padding. Scoring by the row of [CLS]
adds l·W in a layer that is scored: 1 product in 12·E or more.

Source: as Kim et al. 2022, "Learned Token Pruning for Transformers", section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks import check_count


def token_macs(
    lengths_per_layer: Sequence[int],
    E: int,
    *,
    ffn_lengths: Sequence[int] | None = None,
    ffn_width: int | None = None,
    attention_width: int | Sequence[int] | None = None,
) -> int:
    """MACs of one text: Σ 12·l·E² + 2·l²·E over the layers, in the usual case.

    Args:
        lengths_per_layer: tokens that each layer works on.
        E: width of the rows.
        ffn_lengths: tokens that each layer's FFN works on, where that differs.
        ffn_width: F, width of the FFN; 4·E where None.
        attention_width: W, heads that are left times their size, for all layers or for
            each; E where None. May be 0.

    Returns:
        An exact int. Embeddings, norms and the classifier are not counted.
    """
    attention, ffn = (
        torch.tensor([int(length) for length in lengths], dtype=torch.int64)[:, None]
        for lengths in (
            lengths_per_layer,
            lengths_per_layer if ffn_lengths is None else ffn_lengths,
        )
    )
    macs = texts_macs(attention, ffn, E, ffn_width=ffn_width, attention_width=attention_width)
    return int(macs)


def texts_macs(
    attention: Tensor,
    ffn: Tensor,
    E: int,
    *,
    ffn_width: int | None = None,
    attention_width: int | Sequence[int] | Tensor | None = None,
) -> Tensor:
    """:func:`token_macs` of many texts at once, from recorded lengths:
    ``texts_macs(*drop.lengths(), E)``.

    Args:
        attention, ffn: int64 (layers, N), tokens that each layer's attention and FFN
            worked on, text by text.
        E, ffn_width: as in :func:`token_macs`.
        attention_width: as there; or (layers, N), where texts keep different heads.

    Returns:
        int64 (N,). The mean over texts, beside that of the full lengths, says what
        dropping saves.
    """
    if attention.ndim != 2 or attention.shape != ffn.shape or (attention + ffn).is_floating_point():
        raise ValueError(
            f"attention and ffn are whole numbers (layers, N); got {attention.dtype}"
            f" {tuple(attention.shape)} and {ffn.dtype} {tuple(ffn.shape)}"
        )
    l, f = attention.long(), ffn.long()  # noqa: E741
    F = 4 * E if ffn_width is None else ffn_width
    W = torch.as_tensor(E if attention_width is None else attention_width, device=l.device).long()
    W = W[:, None] if W.ndim == 1 else W  # (), (layers, 1) or (layers, N)
    if W.ndim == 2 and (W.shape[0] != len(l) or W.shape[1] not in (1, l.shape[1])):
        raise ValueError(
            f"attention_width is one number, one for each of {len(l)} layers, or (layers, N), got "
            f"{tuple(W.shape)}"
        )
    check_count(E, "E", 1)
    check_count(F, "ffn_width", 1)
    for name, sizes in {"attention": l, "ffn": f, "attention_width": W}.items():
        if sizes.numel():
            check_count(int(sizes.min()), name)
    return (4 * l * E * W + 2 * l * l * W + 2 * f * E * F).sum(0)
