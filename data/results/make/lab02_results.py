"""Make lab 02's stored results: every experiment of the lab, six seeds on the digits and
three on MNIST.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from course_lib.data.images import ImageData, load
from course_lib.experiments import Result, lab02
from course_lib.experiments.once import each_seed
from course_lib.models import build
from course_lib.pruning import weights
from course_lib.training import evaluate, fit

TARGETS = (0.5, 0.8, 0.9, 0.95, 0.97, 0.98)  # with training after each
L1 = (1e-4, 3e-4, 1e-3, 2e-3, 3e-3)
ROUNDS = 12  # between two of which the scores are computed again
ZEROS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
TOGETHER = (
    0.001,
    0.003,
    0.01,
    0.03,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
)  # removed, where forecasts are added up
DENSE = {"procedure": "dense", "method": "dense", "sparsity": float("nan")}


def shares_of_obd(model: nn.Module, x: torch.Tensor, y: torch.Tensor, seed: int) -> weights.Scores:
    """Magnitude's order within each layer, with OBD's share of each: the k-th smallest
    weight of a layer gets the layer's k-th lowest OBD score.
    """
    obd, found = lab02.CRITERIA["OBD"](model, x, y, seed), {}
    for name, size in lab02.CRITERIA["magnitude"](model, x, y, seed).items():
        order = size.flatten().argsort(stable=True)
        score = torch.empty(size.numel(), dtype=torch.float64, device=size.device)
        score[order] = obd[name].flatten().sort().values
        found[name] = score.view(size.shape)
    return found


# with training between the rounds; the rival of the scores that use the loss
TRAINED: dict[str, lab02.Criterion] = {
    name: of for name, of in lab02.CRITERIA.items() if name != "signed forecast"
} | {"magnitude, OBD's shares": shares_of_obd}


def at_once(
    model: nn.Module, data: ImageData, method: str, samples: int, seed: int
) -> list[dict[str, float]]:
    """All layers together, pruned in one step; nothing is trained."""
    scores = lab02.CRITERIA[method](model, *lab02.sample_of(data.train, samples), seed)
    return lab02.accuracies(
        model,
        data,
        lab02.SPARSITIES,
        lambda net, s: weights.apply(net, weights.global_masks(scores, s)),
    )


def in_rounds(
    model: nn.Module, data: ImageData, method: str, samples: int, seed: int
) -> list[dict[str, float]]:
    """The same, with the scores computed again before each of :data:`ROUNDS` removals."""
    x, y = lab02.sample_of(data.train, samples)

    def score(net: nn.Module) -> weights.Scores:
        return lab02.CRITERIA[method](net, x, y, seed)

    return lab02.accuracies(
        model,
        data,
        lab02.SPARSITIES,
        lambda net, s: weights.prune_rescored(net, weights.geometric(s, ROUNDS), score),
    )


def with_magnitude(
    model: nn.Module, data: ImageData, seed: int, how: str, zeros: float, epochs: int
) -> dict[str, float]:
    """The rival of :func:`lab02.with_l1` with as many epochs of the same training: half of them
    dense, then a share ``zeros`` of all weights is pruned, the smallest ("magnitude") or at
    "random", and the mask is held. Returns the same.
    """
    plain: dict[str, Any] = {"optimizer": partial(torch.optim.SGD, lr=lab02.SGD["lr"]), **lab02.SGD}
    fit(model, data.train, epochs=epochs // 2, seed=1000 * seed, **plain)
    masks = weights.global_masks(
        lab02.CRITERIA[how](model, *lab02.sample_of(data.train, 1), seed), zeros
    )
    weights.apply(model, masks)
    rest = epochs - epochs // 2
    fit(model, data.train, epochs=rest, seed=1000 * seed + 1, masks=masks, **plain)
    return lab02.zeros_and_accuracy(model, data)


def at_equal_zeros(penalties: pd.DataFrame, shares: Iterable[float]) -> pd.DataFrame:
    """Of one seed, ``accuracy`` by method at each share of ``zeros`` (in %): on a straight
    line between two strengths.
    """
    parts = penalties.sort_values("zeros").groupby("method", sort=False)
    return pd.DataFrame(
        {"method": method, "zeros": share, "accuracy": np.interp(share, of.zeros, of.accuracy)}
        for method, of in parts
        for share in shares
    )


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
        rows = at_once(model, data, method, samples, seed)
        pruned += [{"procedure": "at once", "method": method, **row} for row in rows]
    for method in lab02.CRITERIA:
        rows = in_rounds(model, data, method, few, seed)
        pruned += [{"procedure": "in rounds", "method": method, **row} for row in rows]
    for method in lab02.LADDER:
        rows = lab02.on_the_ladder(model, data, method, lab02.SPARSITIES, samples, seed)
        pruned += [{"procedure": "per row", "method": method, **row} for row in rows]
    for method, criterion in TRAINED.items():
        net, validation = lab02.trained_between(
            model, data, criterion, TARGETS, few, settings["retrain"], seed
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
        for how in ("proximal", "subgradient", "L2")
        for lam in L1
    ]
    penalties += [
        {"method": how, "strength": share}
        | with_magnitude(
            build("lenet300", data, seed=seed), data, seed, how, share, settings["l1_epochs"]
        )
        for how in ("magnitude", "random")
        for share in ZEROS
    ]
    found = pd.DataFrame(penalties)
    found = found[found.method.isin(["proximal", "magnitude", "random"])]
    equal = at_equal_zeros(found, (20, 40, 60, 80, 90))
    together = lab02.add_up(model, *lab02.sample_of(data.train, few), TOGETHER)
    return {
        "together": together,
        "equal_zeros": equal.to_dict("records"),
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
