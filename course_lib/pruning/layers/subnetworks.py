"""Good, random and bad subnetworks of heads and feed-forward parts, and how much of
them is the same from seed to seed.

Source: Prasanna, Rogers & Rumshisky 2020, "When BERT Plays the Lottery, All Tickets Are
Winning", sections 3 to 6; κ: Fleiss 1971, "Measuring Nominal Scale Agreement among Many
Raters".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from course_lib.checks import check_fraction, check_mask, check_numbers
from course_lib.pruning.heads import gated
from course_lib.pruning.layers.feed_forward import gated_mlps
from course_lib.ranking import prune_lowest


def prune_while(
    evaluate: Callable[[Tensor, Tensor], float],
    importance: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    layers: int,
    heads: int,
    share: float = 0.9,
    step: float = 0.1,
) -> list[tuple[Tensor, Tensor, float]]:
    """Remove the least important heads and feed-forward parts, round by round, while at least
    ``share`` of the full score is left.

    After round r in all min(n, r·k) heads are gone, k = max(1, round(step · layers · heads)),
    and min(layers, round(r · step · layers)) parts. What goes is the lowest of what is left,
    by the importance of the masks *as they are now*.

    Args:
        evaluate: a score of masks (xi, nu), higher is better. importance: (layers, heads) and
            (layers,) of masks.

    Returns:
        (xi, nu, score) of the full model and of every round that is still good enough.
    """
    check_fraction(share, "share", "the share of the full score to keep")
    if not 0 < step < 1:
        raise ValueError(f"step is what to remove in a round, between 0 and 1; got {step}")
    xi, nu = torch.ones(layers, heads, dtype=torch.bool), torch.ones(layers, dtype=torch.bool)
    found: list[tuple[Tensor, Tensor, float]] = [(xi, nu, float(evaluate(xi.clone(), nu.clone())))]
    most = max(1, round(step * layers * heads))
    turn = 0
    while bool(xi.any()) or bool(nu.any()):
        turn += 1
        of_heads, of_mlps = importance(xi.clone(), nu.clone())
        xi = _without(xi, of_heads, min(xi.numel(), turn * most))
        nu = _without(nu, of_mlps, min(layers, round(turn * step * layers)))
        score = float(evaluate(xi.clone(), nu.clone()))
        if score < share * found[0][2]:
            break
        found.append((xi, nu, score))
    return found


def _without(kept: Tensor, score: Tensor, gone: int) -> Tensor:
    """The mask with so many pruned in all: those that are, and the lowest of the others."""
    return prune_lowest(torch.as_tensor(score).double().masked_fill(~kept, -torch.inf), gone)


def subnetworks(
    xi: Tensor, nu: Tensor, of_heads: Tensor, of_mlps: Tensor, generator: torch.Generator
) -> dict[str, tuple[Tensor, Tensor]]:
    """Three of the same two sizes: "good" (the one given), "random", and "bad": what did not
    survive, the least important first; where these are too few, and the least important
    survivors. Heads and feed-forward parts apart.

    Args:
        xi: (layers, heads) bool, nu: (layers,) bool: what survived. of_heads, of_mlps:
            importance, of their shapes, never NaN.
    """
    found = []
    for mask, score in ((xi, of_heads), (nu, of_mlps)):
        check_mask(mask, "a mask", score.shape)
        check_numbers(score)
        by_score = score.double().flatten().argsort(stable=True)
        survived = mask.flatten()[by_score]
        worst = torch.cat([by_score[~survived], by_score[survived]])
        chance = torch.randperm(mask.numel(), generator=generator)
        found.append((mask.clone(), _first(chance, mask), _first(worst, mask)))
    return dict(zip(("good", "random", "bad"), zip(*found, strict=True), strict=True))


def _first(order: Tensor, mask: Tensor) -> Tensor:
    """True at as many of the first places of ``order`` as are True in ``mask``."""
    first = torch.zeros(mask.numel(), dtype=torch.bool)
    first[order[: int(mask.sum())]] = True
    return first.view(mask.shape)


def retrain(
    model: nn.Module,
    pretrained: Mapping[str, Tensor],
    xi: Tensor,
    nu: Tensor,
    train: Callable[[nn.Module], object],
) -> None:
    """From the pre-trained weights again, in place: they are copied back, and
    ``train(model)`` runs with only the subnetwork switched on.
    """
    there = dict(model.named_parameters())
    if wrong := [n for n, p in pretrained.items() if n not in there or there[n].shape != p.shape]:
        raise ValueError(f"{', '.join(wrong[:3])}: no parameter of the model with that shape")
    with torch.no_grad():
        for name, value in pretrained.items():
            there[name].copy_(value)
    with gated(model, xi.float()), gated_mlps(model, nu.float()):
        train(model)


def overlap(a: Tensor, b: Tensor) -> tuple[int, float]:
    """How many elements both masks keep, and how many two random masks of these sizes
    would: |a|·|b|/n.
    """
    return int((a & b).sum()), int(a.sum()) * int(b.sum()) / a.numel()


def fleiss_kappa(masks: Tensor) -> float:
    """Agreement of R masks (R, n), bool, beyond chance: 1 is perfect, 0 is chance. Raters are
    seeds, subjects the elements, the two categories kept and gone.
    """
    if masks.ndim != 2 or len(masks) < 2 or not masks.shape[1]:
        got = tuple(masks.shape)
        raise ValueError(f"kappa needs at least two masks of at least one element; got {got}")
    raters, kept = len(masks), masks.double().sum(0)  # (n,)
    agree = (kept * (kept - 1) + (raters - kept) * (raters - kept - 1)) / (raters * (raters - 1))
    share = float(kept.mean()) / raters
    chance = share**2 + (1 - share) ** 2
    return 1.0 if chance == 1 else (float(agree.mean()) - chance) / (1 - chance)
