"""Attention maps: what they look like, how much they changed, and what happens where a
fixed one takes a head's place.

Source: Kovaleva et al. 2019, "Revealing the Dark Secrets of BERT" (classes, disabling,
change by fine-tuning); Raganato, Scherrer & Tiedemann 2020, "Fixed Encoder
Self-Attention Patterns in Transformer-Based Machine Translation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_count
from course_lib.models.attention import Attention, find_attention, refuse_unlocated
from course_lib.wrapped import hold_hooks

PATTERNS = 7
CLASSES = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")


def attention_pattern(
    attn: Tensor, special: Tensor, segment: Tensor | None = None, share: float = 0.5
) -> str:
    """Which of Kovaleva's five classes a map belongs to, by thresholds of our own (they
    trained a classifier on maps labelled by hand).

    V is the attention on special tokens and D that on the next and the previous token
    where these are not special, each a mean over rows; S is that on tokens of the row's
    own segment.

    Args:
        attn: (L, L), rows sum to 1. special: (L,) bool. segment: (L,), or None. share:
            from which V and D decide.
    """
    attn = attn.double()
    length = len(attn)
    place = torch.arange(length)
    beside = ((place[:, None] - place).abs() == 1) & ~special
    vertical = float((attn * special).sum(1).mean())
    diagonal = float((attn * beside).sum(1).mean())
    if vertical >= share and diagonal < share / 2:
        return "vertical"
    if diagonal >= share and vertical < share / 2:
        return "diagonal"
    if vertical + diagonal >= share:
        return "vertical+diagonal"
    if segment is not None and len(segment.unique()) > 1:
        own = float((attn * (segment[:, None] == segment)).sum(1).mean())
        if own >= (1 + share) / 2:
            return "block"
    return "heterogeneous"


def attention_change(before: Tensor, after: Tensor, token_mask: Tensor) -> Tensor:
    """1 − cosine between the maps of each head before and after, cut to the real tokens, on
    average over sentences: (H,) float64.

    Args:
        before, after: (H, B, L, L). token_mask: (B, L) bool.

    Source: Kovaleva et al. 2019, section 4.3.
    """
    padding = ~(token_mask[:, :, None] & token_mask[:, None])  # (B, L, L)
    one, other = (maps.double().masked_fill(padding, 0).flatten(2) for maps in (before, after))
    return 1 - torch.cosine_similarity(one, other, dim=2).mean(1)


def disable(context: Tensor, values: Tensor, token_mask: Tensor, off: Tensor) -> Tensor:
    """The contexts of heads, those in ``off`` as if every query attended to all real
    tokens alike: Kovaleva's a = 1/L.

    Args:
        context, values: (B, L, H·d), heads side by side. token_mask: (B, L) bool. off:
            (H,) bool.

    Source: Kovaleva et al. 2019, section 4.4.
    """
    real = token_mask.to(values.dtype)[..., None]  # (B, L, 1)
    # (B, 1, H·d)
    mean = values.masked_fill(~token_mask[..., None], 0).sum(1, keepdim=True) / real.sum(
        1, keepdim=True
    )
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
    rising, falling = (j + 1.0) ** 3, (length - j.double()) ** 3
    maps = torch.stack(
        [
            (j == i).double(),
            (j == i - 1).double(),
            (j == i + 1).double(),
            rising.double() * (j <= i - 2),
            falling * (j >= i + 2),
            rising.double(),
            falling,
        ]
    )  # (7, L, L)
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
    if fixed > PATTERNS:
        raise ValueError(
            f"there are {PATTERNS} fixed patterns, and {fixed} heads besides the learned one"
        )
    if bool((lengths < 1).any()) or bool((lengths > learned.shape[-1]).any()):
        raise ValueError(f"lengths are from 1 to {learned.shape[-1]}, got {lengths.tolist()}")
    out = learned.clone()
    out[:, :fixed] = 0
    for b, n in enumerate(lengths.tolist()):
        out[b, :fixed, :n, :n] = fixed_patterns(n)[:fixed].to(out)
    return out


@contextmanager
def replaced_attention(
    model: nn.Module,
    off: Tensor,
    maps: Callable[[Tensor], Tensor],
    token_mask: Callable[[], Tensor],
) -> Iterator[None]:
    """Inside the block the encoder's heads in ``off`` attend as ``maps`` says, whatever their
    queries and keys are.

    Works with any attention implementation, while training and generating: a hook notes the
    values, another one writes Σ_j map[i, j] v_j into the place of a head's context, in front
    of the output projection. Gradients flow to values and outputs.

    Args:
        off: (layers, heads) bool: whose attention is replaced, of the encoder.
        maps: of a mask (B, L) bool the maps of all heads, (B, heads, L, L) or (1 or B, 1, L,
            L).
        token_mask: gives (B, L) bool of the batch that is running.
    """
    found = find_attention(model, "encoder")
    refuse_unlocated(model, found)
    if off.shape != (len(found), max(a.heads for a in found)):
        raise ValueError(
            f"off should be (layers, heads) = ({len(found)}, {found[0].heads}), got"
            f" {tuple(off.shape)}"
        )
    with hold_hooks() as hooks:
        for a, heads in zip(found, off, strict=True):
            if not bool(heads.any()):
                continue
            if a.fused:
                raise ValueError(
                    f"{a.name!r} makes queries, keys and values in one layer: its values cannot be"
                    " read alone"
                )
            read_values, write_context = _replacing(a, heads, maps, token_mask)
            value, out = model.get_submodule(a.v), model.get_submodule(a.out)
            hooks.callback(value.register_forward_hook(read_values).remove)
            hooks.callback(out.register_forward_pre_hook(write_context).remove)
        yield


def _replacing(
    a: Attention, off: Tensor, maps: Callable[[Tensor], Tensor], token_mask: Callable[[], Tensor]
) -> tuple[Callable[..., None], Callable[..., tuple[Any, ...]]]:
    """The hooks of :func:`replaced_attention` in one module."""
    values: list[Tensor] = []

    def read_values(module: nn.Module, args: tuple[Any, ...], out: Tensor) -> None:
        values[:] = [out]  # (B, L, key/value heads · d)

    def write_context(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        by_head = values[0].unflatten(-1, (a.kv_heads, a.head_size)).transpose(1, 2)
        by_head = by_head.repeat_interleave(a.heads // a.kv_heads, 1)  # (B, heads, L, d)
        # (B, L, heads · d)
        fixed = (maps(token_mask()).to(by_head) @ by_head).transpose(1, 2).flatten(2)
        wide = off[: a.heads].repeat_interleave(a.head_size).to(fixed.device)
        return (torch.where(wide, fixed, args[0]), *args[1:])

    return read_values, write_context


def uniform(token_mask: Tensor) -> Tensor:
    """(B, 1, L, L): every query attends to all real tokens alike."""
    real = token_mask.double()
    return (real / real.sum(1, keepdim=True))[:, None, None].expand(-1, 1, token_mask.shape[1], -1)


def raganato(token_mask: Tensor, heads: int) -> Tensor:
    """(B, heads, L, L): pattern h for head h, of sentences whose padding stands at the
    end; the last head's map is 0.
    """
    empty = torch.zeros(len(token_mask), heads, *[token_mask.shape[1]] * 2)
    return frozen_attention(empty, token_mask.sum(1))
