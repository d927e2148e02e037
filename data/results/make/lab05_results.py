"""Lab 05's stored results: its experiments with more seeds, or on more images, than a
lab has time for.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from course_lib.data.images import ImageData, load
from course_lib.experiments import Result, lab05
from course_lib.experiments.lab05 import Row
from course_lib.experiments.once import each_seed
from course_lib.models import build
from course_lib.pruning.weights import group_columns
from course_lib.training import evaluate, fit

PACKINGS = ((8, 0.0), (8, 0.05), (8, 0.1), (8, 0.25), (8, 0.5), (16, 0.5))  # size and γ
RANDOM_SIZES = (2, 3, 4, 5, 6, 8)
# n of the weights, n of the activations, m
JOINT = ((2, 2, 4), (1, 2, 4), (2, 1, 4), (1, 1, 4), (1, 1, 8))
SHARES = (0.5, 0.3, 0.2)  # fractions of the MACs, for gates on a frozen network
SMALL_SHARES = (0.3, 0.15, 0.05)  # and for those whose network trains with them


def packed(model: nn.Module, data: ImageData, seed: int, finetune: int) -> list[Row]:
    """Columns packed by the greedy rule, and in random groups."""
    groupings: list[tuple[str, str, lab05.Grouping]] = [
        ("greedy", f"size {size}, γ {gamma:g}", partial(group_columns, size=size, gamma=gamma))
        for size, gamma in PACKINGS
    ]
    groupings += [
        (
            "random groups",
            f"random, size {size}",
            partial(lab05.group_at_random, size=size, seed=seed),
        )
        for size in RANDOM_SIZES
    ]
    return [
        {"method": method, "packing": name, **lab05.pack(model, data, grouping, seed, finetune)}
        for method, name, grouping in groupings
    ]


def joint(model: nn.Module, data: ImageData, seed: int, finetune: int) -> list[Row]:
    """Weights and activations N:M, chosen in three ways."""
    return [
        {
            "pattern": f"W {n_w}:{m} × A {n_x}:{m}",
            "method": how,
            **lab05.joint(model, data, seed, n_w, n_x, m, finetune, how),
        }
        for n_w, n_x, m in JOINT
        for how in lab05.CHOOSING
    ]


def gates_and_network(
    model: nn.Module, data: ImageData, seed: int, target: float, epochs: int
) -> list[Row]:
    """Gates whose network trains with them; and static channels whose network trains as
    long.
    """
    dynamic = lab05.learn_gates(model, data, seed, target, epochs, frozen=False)
    other = lab05.measure_gates(dynamic, data, shuffled=seed)
    rows: list[Row] = [
        {"method": "dynamic", **lab05.measure_gates(dynamic, data)},
        {"method": "another image's gates", **other},
    ]
    for name, draw in (("largest |α|", None), ("random", seed)):
        opened, share = lab05.choose_static_gates(model, dynamic.macs, target, draw)
        net = copy.deepcopy(model)
        with lab05.hold_gates(net, opened):
            adam = partial(torch.optim.Adam, lr=lab05.NET_RATE)
            fit(net, data.train, epochs=epochs, seed=seed, optimizer=adam, **lab05.SMALL_BATCHES)
            accuracy = evaluate(net, data.validation)
        rows.append({"method": name, "accuracy": accuracy, "macs": share})
    return rows


def gates(model: nn.Module, data: ImageData, seed: int, epochs: int) -> list[Row]:
    """Gates on a frozen network, and on one that trains with them for twice as long."""
    return [
        {"network": network, "share": share, **row}
        for network, run, shares, length in (
            ("frozen", lab05.gates_on_a_frozen_net, SHARES, epochs),
            ("trained", gates_and_network, SMALL_SHARES, 2 * epochs),
        )
        for share in shares
        for row in run(model, data, seed, share, length)
    ]


def one_seed(name: str, seed: int, settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Everything of the lab with one seed: the rows of each table."""
    data = load(name).subset(settings["images"], validation=lab05.VALIDATION)
    model = lab05.train_dense(build("convnet", data, seed=seed), data, seed, settings["epochs"])
    finetune = settings["finetune"]
    sparse = lab05.sparse_start(model, data, seed, finetune)
    accuracy = {part: evaluate(model, getattr(data, part)) for part in ("validation", "test")}
    return {
        "dense": [accuracy],
        "patterns": lab05.patterns(model, data, seed, finetune=finetune),
        "packed": packed(sparse, data, seed, finetune),
        "joint": joint(model, data, seed, finetune),
        "gates": gates(model, data, seed, settings["gates"]),
    }


def remake_digits(executor: Executor, folder: Path) -> Result:
    """Five seeds on the digits."""
    found = each_seed(executor, folder, 5, one_seed, "digits", settings=lab05.DIGITS)
    return Result(found, lab05.DIGITS)


def remake_mnist(executor: Executor, folder: Path) -> Result:
    """The same on MNIST, 2,000 images, three seeds."""
    found = each_seed(executor, folder, 3, one_seed, "mnist", settings=lab05.MNIST)
    return Result(found, lab05.MNIST)


RESULTS = {"lab05_between_digits": remake_digits, "lab05_between_mnist": remake_mnist}
