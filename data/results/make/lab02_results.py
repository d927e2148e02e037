"""Make lab 02's stored results: every experiment of the lab, six seeds on the digits and
three on MNIST.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pandas as pd

from course_lib.data.images import load
from course_lib.experiments import Result, lab02
from course_lib.experiments.once import each_seed
from course_lib.models import build
from course_lib.pruning.weights import prune_rescored
from course_lib.training import evaluate

TARGETS = (0.5, 0.8, 0.9, 0.95, 0.97, 0.98)  # with training after each
L1 = (1e-4, 3e-4, 1e-3, 2e-3, 3e-3)
TRAINED = tuple(name for name in lab02.CRITERIA if name != "signed forecast")
DENSE = {"procedure": "dense", "method": "dense", "sparsity": float("nan")}


def one_seed(name: str, seed: int, settings: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Everything of the lab with one seed: rows of each table, without ``seed``."""
    data = load(name).subset(settings["images"])
    samples = settings["samples"]
    few = min(samples, lab02.ROUND_SAMPLES)
    model = lab02.trained(build("lenet300", data, seed=seed), data, seed, settings["epochs"])
    single = lab02.single_weights(model, *lab02.sample_of(data.train, samples), 300, seed)
    forecasts = lab02.rank_correlations(pd.DataFrame(single).assign(seed=seed))
    accuracy, test = evaluate(model, data.validation), evaluate(model, data.test)
    pruned: list[dict[str, Any]] = [{**DENSE, "accuracy": accuracy, "test": test}]
    for method in lab02.CRITERIA:
        rows = lab02.at_once(model, data, method, lab02.SPARSITIES, samples, seed)
        pruned += [{"procedure": "at once", "method": method, **row} for row in rows]
    for method in lab02.CRITERIA:
        rows = lab02.in_rounds(
            lambda net, score, targets: prune_rescored(net, targets, score),
            model,
            data,
            method,
            lab02.SPARSITIES,
            few,
            seed,
        )
        pruned += [{"procedure": "in rounds", "method": method, **row} for row in rows]
    for method in TRAINED:
        net, validation = lab02.trained_between(
            model, data, method, TARGETS, few, settings["retrain"], seed
        )
        rows = [
            {"sparsity": sparsity, "accuracy": accuracy}
            for sparsity, accuracy in zip(TARGETS, validation, strict=True)
        ]
        rows[-1]["test"] = evaluate(net, data.test)
        pruned += [{"procedure": "with training", "method": method, **row} for row in rows]
    penalties = [
        {"method": how, "strength": lam}
        | lab02.with_l1(
            build("lenet300", data, seed=seed), data, seed, how, lam, settings["l1_epochs"]
        )
        for how in ("proximal", "reweighted", "subgradient", "L2")
        for lam in L1
    ]
    return {
        "forecasts": forecasts.drop(columns="seed").to_dict("records"),
        "pruned": pruned,
        "penalties": penalties,
    }


def remake(
    executor: Executor, folder: Path, seeds: int, name: str, settings: Mapping[str, Any]
) -> Result:
    """The tables of :func:`one_seed`, of all seeds."""
    return Result(each_seed(executor, folder, seeds, one_seed, name, settings=settings), settings)


def remake_digits(executor: Executor, folder: Path) -> Result:
    """Every experiment of lab 02 on the digits, six seeds."""
    return remake(executor, folder, 6, "digits", lab02.DIGITS)


def remake_mnist(executor: Executor, folder: Path) -> Result:
    """The same on MNIST, 6,000 images, three seeds."""
    return remake(executor, folder, 3, "mnist", lab02.MNIST)


RESULTS = {"lab02_criteria_digits": remake_digits, "lab02_criteria_mnist": remake_mnist}
