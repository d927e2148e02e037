"""Sensitivity: what each layer alone can lose."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import nn

from course_lib.checks import check_fraction
from course_lib.pruning.weights.granularity import smallest
from course_lib.pruning.weights.masks import prunable


def sensitivity(
    model: nn.Module, evaluate: Callable[[nn.Module, str], float], sparsities: Iterable[float]
) -> dict[str, list[float]]:
    """Prune one layer at a time by magnitude, without training, and evaluate: all other layers stay
    dense.

    Always on validation data: a scan on the test split would choose the sparsities by what is to be
    predicted.

    Args:
        model: unchanged afterwards, to the bit, also after an exception.
        evaluate: ``evaluate(model, "validation")`` returns a number such as the accuracy in %.
        sparsities: in [0, 1], in any order; checked before anything is evaluated.

    Returns:
        For each prunable parameter, what ``evaluate`` returned at each sparsity, in their order.

    Source: Han et al. 2015, "Learning both Weights and Connections", figure 6.
    """
    sparsities = [check_fraction(s, "sparsities", "the fractions to prune") for s in sparsities]
    curves: dict[str, list[float]] = {}
    for name, weight in prunable(model).items():
        own = weight.data  # evaluate may want gradients, so they stay on there
        dense = own.clone()
        curves[name] = []
        try:
            for s in sparsities:
                own.copy_(dense.masked_fill(~smallest(dense.abs(), s), 0))
                curves[name].append(evaluate(model, "validation"))
        finally:
            own.copy_(dense)
    return curves
