"""Scores: how important each weight is. Larger = more important, the smallest go first.

A score has the shape of its weight. What a score means is up to the method; how many weights go,
and in which shapes, is decided in :mod:`course_lib.pruning.weights.granularity`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from course_lib.models.layouts import like

#: A score for every weight (parameter name -> tensor), larger where more important.
Scores = dict[str, Tensor]


def magnitude(weights: Mapping[str, Tensor]) -> Scores:
    """|w| of tensors by name, detached, in their own dtype and on their own device: a weight near
    zero changes its layer's output little, whatever the (bounded) input.

    Source: Han et al. 2015, "Learning both Weights and Connections for Efficient Neural Networks",
    section 3.
    """
    return {name: like(weight, weight.detach().abs()) for name, weight in weights.items()}


def random(weights: Mapping[str, Tensor], generator: torch.Generator) -> Scores:
    """A uniform random number in [0, 1) per weight, on its device: the control that every other
    score has to beat.

    Drawn in the order of ``weights``, so generators with equal seeds give equal scores, and the
    masks selected from them at rising sparsities are nested. Drawn in float64: among millions of
    float32 numbers many are equal, and ties would be broken by position rather than by chance.
    Without a generator TypeError: global randomness is not used here.
    """
    check_generator(generator)
    scores = {}
    for name, weight in weights.items():
        # Apple's GPUs have no float64
        no_double = "mps" in (weight.device.type, generator.device.type)
        dtype = torch.float32 if no_double else torch.float64
        drawn = torch.rand(weight.shape, generator=generator, dtype=dtype, device=generator.device)
        scores[name] = like(weight, drawn.to(weight.device))
    return scores


def check_generator(generator: object) -> None:
    """Raises TypeError if it is no ``torch.Generator``."""
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be torch.Generator().manual_seed(…), got {generator!r}")
