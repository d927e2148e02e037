"""Which heads go: those with the lowest scores, or those in certain places.

A keep mask is bool (layers, heads), True = kept.

Source: Budhraja et al. 2020, "On the Weak Link between Importance and Prunability of Attention Heads", which compares places:
random, top, bottom, middle layers; Michel et al. 2019 for scores.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

RULES = ("random", "top", "bottom", "middle", "no_consecutive")


def lowest_heads(scores: Tensor, count: int, min_per_layer: int = 0) -> Tensor:
    """Remove the ``count`` heads with the lowest scores, all layers together; equal scores: the first goes first.

    Args:
        scores: (layers, heads), larger = more important. NaN stands for a head that a layer does not have. For the most
            important first, give ``-scores``.
        count: heads removed.
        min_per_layer: heads that each layer keeps at least (all it has, if it has fewer).

    Returns:
        bool (layers, heads), True = kept, with ``count`` heads fewer than there are.

    Raises:
        ValueError: if ``scores`` is no such grid, or more heads are to go than may.
    """
    if scores.ndim != 2:
        raise ValueError(f"scores are a grid (layers, heads), got the shape {tuple(scores.shape)}")
    scores = scores.detach().cpu()
    keep = ~scores.isnan()
    _check_count(count, min_per_layer, keep.sum(1).tolist(), "lowest_heads")
    order = scores.flatten().argsort(stable=True)  # NaN comes last
    return _remove(keep, (divmod(int(i), scores.shape[1]) for i in order), count, min_per_layer)


def choose_heads(
    layers: int, heads: int, count: int, rule: str, generator: torch.Generator, min_per_layer: int = 0
) -> Tensor:
    """Remove ``count`` heads by their place alone: the controls that an importance score has to beat.

    - "random": any heads, drawn one after the other (a draw that would empty a layer too far is drawn again).
    - "top": the last layers lose their heads first, layer by layer; "bottom": the first layers; "middle": the middle layer,
      then its neighbours, the earlier one first. In the layer where the count runs out, heads are drawn.
    - "no_consecutive": no two adjacent layers lose heads. ⌈layers/2⌉ layers without neighbours among them are drawn, and
      the heads from them.

    Args:
        layers, heads: of the model.
        count: heads removed.
        rule: one of the five.
        generator: draws; the same seed gives the same heads.
        min_per_layer: heads that each layer keeps.

    Returns:
        bool (layers, heads), True = kept, with exactly ``count`` False.

    Raises:
        ValueError: for an unknown rule, or where the rule cannot remove so many.

    Source: Budhraja et al. 2020, section 3.
    """
    if rule not in RULES:
        raise ValueError(f"rule is one of {', '.join(RULES)}; got {rule!r}")
    if layers < 1 or heads < 1:
        raise ValueError(f"there should be at least one layer and one head, got {layers} and {heads}")
    middle = (layers - 1) / 2
    places = {
        "top": range(layers - 1, -1, -1),
        "bottom": range(layers),
        "middle": sorted(range(layers), key=lambda layer: (abs(layer - middle), layer)),
    }
    if rule in places:
        _check_count(count, min_per_layer, [heads] * layers, rule)
        order = ((layer, head) for layer in places[rule] for head in _drawn(heads, generator))
    else:
        allowed = list(range(layers)) if rule == "random" else _apart(layers, generator)
        _check_count(count, min_per_layer, [heads] * len(allowed), rule)
        order = ((allowed[i // heads], i % heads) for i in _drawn(len(allowed) * heads, generator))
    return _remove(torch.ones(layers, heads, dtype=torch.bool), order, count, min_per_layer)


def _remove(keep: Tensor, order: Iterable[tuple[int, int]], count: int, min_per_layer: int) -> Tensor:
    """Remove ``count`` heads in this order, passing over those that their layer must keep."""
    left = keep.sum(1).tolist()
    for layer, head in order:
        if count == 0:
            break
        if keep[layer, head] and left[layer] > min_per_layer:
            keep[layer, head] = False
            left[layer] -= 1
            count -= 1
    return keep


def _check_count(count: int, min_per_layer: int, heads: list[int], rule: str) -> None:
    most = sum(max(0, h - min_per_layer) for h in heads)
    if min_per_layer < 0:
        raise ValueError(f"min_per_layer is the number of heads that a layer keeps, at least 0; got {min_per_layer}")
    if not 0 <= count <= most:
        raise ValueError(
            f"count is the number of heads removed, 0 to {most} for {rule!r} with {len(heads)} layers of up to "
            f"{max(heads, default=0)} heads that keep {min_per_layer} each; got {count}"
        )


def _drawn(n: int, generator: torch.Generator) -> list[int]:
    return torch.randperm(n, generator=generator).tolist()


def _apart(layers: int, generator: torch.Generator) -> list[int]:
    """As many layers as possible of which no two are neighbours, all such sets equally likely."""
    chosen = (layers + 1) // 2
    # k of n without neighbours are k of n - k + 1 with a gap put in after each
    places = sorted(_drawn(layers - chosen + 1, generator)[:chosen])
    return [place + gap for gap, place in enumerate(places)]
