"""Scores: how important each weight is. Larger = more important, the smallest go first.

A score has the shape of its weight. What a score means is up to the method; how many
weights go, and in which shapes, is decided in
:mod:`course_lib.pruning.weights.granularity`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from course_lib.models.layouts import like

#: A score for every weight (parameter name -> tensor), larger where more important.
Scores = dict[str, Tensor]


def magnitude(weights: Mapping[str, Tensor]) -> Scores:
    """|w|: a weight near zero changes its layer's output little, whatever the (bounded)
    input.

    Args:
        weights: tensors of any shapes by name, as
            :func:`course_lib.pruning.weights.prunable` gives them. Not changed.

    Returns:
        Their absolute values, detached, in their own dtype and on their own device.

    Source: Han et al. 2015, "Learning both Weights and Connections for Efficient Neural
    Networks", section 3.
    """
    return {name: like(weight, weight.detach().abs()) for name, weight in weights.items()}


def random(weights: Mapping[str, Tensor], generator: torch.Generator) -> Scores:
    """A uniform random number per weight: the control that every other score has to
    beat.

    Drawn in the order of ``weights``, so generators with equal seeds give equal scores,
    and the masks selected from them at rising sparsities are nested. Drawn in float64:
    among millions of float32 numbers many are equal, and ties would be broken by
    position rather than by chance.

    Args:
        weights: tensors of any shapes by name; only shapes and devices are used.
        generator: where the randomness comes from, e.g.
            ``torch.Generator().manual_seed(0)``.

    Returns:
        Scores in [0, 1), on the weights' devices.

    Raises:
        TypeError: if ``generator`` is not a ``torch.Generator``: global randomness is
            not used here.
    """
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            "random scores need a torch.Generator, e.g. torch.Generator().manual_seed(0), got"
            f" {generator!r}"
        )
    scores = {}
    for name, weight in weights.items():
        # Apple's GPUs have no float64
        no_double = "mps" in (weight.device.type, generator.device.type)
        dtype = torch.float32 if no_double else torch.float64
        drawn = torch.rand(weight.shape, generator=generator, dtype=dtype, device=generator.device)
        scores[name] = like(weight, drawn.to(weight.device))
    return scores


class ScoresOnDemand(Mapping[str, Tensor]):
    """Scores that are computed whenever they are read: for a model whose
    scores would not fit into memory beside it.

    ::

        from course_lib.pruning import weights

        of = weights.prunable(model)
        scores = weights.ScoresOnDemand(of, lambda name, w: w.detach().abs())
        weights.apply(model, weights.global_masks(scores, 0.5))

    Args:
        weights: tensors of any shapes by name. score: name and weight -> its score, of
            the weight's shape, the same at every call.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], score: Callable[[str, Tensor], Tensor]
    ) -> None:
        self._weights = weights
        self._score = score

    def __getitem__(self, name: str) -> Tensor:
        weight = self._weights[name]
        return like(weight, self._score(name, weight))

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)
