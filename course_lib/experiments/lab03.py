"""Lab 03: tickets and their controls through all rounds, and networks that are sparse
from the first step to the last.

LeNet-300-100 on digits or MNIST, as in Frankle & Carbin 2019, section 2: Adam with
learning rate 1.2e-3, batches of 60, a fifth of the weights pruned per round and a tenth
in the output layer, back to step 0. Trainings are shorter than theirs (50,000
iterations); the settings say how long.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import ledger, paths
from course_lib.data.images import ImageData, Split
from course_lib.experiments import common
from course_lib.models import build
from course_lib.parallel import sweep
from course_lib.pruning.weights.granularity import local_masks
from course_lib.pruning.weights.lottery import (
    CONTROLS,
    Record,
    copy_to_model,
    early_stop,
    find_tickets,
)
from course_lib.pruning.weights.masks import Masks, prunable
from course_lib.pruning.weights.scores import random
from course_lib.pruning.weights.sparse_training import (
    DynamicSparse,
    erdos_renyi_densities,
)
from course_lib.show import plots
from course_lib.show.words import minus, pm
from course_lib.training import evaluate, fit, train_and_test

RATE = 0.2
RECIPE: dict[str, Any] = {"lr": 1.2e-3, "optimizer": "adam", "batch_size": 60}  # of every training
LEVEL = 95.0  # validation accuracy in %, for "steps to 95 %"
ARMS = ("ticket", "reinit", "random mask")
#: Rounds, epochs or iterations of every training, and steps from one look at the
#: validation images to the next.
SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {"rounds": 13, "epochs": 30, "every": 4},
    "mnist": {"rounds": 16, "epochs": 9, "iterations": 8000, "every": 100},
}
DENSITIES: dict[str, Callable[..., dict[str, float]]] = {
    "uniform": dict.fromkeys,
    "Erdős–Rényi": erdos_renyi_densities,
}
METHODS = {"random mask": "static", "SET": "set", "RigL": "rigl"}
#: What speed is on these data, and its label.
SPEED = {
    "digits": ("steps", "steps to 95 % validation accuracy"),
    "mnist": ("early_stop", "early-stopping step"),
}
GAP = "points minus the ticket's"
TIMES = "early-stopping step, times that of the ticket"
MEASURES = {"steps": "steps to 95 %", "early_stop": "step of the lowest validation loss"}
#: Of every training of part C; ``steps``: how many that makes.
SPARSE: dict[str, dict[str, int]] = {
    "digits": {"epochs": 30, "steps": 570},
    "mnist": {"epochs": 3, "iterations": 2000, "steps": 2000},
}


@dataclass(frozen=True)
class Images:
    """What ``models.build`` has to know of a data set: light enough to travel with
    every training.
    """

    shape: tuple[int, int, int]
    classes: int = 10


IMAGES = {"digits": Images((1, 8, 8)), "mnist": Images((1, 28, 28))}


def last_step(data: ImageData, settings: Mapping[str, Any]) -> int:
    """The last step of every training."""
    return settings.get("iterations", settings["epochs"] * _steps_per_epoch(data))


def _steps_per_epoch(data: ImageData) -> int:
    return math.ceil(len(data.train.labels) / RECIPE["batch_size"])


def describe(data: ImageData, settings: Mapping[str, Any]) -> str:
    """How many images there are, and how many steps a training has."""
    train, validation, test = (
        len(part.labels) for part in (data.train, data.validation, data.test)
    )
    return (
        f"**{data.name}**: {train} training, {validation} validation and {test} test images of"
        f" shape {tuple(data.shape)}; {_steps_per_epoch(data)} steps per epoch,"
        f" {last_step(data, settings)} steps per training. One test image is {100 / test:.2f}"
        " points of accuracy."
    )


# ------------------------------------------------- part B: tickets and their controls
def trainer(data: str | ImageData, seed: int, settings: Mapping[str, Any]) -> Callable[..., Any]:
    """``train(model, masks, start, stop)`` for one seed of a search, see
    :func:`course_lib.training.train_and_test`.
    """
    options = {name: value for name, value in settings.items() if name != "rounds"}
    return functools.partial(train_and_test, data=data, seed=seed, **RECIPE, **options)


def search(
    data: str,
    seeds: Iterable[int],
    *,
    rounds: int,
    folder: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    **settings: Any,
) -> dict[int, list[Record]]:
    """Ticket and both controls, round by round: seed -> records, see
    :func:`course_lib.pruning.weights.find_tickets`.

    Args:
        data: "digits" or "mnist".
        seeds: each decides first weights, order of the images and controls of one
            search.
        rounds: how often to prune.
        folder, executor, progress: as there. With a folder an interrupted search
            continues.
        settings: ``epochs``, ``iterations`` and ``every`` of every training, as
            :func:`course_lib.training.train_and_test` has them.

    Returns:
        Records whose ``result`` is what :func:`course_lib.training.train_and_test`
        returns; ``controls`` "reinit", "random".
    """
    return find_tickets(
        seeds,
        functools.partial(build, "lenet300", IMAGES[data]),
        functools.partial(train_and_test, data=data, **settings, **RECIPE),
        rounds,
        RATE,
        controls=CONTROLS,
        folder=folder,
        executor=executor,
        progress=progress,
    )


def folder(data: str) -> Path | None:
    """Where a search that takes long keeps what is done; None where it is quick."""
    return None if data == "digits" else paths.cache_dir() / f"lab03_{data}"


def rounds(found: Mapping[int, Sequence[Record]]) -> pd.DataFrame:
    """What was measured of each training of a search.

    Args:
        found: what :func:`search` returned.

    Returns:
        A row per seed, ``round`` and ``method``: "dense" in round 0, and ``ARMS`` in the
        others. ``remaining``: the fraction of weights kept (dense: NaN, it is in no
        round); ``test``: accuracy of the trained network on the test images, in %;
        ``steps``: until 95 % of the validation images were right, NaN where that never
        came; ``early_stop``: the step of minimum validation loss; ``stopped``: validation
        accuracy at that step, in %.
    """
    rows = []
    for seed, records in found.items():
        for record in records:
            controls = record.get("controls", {})
            arms = {"ticket" if record["round"] else "dense": record}
            arms |= {"reinit" if c == "reinit" else "random mask": r for c, r in controls.items()}
            kept = round(record["remaining"], 5) if record["round"] else math.nan
            rows += [
                {"seed": seed, "method": method, "round": record["round"], "remaining": kept}
                | _measure(arm["result"])
                for method, arm in arms.items()
            ]
    return pd.DataFrame(rows)


def _measure(result: Mapping[str, Any]) -> dict[str, Any]:
    steps = dict(enumerate(result["steps"], start=1))  # of each look at the validation images
    stop = early_stop(result["validation_loss"])
    reached = next((i for i, right in enumerate(result["validation"], 1) if right >= LEVEL), None)
    return {
        "test": round(result["accuracy"], 2),
        "steps": float(steps[reached]) if reached else math.nan,
        "early_stop": steps[stop],
        "stopped": round(result["validation"][stop - 1], 2),
    }


def equal_masks(one: Sequence[Record], other: Sequence[Record]) -> bool:
    """Whether two searches have the same masks in all the rounds that both have."""
    pairs = [(a["masks"], b["masks"]) for a, b in zip(one, other, strict=False)]
    return all(torch.equal(a[name].cpu(), b[name].cpu()) for a, b in pairs for name in a)


def near(table: pd.DataFrame, fractions: Iterable[float]) -> pd.DataFrame:
    """The rounds of :func:`rounds` whose remaining weights are nearest to ``fractions``,
    with the dense network's rows repeated at each of them, to be compared with;
    ``remaining`` rounded to a tenth of a per cent.
    """
    left = table["remaining"].dropna().unique()
    dense = table[table["method"] == "dense"]
    parts = []
    for fraction in fractions:
        kept = left[np.abs(np.log(left / fraction)).argmin()]
        parts += [dense.assign(remaining=kept), table[table["remaining"] == kept]]
    return pd.concat(parts).round({"remaining": 3})


def percent(fraction: float, digits: int = 1) -> str:
    """0.059 as "5.9 %"."""
    return f"{100 * fraction:.{digits}f} %"


def untrained(
    found: Mapping[int, Sequence[Record]],
    data: ImageData,
    rewind: Callable[[nn.Module, dict[str, Tensor], Masks], None],
) -> pd.DataFrame:
    """Validation accuracy (%) of the first weights w_0 under the masks of a search, before
    any training: columns ``seed``, ``method``, ``remaining``, ``accuracy``.

    Args:
        found: what :func:`search` returned. rewind: as of question 3.2.
    """
    rows = []
    for seed, records in found.items():
        for record in records[1:]:
            arms = {"ticket": record, "random mask": record["controls"]["random"]}
            for method, arm in arms.items():
                model = build("lenet300", data, seed=seed)
                masks = copy_to_model(model, arm["masks"])
                rewind(model, copy.deepcopy(model.state_dict()), masks)
                row = {"seed": seed, "method": method, "remaining": record["remaining"]}
                rows.append({**row, "accuracy": evaluate(model, data.validation)})
    return pd.DataFrame(rows)


def times_the_ticket(table: pd.DataFrame) -> pd.DataFrame:
    """By seed and round, the early-stopping step of each control divided by the ticket's:
    columns ``seed``, ``remaining``, ``method`` and ``TIMES``.
    """
    steps = table[table["method"] != "dense"]
    return _relate_to_ticket(steps, "early_stop", pd.DataFrame.div, TIMES)


def minus_the_ticket(table: pd.DataFrame) -> pd.DataFrame:
    """By seed and round, the test accuracy of the controls and of the dense network minus
    the ticket's: columns ``seed``, ``remaining``, ``method`` and ``GAP``.
    """
    tests = near(table, table["remaining"].dropna().unique())
    return _relate_to_ticket(tests, "test", pd.DataFrame.sub, GAP)


def _relate_to_ticket(
    table: pd.DataFrame, measure: str, operation: Callable[..., pd.DataFrame], name: str
) -> pd.DataFrame:
    wide = table.pivot(index=["seed", "remaining"], columns="method", values=measure)
    others = wide[[method for method in ("dense", "reinit", "random mask") if method in wide]]
    found = operation(others, wide["ticket"], axis=0)
    return found.melt(ignore_index=False, value_name=name).reset_index()


def beside_the_paper(table: pd.DataFrame) -> pd.DataFrame:
    """Five figures of Frankle & Carbin 2019 (MNIST) and the same of :func:`rounds`."""

    def falls(method: str) -> str:
        """The largest share of weights from which on the mean stays below the dense
        networks'.
        """
        means = table[table["method"] == method].groupby("remaining")["test"].mean()
        level = means.index[means >= table.loc[table["method"] == "dense", "test"].mean()]
        below = means.index[means.index < level.min()] if len(level) else means.index
        return percent(below.max()) if len(below) else f"not by {percent(means.index.min())}"

    def above(fraction: float) -> str:
        return minus(near(table, [fraction]), "test", "ticket", "dense", digits=2)

    times = times_the_ticket(near(table, [0.211])).query("method == 'reinit'")[TIMES]
    rows = [
        ("at 21.1 %: reinit's early stop, times the ticket's", "2.51", pm(times)),
        ("at 13.5 %: ticket minus dense", "more than +0.3", above(0.135)),
        ("at 3.6 %: ticket minus dense", "back at the dense accuracy", above(0.036)),
        ("the ticket falls below dense from", "2.9 %", falls("ticket")),
        ("reinit falls below dense from", "21.1 %", falls("reinit")),
    ]
    return pd.DataFrame(rows, columns=["MNIST", "Frankle & Carbin", "here"])


# ---------------------------------------------- part C: sparse from the start to the end
def train_sparse(
    method: str,
    layers: str,
    density: float,
    seed: int,
    *,
    data: str,
    epochs: int,
    steps: int,
    every: int = 20,
    iterations: int | None = None,
) -> dict[str, Any]:
    """Train LeNet-300-100 with ``density`` of its weights. For equal seeds all methods
    start from the same weights and mask.

    Args:
        method: of ``METHODS``: "random mask" stays as it is; with "SET" connections move
            at random, with "RigL" by the dense gradient.
        layers: how the weights are shared out, "uniform" or "Erdős–Rényi".
        density: the fraction of all weights, in [0, 1].
        seed: decides first weights, first mask, the order of the images and what grows
            at random.
        data: "digits" or "mnist".
        epochs, iterations: as :func:`course_lib.training.train_and_test` has them;
            Adam, 1.2e-3, batches of 60.
        steps: how many steps that makes; the last exchange is at three quarters.
        every: steps from one exchange to the next.

    Returns:
        What ``train_and_test`` returns, and ``exchanged``, the connections moved in
        all.
    """
    model = build("lenet300", IMAGES[data], seed=seed)
    weights = prunable(model)
    generator = torch.Generator().manual_seed(seed)
    kept = DENSITIES[layers]({name: w.shape for name, w in weights.items()}, density)
    masks = local_masks(random(weights, generator), {name: 1 - d for name, d in kept.items()})
    train = trainer(data, seed, {"epochs": epochs, "iterations": iterations})
    if method == "random mask":
        return {**train(model, masks, 0, None), "exchanged": 0}
    moving = DynamicSparse(
        model, masks, METHODS[method], steps=steps, every=every, generator=generator
    )
    with moving:
        result = train(model, None, 0, None)
    return {**result, "exchanged": sum(count for *_, count in moving.exchanges)}


def static_and_moving(
    data: str,
    cases: Sequence[tuple[str, float]],
    *,
    executor: Executor,
    seeds: Iterable[int] = range(4),
    **budget: Any,
) -> pd.DataFrame:
    """:func:`train_sparse` by each of ``METHODS`` at equal steps: columns ``seed``,
    ``case``, ``method``, ``test`` (test accuracy in %).

    Args:
        cases: (layers, density), as there. budget: epochs, steps, … as there.
    """
    jobs = [(m, *case, seed) for m in METHODS for case in cases for seed in seeds]
    train = functools.partial(train_sparse, data=data, **budget)
    results = executor.map(train, *zip(*jobs, strict=True))
    return pd.DataFrame(
        {"seed": s, "case": f"{layers}, {percent(d, 0)}", "method": m, "test": result["accuracy"]}
        for (m, layers, d, s), result in zip(jobs, results, strict=True)
    )


def batch_loss(model: nn.Module, split: Split, generator: torch.Generator) -> Tensor:
    """The cross-entropy of 60 images that ``generator`` draws."""
    index = torch.randint(len(split.labels), (60,), generator=generator).to(split.labels.device)
    return F.cross_entropy(model(split.images[index]), split.labels[index])


def share_to_move(step: int, steps: int) -> float:
    """The share of the connections that a step exchanges: half of them at first and then
    less (a cosine), every tenth step; none from three quarters of ``steps`` on.
    """
    last = 0.75 * steps
    moves = step and step % 10 == 0 and step < last
    return (1 + math.cos(math.pi * step / last)) / 4 if moves else 0.0


# --------------------------------------------------------- part D: the ledger's network
CONV: dict[str, dict[str, int]] = {
    "digits": {"train": 1097, "epochs": 6, "rounds": 3},
    "mnist": {"train": 3000, "epochs": 4, "rounds": 3},
}


def train_conv(
    model: nn.Module,
    masks: Masks,
    start: int,
    stop: int | None,
    *,
    seed: int,
    data: ImageData,
    epochs: int,
) -> dict[str, Any]:
    """Train the small conv net by SGD; its validation ``accuracy`` in %, and the trained
    ``network`` itself.
    """
    fit(
        model, data.train, epochs=epochs, lr=0.2, optimizer="sgd", weight_decay=5e-4,
        schedule="cosine", seed=seed, masks=masks, start=start, stop=stop, progress=False,
    )  # fmt: skip
    return {"accuracy": evaluate(model, data.validation), "network": copy.deepcopy(model)}


def conv_tickets(
    find_ticket: Callable[..., list[Record]],
    random_ticket: Callable[[Masks, torch.Generator], Masks],
    rewind: Callable[[nn.Module, dict[str, Tensor], Masks], None],
    data: ImageData,
    seeds: Sequence[int],
) -> pd.DataFrame:
    """Tickets of the small conv net, rewound to the end of the first epoch, beside random
    masks with as many weights per layer from the same w_k.

    Half of the weights are pruned per round, a quarter in the output layer.

    Args:
        find_ticket, random_ticket, rewind: as of questions 3.3, 3.4 and 3.2.

    Returns:
        A row per seed, ``round`` and ``method``: "dense" in round 0, "ticket" and "random
        mask" in the others; ``remaining`` (dense: NaN), validation ``accuracy`` in %, the
        trained ``network``.
    """
    settings = CONV[data.name]
    few = data.subset(settings["train"])
    first_epoch = math.ceil(settings["train"] / 64)  # steps
    fresh = {seed: build("convnet", data, seed=seed) for seed in seeds}

    def run(seed: int) -> list[dict[str, Any]]:
        train = functools.partial(train_conv, seed=seed, data=few, epochs=settings["epochs"])
        w_k: dict[str, Tensor] = {}

        def keep_w_k(model: nn.Module, masks: Masks, start: int, stop: int | None) -> Any:
            if start and not w_k:  # round 0: the model is as it was at step k
                w_k.update(copy.deepcopy(model.state_dict()))
            return train(model, masks, start, stop)

        dense, *records = find_ticket(
            lambda: fresh[seed], keep_w_k, settings["rounds"], 0.5, first_epoch
        )
        rows = [{"method": "dense", "round": 0, "remaining": math.nan, **dense["result"]}]
        for record in records:
            masks = random_ticket(record["masks"], torch.Generator().manual_seed(seed))
            rewind(model := copy.deepcopy(fresh[seed]), w_k, masks)
            results = {"ticket": record["result"]}
            results["random mask"] = train(model, masks, first_epoch, None)
            place = {name: record[name] for name in ("round", "remaining")}
            rows += [{"method": name, **place, **result} for name, result in results.items()]
        return rows

    return sweep(run, seed=seeds)


def add_to_ledger(table: pd.DataFrame, data: ImageData) -> None:
    """A row of the ledger per method of :func:`conv_tickets`: bits of the whole model, MACs
    without zeros, milliseconds for 64 images, and ``test`` accuracy by seed.
    """
    first = table.drop_duplicates("method").set_index("method")
    networks, images = first["network"].to_dict(), data.validation.images[:64]
    costs = common.costs(networks, data.test.images[:1], images, repeats=40).set_index("method")
    for method, cost in costs[["bits", "macs", "ms"]].to_dict("index").items():
        kept, epochs = first.loc[method, "remaining"], CONV[data.name]["epochs"]
        name = f"dense, {epochs} epochs" if method == "dense" else f"{method} {percent(kept, 0)}"
        tests = table.loc[table["method"] == method, "test"]
        ledger.add("convnet", name, lab="03", **cost, accuracy=tests)


# ----------------------------------------------------------------- pictures of the masks
def pixels(masks: Mapping[str, Tensor], data: ImageData, title: str) -> Figure:
    """How many connections of the first layer each pixel has.

    Args:
        masks: name -> bool mask of the first layer, (units, pixels).
    """
    blank = find_blank_pixels(data)
    maps = {}
    for name, mask in masks.items():
        count = mask.sum(0).cpu()  # (pixels,)
        blanks, others = count[blank].float().mean(), count[~blank].float().mean()
        maps[f"{name}\nblank {blanks:.1f}, others {others:.1f}"] = count.view(data.shape[1:])
    return plots.grid(maps, title=title, colour_label="connections of a pixel")


def find_blank_pixels(data: ImageData) -> Tensor:
    """(pixels,) True where the training images have less than 1 % of black on average."""
    return (data.train.images.flatten(1).mean(0) < 0.01).cpu()


def draw_rounds(table: pd.DataFrame, title: str, *, y: str = "test", **options: Any) -> Figure:
    """A measurement of ticket, controls and dense network against the weights left, see
    ``plots.curves``.
    """
    options |= {"xaxis": "remaining", "control": "random mask"}
    return plots.curves(table, x="remaining", y=y, title=title, **options)


def draw_budget(table: pd.DataFrame, epochs: int = 30, number: int = 11) -> Figure:
    """For the explorer: all rounds with ``epochs`` per training; ticket and reinit compared
    in one round.
    """
    rows = table[table["epochs"] == epochs]
    here = rows[rows["round"] == number]
    kept = float(here["remaining"].iloc[0])
    gap = minus(here, "test", "ticket", "reinit", digits=2)
    title = f"{epochs} epochs, {percent(kept)} of the weights: ticket minus reinit {gap}"
    fig = draw_rounds(rows, title=title, ylim=(90, 99))
    fig.axes[0].axvline(kept, color="black", linewidth=1)
    return fig
