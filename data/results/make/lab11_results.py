"""Lab 11's long runs: reference pipelines that compress the two given models, with random
baselines, measured as the grader measures; and both orders of two steps.

All settings (shares, steps, rates) were chosen on validation images and texts; the results
are of hidden data drawn by seeds that were not used before. ``course remake
lab11_capstone`` and ``lab11_order`` make the shipped results again; the first shows that
the levels of :data:`course_lib.capstone.LEVELS` can be met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from torch import nn

from course_lib.capstone import given, measure, of_bytes, unmet_requirements
from course_lib.capstone.files import to_bytes
from course_lib.capstone.measured import LEVELS
from course_lib.experiments import Result
from course_lib.experiments.lab11 import faded, narrowed, slimmed, taught, thinned, trained
from course_lib.experiments.once import each, tables
from course_lib.pruning import weights
from course_lib.pruning.layers import take_layers

Rows = list[dict[str, Any]]

SEEDS = (2611, 2612)  # of hidden data: each model is measured on both
ORDER_SEEDS = (2621, 2622)  # the same for both orders
CHOSEN_BY = 2600  # of validation images and texts
SHARES = (0.6, 0.7, 0.7, 0.7)  # of the channels of each layer


def cnn_pipelines(number: int) -> Iterator[tuple[str, nn.Module]]:
    """Name and model, from the simplest to the smallest."""
    dense, seed = given("cnn", number), number
    yield "as given", dense
    yield "magnitude 90 %", thinned(dense, (0.6, 0.9), (12, 24), seed)
    yield "slimming 60 %", slimmed(dense, (0.6,) * 4, seed)
    yield "random channels 60 %", slimmed(dense, (0.6,) * 4, seed, at_random=True)
    narrow = slimmed(dense, SHARES, seed, epochs=96)
    yield "slimming 70 %", narrow
    steps, epochs = (0.4, 0.6, 0.7, 0.75, 0.78), (32, 32, 32, 32, 128)
    yield "slimming 70 % + magnitude 60 %", thinned(narrow, steps[:2], (32, 64), seed)
    small = "slimming 70 % + magnitude 78 %"
    yield small, thinned(narrow, steps, epochs, seed)
    yield f"{small}, in one step", thinned(narrow, steps[-1:], (sum(epochs),), seed)
    chance = slimmed(dense, SHARES, seed, epochs=96, at_random=True)
    yield "random channels 70 % + magnitude 78 %", thinned(chance, steps, epochs, seed)


def bert_pipelines(number: int) -> Iterator[tuple[str, nn.Module]]:
    """Name and model, from the simplest to the smallest."""
    dense, seed = given("bert", number), number
    teacher = taught(dense)
    yield "as given", dense
    yield "magnitude 50 %", faded(dense, 0.5, 250, seed)
    yield "layers 1 and 3", trained(take_layers(dense, "bert.encoder.layer", 2), 250, seed)
    yield "heads and neurons 60 %", trained(narrowed(dense, 0.6, 0.6), 400, seed)
    yield "random heads and neurons 60 %", trained(narrowed(dense, 0.6, 0.6, seed), 400, seed)
    small = trained(narrowed(dense, 0.6, 0.6), 400, seed, teacher)
    yield "heads and neurons 60 %, taught", small
    yield "heads and neurons 60 % + magnitude 50 %, taught", faded(small, 0.5, 400, seed, teacher)
    for chance, draw in (("", None), ("random ", seed)):
        smaller = trained(narrowed(dense, 0.7, 0.8, draw), 600, seed, teacher)
        if draw is None:
            yield "heads 70 %, neurons 80 %, taught", smaller
        name = f"{chance}heads 70 %, neurons 80 % + magnitude 60 %, taught"
        yield name, faded(smaller, 0.6, 800, seed, teacher)


PIPELINES = {"cnn": cnn_pipelines, "bert": bert_pipelines}


def measured(
    kind: str, model: nn.Module, number: int, seed: int, split: str = "test"
) -> dict[str, float]:
    """The model against the given one on the data of a seed; ``met``: how many levels it meets."""
    found = measure(kind, of_bytes(to_bytes(model), kind), number, seed, split)
    met = sum(not unmet_requirements(level, found) for level in LEVELS[kind])
    sizes = {"storage": 100 * found.storage, "products": 100 * found.macs_share}
    right = {"accuracy": found.accuracy, "lost": found.drop}
    return {"draw": seed, **sizes, "faster": found.faster, **right, "met": met}


def proved(kind: str, number: int) -> dict[str, Rows]:
    """Every pipeline from one given model: a row of "measured" for each of :data:`SEEDS`, and
    one of "pipelines", with its accuracy on validation data and how many levels are met on
    both draws.
    """
    found: dict[str, Rows] = {"measured": [], "pipelines": []}
    for name, model in PIPELINES[kind](number):
        key = {"model": kind, "seed": number, "method": name}
        rows = [measured(kind, model, number, seed) for seed in SEEDS]
        chosen_by = measured(kind, model, number, CHOSEN_BY, "validation")["accuracy"]
        met = min(row.pop("met") for row in rows)
        found["measured"] += [key | row for row in rows]
        found["pipelines"].append(key | {"validation": chosen_by, "levels_met": met})
    return found


def both(number: int, training: int) -> dict[str, Rows]:
    """Both orders from one given net: rows of "weights", with the share that is not 0 (also of
    the net that is thin first, before it is narrow), and of "measured" for each draw.
    """
    net, seed, steps = given("cnn", number), 10 * training + number, ((0.6, 0.78), (12, 24))
    thin = thinned(net, *steps, seed)
    models = {
        "thin": thin,
        "narrow, then thin": thinned(slimmed(net, SHARES, seed), *steps, seed),
        "thin, then narrow": slimmed(thin, SHARES, seed),
    }
    found: dict[str, Rows] = {"weights": [], "measured": []}
    for name, model in models.items():
        key = {"seed": number, "training": training, "method": name}
        masks = {name: weight != 0 for name, weight in weights.prunable(model).items()}
        found["weights"].append(key | {"left": 100 * weights.remaining(masks)})
        if name != "thin":
            rows = [measured("cnn", model, number, draw) for draw in ORDER_SEEDS]
            found["measured"] += [key | row for row in rows]
    return found


def remake(
    run: Callable[..., dict[str, Rows]], jobs: Any, executor: Executor, folder: Path
) -> Result:
    """Every job, each once; both results together take a quarter of an hour on two cores."""
    settings = {"draws": SEEDS, "validation_draw": CHOSEN_BY, "order_draws": ORDER_SEEDS}
    return Result(tables(({}, part) for part in each(executor, folder, run, jobs)), settings)


RESULTS: dict[str, Callable[[Executor, Path], Result]] = {
    "lab11_capstone": partial(remake, proved, list(product(PIPELINES, range(3)))),
    "lab11_order": partial(remake, both, list(product(range(3), range(2)))),
}
