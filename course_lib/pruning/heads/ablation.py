"""What the removal of heads changes, tried out: each alone, and all of a layer but one.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 3.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def ablate_each(evaluate: Callable[[Tensor], float], layers: int, heads: int) -> Tensor:
    """What each head's removal alone changes: ``evaluate`` with this one gate at 0, minus with
    all at 1; (layers, heads) float64, negative where the model gets worse without the head.

    The slow way to see which heads matter, layers · heads + 1 evaluations, and no oracle: a
    head that another stands in for changes nothing alone, and much when both go.

    Args:
        evaluate: of gates (layers, heads), on validation data; higher is better.

    Source: Michel et al. 2019, section 3.2, table 1.
    """
    full = evaluate(torch.ones(layers, heads))
    changes = torch.zeros(layers, heads, dtype=torch.float64)
    for layer in range(layers):
        for head in range(heads):
            xi = torch.ones(layers, heads)
            xi[layer, head] = 0
            changes[layer, head] = evaluate(xi) - full
    return changes


def all_but_one(
    eval_val: Callable[[Tensor], float],
    eval_test: Callable[[Tensor], float],
    layers: int,
    heads: int,
) -> list[tuple[int, float]]:
    """For each layer alone: its best single head, all others of that layer off, and what that
    changes, (head, ``eval_test`` with it minus with all heads).

    The head is chosen on validation data and its change reported on test data: the best of
    several on the same data would look better than it is. Of equally good heads the first is
    chosen.

    Args:
        eval_val, eval_test: of gates (layers, heads), on the two splits; higher is better.

    Source: Michel et al. 2019, section 3.3, tables 2 and 3.
    """
    full = eval_test(torch.ones(layers, heads))
    result = []
    for layer in range(layers):
        alone = torch.ones(heads, layers, heads)  # of each head
        alone[:, layer] = torch.eye(heads)
        scores = [eval_val(xi) for xi in alone]
        best = scores.index(max(scores))
        result.append((best, eval_test(alone[best]) - full))
    return result
