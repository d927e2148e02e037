"""Which heads go: those with the lowest scores, or those in certain places.

A keep mask is bool (layers, heads), True = kept.

Source: Budhraja et al. 2020, "On the Weak Link between Importance and Prunability of
Attention Heads", which compares places: random, top, bottom, middle layers; Michel et
al. 2019 for scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import check_count, check_fraction, check_names
from course_lib.models.attention import Attention

RULES = ("random", "top", "bottom", "middle", "no_consecutive")


def lowest_heads(
    scores: Tensor,
    count: int,
    min_per_layer: int = 0,
    attention: Sequence[Attention] | None = None,
) -> Tensor:
    """Remove the ``count`` heads with the lowest scores, all layers together; among equal
    scores the first is removed first. bool (layers, heads), True = kept.

    Args:
        scores: (layers, heads), larger = more important. NaN stands for a head that a layer
            does not have. For the most important first, give ``-scores``.
        min_per_layer: heads that each layer keeps at least (all it has, if it has fewer).
        attention: the modules that the rows are of (``find_attention(model)``). It is needed
            where query heads share key/value heads (Llama, Qwen, ...): then only sets that can
            be removed are compared, and the one whose scores have the least sum is chosen.
    """
    if scores.ndim != 2:
        raise ValueError(f"scores are a grid (layers, heads), got the shape {tuple(scores.shape)}")
    scores = scores.detach().cpu()
    keep = ~scores.isnan()
    _check_count(count, min_per_layer, keep.sum(1).tolist(), "lowest_heads")
    if attention is not None and any(a.kv_heads < a.heads for a in attention):
        return _lowest_sets(scores, count, min_per_layer, attention)
    order = scores.flatten().argsort(stable=True)  # NaN comes last
    return _remove(keep, (divmod(int(i), scores.shape[1]) for i in order), count, min_per_layer)


def _sets(scores: Tensor, groups: int) -> dict[int, tuple[float, Tensor]]:
    """For every number of heads that can be removed from one layer the cheapest such set:
    the sum of its scores, and which heads are kept, bool (heads,).

    A set can be removed if every key/value group that is left has lost the same number of
    heads: all of them the r lowest, and some groups, those where this costs least, the rest.
    """
    by_group = scores.view(groups, -1)  # (groups, heads per group)
    ordered, order = by_group.sort(dim=1, stable=True)
    best: dict[int, tuple[float, Tensor]] = {}
    for r in range(by_group.shape[1]):
        keep = torch.ones_like(by_group, dtype=torch.bool).scatter_(1, order[:, :r], False)
        for group in [[], *ordered[:, r:].sum(1).argsort(stable=True).tolist()]:
            keep[group] = False
            n, cost = int((~keep).sum()), float(by_group[~keep].sum())
            if cost < best.get(n, (torch.inf,))[0]:
                best[n] = cost, keep.flatten().clone()
    return best


def _lowest_sets(scores: Tensor, count: int, least: int, attention: Sequence[Attention]) -> Tensor:
    """The cheapest choice of one set per layer with ``count`` heads in all."""
    finite = scores[scores.isfinite()].double()
    most = 1 + 2 * float(finite.abs().sum())  # one head with -inf outweighs all that are finite
    best: dict[int, tuple[float, list[Tensor]]] = {0: (0.0, [])}  # by heads removed so far
    for row, a in zip(scores.double().clamp(-most, most), attention, strict=True):
        sets = _sets(row[: a.heads], a.kv_heads) if a.heads else {0: (0.0, row[:0] > 0)}
        reached: dict[int, tuple[float, list[Tensor]]] = {}
        for (before, (total, masks)), (n, (more, mask)) in product(best.items(), sets.items()):
            allowed = n == 0 or a.heads - n >= least
            if allowed and total + more < reached.get(before + n, (torch.inf,))[0]:
                reached[before + n] = total + more, [*masks, mask]
        best = reached
    if count not in best:
        near = sorted(best, key=lambda n: (abs(n - count), n))[:2]
        raise ValueError(
            f"count: {count} heads cannot be removed so that every key/value group that is left"
            " keeps the same number of query heads; the nearest counts that can are"
            f" {' and '.join(map(str, near))}"
        )
    return torch.stack([F.pad(mask, (0, scores.shape[1] - len(mask))) for mask in best[count][1]])


def refuse_uneven(a: Attention, mask: Tensor) -> None:
    """Raises ValueError if the heads that ``mask`` keeps, bool (heads,), leave the
    key/value groups of this module unequal numbers of query heads.
    """
    left = mask.view(a.kv_heads, -1).sum(1) if 0 < a.kv_heads < a.heads else mask[:0]
    if len(left[left > 0].unique()) > 1:
        # a head that was to be removed costs -1, one that was to be kept 1
        sets = _sets(mask.double() * 2 - 1, a.kv_heads).values()
        near = min(sets, key=lambda found: (found[0], int(found[1].sum())))[1]
        raise ValueError(
            f"keep for {a.name!r} leaves its key/value groups {left.tolist()} query heads, but"
            " every group that is left must have the same number. The nearest set that works keeps"
            f" heads {near.nonzero().flatten().tolist()}; lowest_heads(scores, count,"
            " attention=find_attention(model)) chooses among such sets"
        )


def choose_heads(
    layers: int,
    heads: int,
    count: int,
    rule: str,
    generator: torch.Generator,
    min_per_layer: int = 0,
) -> Tensor:
    """Remove exactly ``count`` heads by their place alone: the controls that an importance score
    has to beat. bool (layers, heads), True = kept.

    - "random": any heads, drawn one after the other (a draw that would empty a layer too far
      is drawn again).
    - "top": the last layers lose their heads first, layer by layer; "bottom": the first
      layers; "middle": the middle layer, then its neighbours, the earlier one first. In the
      layer where the count runs out, heads are drawn.
    - "no_consecutive": no two adjacent layers lose heads. ⌈layers/2⌉ layers without
      neighbours among them are drawn, and the heads from them.

    Source: Budhraja et al. 2020, section 3.
    """
    check_names([rule], RULES, "rule")
    check_count(layers, "layers", 1)
    check_count(heads, "heads", 1)
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


def _remove(keep: Tensor, order: Iterable[tuple[int, int]], count: int, least: int) -> Tensor:
    """Remove ``count`` heads in this order, passing over those that their layer must keep."""
    left = keep.sum(1).tolist()
    for layer, head in order:
        if count == 0:
            break
        if keep[layer, head] and left[layer] > least:
            keep[layer, head] = False
            left[layer] -= 1
            count -= 1
    return keep


def _check_count(count: int, min_per_layer: int, heads: list[int], rule: str) -> None:
    most = sum(max(0, h - min_per_layer) for h in heads)
    check_count(min_per_layer, "min_per_layer")
    if not (0 <= count <= most and float(count).is_integer()):
        raise ValueError(
            f"count is the number of heads removed, not a share, 0 to {most} for {rule!r} with"
            f" {len(heads)} layers of up to {max(heads, default=0)} heads that keep {min_per_layer}"
            f" each; got {count}"
        )


def _drawn(n: int, generator: torch.Generator) -> list[int]:
    return torch.randperm(n, generator=generator).tolist()


def _apart(layers: int, generator: torch.Generator) -> list[int]:
    """As many layers as possible of which no two are neighbours, all such sets equally
    likely.
    """
    chosen = (layers + 1) // 2
    # k of n without neighbours are k of n - k + 1 with a gap put in after each
    places = sorted(_drawn(layers - chosen + 1, generator)[:chosen])
    return [place + gap for gap, place in enumerate(places)]


def prune_by_kind(scores: Mapping[str, Tensor], kind: str, fraction: float) -> dict[str, Tensor]:
    """Masks without the round(fraction · n) lowest-scoring heads of one kind of attention, all
    its layers together, or of all kinds: bool (layers, heads) for each kind, True = kept; False
    where a score is NaN. Of equal scores the first goes first, in the dict's order.

    Args:
        scores: (layers, heads) for "encoder", "decoder" and "cross" attention; NaN for a head
            that is not there.
        kind: one of them, or "all".

    Source: Michel et al. 2019, section 5.
    """
    check_names([kind], [*scores, "all"], "kind")
    fraction = check_fraction(fraction, "fraction", "the fraction of heads to remove")
    chosen = list(scores) if kind == "all" else [kind]
    together = torch.cat([scores[name].detach().double().flatten() for name in chosen])
    keep = lowest_heads(together[None], round(fraction * int((~together.isnan()).sum())))[0]
    found = {name: ~score.isnan() for name, score in scores.items()}
    for name, part in zip(chosen, keep.split([scores[n].numel() for n in chosen]), strict=True):
        found[name] = part.view(scores[name].shape)
    return found
