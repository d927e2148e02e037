"""Lab 01: magnitude pruning without training and with it, and does it pay to prune in
steps? One budget of training, spent after one cut, or after each of three or six.

``course remake lab01_long_run_digits`` gives each way 6 to 60 epochs, with five seeds;
``lab01_pruning_digits`` and ``lab01_pruning_mnist`` are the lab's own experiments, by
the library, on either set of images. Accuracies are % of validation images.

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
from course_lib.experiments.once import each_seed, once
from course_lib.models import build
from course_lib.pruning.channels import recalibrate
from course_lib.pruning.weights import (
    Masks,
    Scores,
    apply,
    cubic,
    global_masks,
    local_masks,
    magnitude,
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

# images used for training; epochs of the dense networks; epochs of fine-tuning that
# every method gets in total
SETTINGS: dict[str, dict[str, int]] = {
    "digits": {"train": 1097, "dense_epochs": 20, "budget": 6},
    "mnist": {"train": 3000, "dense_epochs": 8, "budget": 3},
}
VALIDATION = 1000  # of MNIST's 5,000; enough, and quick
UNTRAINED = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
TRAINED = (0.8, 0.9, 0.95, 0.98)
STRUCTURED = (0.7, 0.9, 0.95)
GRANULARITIES = ("element", "row", "kernel", "filter")


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


def retrained(
    network: nn.Module,
    data: ImageData,
    seed: int,
    steps: int,
    budget: int,
    sparsity: float = SPARSITY,
) -> nn.Module:
    """A copy of a network, pruned in so many steps; ``budget`` epochs of training in
    all.
    """
    model = copy.deepcopy(network)
    prune_iteratively(model, cubic(sparsity, steps), finetune_for(data, budget // steps, seed))
    return model


def masked(network: nn.Module, data: ImageData, seed: int, masks: Masks, budget: int) -> nn.Module:
    """A copy of a network, pruned by these masks in one cut, and trained."""
    model = copy.deepcopy(network)
    apply(model, masks)
    finetune_for(data, budget, seed)(model, masks=masks)
    return model


def at_random(
    network: nn.Module, data: ImageData, seed: int, budget: int, sparsity: float = SPARSITY
) -> nn.Module:
    """The control: as many weights of each layer, anywhere, in one cut."""
    return masked(network, data, seed, local_masks(_noise(network, seed), sparsity), budget)


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


# ------------------------------------------------- the lab's own experiments, on any data


def untrained(network: nn.Module, data: ImageData, seed: int) -> dict[str, list[float]]:
    """Pruned in one cut, nothing trained, at :data:`UNTRAINED`: each layer by
    magnitude and at random, and all layers together; as pruned, and with batch norm's
    statistics taken anew ("recalibrated").
    """
    size, chance = magnitude(prunable(network)), _noise(network, seed)
    ways: dict[str, Callable[[float], Masks]] = {
        "magnitude": partial(local_masks, size),
        "random": partial(local_masks, chance),
        "global": partial(global_masks, size),
    }
    found: dict[str, list[float]] = {}
    for way, masks_at in ways.items():
        for sparsity in UNTRAINED:
            model = copy.deepcopy(network)
            apply(model, masks_at(sparsity))
            found.setdefault(way, []).append(evaluate(model, data.validation))
            recalibrate(model, data.train.images[:512])
            found.setdefault(f"{way}, recalibrated", []).append(evaluate(model, data.validation))
    return found


def experiments_of(data: ImageData, seed: int, settings: Mapping[str, int]) -> dict[str, Any]:
    """The lab's experiments with one network.

    Returns:
        "dense": accuracy; "untrained": as :func:`untrained`; "trained": "fine-tuned"
        (one cut), "iterative" (three) and "random", at :data:`TRAINED`, ``budget``
        epochs each; "structured": each of :data:`GRANULARITIES`, and "random filter",
        at :data:`STRUCTURED`, half of the budget each.
    """
    network, budget = dense(data, seed, settings["dense_epochs"]), settings["budget"]
    size, chance = magnitude(prunable(network)), _noise(network, seed)

    def after(train: Callable[[float], nn.Module], sparsities: tuple[float, ...]) -> list[float]:
        return [evaluate(train(sparsity), data.validation) for sparsity in sparsities]

    def in_steps(steps: int) -> Callable[[float], nn.Module]:
        return lambda sparsity: retrained(network, data, seed, steps, budget, sparsity)

    def in_groups(scores: Scores, granularity: str) -> Callable[[float], nn.Module]:
        # in the last layer, whose rows are the classes, single weights go
        groups = {name: granularity if s.ndim == 4 else "element" for name, s in scores.items()}
        return lambda sparsity: masked(
            network, data, seed, local_masks(scores, sparsity, groups), budget // 2
        )

    return {
        "dense": evaluate(network, data.validation),
        "untrained": untrained(network, data, seed),
        "trained": {
            "fine-tuned": after(in_steps(1), TRAINED),
            "iterative": after(in_steps(3), TRAINED),
            "random": after(lambda s: at_random(network, data, seed, budget, s), TRAINED),
        },
        "structured": {
            **{g: after(in_groups(size, g), STRUCTURED) for g in GRANULARITIES},
            "random filter": after(in_groups(chance, "filter"), STRUCTURED),
        },
    }


def one_seed_of(name: str, seed: int, settings: Mapping[str, int]) -> dict[str, Any]:
    """:func:`experiments_of` on data by name."""
    return experiments_of(
        load(name).subset(settings["train"], validation=VALIDATION), seed, settings
    )


def remake_pruning_digits(executor: Executor, folder: Path) -> dict[str, Any]:
    """The lab's experiments on the digits, five seeds: ``settings``, and ``seeds``, one
    of :func:`experiments_of` each.
    """
    return each_seed(executor, folder, 5, one_seed_of, "digits", SETTINGS["digits"])


def remake_pruning_mnist(executor: Executor, folder: Path) -> dict[str, Any]:
    """The same on MNIST, 3,000 images, five seeds."""
    return each_seed(executor, folder, 5, one_seed_of, "mnist", SETTINGS["mnist"])


RESULTS = {
    "lab01_long_run_digits": remake_digits,
    "lab01_pruning_digits": remake_pruning_digits,
    "lab01_pruning_mnist": remake_pruning_mnist,
}
