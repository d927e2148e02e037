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

from course_lib import devices, experiments
from course_lib.data.images import ImageData, Split
from course_lib.models import build
from course_lib.models.initial import weights_from
from course_lib.models.lenet import LeNet300
from course_lib.pruning.weights.granularity import local_masks
from course_lib.pruning.weights.lottery import (
    CONTROLS,
    Record,
    copy_to_model,
    early_stop,
    find_tickets,
    shrink,
)
from course_lib.pruning.weights.masks import Masks, dense_masks, prunable, remaining
from course_lib.pruning.weights.scores import random
from course_lib.pruning.weights.sparse_training import (
    DynamicSparse,
    erdos_renyi_densities,
)
from course_lib.show import plots, tables
from course_lib.training import evaluate, train_and_test

RATE = 0.2
RECIPE: dict[str, Any] = {"lr": 1.2e-3, "optimizer": "adam", "batch_size": 60}  # of every training
LEVEL = 95.0  # validation accuracy in %, for "steps to 95 %"
ARMS = ("ticket", "reinit", "random mask")
RIVALS = ("no rewinding", "small dense")
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


def describe(data: ImageData, settings: Mapping[str, Any]) -> str:
    """How many images there are, and how many steps a training has."""
    train, validation, test = (
        len(part.labels) for part in (data.train, data.validation, data.test)
    )
    epoch = math.ceil(train / RECIPE["batch_size"])
    return (
        f"**{data.name}**: {train} training, {validation} validation and {test} test images of"
        f" shape {tuple(data.shape)}; {epoch} steps per epoch,"
        f" {settings.get('iterations', settings['epochs'] * epoch)} steps per training. One test"
        f" image is {100 / test:.2f}"
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


def rival(
    method: str, data: str, seed: int, *, rounds: int, **settings: Any
) -> list[dict[str, Any]]:
    """What a reader would do instead of a search with rewinding, with as many weights and as
    many steps per training: rows as of :func:`rounds`, for one seed.

    Args:
        method: of ``RIVALS``. "no rewinding": the same search, but each round trains on from
            the trained values. "small dense": in each round a new dense network whose two
            hidden layers are narrower, in the proportion 3 : 1.
        rounds, settings: as of :func:`search`.
    """
    train = trainer(data, seed, settings)
    model = build("lenet300", IMAGES[data], seed=seed)
    masks, rows = dense_masks(model), []
    if method == "no rewinding":
        train(model, masks, 0, None)
    for number in range(1, rounds + 1):
        masks = shrink(prunable(model), masks, RATE)
        if method == "no rewinding":
            result = train(model, masks, 0, None)
        else:
            result = train(small_dense(data, remaining(masks), seed), None, 0, None)
        place = {"seed": seed, "method": method, "round": number}
        rows.append({**place, "remaining": round(remaining(masks), 5), **_measure(result)})
    return rows


def small_dense(data: str, share: float, seed: int) -> nn.Module:
    """A dense LeNet with about ``share`` of the weights of LeNet-300-100."""
    images = IMAGES[data]
    pixels = math.prod(images.shape)

    def weights(unit: int) -> int:
        return pixels * 3 * unit + 3 * unit * unit + unit * images.classes

    unit = min(range(1, 101), key=lambda unit: abs(weights(unit) - share * weights(100)))
    with weights_from(seed):
        return LeNet300(pixels, images.classes, (3 * unit, unit)).to(devices.current())


def stored(data: str) -> pd.DataFrame:
    """The stored :func:`rounds` of 8,000 iterations (MNIST), or of 30 epochs, with the rivals
    (digits).
    """
    if data == "mnist":
        return experiments.read("lab03_tickets_mnist/rounds")
    return experiments.read("lab03_rivals_digits/rounds")


def with_last_step(table: pd.DataFrame) -> pd.DataFrame:
    """A run on the digits that never reached 95 % counts with its last step."""
    return table.assign(steps=table["steps"].fillna(19 * table["epochs"]))


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
    random_ticket: Callable[[Masks, torch.Generator], Masks],
    reinitialise: Callable[[nn.Module, Masks, int], None],
) -> pd.DataFrame:
    """Validation accuracy (%) before any training, under the masks of a search: columns
    ``seed``, ``method`` ("dense" and ``ARMS``), ``remaining``, ``accuracy``.

    Args:
        found: seed -> records of a search. rewind, …: as of questions 3.2 and 3.4.
    """
    rows = []
    for seed, (_, *records) in found.items():
        fresh = build("lenet300", data, seed=seed)
        w_0 = copy.deepcopy(fresh.state_dict())
        rows.append((seed, "dense", math.nan, evaluate(fresh, data.validation)))
        for record in records:
            elsewhere = random_ticket(record["masks"], torch.Generator().manual_seed(1 + seed))
            for method, masks in zip(ARMS, (record["masks"],) * 2 + (elsewhere,), strict=True):
                masks = copy_to_model(fresh, masks)
                rewind(fresh, w_0, masks)
                if method == "reinit":
                    reinitialise(fresh, masks, 1000 + seed)
                found_now = evaluate(fresh, data.validation)
                rows.append((seed, method, record["remaining"], found_now))
    return pd.DataFrame(rows, columns=["seed", "method", "remaining", "accuracy"])


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
    options = {"xaxis": "remaining", "control": "random mask"} | options
    return plots.curves(table, x="remaining", y=y, title=title, **options)


def draw_untrained(table: pd.DataFrame, title: str, **options: Any) -> Figure:
    """:func:`untrained` of one search: no seeds to compare."""
    rows = table.drop(columns="seed")
    return draw_rounds(rows, title, y="accuracy", control=None, **options)


def stored_rewinding() -> pd.DataFrame:
    """Tickets of the conv net, rewound to step k; ``arm`` is "ticket, k = 18", for example."""
    table = experiments.read("lab03_rewinding_digits/rounds")
    arm = table["method"] + ", k\u00a0=\u00a0" + table["k"].astype(str)
    return table.assign(arm=arm.where(table["method"] != "dense", "dense"))


def draw_rewinding(table: pd.DataFrame, title: str) -> Figure:
    """Tickets by the step that they are rewound to, and the random masks from the same."""
    rounds = table[table["round"] > 0].assign(method=table["arm"])
    first = rounds["k"].min()
    dense = table[(table["round"] == 0) & (table["k"] == first)]
    rows = pd.concat([dense.assign(remaining=math.nan), rounds])
    return draw_rounds(rows, title, control=f"random mask, k\u00a0=\u00a0{first}")


def compare_steps(table: pd.DataFrame) -> Any:
    """Paired differences to the ticket from w_0, at the last three shares of weights."""
    last = np.sort(table["remaining"].unique())[:3]
    rows = table[table["remaining"].isin(last)].assign(method=table["arm"])
    against = f"ticket, k\u00a0=\u00a0{table['k'].min()}"
    return tables.compare(
        rows.round({"remaining": 3}), "test", against=against, columns="remaining", digits=2
    )
