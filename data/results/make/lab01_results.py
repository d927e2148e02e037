"""Lab 01's long runs: the experiments of its notebook by the library, with five seeds.

``course remake lab01_long_run_digits`` asks whether it pays to prune in steps, with 6 to
60 epochs; ``lab01_pruning_digits`` and ``lab01_pruning_mnist`` are the experiments on
either set of images. Accuracies are % of validation images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
from torch import Tensor

from course_lib.data.images import load
from course_lib.experiments import by_seed, lab01
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


def rows(found: Sequence[pd.DataFrame], *columns: str) -> list[dict[str, Any]]:
    """Of one seed, as JSON can hold them: each row once, None for a missing sparsity."""
    every = pd.concat(found)[list(columns)].drop_duplicates()
    return every.astype(object).where(every.notna(), None).to_dict("records")


def one_seed(seed: int, data: str, settings: Mapping[str, int]) -> dict[str, Any]:
    """The notebook's experiments with one network: the rows of each table."""
    images = load(data).subset(settings["train"], validation=lab01.VALIDATION)
    dense, budget = lab01.train_dense(images, [seed], settings["dense_epochs"]), settings["budget"]
    methods = {"magnitude": by_layer, "random": by_layer, "global": together}
    in_steps = lab01.prune_in_steps(
        dense, images, weights.prune_iteratively, weights.cubic, TRAINED, budget
    )
    cut = partial(lab01.prune_once, dense, images, epochs=budget)
    others = {"random": by_layer, "global, fine-tuned": together, "dense, trained on": whole}
    at_once = cut(others, TRAINED)
    restarted = cut({"fine-tuned, 3 restarts": by_layer}, TRAINED, restarts=3)
    untrained = [
        lab01.prune_once(dense, images, methods, UNTRAINED, repair=repair).assign(batch_norm=state)
        for state, repair in {"as pruned": False, "recalibrated": True}.items()
    ]
    pieces = {g: partial(by_layer, granularity=g) for g in weights.GRANULARITIES}
    structured = [
        cut({"magnitude": choose, "random": choose}, STRUCTURED).assign(granularity=piece)
        for piece, choose in pieces.items()
    ]
    reached, pruned = ("method", "sparsity", "accuracy"), "method != 'dense'"
    return {
        "untrained": rows(
            [table.query(pruned) for table in untrained], "method", "batch_norm", *reached[1:]
        ),
        "trained": rows([in_steps, at_once, restarted], *reached),
        "structured": rows([table.query(pruned) for table in structured], "granularity", *reached),
    }


def long_run(seed: int, data: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """One network, pruned to one sparsity with each number of epochs and steps."""
    images = load(data).subset(settings["train"])
    dense, at = lab01.train_dense(images, [seed], settings["dense_epochs"]), [settings["sparsity"]]
    found, by_steps = [], (weights.prune_iteratively, weights.cubic, at)
    for epochs in settings["epochs"]:
        cut = partial(lab01.prune_once, dense, images, sparsities=at, epochs=epochs)
        tables = [
            lab01.prune_in_steps(dense, images, *by_steps, epochs, settings["steps"]),
            cut({"random": by_layer, "global, fine-tuned": together}),
            *(cut({f"fine-tuned, {n} restarts": by_layer}, restarts=n) for n in (3, 6)),
        ]
        found.append(pd.concat(tables).assign(epochs=epochs).round({"accuracy": 2}))
    pruned = [table.query("method != 'dense'") for table in found]
    return {"accuracy": rows(pruned, "method", "epochs", "accuracy")}


DIGITS, MNIST = lab01.SETTINGS["digits"], lab01.SETTINGS["mnist"]
RESULTS = {
    "lab01_long_run_digits": by_seed(
        "98 % of the weights pruned in one, three or six steps: 6 to 60 epochs, five seeds.",
        LONG, SEEDS, long_run, data="digits",
    ),
    "lab01_pruning_digits": by_seed(
        "The lab's experiments on the digits, five seeds.",
        DIGITS, SEEDS, one_seed, data="digits",
    ),
    "lab01_pruning_mnist": by_seed(
        "The lab's experiments on 3,000 images of MNIST, five seeds.",
        MNIST, SEEDS, one_seed, data="mnist",
    ),
}  # fmt: skip
