"""Lab 11's long runs: reference pipelines that compress the two given models, with
random baselines, measured as the grader measures; and both orders of two steps.

What is decided (shares, steps, rates) was decided on validation images and texts; the
figures are of hidden data drawn by seeds that were not looked at before.
``course remake lab11_capstone`` and ``lab11_order`` make the shipped results again; the
first proves the levels of :data:`course_lib.capstone.LEVELS`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from course_lib.capstone import Measured, given, measure, of_bytes, read, unmet_requirements, write
from course_lib.capstone.files import to_bytes
from course_lib.capstone.measured import LEVELS, digits
from course_lib.experiments import Result
from course_lib.experiments.lab11 import (
    CNN,
    NORMS,
    faded,
    narrowed,
    slimmed,
    taught,
    thinned,
    trained,
    tuned,
)
from course_lib.experiments.once import once, tables
from course_lib.pruning import weights
from course_lib.pruning.channels import remove_filters, select_channels
from course_lib.pruning.layers import take_layers

Rows = list[dict[str, Any]]

SEEDS = (2611, 2612)  # of hidden data: each given model is measured on both, and the worse counts
CHOSEN_BY = 2600  # of validation images and texts


# ----------------------------------------------------------------------- the pipelines
def cnn_pipelines(number: int) -> Iterator[tuple[str, nn.Module]]:
    """Name and model, from the simplest to the smallest."""
    dense, seed = given("cnn", number), number
    yield "as given", dense
    yield "magnitude 90 %", thinned(dense, (0.6, 0.9), (12, 24), seed)
    wide = (0.6, 0.6, 0.6, 0.6)
    yield "slimming 60 %", slimmed(dense, wide, seed)
    yield "random channels 60 %", slimmed(dense, wide, seed, at_random=True)
    narrow = slimmed(dense, (0.6, 0.7, 0.7, 0.7), seed, epochs=96)
    yield "slimming 70 %", narrow
    steps, epochs = (0.4, 0.6, 0.7, 0.75, 0.78), (32, 32, 32, 32, 128)
    yield "slimming 70 % + magnitude 60 %", thinned(narrow, steps[:2], (32, 64), seed)
    yield "slimming 70 % + magnitude 78 %", thinned(narrow, steps, epochs, seed)
    yield (
        "slimming 70 % + magnitude 78 %, in one step",
        thinned(narrow, steps[-1:], (sum(epochs),), seed),
    )
    chance = slimmed(dense, (0.6, 0.7, 0.7, 0.7), seed, epochs=96, at_random=True)
    yield "random channels 70 % + magnitude 78 %", thinned(chance, steps, epochs, seed)


def bert_pipelines(number: int) -> Iterator[tuple[str, nn.Module]]:
    """Name and model, from the simplest to the smallest."""
    dense, seed = given("bert", number), number
    teacher = taught(dense)
    yield "as given", dense
    yield "magnitude 50 %", faded(dense, 0.5, 250, seed)
    yield "layers 0 and 2", trained(take_layers(dense, "bert.encoder.layer", 2), 250, seed)
    yield "heads and neurons 60 %", trained(narrowed(dense, 0.6, 0.6), 400, seed)
    yield "random heads and neurons 60 %", trained(narrowed(dense, 0.6, 0.6, seed), 400, seed)
    small = trained(narrowed(dense, 0.6, 0.6), 400, seed, teacher)
    yield "heads and neurons 60 %, taught", small
    yield "heads and neurons 60 % + magnitude 50 %, taught", faded(small, 0.5, 400, seed, teacher)
    smaller = trained(narrowed(dense, 0.7, 0.8), 600, seed, teacher)
    yield "heads 70 %, neurons 80 %, taught", smaller
    yield (
        "heads 70 %, neurons 80 % + magnitude 60 %, taught",
        faded(smaller, 0.6, 800, seed, teacher),
    )
    chance = trained(narrowed(dense, 0.7, 0.8, seed), 600, seed, teacher)
    yield (
        "random heads 70 %, neurons 80 % + magnitude 60 %, taught",
        faded(chance, 0.6, 800, seed, teacher),
    )


PIPELINES = {"cnn": cnn_pipelines, "bert": bert_pipelines}


def proved(kind: str, number: int, folder: Path) -> dict[str, Rows]:
    """Every pipeline from one given model, its file in ``folder``: rows of "measured"
    for each of :data:`SEEDS`, and of "pipelines", with the levels that all of them meet.
    """
    tables: dict[str, Rows] = {"measured": [], "pipelines": []}
    for at, (name, model) in enumerate(PIPELINES[kind](number)):
        file = folder / f"{kind}-{number}-{at}.safetensors"
        write(model, file)
        found = [measure(kind, read(file), number, seed) for seed in SEEDS]
        chosen_by = measure(kind, read(file), number, CHOSEN_BY, "validation").accuracy
        key = {"model": kind, "seed": number, "method": name}
        tables["measured"] += [
            key | {"draw": draw, **numbers(one)} for draw, one in zip(SEEDS, found, strict=True)
        ]
        reached = {f"level_{n}": is_met for n, is_met in enumerate(levels(kind, found), start=1)}
        tables["pipelines"].append(key | {"validation": chosen_by, **reached})
    return tables


def numbers(found: Measured) -> dict[str, float]:
    """What is stored of a measurement."""
    names = ("bits", "given_bits", "macs", "given_macs", "faster", "accuracy", "given_accuracy")
    return {name: getattr(found, name) for name in names}


def levels(kind: str, found: Sequence[Measured]) -> list[bool]:
    """Is each level met on every draw?"""
    return [not any(unmet_requirements(level, one) for one in found) for level in LEVELS[kind]]


def remake_capstone(executor: Executor, folder: Path) -> Result:
    """Both given models of three trainings, every pipeline; some ten minutes on two
    cores. The models lie beside it afterwards.
    """
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    jobs = [(kind, number) for kind in ("bert", "cnn") for number in range(3)]
    running = {
        (kind, number): executor.submit(once, folder, proved, kind, number, files)
        for kind, number in jobs
    }
    parts = [running[kind, number].result() for kind in PIPELINES for number in range(3)]
    return Result(
        tables(({}, part) for part in parts), {"draws": list(SEEDS), "validation_draw": CHOSEN_BY}
    )


# ------------------------------------------------------------------------- two orders
ORDER_SEEDS = (2621, 2622)  # of hidden data
TRAININGS = 2  # of each given net
SHARES = (0.6, 0.7, 0.7, 0.7)  # of the channels of each layer
TARGETS, EPOCHS = (0.6, 0.78), (12, 24)  # of the weights that are left; behind each
SPARSE, AFTER = 16, 24  # epochs with L1 on the scales; behind the cut


def narrowed_with_zeros(model: nn.Module, seed: int) -> nn.Module:
    """Slimming (``lab11.slimmed``) of a net with zeros, which stay zeros."""
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
        "nonzero": sum(int(mask.sum()) for mask in masks),
    }


def both(number: int, training: int) -> dict[str, Rows]:
    """Both orders from one given net: rows of "weights" ("thin" is the net that is thin
    first, before it is narrow), and of "measured" for each of :data:`ORDER_SEEDS`.
    """
    net, seed = given("cnn", number), 10 * training + number
    thin = thinned(net, TARGETS, EPOCHS, seed)
    models = {
        "thin": thin,
        "narrow, then thin": thinned(
            slimmed(net, SHARES, seed, SPARSE, AFTER), TARGETS, EPOCHS, seed
        ),
        "thin, then narrow": narrowed_with_zeros(thin, seed),
    }
    tables: dict[str, Rows] = {"weights": [], "measured": []}
    for name, model in models.items():
        key = {"seed": number, "training": training, "method": name}
        tables["weights"].append(key | left(model))
        if name != "thin":
            saved = of_bytes(to_bytes(model), name)
            tables["measured"] += [
                key | {"draw": draw, **numbers(measure("cnn", saved, number, draw))}
                for draw in ORDER_SEEDS
            ]
    return tables


def remake_order(executor: Executor, folder: Path) -> Result:
    """Three given nets, trained twice each, in both orders. Some minutes."""
    running = [
        executor.submit(once, folder, both, number, training)
        for number in range(3)
        for training in range(TRAININGS)
    ]
    settings = {
        "draws": list(ORDER_SEEDS),
        "shares": list(SHARES),
        "targets": list(TARGETS),
        "epochs": list(EPOCHS),
        "sparse": SPARSE,
        "after": AFTER,
    }
    return Result(tables(({}, future.result()) for future in running), settings)


RESULTS: dict[str, Callable[[Executor, Path], Result]] = {
    "lab11_capstone": remake_capstone,
    "lab11_order": remake_order,
}
