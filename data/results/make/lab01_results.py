"""Lab 01's long runs: the experiments of its notebook by the library, with five seeds.

``course remake lab01_long_run_digits`` asks whether it pays to prune in steps, with 6 to
60 epochs; ``lab01_pruning_digits`` and ``lab01_pruning_mnist`` are the experiments on
either set of images. Accuracies are % of validation images.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from course_lib.data.images import load
from course_lib.experiments import Result, lab01
from course_lib.experiments.once import each_seed
from course_lib.pruning import weights

SEEDS = 5
UNTRAINED = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
TRAINED = (0.8, 0.9, 0.95, 0.98)
STRUCTURED = (0.7, 0.8, 0.9, 0.95)
LONG: dict[str, Any] = {
    "train": 1097,
    "dense_epochs": 20,
    "sparsity": 0.98,
    "epochs": [6, 12, 30, 60],
    "steps": {"fine-tuned": 1, "iterative, 3 steps": 3, "iterative, 6 steps": 6},
}


def by_layer(
    values: Mapping[str, Tensor], sparsity: float, granularity: str = "element"
) -> weights.Masks:
    """Each layer loses the same share; of the last one, whose rows are the classes,
    single weights.
    """
    pieces = {name: granularity if w.ndim == 4 else "element" for name, w in values.items()}
    return weights.local_masks(weights.magnitude(values), sparsity, pieces)


def together(values: Mapping[str, Tensor], sparsity: float) -> weights.Masks:
    """One threshold for all layers."""
    return weights.global_masks(weights.magnitude(values), sparsity)


def whole(values: Mapping[str, Tensor], sparsity: float) -> weights.Masks:
    """Nothing is pruned, whatever the sparsity."""
    return weights.local_masks(weights.magnitude(values), 0)


def one_seed(name: str, seed: int, settings: Mapping[str, int]) -> dict[str, Any]:
    """The notebook's experiments with one network: the rows of each table."""
    data = load(name).subset(settings["train"], validation=lab01.VALIDATION)
    dense, budget = lab01.train_dense(data, [seed], settings["dense_epochs"]), settings["budget"]
    methods = {"magnitude": by_layer, "random": by_layer, "global": together}
    pieces = {g: partial(by_layer, granularity=g) for g in weights.GRANULARITIES}
    in_steps = lab01.prune_in_steps(
        dense, data, weights.prune_iteratively, weights.cubic, TRAINED, budget
    )
    cut = partial(lab01.prune_once, dense, data, epochs=budget)
    at_once = cut(
        {"random": by_layer, "global, fine-tuned": together, "dense, trained on": whole}, TRAINED
    )
    restarted = cut({"fine-tuned, 3 restarts": by_layer}, TRAINED, restarts=3)
    untrained = [
        lab01.prune_once(dense, data, methods, UNTRAINED, repair=repair).assign(batch_norm=state)
        for state, repair in {"as pruned": False, "recalibrated": True}.items()
    ]
    structured = [
        cut({"magnitude": choose, "random": choose}, STRUCTURED).assign(granularity=piece)
        for piece, choose in pieces.items()
    ]
    return {
        "untrained": rows(pd.concat(untrained).query("method != 'dense'")),
        "trained": rows(pd.concat([in_steps, at_once, restarted])),
        "structured": rows(pd.concat(structured).query("method != 'dense'")),
    }


def one_seed_of_long_run(name: str, seed: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """One network, pruned to one sparsity with each number of epochs and steps."""
    data = load(name).subset(settings["train"])
    dense, at = lab01.train_dense(data, [seed], settings["dense_epochs"]), [settings["sparsity"]]
    found = []
    for epochs in settings["epochs"]:
        in_steps = lab01.prune_in_steps(
            dense, data, weights.prune_iteratively, weights.cubic, at, epochs, settings["steps"]
        )
        cut = partial(lab01.prune_once, dense, data, sparsities=at, epochs=epochs)
        at_once = [cut({"random": by_layer, "global, fine-tuned": together})]
        for restarts in (3, 6):
            at_once.append(cut({f"fine-tuned, {restarts} restarts": by_layer}, restarts=restarts))
        found.append(pd.concat([in_steps, *at_once]).assign(epochs=epochs).round({"accuracy": 2}))
    return {"accuracy": rows(pd.concat(found).query("method != 'dense'"))}


def rows(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Of one seed, as JSON can hold them: each row once, None for a missing sparsity."""
    once = found.drop(columns=["seed", "network"]).drop_duplicates()
    return once.astype(object).where(once.notna(), None).to_dict("records")


def collect(
    found: Mapping[str, pd.DataFrame], columns: Mapping[str, list[str]], settings: Mapping[str, Any]
) -> Result:
    """The tables with these columns after ``seed``."""
    return Result({name: found[name][["seed", *own]] for name, own in columns.items()}, settings)


def remake_long_run(executor: Executor, folder: Path) -> Result:
    """98 % of the weights pruned in one, three or six steps: 6 to 60 epochs, five seeds."""
    found = each_seed(executor, folder, SEEDS, one_seed_of_long_run, "digits", settings=LONG)
    return collect(found, {"accuracy": ["method", "epochs", "accuracy"]}, LONG)


def remake_pruning(name: str, executor: Executor, folder: Path) -> Result:
    """The lab's experiments on one set of images, five seeds."""
    settings = lab01.SETTINGS[name]
    found = each_seed(executor, folder, SEEDS, one_seed, name, settings=settings)
    common = ["method", "sparsity", "accuracy"]
    untrained = ["method", "batch_norm", "sparsity", "accuracy"]
    structured = ["granularity", *common]
    columns = {"untrained": untrained, "trained": common, "structured": structured}
    return collect(found, columns, settings)


def remake_digits(executor: Executor, folder: Path) -> Result:
    """The lab's experiments on the digits, five seeds."""
    return remake_pruning("digits", executor, folder)


def remake_mnist(executor: Executor, folder: Path) -> Result:
    """The lab's experiments on 3,000 images of MNIST, five seeds."""
    return remake_pruning("mnist", executor, folder)


RESULTS = {
    "lab01_long_run_digits": remake_long_run,
    "lab01_pruning_digits": remake_digits,
    "lab01_pruning_mnist": remake_mnist,
}
