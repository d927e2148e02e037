"""The small experiments of the lecture to lab 03: LeNet-300-100 on the digits, four rounds
that halve the weights, 20 epochs per training, three seeds.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from course_lib.data.images import ImageData
from course_lib.experiments import lab03
from course_lib.models import build
from course_lib.pruning.weights.lottery import (
    Record,
    find_ticket,
    random_ticket,
    reinitialise,
    rewind,
    shrink,
)
from course_lib.pruning.weights.masks import Masks, dense_masks, prunable
from course_lib.training import evaluate, fit, train_and_test

SEEDS, EPOCHS, ROUNDS, RATE = 3, 20, 4, 0.5


@dataclass
class Search:
    """One search: its records, and the dense network's state after its training."""

    seed: int
    records: list[Record]
    trained: dict[str, Tensor]

    @property
    def masks(self) -> Masks:
        """Of the last round."""
        masks: Masks = self.records[-1]["masks"]
        return masks


def lenet(data: ImageData, seed: int) -> nn.Module:
    """The untrained network of a seed."""
    return build("lenet300", data, seed=seed)


def train(
    data: ImageData, model: nn.Module, masks: Masks, seed: int, **options: Any
) -> dict[str, Any]:
    """Train in place; what :func:`course_lib.training.train_and_test` returns, whose
    ``options`` they are.
    """
    options = {"epochs": EPOCHS, "every": 10_000, **lab03.RECIPE, **options}
    return train_and_test(model, masks, 0, None, data=data, seed=seed, **options)


def searches(data: ImageData) -> list[Search]:
    """A search per seed."""
    return [_search(data, seed) for seed in range(SEEDS)]


def _search(data: ImageData, seed: int) -> Search:
    states = []

    def one_round(model: nn.Module, masks: Masks, start: int, stop: int | None) -> Any:
        result = train(data, model, masks, seed)
        states.append(copy.deepcopy(model.state_dict()))
        return result

    records = find_ticket(lambda: lenet(data, seed), one_round, ROUNDS, RATE)
    return Search(seed, records, states[0])


def losses(data: ImageData, masks: Masks) -> pd.DataFrame:
    """Validation loss every 10 steps of 40 epochs: columns ``method`` ("dense", "ticket",
    "reinit"), ``step``, ``validation loss``; one seed.
    """
    parts = []
    for method in ("dense", "ticket", "reinit"):
        net = lenet(data, 0)
        if method == "reinit":
            reinitialise(net, masks, 1000)
        kept = dense_masks(net) if method == "dense" else masks
        result = train(data, net, kept, 0, epochs=40, every=10)
        found = {"step": result["steps"], "validation loss": result["validation_loss"]}
        parts.append(pd.DataFrame({"method": method, **found}))
    return pd.concat(parts)


STARTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "$w_0$ as it was": lambda own, other: own,
    "its signs, all of one size": lambda own, other: own.sign() * own.std(),
    "its signs, another draw's sizes": lambda own, other: own.sign() * other.abs(),
    "its sizes, another draw's signs": lambda own, other: own.abs() * other.sign(),
    "another draw": lambda own, other: other,
}


@torch.no_grad()
def _set_start(net: nn.Module, masks: Masks, other: nn.Module, start: str) -> nn.Module:
    """Give the kept weights of ``net`` the values of ``STARTS[start]``."""
    rewind(net, copy.deepcopy(net.state_dict()), masks)
    drawn = prunable(other)
    for name, w in prunable(net).items():
        w[masks[name]] = STARTS[start](w[masks[name]], drawn[name][masks[name]])
    return net


def starts(data: ImageData, found: Sequence[Search]) -> pd.DataFrame:
    """The last masks trained from parts of w_0, each of ``STARTS``: columns ``seed``,
    ``method``, ``test`` (test accuracy in %).
    """
    rows = []
    for one in found:
        for start in STARTS:
            net = _set_start(lenet(data, one.seed), one.masks, lenet(data, 1000 + one.seed), start)
            result = train(data, net, one.masks, one.seed)
            rows.append({"seed": one.seed, "method": start, "test": result["accuracy"]})
    return pd.DataFrame(rows)


def valleys(data: ImageData) -> pd.DataFrame:
    """Two trainings from one w_k that see the images in different orders: columns
    ``seed``, ``learning rate``, ``runs`` (the step k) and ``rise``, by how many points the
    training error rises on the straight line between their ends.
    """
    return pd.DataFrame(
        {
            "seed": seed,
            "learning rate": f"{lr:g}",
            "runs": f"k = {k}",
            "rise": _measure_barrier(data, k, lr, seed),
        }
        for k in (0, 95)
        for lr in (0.05, 0.2, 0.35)
        for seed in range(SEEDS)
    )


def _measure_barrier(data: ImageData, k: int, lr: float, seed: int) -> float:
    train = functools.partial(
        fit, split=data.train, epochs=10, lr=lr, optimizer="sgd", batch_size=60,
        schedule="cosine", progress=False,
    )  # fmt: skip
    base, ends = lenet(data, seed), []
    train(base, seed=seed, stop=k)
    for order in (100 + seed, 200 + seed):
        model = copy.deepcopy(base)
        train(model, seed=order, start=k)
        ends.append(model.state_dict())
    errors = []
    for a in np.linspace(0, 1, 7).tolist():
        between = {name: (1 - a) * ends[0][name] + a * ends[1][name] for name in ends[0]}
        base.load_state_dict(between)
        errors.append(100 - evaluate(base, data.train))
    return max(errors) - (errors[0] + errors[-1]) / 2


def rewound_or_kept(data: ImageData, found: Sequence[Search]) -> pd.DataFrame:
    """Pruned in rounds or at once, rewound to w_0 or trained on: columns ``seed``,
    ``pruned`` (how, and how many trainings), ``start``, ``method`` (both), ``test``.

    After one cut "long" trains as many steps as all rounds together. The random mask has
    as many weights per layer and starts from w_0.
    """
    rows = []

    def add(seed: int, pruned: str, trainings: int, start: str, result: Any) -> None:
        cost = f"{trainings} training{'s' * (trainings > 1)}"
        how = {"pruned": f"{pruned} ({cost})", "start": start, "method": f"{start}, {pruned}"}
        rows.append({"seed": seed, **how, "test": result["accuracy"]})

    final = {"rate": 1 - (1 - RATE) ** ROUNDS, "output_rate": 1 - (1 - RATE / 2) ** ROUNDS}
    for one in found:
        net, seed = lenet(data, one.seed), one.seed
        w_0, masks = copy.deepcopy(net.state_dict()), dense_masks(net)
        add(seed, "in rounds", ROUNDS + 1, "rewound", one.records[-1]["result"])
        rewind(net, one.trained, masks)
        at_once = shrink(prunable(net), masks, **final)
        result: Any = None
        for _ in range(ROUNDS):
            masks = shrink(prunable(net), masks, RATE)
            result = train(data, net, masks, seed)
        add(seed, "in rounds", ROUNDS + 1, "kept", result)
        elsewhere = random_ticket(one.masks, torch.Generator().manual_seed(seed))
        for pruned, trainings, start, state, masks, times in (
            ("at once", 2, "rewound", w_0, at_once, 1),
            ("at once", 2, "kept", one.trained, at_once, 1),
            ("at once, long", 1 + ROUNDS, "kept", one.trained, at_once, ROUNDS),
            ("at random", 1, "rewound", w_0, elsewhere, 1),
        ):
            rewind(net, state, masks)
            result = train(data, net, masks, seed, epochs=times * EPOCHS)
            add(seed, pruned, trainings, start, result)
    return pd.DataFrame(rows)
