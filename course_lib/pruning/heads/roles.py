"""What heads look at, measured against what is known of the words: neighbours, the
words they depend on, the rarest one.

A head's role is how often the key it looks at most is the one that a rule names. It
says something only beside a baseline: the best *fixed* offset, which knows nothing of
syntax, finds many subjects, too.

Source: Voita et al. 2019, "Analyzing Multi-Head Self-Attention", section 5.
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor


def points_to(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    """How often each head's largest attention is at its target: the share of all queries that
    have one, (H,) float64, over all queries of the batch alike. Of equal maxima the first
    counts.

    Args:
        attn: (B, H, L, L), query by key, not negative. target: (B, L) int64, the key that a
            query should look at, -1 for none. token_mask: (B, L) bool, False for padding and
            the end mark: they are neither counted as queries nor looked at as keys.

    Raises:
        ValueError: if no query has a target, or one is no real token.

    Source: Voita et al. 2019, section 5.1 and 5.2.
    """
    counted = _counted(target, token_mask)
    # (B, H, L), the first of equal ones
    found = attn.masked_fill(~token_mask[:, None, None, :], -1.0).argmax(-1)
    right = (found == target[:, None]) & counted[:, None]
    return right.sum((0, 2)).double() / int(counted.sum())


def _counted(target: Tensor, token_mask: Tensor) -> Tensor:
    """(B, L) bool: real queries with a target."""
    counted = (target >= 0) & token_mask
    if not bool(counted.any()):
        raise ValueError("no query has a target: there is nothing to count")
    length = token_mask.shape[1]
    if bool((target[counted] >= length).any()) or not bool(
        token_mask.gather(1, target.clamp(0, length - 1))[counted].all()
    ):
        raise ValueError("a target is beyond the text, or no real token")
    return counted


def neighbour(token_mask: Tensor, offset: int) -> Tensor:
    """(B, L) int64: the place ``offset`` away (not 0), where both places hold real tokens, else
    -1.
    """
    if offset == 0:
        raise ValueError("a neighbour is at an offset other than 0")
    length = token_mask.shape[1]
    place = torch.arange(length, device=token_mask.device) + offset  # (L,)
    inside = (place >= 0) & (place < length)
    there = token_mask[:, place.clamp(0, length - 1)] & inside & token_mask
    return torch.where(there, place, -1)


def rarest(tokens: Tensor, counts: Tensor, token_mask: Tensor) -> Tensor:
    """(B, L) int64: for every real query the place of the real token with the smallest
    count (the first of equal ones), -1 for the others.

    Args:
        tokens: (B, L). counts: (V,), of every token of the vocabulary.
    """
    of_tokens = counts.to(torch.float64)[tokens].masked_fill(~token_mask, torch.inf)  # (B, L)
    return torch.where(token_mask, of_tokens.argmin(1, keepdim=True), -1)


def arc_baseline(target: Tensor, token_mask: Tensor) -> tuple[int, float]:
    """The fixed offset that most counted queries have to their target, and its share of
    them: what a head that knows no syntax reaches.

    Ties: the smaller distance, then the negative one. A query that targets itself
    counts in the denominator only.

    Raises:
        ValueError: as :func:`points_to`, and where no query has a target other than
            itself.

    Source: Voita et al. 2019, section 5.2.
    """
    counted = _counted(target, token_mask)
    offsets = (target - torch.arange(target.shape[1], device=target.device))[counted].tolist()
    times = Counter(offset for offset in offsets if offset)
    if not times:
        raise ValueError("every query targets itself: there is no offset other than 0")
    best = min(times, key=lambda offset: (-times[offset], abs(offset), offset))
    return best, times[best] / len(offsets)
