"""Lab 01: does it pay to prune in steps? One budget of training, spent after one cut,
or after each of three or six.

``course remake lab01_long_run_digits`` gives each way 6 to 60 epochs, with five seeds.

Source: Han et al. 2015, "Learning both Weights and Connections for Efficient Neural
Networks", section 3.4; the cubic
schedule: Zhu & Gupta 2017, "To Prune, or Not to Prune", section 3.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data.images import ImageData, load
from course_lib.experiments.once import once
from course_lib.models import build
from course_lib.pruning.weights import (
    Scores,
    apply,
    cubic,
    local_masks,
    prunable,
    prune_iteratively,
)
from course_lib.training import evaluate, fit

DENSE: dict[str, Any] = {"lr": 0.2, "optimizer": "sgd", "weight_decay": 5e-3, "schedule": "cosine"}
FINETUNE: dict[str, Any] = {
    "lr": 0.1,
    "optimizer": "sgd",
    "weight_decay": 5e-4,
    "schedule": "cosine",
}
IMAGES, EPOCHS = 1097, 20  # of training the dense networks
STEPS = {"fine-tuned": 1, "iterative, 3 steps": 3, "iterative, 6 steps": 6}
SPARSITY, BUDGETS, SEEDS = 0.98, (6, 12, 30, 60), 5


def dense(data: ImageData, seed: int, epochs: int = EPOCHS) -> nn.Module:
    """The convolutional network of a seed, trained."""
    model = build("convnet", data, seed=seed)
    fit(model, data.train, epochs=epochs, seed=seed, progress=False, **DENSE)
    return model


def finetune_for(data: ImageData, epochs: int, seed: int) -> Callable[..., None]:
    """A ``finetune(model, post_step)`` that trains for so many epochs."""

    def finetune(
        model: nn.Module,
        post_step: Callable[[], None] | None = None,
        masks: Mapping[str, Tensor] | None = None,
    ) -> None:
        how = {**FINETUNE, "masks": masks, "post_step": post_step, "progress": False}
        fit(model, data.train, epochs=epochs, seed=100 + seed, **how)

    return finetune


def retrained(network: nn.Module, data: ImageData, seed: int, steps: int, budget: int) -> nn.Module:
    """A copy of a network, pruned to :data:`SPARSITY` in so many steps; ``budget``
    epochs of training in all.
    """
    model = copy.deepcopy(network)
    prune_iteratively(model, cubic(SPARSITY, steps), finetune_for(data, budget // steps, seed))
    return model


def at_random(network: nn.Module, data: ImageData, seed: int, budget: int) -> nn.Module:
    """The control: as many weights of each layer, anywhere, in one cut."""
    model = copy.deepcopy(network)
    masks = local_masks(_noise(model, seed), SPARSITY)
    apply(model, masks)
    finetune_for(data, budget, seed)(model, masks=masks)
    return model


def _noise(model: nn.Module, seed: int) -> Scores:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.rand(w.shape, generator=generator) for name, w in prunable(model).items()}


def one_seed(seed: int) -> dict[str, dict[str, float]]:
    """Validation accuracy in % by arm and by epochs, of one network on the digits."""
    data = load("digits").subset(IMAGES)
    network = dense(data, seed)
    arms: dict[str, Callable[[int], nn.Module]] = {
        **{how: partial(retrained, network, data, seed, steps) for how, steps in STEPS.items()},
        "random": partial(at_random, network, data, seed),
    }
    return {
        how: {str(budget): round(evaluate(train(budget), data.validation), 2) for budget in BUDGETS}
        for how, train in arms.items()
    }


def remake_digits(executor: Executor, folder: Path) -> dict[str, Any]:
    """98 % of the weights go, in one step, three or six:
    ``{arm: {epochs: [validation accuracy in %, one for each seed]}}``.
    """
    running = [
        executor.submit(once, folder / f"seed{seed}.json", one_seed, seed) for seed in range(SEEDS)
    ]
    seeds = [future.result() for future in running]
    return {how: {b: [one[how][b] for one in seeds] for b in by} for how, by in seeds[0].items()}


RESULTS = {"lab01_long_run_digits": remake_digits}
