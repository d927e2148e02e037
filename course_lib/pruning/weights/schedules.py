"""Schedules: how much is pruned by when.

A schedule is a list of sparsities, one per pruning step, each counted over *all*
weights, so cumulative: five steps "of 20 %" do not make 100 %. What is pruned at each
step is another question: see :mod:`course_lib.pruning.weights.iterative`.
"""

from __future__ import annotations

from course_lib.checks import check_count, check_fraction


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
