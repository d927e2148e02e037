"""Lab 04's stored results: network slimming taken apart step by step, with more seeds and
more images than a lab has time for.

``course remake lab04_slimming_digits`` (six seeds) and
``course remake lab04_slimming_mnist`` (three) make them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn

from course_lib.data.images import load
from course_lib.experiments import Result, lab04
from course_lib.experiments.once import each_seed
from course_lib.models import build
from course_lib.pruning.channels import absorb_removed, select_channels, slice_pair, slimming
from course_lib.training import evaluate

DIGITS: dict[str, Any] = {"images": 1097, "epochs": 20, "finetune": 5, "lam": 2e-2, "fraction": 0.7}
MNIST: dict[str, Any] = {"images": 6000, "epochs": 8, "finetune": 3, "lam": 1e-2, "fraction": 0.7}
FINAL = ("dense", "sparse-trained", "fine-tuned", "from scratch")  # measured on test images, too


def cut(model: nn.Module, keep: lab04.Keep, absorb: bool = False) -> nn.Module:
    """The library's surgery."""
    return lab04.cut(model, keep, slice_pair, absorb_removed if absorb else None)


def one_seed(name: str, seed: int, settings: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows of one seed, by table.

    Args:
        name: of the data. seed: of the first weights, the order of the images and the
            random channels.
        settings: ``images`` used for training, ``epochs`` from scratch, ``finetune`` epochs,
            ``lam`` of the penalty, ``fraction`` of all channels to be removed.
    """
    data = load(name).subset(settings["images"])
    epochs, image = settings["epochs"], data.train.images[:1]
    train = partial(lab04.train, data=data, seed=seed, epochs=epochs)
    dense = train(build("convnet", data, seed=seed))
    penalty = partial(slimming.penalty, lam=settings["lam"])
    sparse = train(build("convnet", data, seed=seed), penalty=penalty)
    keep = select_channels(sparse, settings["fraction"])
    chosen = {
        "slimming": keep,
        "filter L1": lab04.largest_filters(sparse, keep),
        "random": lab04.random_channels(keep, seed),
    }
    steps = {
        method: lab04.prune_in_steps(
            sparse, kept, cut, data, seed, settings["finetune"], images=1024
        )
        for method, kept in chosen.items()
    }
    slim = steps["slimming"]["fine-tuned"]
    (scratch,) = lab04.from_scratch(data, [lab04.widths(keep)], epochs, first=seed)
    steps["slimming"] = {
        "dense": dense, "sparse-trained": sparse, **steps["slimming"], "from scratch": scratch
    }  # fmt: skip
    accuracy = [
        {
            "seed": seed,
            "method": method,
            "step": step,
            "accuracy": evaluate(model, data.validation),
            "test": evaluate(model, data.test) if step in FINAL else None,
        }
        for method, models in steps.items()
        for step, model in models.items()
        if method == "slimming" or step != "pruned"
    ]
    networks = {"dense": dense, "slim": slim}
    costs = [
        {"seed": seed, "network": network, "macs": lab04.macs(model, image),
         "parameters": lab04.parameters(model)}
        for network, model in networks.items()
    ]  # fmt: skip
    filters = enumerate(lab04.widths(keep), start=1)
    widths = [{"seed": seed, "layer": layer, "filters": count} for layer, count in filters]
    return {"accuracy": accuracy, "costs": costs, "widths": widths}


def remake_digits(executor: Executor, folder: Path) -> Result:
    """The slimming table on the digits, with its controls: six seeds."""
    return _remake("digits", 6, DIGITS, executor, folder)


def remake_mnist(executor: Executor, folder: Path) -> Result:
    """The slimming table on MNIST, with its controls: three seeds."""
    return _remake("mnist", 3, MNIST, executor, folder)


def _remake(
    name: str, seeds: int, settings: dict[str, Any], executor: Executor, folder: Path
) -> Result:
    tables = each_seed(executor, folder, seeds, one_seed, name, settings=settings)
    order = {"accuracy": ["method", "step"], "costs": ["network"], "widths": []}
    return Result({name: _grouped(t, order[name]) for name, t in tables.items()}, settings)


def _grouped(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Rows of one method and step together, in the order in which these first appear."""
    if not by:
        return table
    return pd.concat([rows for _, rows in table.groupby(by, sort=False)], ignore_index=True)


RESULTS = {"lab04_slimming_digits": remake_digits, "lab04_slimming_mnist": remake_mnist}
