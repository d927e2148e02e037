"""In which order? The capstone's convolutional net, made narrow and thin, either first:
the same shares, the same epochs, the same hidden data.

``course remake lab11_order`` makes the shipped result again. What the lecture shows of
it is one net's answer; the lab asks for a measurement of the student's own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from course_lib.capstone import given, measure, of_bytes
from course_lib.capstone.files import to_bytes
from course_lib.experiments.lab11 import CNN, NORMS, digits, numbers, slimmed, thinned, tuned
from course_lib.experiments.once import once
from course_lib.pruning import weights
from course_lib.pruning.channels import remove_filters, select_channels

SEEDS = (2621, 2622)  # of hidden data
TRAININGS = 2  # of each given net
SHARES = (0.6, 0.7, 0.7, 0.7)  # of the channels of each layer
TARGETS, EPOCHS = (0.6, 0.78), (12, 24)  # of the weights that are left; behind each
SPARSE, AFTER = 16, 24  # epochs with L1 on the scales; behind the cut


def narrowed_with_zeros(model: nn.Module, seed: int) -> nn.Module:
    """:func:`~course_lib.experiments.lab11.slimmed`, of a net with zeros, which stay
    zeros.
    """
    sparse = tuned(copy.deepcopy(model), seed, SPARSE, lam=CNN["lam"], masks=where(model))
    keep: dict[str, Tensor] = {}
    for norm, share in zip(NORMS, SHARES, strict=True):
        keep |= select_channels(sparse, share, names=[norm])
    smaller, _ = remove_filters(sparse, keep, digits().train.images[:1])
    return tuned(smaller, seed, AFTER, masks=where(smaller))


def where(model: nn.Module) -> dict[str, Tensor]:
    """Where its weights are not zero."""
    return {name: weight != 0 for name, weight in weights.prunable(model).items()}


def left(model: nn.Module) -> dict[str, int]:
    """Weights that it has, and how many are not zero."""
    masks = where(model).values()
    return {
        "weights": sum(mask.numel() for mask in masks),
        "not zero": sum(int(mask.sum()) for mask in masks),
    }


def both(number: int, training: int) -> dict[str, Any]:
    """Both orders from one given net: each model's weights, and measurements for each
    of :data:`SEEDS`; of the one that is thin first, its weights before it was narrow.
    """
    net, seed = given("cnn", number), 10 * training + number
    thin = thinned(net, TARGETS, EPOCHS, seed)
    models = {
        "narrow, then thin": thinned(
            slimmed(net, SHARES, seed, SPARSE, AFTER), TARGETS, EPOCHS, seed
        ),
        "thin, then narrow": narrowed_with_zeros(thin, seed),
    }
    found: dict[str, Any] = {"thin": left(thin)}
    for name, model in models.items():
        saved = of_bytes(to_bytes(model), name)
        measured = [numbers(measure("cnn", saved, number, draw)) for draw in SEEDS]
        found[name] = {**left(model), "measured": measured}
    return found


def remake_order(executor: Executor, folder: Path) -> dict[str, Any]:
    """Three given nets, trained twice each, in both orders: ``nets``, lists of
    :func:`both`. Some minutes.
    """
    running = [
        [
            executor.submit(once, folder / f"{number}-{training}.json", both, number, training)
            for training in range(TRAININGS)
        ]
        for number in range(3)
    ]
    return {"nets": [[future.result() for future in row] for row in running]}


RESULTS: dict[str, Callable[[Executor, Path], dict[str, Any]]] = {"lab11_order": remake_order}
