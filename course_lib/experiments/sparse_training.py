"""Sparse from the first step to the last: a random mask that stays, and the same mask when its connections may move."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from course_lib.experiments.tickets import IMAGES, RECIPE
from course_lib.models import build
from course_lib.pruning.weights.granularity import local_masks
from course_lib.pruning.weights.masks import prunable
from course_lib.pruning.weights.scores import random
from course_lib.pruning.weights.sparse_training import DynamicSparse, erdos_renyi_densities, uniform_densities
from course_lib.training import train_and_test

DENSITIES: dict[str, Callable[..., dict[str, float]]] = {
    "uniform": uniform_densities,
    "Erdős–Rényi": erdos_renyi_densities,
}
METHODS = ("static", "set", "rigl")


def train_sparse(
    method: str,
    layers: str,
    density: float,
    seed: int,
    *,
    data: str,
    epochs: int,
    steps: int,
    every: int,
    fraction: float = 0.3,
    iterations: int | None = None,
) -> dict[str, Any]:
    """Train LeNet-300-100 with ``density`` of its weights. For equal seeds all methods start from the same weights and mask.

    Args:
        method: "static", the mask stays; "set", connections move by chance; "rigl", by the dense gradient.
        layers: how the weights are shared out, "uniform" or "Erdős–Rényi".
        density: the fraction of all weights, in [0, 1].
        seed: decides first weights, first mask, the order of the images and what grows by chance.
        data: "digits" or "mnist".
        epochs, iterations: as :func:`course_lib.training.train_and_test` has them; Adam, 1.2e-3, batches of 60.
        steps: how many steps that makes; the last exchange is at three quarters.
        every: steps from one exchange to the next.
        fraction: the share exchanged at the start.

    Returns:
        What ``train_and_test`` returns, and ``exchanged``, the connections moved in all.

    Raises:
        ValueError: if there is no such method or sharing.
    """
    if method not in METHODS or layers not in DENSITIES:
        raise ValueError(f"choose a method of {METHODS} and layers of {tuple(DENSITIES)}, got {method!r}, {layers!r}")
    model = build("lenet300", IMAGES[data], seed=seed)
    weights = prunable(model)
    generator = torch.Generator().manual_seed(seed)
    kept = DENSITIES[layers]({name: w.shape for name, w in weights.items()}, density)
    masks = local_masks(random(weights, generator), {name: 1 - d for name, d in kept.items()})
    train: Callable[..., dict[str, Any]] = functools.partial(
        train_and_test,
        data=data,
        seed=seed,
        epochs=epochs,
        iterations=iterations,
        **RECIPE,
    )
    if method == "static":
        return {**train(model, masks, 0, None), "exchanged": 0}
    moving = DynamicSparse(model, masks, method, steps=steps, every=every, fraction=fraction, generator=generator)
    with moving:
        result = train(model, None, 0, None)
    return {**result, "exchanged": sum(e.count for e in moving.exchanges)}
