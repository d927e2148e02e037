"""Make lab 02's stored results: every experiment of the lab, six seeds on the digits and
three on MNIST.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from course_lib.data.images import ImageData, load
from course_lib.experiments import by_seed, lab02
from course_lib.models import build
from course_lib.pruning import weights
from course_lib.training import evaluate, fit

TARGETS = (0.5, 0.8, 0.9, 0.95, 0.97, 0.98)  # with training after each
L1 = (1e-4, 3e-4, 1e-3, 2e-3, 3e-3)
ROUNDS = 12  # between two of which the scores are computed again
ZEROS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
# removed, where forecasts are added up
TOGETHER = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5)
PENALTIES = [("proximal", lam) for lam in L1] + [("subgradient", 3e-4), ("L2", 3e-4)]
DENSE = {"procedure": "dense", "method": "dense", "sparsity": float("nan")}


def shares_of_obd(model: nn.Module, x: torch.Tensor, y: torch.Tensor, seed: int) -> weights.Scores:
    """Magnitude's order within each layer, with OBD's share of each: the k-th smallest
    weight of a layer gets the layer's k-th lowest OBD score.
    """
    obd, found = lab02.CRITERIA["OBD"](model, x, y, seed), {}
    for name, size in lab02.CRITERIA["magnitude"](model, x, y, seed).items():
        ranks = size.flatten().argsort(stable=True).argsort()
        found[name] = obd[name].flatten().sort().values[ranks].view(size.shape)
    return found


# with training between the rounds; the rival of the scores that use the loss
TRAINED: dict[str, lab02.Criterion] = {
    name: of for name, of in lab02.CRITERIA.items() if name != "signed forecast"
} | {"magnitude, OBD's shares": shares_of_obd}


def in_rounds(
    model: nn.Module, data: ImageData, method: str, samples: int, seed: int, rounds: int
) -> list[dict[str, Any]]:
    """All layers together; the scores are computed again before each removal, and nothing
    is trained.
    """
    x, y = lab02.sample_of(data.train, samples)

    def prune(net: nn.Module, sparsity: float) -> None:
        targets = weights.geometric(sparsity, rounds)
        weights.prune_rescored(net, targets, lambda now: lab02.CRITERIA[method](now, x, y, seed))

    return lab02.accuracies(model, data, lab02.SPARSITIES, prune)


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


def one_seed(seed: int, data: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Everything of the lab with one seed: rows of each table, without ``seed``; in
    "equal_zeros" accuracies at shares of zeros (%), on a straight line between two strengths.
    """
    images, samples = load(data).subset(settings["images"]), settings["samples"]
    few = min(samples, lab02.ROUND_SAMPLES)

    def fresh() -> nn.Module:
        return build("lenet300", images, seed=seed)

    model = lab02.trained(fresh(), images, seed, settings["epochs"])
    single = lab02.single_weights(model, *lab02.sample_of(images.train, samples), 300, seed)
    forecasts = lab02.rank_correlations(pd.DataFrame(single).assign(seed=seed))
    accuracy, test = evaluate(model, images.validation), evaluate(model, images.test)
    pruned: list[dict[str, Any]] = [{**DENSE, "accuracy": accuracy, "test": test}]

    def add(procedure: str, method: str, rows: Iterable[dict[str, Any]]) -> None:
        pruned.extend({"procedure": procedure, "method": method, **row} for row in rows)

    for procedure, number, rounds in (("at once", samples, 1), ("in rounds", few, ROUNDS)):
        for method in lab02.CRITERIA:
            add(procedure, method, in_rounds(model, images, method, number, seed, rounds))
    for method in lab02.LADDER:
        rows = lab02.on_the_ladder(model, images, method, lab02.SPARSITIES, samples, seed)
        add("per row", method, rows)
    for method, criterion in TRAINED.items():
        how = (TARGETS, few, settings["retrain"], seed)
        net, reached = lab02.trained_between(model, images, criterion, *how)
        pairs = zip(TARGETS, reached, strict=True)
        rows = [{"sparsity": sparsity, "accuracy": accuracy} for sparsity, accuracy in pairs]
        rows[-1]["test"] = evaluate(net, images.test)
        add("with training", method, rows)
    runs: list[tuple[Any, ...]] = [(lab02.with_l1, *arm) for arm in PENALTIES]
    runs += [(with_magnitude, how, share) for how in ("magnitude", "random") for share in ZEROS]
    epochs = settings["l1_epochs"]
    penalties = [
        {"method": how, "strength": by} | run(fresh(), images, seed, how, by, epochs)
        for run, how, by in runs
    ]
    found = pd.DataFrame(penalties).query("method in ['proximal', 'magnitude', 'random']")
    return {
        "together": lab02.add_up(model, *lab02.sample_of(images.train, few), TOGETHER),
        "equal_zeros": [
            {"method": method, "zeros": at, "accuracy": np.interp(at, of.zeros, of.accuracy)}
            for method, of in found.sort_values("zeros").groupby("method", sort=False)
            for at in (20, 40, 60, 80, 90)
        ],
        "forecasts": forecasts.drop(columns="seed").to_dict("records"),
        "pruned": pruned,
        "penalties": penalties,
    }


RESULTS = {
    "lab02_criteria_digits": by_seed(
        "Every experiment of lab 02 on the digits, six seeds.",
        lab02.DIGITS, 6, one_seed, data="digits",
    ),
    "lab02_criteria_mnist": by_seed(
        "The same on MNIST, 6,000 images, three seeds.",
        lab02.MNIST, 3, one_seed, data="mnist",
    ),
}  # fmt: skip
