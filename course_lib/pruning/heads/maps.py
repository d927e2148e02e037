"""Attention maps: what heads look at, measured against what is known of the words, and fixed
ones in place of learned ones.

A head's role is how often the key it looks at most is the one that a rule names: a
neighbour, or the word that a word depends on. It says something only beside
a baseline: the best *fixed* offset, which knows nothing of syntax, finds many subjects, too.

Source: Voita et al. 2019, "Analyzing Multi-Head Self-Attention", section 5 (roles);
Kovaleva et al. 2019, "Revealing the Dark Secrets of BERT" (disabling); Raganato, Scherrer &
Tiedemann 2020, "Fixed Encoder Self-Attention Patterns in Transformer-Based Machine
Translation".
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from course_lib.checks import check_count


def points_to(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    """How often each head's largest attention is at its target: the share of all queries that
    have one, (H,) float64, over all queries of the batch alike. Of equal maxima the first
    counts.

    Args:
        attn: (B, H, L, L), query by key, not negative. target: (B, L) int64, the key that a
            query should look at, -1 for none. token_mask: (B, L) bool, False for padding and
            the end mark: they are neither counted as queries nor looked at as keys.

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
    """(B, L) int64: the place ``offset`` (not 0) away, where both hold real tokens, else -1."""
    if offset == 0:
        raise ValueError("a neighbour is at an offset other than 0")
    length = token_mask.shape[1]
    place = torch.arange(length, device=token_mask.device) + offset  # (L,)
    inside = (place >= 0) & (place < length)
    there = token_mask[:, place.clamp(0, length - 1)] & inside & token_mask
    return torch.where(there, place, -1)


def arc_baseline(target: Tensor, token_mask: Tensor) -> tuple[int, float]:
    """The fixed offset that most counted queries have to their target, and its share of
    them: what a head that knows no syntax reaches.

    Ties: the smaller distance, then the negative one. A query that targets itself
    counts in the denominator only; where all do, there is no baseline (ValueError).

    Source: Voita et al. 2019, section 5.2.
    """
    counted = _counted(target, token_mask)
    offsets = (target - torch.arange(target.shape[1], device=target.device))[counted].tolist()
    times = Counter(offset for offset in offsets if offset)
    if not times:
        raise ValueError("every query targets itself: there is no offset other than 0")
    best = min(times, key=lambda offset: (-times[offset], abs(offset), offset))
    return best, times[best] / len(offsets)


def disable(context: Tensor, values: Tensor, token_mask: Tensor, off: Tensor) -> Tensor:
    """The contexts of heads, those in ``off`` as if every query attended to all real
    tokens alike: Kovaleva's a = 1/L.

    Args:
        context, values: (B, L, H·d), heads side by side. token_mask: (B, L) bool. off:
            (H,) bool.

    Source: Kovaleva et al. 2019, section 4.4.
    """
    real = token_mask[..., None]  # (B, L, 1)
    total = values.masked_fill(~real, 0).sum(1, keepdim=True)  # (B, 1, H·d)
    mean = total / real.to(values.dtype).sum(1, keepdim=True)
    wide = off.repeat_interleave(context.shape[-1] // len(off))  # (H·d,)
    return torch.where(wide, mean, context)


def fixed_patterns(length: int) -> Tensor:
    """Seven maps that need no query and no key, (7, L, L) float32: the token itself, previous,
    next, larger left and right context, end, start.

    Larger contexts leave out the neighbour; weights are cubes of the distance from the far
    end. Where a rule names no key the row attends to itself (our convention).

    Source: Raganato et al. 2020, section 3.
    """
    check_count(length, "length", 1)
    i, j = torch.meshgrid(torch.arange(length), torch.arange(length), indexing="ij")
    rising, falling = ((j + 1.0) ** 3).double(), (length - j.double()) ** 3
    beside = [(j == i + offset).double() for offset in (0, -1, 1)]
    contexts = [rising * (j <= i - 2), falling * (j >= i + 2), rising, falling]
    maps = torch.stack(beside + contexts)  # (7, L, L)
    empty = maps.sum(-1, keepdim=True) == 0
    maps = torch.where(empty, torch.eye(length, dtype=torch.float64), maps)
    return (maps / maps.sum(-1, keepdim=True)).float()


def frozen_attention(learned: Tensor, lengths: Tensor) -> Tensor:
    """Maps of which only the last head is the learned one; head h < H − 1 has pattern h of each
    sentence, 0 in padding.

    Args:
        learned: (B, H, L, L), H up to 8. lengths: (B,) int64, 1 … L.

    Source: Raganato et al. 2020, section 3.
    """
    fixed = learned.shape[1] - 1
    if fixed > 7:
        raise ValueError(f"there are 7 fixed patterns, and {fixed} heads besides the learned one")
    if bool((lengths < 1).any()) or bool((lengths > learned.shape[-1]).any()):
        raise ValueError(f"lengths are from 1 to {learned.shape[-1]}, got {lengths.tolist()}")
    out = learned.clone()
    out[:, :fixed] = 0
    for b, n in enumerate(lengths.tolist()):
        out[b, :fixed, :n, :n] = fixed_patterns(n)[:fixed].to(out)
    return out
