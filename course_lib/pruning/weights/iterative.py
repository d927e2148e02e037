"""Iterative pruning: prune a few weights, train or score again, and repeat. Schedules say how
much is pruned after each step.

A schedule is a list of sparsities, one per pruning step, each counted over *all*
weights, so cumulative: five steps "of 20 %" do not make 100 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from course_lib.checks import check_count, check_fraction, check_names, check_same_names
from course_lib.models.layouts import like
from course_lib.pruning.weights.granularity import global_group_masks, global_masks, local_masks
from course_lib.pruning.weights.masks import Masks, apply, dense_masks, masked, prunable
from course_lib.pruning.weights.scores import Scores, magnitude


def one_shot(final: float) -> list[float]:
    """Everything at once: ``[final]``.

    Raises:
        ValueError: if ``final`` is outside [0, 1].
    """
    return [check_fraction(final, "final", "the fraction to prune")]


def geometric(final: float, steps: int) -> list[float]:
    """The same share of the *survivors* at every step: 1 - (1 - final)^(t/steps) for
    t = 1..steps.

    The share is 1 - (1 - final)^(1/steps): 20 % of the survivors, ten times over,
    leaves 0.8^10 = 10.7 % of the weights.

    Args:
        final: sparsity after the last step, in [0, 1).
        steps: how many steps, at least 1.

    Returns:
        ``steps`` rising sparsities, the last one exactly ``final``.

    Raises:
        ValueError: if ``final`` is outside [0, 1) or ``steps`` is below 1.

    Source: Frankle & Carbin 2019, "The Lottery Ticket Hypothesis", section 1: each of n
    rounds prunes p^(1/n) % of the weights that survived the one before.
    """
    (final,), steps = one_shot(final), check_count(steps, "steps", 1)
    if final == 1:
        raise ValueError(
            "no constant share of the survivors leaves none, so final must be below 1: use"
            " one_shot(1.0) or cubic"
        )
    # min: near 0 the formula's last bit can lie above final
    return [min(final, 1 - (1 - final) ** (t / steps)) for t in range(1, steps)] + [final]


def cubic(final: float, steps: int) -> list[float]:
    """Fast while there is much to spare, slow towards the end:
    final * (1 - (1 - t/steps)^3) for t = 1..steps.

    Args:
        final: sparsity after the last step, in [0, 1].
        steps: how many steps, at least 1.

    Returns:
        ``steps`` rising sparsities, the last one exactly ``final``.

    Raises:
        ValueError: if ``final`` is outside [0, 1] or ``steps`` is below 1.

    Source: Zhu & Gupta 2017, "To prune, or not to prune", equation 1, from initial
    sparsity 0.
    """
    (final,), steps = one_shot(final), check_count(steps, "steps", 1)
    return [final * (1 - (1 - t / steps) ** 3) for t in range(1, steps + 1)]


def check_targets(targets: list[float]) -> None:
    """Make sure that ``targets`` can be pruned one after the other.

    Raises:
        ValueError: if one is outside [0, 1] or smaller than the one before.
    """
    for step, target in enumerate(targets, start=1):
        check_fraction(target, "target", "the fraction to prune")
        if step > 1 and target < targets[step - 2]:
            raise ValueError(
                f"target {step} is {target:g} after {targets[step - 2]:g}: targets are cumulative"
                " sparsities over all weights and must not fall, since a pruned weight does not"
                " come back"
            )


def prune_iteratively(
    model: nn.Module,
    targets: Iterable[float],
    finetune: Callable[[nn.Module, Callable[[], None]], object],
    score: Callable[[Mapping[str, Tensor]], Scores] = magnitude,
    granularity: str | Mapping[str, str] = "element",
    scope: str = "local",
) -> Masks:
    """Prune ``model`` to each target in turn and fine-tune after each; one-shot pruning
    is the list of one target.

    :func:`prune_rescored` for a score of the weights alone, layer by layer unless
    ``scope`` says otherwise: see there for what is kept, and for what it raises.

    Args:
        score: gets the prunable weights by name and gives their scores; larger = more
            important.

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
    """Prune ``model`` to each target in turn, asking before each for the scores of the
    model *as it is then*.

    A score made from gradients holds where it was taken; after some removals the model
    is elsewhere. Parameters are changed in place, never replaced, so an optimizer made
    before goes on working. A pruned weight stays pruned, whatever its new score: later
    targets add to it. Pruned weights are held at zero while ``finetune`` runs
    (:func:`masked`).

    Args:
        model: any module; changed in place.
        targets: cumulative sparsities in [0, 1] that do not fall, e.g.
            ``cubic(0.9, 5)``.
        score: gets the model and gives scores by name of prunable weights;
            larger = more important. Names it leaves out are not pruned (the output
            layer, say), and the targets count without them. What it says of pruned
            weights is not looked at and may be NaN.
        finetune: ``finetune(model, post_step)`` trains on, and may call ``post_step()``
            after every optimizer step. It must do so where it does not use
            ``torch.optim``. None: nothing is trained.
        granularity: single weights or groups, as in :func:`local_masks`.
        scope: "global", all layers compete, or "local", each layer to the target by
            itself.

    Returns:
        The final masks (True = kept).

    Raises:
        ValueError: for targets that fall or leave [0, 1] and an unknown scope, before
            anything is changed; for scores that are NaN or -inf, or of the wrong names
            or shapes.
    """
    targets = list(targets)
    check_targets(targets)
    if scope not in ("local", "global"):
        raise ValueError(
            f'scope is "local" (layer by layer) or "global" (all layers compete), got {scope!r}'
        )

    masks = dense_masks(model)
    for step, target in enumerate(targets):
        scores = _pruned_first(score(model), masks, may_leave_out=step == 0)
        masks = _select(scores, target, granularity, scope)
        if finetune is None:
            apply(model, masks)
            continue
        with masked(model, masks) as held:
            finetune(model, held.apply)
    return masks


def _select(
    scores: Scores, target: float, granularity: str | Mapping[str, str], scope: str
) -> Masks:
    if scope == "local":
        return local_masks(scores, target, granularity)
    if granularity == "element":
        return global_masks(scores, target)
    return global_group_masks(scores, target, granularity)


def _pruned_first(scores: Scores, masks: Masks, may_leave_out: bool) -> Scores:
    """``scores`` with -inf where pruned already, below any weight that is alive: so
    masks only shrink.

    The zeros alone would not do it: a living weight may be zero too, and a pruned one
    NaN.
    """
    if not isinstance(scores, Mapping):
        raise ValueError(
            f"score(model) gave {type(scores).__name__}: it returns a dict, name of a weight -> its"
            " scores"
        )
    (check_names if may_leave_out else check_same_names)(scores, masks, "score(model)")
    result = {}
    for name, given in scores.items():
        s = given
        if s.shape != masks[name].shape:
            raise ValueError(
                f"score(model)[{name!r}] has shape {tuple(s.shape)}, its weight"
                f" {tuple(masks[name].shape)}"
            )
        s = s.detach() if s.is_floating_point() else s.double()
        alive = masks[name].to(s.device)
        if (s.isneginf() & alive).any():
            raise ValueError(
                f"score(model)[{name!r}] is -inf, which stands for pruned weights: give it a finite"
                " score"
            )
        result[name] = like(given, s.masked_fill(~alive, -torch.inf))
    return result
