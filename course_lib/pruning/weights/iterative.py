"""Iterative pruning: prune a few weights, train or score again, and repeat. Schedules say how much
is pruned after each step.

A schedule is a list of sparsities, one per pruning step, each counted over *all* weights, so
cumulative: five steps "of 20 %" do not make 100 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from course_lib.checks import check_count, check_fraction, check_names, check_same_names
from course_lib.models.layouts import like
from course_lib.pruning.weights.granularity import global_masks, local_masks
from course_lib.pruning.weights.masks import Masks, apply, dense_masks, masked, prunable
from course_lib.pruning.weights.scores import Scores, magnitude


def one_shot(final: float) -> list[float]:
    """Everything at once: ``[final]``, in [0, 1]."""
    return [check_fraction(final, "final", "the fraction to prune")]


def geometric(final: float, steps: int) -> list[float]:
    """The same share of the *survivors* at every step: 1 - (1 - final)^(t/steps) for t = 1..steps.

    20 % of the survivors, ten times over, leaves 0.8^10 = 10.7 % of the weights. The last one is
    exactly ``final``, which is below 1: no constant share leaves none.

    Source: Frankle & Carbin 2019, "The Lottery Ticket Hypothesis", section 1: each of n rounds
    prunes p^(1/n) % of the weights that survived the one before.
    """
    (final,), steps = one_shot(final), check_count(steps, "steps", 1)
    if final == 1:
        raise ValueError("final must be below 1: use one_shot(1.0) or cubic")
    # min: near 0 the formula's last bit can lie above final
    return [min(final, 1 - (1 - final) ** (t / steps)) for t in range(1, steps)] + [final]


def cubic(final: float, steps: int) -> list[float]:
    """Fast while there is much to spare, slow towards the end, exactly ``final``:
    final * (1 - (1 - t/steps)^3) for t = 1..steps.

    Source: Zhu & Gupta 2017, "To prune, or not to prune", equation 1, from initial sparsity 0.
    """
    (final,), steps = one_shot(final), check_count(steps, "steps", 1)
    return [final * (1 - (1 - t / steps) ** 3) for t in range(1, steps + 1)]


def prune_iteratively(
    model: nn.Module,
    targets: Iterable[float],
    finetune: Callable[[nn.Module, Callable[[], None]], object],
    score: Callable[[Mapping[str, Tensor]], Scores] = magnitude,
    granularity: str | Mapping[str, str] = "element",
    scope: str = "local",
) -> Masks:
    """:func:`prune_rescored` for a score of the prunable weights alone, layer by layer unless
    ``scope`` says otherwise; one-shot pruning is the list of one target.

    Source: Han et al. 2015, "Learning both Weights and Connections", section 3.4.
    """
    return prune_rescored(
        model, targets, lambda now: score(prunable(now)), finetune, granularity, scope
    )


def prune_rescored(
    model: nn.Module,
    targets: Iterable[float],
    score: Callable[[nn.Module], Scores],
    finetune: Callable[[nn.Module, Callable[[], None]], object] | None = None,
    granularity: str | Mapping[str, str] = "element",
    scope: str = "global",
) -> Masks:
    """Prune ``model`` to each target in turn, asking before each for the scores of the model *as it
    is then*.

    A score made from gradients holds where it was taken; after some removals the model is
    elsewhere. Parameters are changed in place, never replaced, so an optimizer made before goes on
    working. A pruned weight stays pruned, whatever its new score: later targets add to it. Pruned
    weights are held at zero while ``finetune`` runs (:func:`masked`).

    Args:
        targets: cumulative sparsities in [0, 1] that do not fall, e.g. ``cubic(0.9, 5)``.
        score: gets the model and gives scores by name of prunable weights; larger = more important.
            Names it leaves out are not pruned (the output layer, say), and the targets count
            without them. What it says of pruned weights is not looked at and may be NaN.
        finetune: ``finetune(model, post_step)`` trains on, and may call ``post_step()`` after every
            optimizer step; it must where it does not use ``torch.optim``. None: nothing is trained.
        granularity: single weights or groups, as in :func:`local_masks`.
        scope: "global", all layers compete, or "local", each layer to the target by itself.

    Returns:
        The final masks (True = kept).
    """
    targets = [check_fraction(t, "targets", "the fractions to prune") for t in targets]
    if targets != sorted(targets):
        raise ValueError(f"targets are cumulative sparsities and must not fall, got {targets}")
    check_names([scope], ("local", "global"), "scope")
    select = local_masks if scope == "local" else global_masks
    masks = dense_masks(model)
    for step, target in enumerate(targets):
        scores = score(model)
        if not isinstance(scores, Mapping):
            raise ValueError(f"score returns name -> scores, got {type(scores).__name__}")
        (check_same_names if step else check_names)(scores, masks, "score(model)")
        alive = {name: _living(name, s, masks[name]) for name, s in scores.items()}
        masks = select(alive, target, granularity)
        if finetune is None:
            apply(model, masks)
            continue
        with masked(model, masks) as held:
            finetune(model, held.apply)
    return masks


def _living(name: str, score: Tensor, mask: Tensor) -> Tensor:
    """``score`` with -inf where pruned already, below any weight that is alive: so masks only
    shrink. Zeros would not do it: a living weight may be zero too, and a pruned one NaN.
    """
    if score.shape != mask.shape:
        raise ValueError(
            f"score(model)[{name!r}] must be {tuple(mask.shape)}, got {tuple(score.shape)}"
        )
    mask = mask.to(score.device)
    numbers = score.detach() if score.is_floating_point() else score.double()
    if (numbers.isneginf() & mask).any():
        raise ValueError(f"score(model)[{name!r}] is -inf, which stands for pruned: must be finite")
    return like(score, numbers.masked_fill(~mask, -torch.inf))
