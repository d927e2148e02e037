"""Lab 03: tickets and their controls through all rounds, and networks that are sparse
from the first step to the last.

LeNet-300-100 on digits or MNIST, as in Frankle & Carbin 2019, section 2: Adam with
learning rate 1.2e-3, batches of 60, a fifth of the weights a round and a tenth in the
output layer, back to step 0. Trainings are shorter than theirs (50,000 iterations); the
settings say how long.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from course_lib.models import build
from course_lib.pruning.weights.granularity import local_masks
from course_lib.pruning.weights.lottery import Record, early_stop, steps_to
from course_lib.pruning.weights.masks import prunable
from course_lib.pruning.weights.scores import random
from course_lib.pruning.weights.sparse_training import (
    DynamicSparse,
    erdos_renyi_densities,
    uniform_densities,
)
from course_lib.pruning.weights.ticket_search import CONTROLS, find_tickets
from course_lib.training import train_and_test

RATE = 0.2
RECIPE: dict[str, Any] = {"lr": 1.2e-3, "optimizer": "adam", "batch_size": 60}  # of every training
LEVEL = 95.0  # validation accuracy in %, for "steps to 95 %"
ARMS = ("ticket", "reinit", "random mask")
BUDGETS = (30, 60, 90, 150)  # epochs of every training on the digits
MNIST = {"rounds": 16, "epochs": 9, "iterations": 8000, "every": 100}
DENSITIES: dict[str, Callable[..., dict[str, float]]] = {
    "uniform": uniform_densities,
    "Erdős–Rényi": erdos_renyi_densities,
}
METHODS = ("static", "set", "rigl")


@dataclass(frozen=True)
class Images:
    """What ``models.build`` has to know of a data set: light enough to travel with
    every training.
    """

    shape: tuple[int, int, int]
    classes: int = 10


IMAGES = {"digits": Images((1, 8, 8)), "mnist": Images((1, 28, 28))}


def search(
    data: str,
    seeds: Iterable[int],
    *,
    rounds: int,
    epochs: int,
    iterations: int | None = None,
    every: int,
    folder: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> dict[int, list[Record]]:
    """Ticket and both controls, round by round: seed -> records, see
    :func:`course_lib.pruning.weights.find_tickets`.

    Args:
        data: "digits" or "mnist".
        seeds: each decides first weights, order of the images and controls of one
            search.
        rounds: how often to prune.
        epochs: of every training.
        iterations: the end of every training, where that comes before the end of the
            last epoch.
        every: steps between two looks at the validation images.
        folder, executor, progress: as there. With a folder an interrupted search goes
            on where it was.

    Returns:
        Records whose ``result`` is what :func:`course_lib.training.train_and_test`
        returns; ``controls`` "reinit", "random".
    """
    return find_tickets(
        seeds,
        functools.partial(build, "lenet300", IMAGES[data]),
        functools.partial(
            train_and_test,
            data=data,
            epochs=epochs,
            iterations=iterations,
            every=every,
            **RECIPE,
        ),
        rounds,
        RATE,
        controls=CONTROLS,
        folder=folder,
        executor=executor,
        progress=progress,
    )


def measured(found: Mapping[int, Sequence[Record]], every: int) -> dict[str, Any]:
    """What the figures need, as plain data.

    Args:
        found: what :func:`search` returned.
        every: as there.

    Returns:
        ``remaining``, the fraction of weights in each round; and for each of ``ARMS`` a
        dict of lists (seeds, rounds + 1), where the dense round 0 is the same for all:

        - ``accuracy``: of the trained network on the test images, in %;
        - ``steps``: until 95 % of the validation images were right; None where that
          never came;
        - ``early_stop``: the step of minimum validation loss;
        - ``stopped``: validation accuracy at that step, in %.
    """
    arms: dict[str, dict[str, list[list[Any]]]] = {}
    for arm, control in zip(ARMS, (None, *CONTROLS), strict=True):
        table: dict[str, list[list[Any]]] = {
            "accuracy": [],
            "steps": [],
            "early_stop": [],
            "stopped": [],
        }
        for records in found.values():
            results = [
                (
                    r["result"]
                    if control is None or not r["round"]
                    else r["controls"][control]["result"]
                )
                for r in records
            ]
            stops = [early_stop(r["validation_loss"], every) for r in results]
            table["accuracy"].append([round(r["accuracy"], 2) for r in results])
            table["steps"].append([steps_to(r["validation"], LEVEL, every) for r in results])
            table["early_stop"].append(stops)
            table["stopped"].append(
                [
                    round(r["validation"][stop // every - 1], 2)
                    for r, stop in zip(results, stops, strict=True)
                ]
            )
        arms[arm] = table
    first = next(iter(found.values()))
    return {"remaining": [round(r["remaining"], 5) for r in first], **arms}


def numbers(values: Sequence[Sequence[float | None]]) -> list[list[float]]:
    """(seeds, rounds) with NaN where there was None, for the figures."""
    return [[math.nan if v is None else float(v) for v in row] for row in values]


# ---- sparse from the start: a random mask that stays, and one whose connections may move


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
    """Train LeNet-300-100 with ``density`` of its weights. For equal seeds all methods
    start from the same weights and mask.

    Args:
        method: "static", the mask stays; "set", connections move by chance; "rigl", by
            the dense gradient.
        layers: how the weights are shared out, "uniform" or "Erdős–Rényi".
        density: the fraction of all weights, in [0, 1].
        seed: decides first weights, first mask, the order of the images and what grows
            by chance.
        data: "digits" or "mnist".
        epochs, iterations: as :func:`course_lib.training.train_and_test` has them;
            Adam, 1.2e-3, batches of 60.
        steps: how many steps that makes; the last exchange is at three quarters.
        every: steps from one exchange to the next.
        fraction: the share exchanged at the start.

    Returns:
        What ``train_and_test`` returns, and ``exchanged``, the connections moved in
        all.

    Raises:
        ValueError: if there is no such method or sharing.
    """
    if method not in METHODS or layers not in DENSITIES:
        raise ValueError(
            f"choose a method of {METHODS} and layers of {tuple(DENSITIES)}, got {method!r},"
            f" {layers!r}"
        )
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
    moving = DynamicSparse(
        model, masks, method, steps=steps, every=every, fraction=fraction, generator=generator
    )
    with moving:
        result = train(model, None, 0, None)
    return {**result, "exchanged": sum(e.count for e in moving.exchanges)}


# ---- the files


def remake_digits(executor: Executor, folder: Path) -> dict[str, Any]:
    """Tickets and controls on the digits, five seeds, from 30 to 150 epochs a training:
    ``{epochs: measured}``.
    """
    return {
        str(epochs): measured(
            search(
                "digits",
                range(5),
                rounds=13,
                epochs=epochs,
                every=4,
                folder=folder / f"{epochs}-epochs",
                executor=executor,
                progress=True,
            ),
            every=4,
        )
        for epochs in BUDGETS
    }


def remake_mnist(executor: Executor, folder: Path) -> dict[str, Any]:
    """Tickets and controls on MNIST, three seeds, 8,000 iterations a training, down to
    2.9 % of the weights.
    """
    found = search("mnist", range(3), **MNIST, folder=folder, executor=executor, progress=True)
    return measured(found, every=MNIST["every"])


RESULTS = {"lab03_tickets_digits": remake_digits, "lab03_tickets_mnist": remake_mnist}
