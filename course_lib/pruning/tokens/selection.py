"""Which tokens stay: the best k, or all above a threshold; in their order, [CLS]
always, real tokens before padding.

Both rules look at real tokens only, and at each text by itself, so the same text keeps
the same tokens alone, in a batch, and padded to any length. A share of a text is a
share of its *real* length. And since scores sum to 1 over a text, an average token of a
text of n has the score 1/n: a threshold on the score itself would take more from long
texts. So the threshold is on n·s, where 1 is average.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks import check_count, check_mask, check_numbers


def kept_count(lengths: Tensor, fraction: float) -> Tensor:
    """How many of n tokens a share is: max(1, ⌈n·fraction − 1e-9⌉), so 1 (which is
    [CLS]) at least, rounded up; int64 (B,) for ``lengths`` (B,).

    Raises:
        ValueError: if ``fraction`` is outside (0, 1].
    """
    fraction = check_fraction(fraction)
    return (lengths.double() * fraction - 1e-9).ceil().long().clamp(min=1)


def check_fraction(fraction: float) -> float:
    if not 0 < fraction <= 1:
        hint = f" (for {fraction:g} % write {fraction / 100:g})" if 1 < fraction <= 100 else ""
        raise ValueError(
            f"fraction of the tokens to keep must be above 0 and at most 1, got {fraction:g}{hint}"
        )
    return fraction


def progressive(lengths: Tensor | Sequence[int], layers: int, final: float) -> Tensor:
    """Tokens that each of ``layers`` layers works on when the share falls geometrically:
    all in the first, ``final`` in the last.

    Returns:
        int64 (layers, B) for texts of ``lengths`` (B,); row l is
        max(1, ⌈n·final^(l/(layers−1)) − 1e-9⌉).

    Raises:
        ValueError: if ``final`` is outside (0, 1], ``layers`` or a length below 1.

    Source: Goyal et al. 2020, "PoWER-BERT", section 3.3, learns the numbers; geometric
    ones are the usual shape.
    """
    lengths = torch.as_tensor(lengths)
    check_count(layers, "layers", 1)
    check_count(int(lengths.min()), "lengths", 1)
    shares = [1.0, *progressive_shares(layers, final).values()]
    return torch.stack([kept_count(lengths, share) for share in shares])


def progressive_shares(layers: int, final: float) -> dict[int, float]:
    """The same schedule as the shares that stay *after* each layer, as ``dropping``
    takes them: l−1 → final^(l/(layers−1)).
    """
    final = check_fraction(final)
    return {l - 1: final ** (l / (layers - 1)) for l in range(1, layers)}  # noqa: E741


def top_tokens(scores: Tensor, token_mask: Tensor, k: int | Tensor, protect: int = 1) -> Tensor:
    """The k tokens of each text with the largest scores, the first ``protect`` columns
    among them.

    Args:
        scores: (B, L), larger = more important; equal ones: the one that comes first is
            kept first.
        token_mask: bool (B, L), True = a real token. Column 0 holds [CLS], so texts are
            padded on the right.
        k: how many stay, ≥ 1; or int64 (B,), one number for each text. A text with
            fewer real tokens keeps them all.
        protect: columns at the start that always stay: 1 for [CLS], 2 where a
            distillation token follows it.

    Returns:
        bool (B, L), True = kept; real tokens only.

    Raises:
        ValueError: if the shapes do not fit, k < 1, a score is NaN, or column 0 is
            padding.
    """
    _check(scores, token_mask)
    check_numbers(scores)
    counts = k if isinstance(k, Tensor) else torch.tensor([check_count(k, "k", 1)])
    ranked = scores if scores.is_floating_point() else scores.double()
    ranked = ranked.clamp(min=torch.finfo(ranked.dtype).min).masked_fill(~token_mask, float("-inf"))
    ranked[:, :protect] = float("inf")
    order = ranked.sort(dim=1, descending=True, stable=True).indices  # (B, L)
    rank = torch.arange(order.shape[1], device=order.device)
    first = rank < counts.to(order.device).clamp(min=protect)[:, None]
    return torch.zeros_like(token_mask).scatter_(1, order, first.expand_as(order)) & token_mask


def threshold_policy(scores: Tensor, theta: float | Tensor, token_mask: Tensor) -> Tensor:
    """The tokens with n·s ≥ θ, n = real tokens of the text; [CLS] whatever its score.

    Args:
        scores: (B, L), summing to 1 over each text, padding 0.
        theta: in units of the average token's score: 1 is average.
        token_mask: as in :func:`top_tokens`.

    Returns:
        bool (B, L), True = kept; real tokens only.

    Raises:
        ValueError: as :func:`top_tokens` does, or if ``theta`` is NaN.

    Source: Kim et al. 2022, "Learned Token Pruning for Transformers", section 3.2, with
    θ on n·s in place of s.
    """
    _check(scores, token_mask)
    check_numbers(torch.as_tensor(theta), "theta")
    keep = token_mask.sum(1, keepdim=True) * scores >= theta
    keep[:, 0] = True
    return keep & token_mask


def keep_tokens(
    hidden: Tensor, token_mask: Tensor, scores: Tensor, k: int, protect: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """Drop rows: the best k of each text are gathered, in their order, into a shorter
    tensor.

    Args:
        hidden: (B, L, E).
        token_mask, scores, k, protect: as in :func:`top_tokens`.

    Returns:
        The k' = min(k, L) rows (B, k', E), their mask (B, k') and where they stood, int64
        (B, k'). A text with fewer than k' tokens to keep is filled up with rows whose mask
        is False: first its padding, then what it dropped.

    Raises:
        ValueError: as :func:`top_tokens` does.
    """
    check_mask(token_mask, "token_mask", hidden.shape[:2])
    keep = top_tokens(scores, token_mask, k, protect)
    index, valid = positions(keep, token_mask, max(k, protect))
    return gather_rows(hidden, index), valid, index


def positions(keep: Tensor, token_mask: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Where the kept tokens stand: int64 (B, rows), ascending, and bool (B, rows),
    which of these are kept tokens. Texts with fewer of them end as in :func:`keep_tokens`.
    """
    kind = torch.where(keep, 0, torch.where(token_mask, 2, 1))  # kept first, dropped last
    index = kind.sort(dim=1, stable=True).indices[:, :rows]  # (B, rows)
    return index, keep.gather(1, index)


def gather_rows(x: Tensor, index: Tensor) -> Tensor:
    """x[b, index[b, i]] for every b and i: (B, L, E), (B, k) -> (B, k, E)."""
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[2]))


def check_cls(token_mask: Tensor) -> None:
    if not bool(token_mask[:, 0].all()):
        raise ValueError(
            "token_mask should begin with [CLS], but column 0 is padding in some text: pad on the"
            ' right (tokenizer.padding_side = "right")'
        )


def _check(scores: Tensor, token_mask: Tensor) -> None:
    if scores.ndim != 2:
        raise ValueError(f"scores should be (B, L), got {tuple(scores.shape)}")
    check_mask(token_mask, "token_mask", scores.shape)
    check_cls(token_mask)
