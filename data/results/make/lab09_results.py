"""How the results of lab 09 were made: ``course remake lab09_depth``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import matthews_corrcoef
from torch import nn

from course_lib.data import pieces
from course_lib.experiments import Result
from course_lib.experiments.lab09 import (
    LAYERS,
    LONGER,
    MEASURED,
    PATH,
    RATE,
    TASKS,
    TUNE,
    Rows,
    batches,
    on_short,
    pretrained,
    start,
    tickets,
    trained_on,
    tune,
)
from course_lib.experiments.once import each_seed, once, tables
from course_lib.modes import evaluating
from course_lib.pruning.layers import layerdrop, take_layers
from course_lib.training import Batch, accuracy

DROPS = (0.2, 0.5)  # p of LayerDrop
SEEDS = 3
EVENLY, FIRST = "evenly spaced", "first"
SST2: dict[str, Any] = {"sentences": 8000, "depth": 3, "seeds": 3}
GLUE: dict[str, Any] = {
    # rows for training, epochs: enough to learn them, which would not do for CoLA
    "tasks": {"sst2": [4000, 1], "qnli": [1500, 2], "stsb": [2000, 2]},
    "validation": 400,  # rows for the search
    "test": 900,  # rows, where there are as many
    "longest": 64,  # pieces
    "seeds": 2,
}


# -------------------------------------------------------------------------------- depth
def first_layers(model: nn.Module, depth: int) -> nn.Module:
    """The baseline: the first ``depth`` layers in place of evenly spaced ones."""
    smaller = copy.deepcopy(model)
    smaller.get_submodule("bert.encoder").layer = smaller.get_submodule(PATH)[:depth]
    return smaller


def trainings() -> list[tuple[str, float]]:
    """Name and p of each."""
    return [("plain", 0.0), *((f"LayerDrop {p:g}", p) for p in DROPS)]


def depths(seed: int) -> dict[str, Rows]:
    """Accuracy at every depth: trained plainly, with LayerDrop, each cut evenly and to
    its first layers; and trained at that depth.
    """
    test: Rows = []
    validation: Rows = []
    every = range(1, LAYERS + 1)
    for method, p in trainings():
        model = trained_on(pretrained(seed), seed, p)
        for kept, cut in (
            (EVENLY, lambda net, d: take_layers(net, PATH, d)),
            (FIRST, first_layers),
        ):
            for depth in every:
                at = {"method": method, "kept": kept, "depth": depth}
                smaller = cut(model, depth)
                test.append({**at, "test": on_short(smaller, seed)})
                if kept == EVENLY:
                    validation.append({**at, "validation": on_short(smaller, seed, "validation")})
    for depth in every:
        model = trained_on(take_layers(pretrained(seed), PATH, depth), seed)
        at = {"method": "trained at that depth", "kept": EVENLY, "depth": depth}
        test.append({**at, "test": on_short(model, seed)})
    return {"depths": test, "validation": validation}


def real_depths(seed: int) -> dict[str, Rows]:
    """A real encoder fine-tuned on SST-2, plainly and with LayerDrop, cut to every
    depth, evenly; cut to the first half; and trained at half of its depth: accuracies
    of GLUE's development set.
    """
    import glue_classifier as recipe

    model, tokenizer = recipe.load_classifier(seed)
    data = recipe.prepared(SST2["sentences"], tokenizer=tokenizer)
    test, half = list(pieces.batches(data["test"], batch_size=50)), SST2["depth"]

    def trained(net: nn.Module, p: float = 0.0) -> nn.Module:
        layers: Any = net.get_submodule(PATH)
        with layerdrop(layers, p, torch.Generator().manual_seed(seed)) if p else nullcontext():
            recipe.fine_tune(net, data, seed=seed, progress=False)
        return net.eval()

    rows: Rows = []
    for method, p in trainings():
        net = trained(copy.deepcopy(model), p)
        for depth in range(1, len(net.get_submodule(PATH)) + 1):
            at = {"method": method, "kept": EVENLY, "depth": depth}
            rows.append({**at, "test": accuracy(take_layers(net, PATH, depth), test)})
        at = {"method": method, "kept": FIRST, "depth": half}
        rows.append({**at, "test": accuracy(first_layers(net, half), test)})
    at = {"method": "trained at that depth", "kept": EVENLY, "depth": half}
    rows.append({**at, "test": accuracy(trained(take_layers(model, PATH, half)), test)})
    return {"depths": rows}


# -------------------------------------------------------------------------- subnetworks
def one_task(task: str, seed: int) -> dict[str, Rows]:
    """``tickets`` of a task of the reviews, accuracies in %."""
    return tickets(
        start(task, seed),
        lambda net: tune(net, task, seed),
        batches("validation", task),
        batches("test", task),
        seed,
    )


def matthews(model: nn.Module, batches: Iterable[Batch]) -> float:
    """Matthews correlation of predictions and labels, times 100: 0 for a model that
    always says the same, however many texts have that label.
    """
    said, right = list[int](), list[int]()
    with evaluating(model), torch.no_grad():
        for batch in batches:
            inputs = {name: part for name, part in batch.items() if name != "labels"}
            said += model(**inputs).logits.argmax(dim=1).tolist()
            right += batch["labels"].tolist()
    return 100 * float(matthews_corrcoef(right, said))


def real_texts(task: str, tokenizer: Any) -> dict[str, Any]:
    """The encoded rows of a task of GLUE, "train", "validation" and "test". STS-B's
    scores, from 0 to 5, become two classes: whether it is more than the middle.
    """
    import glue_classifier as recipe

    rows, _ = GLUE["tasks"][task]
    parts = dict(recipe.prepared(rows, GLUE["longest"], tokenizer, task))
    for name in ("validation", "test"):
        order = np.random.RandomState(0).permutation(len(parts[name]))
        parts[name] = parts[name].select(order[: GLUE[name]])
    if task == "stsb":
        for name, part in parts.items():
            similar = [int(score > 2.5) for score in part["label"]]
            parts[name] = part.remove_columns("label").add_column("label", similar)
    return parts


def real_tickets(task: str, seed: int) -> dict[str, Rows]:
    """``tickets`` of a real encoder on a task of GLUE, Matthews correlations; and the
    "accuracy" of the full model, beside that of the more frequent label.
    """
    import glue_classifier as recipe

    _, epochs = GLUE["tasks"][task]
    model, tokenizer = recipe.load_classifier(seed)
    data = real_texts(task, tokenizer)
    validation, test = (
        list(pieces.batches(data[name], batch_size=50)) for name in ("validation", "test")
    )
    accuracies: list[float] = []

    def train(net: nn.Module) -> None:
        recipe.fine_tune(net, data, epochs=epochs, seed=seed, progress=False)
        net.eval()
        if not accuracies:  # the full model is trained first
            accuracies.append(accuracy(net, test))

    found = tickets(model, train, validation, test, seed, matthews)
    positive = float(torch.cat([batch["labels"] for batch in test]).double().mean())
    majority = 100 * max(positive, 1 - positive)
    found["full"][0] |= {"accuracy": accuracies[0], "majority": majority}
    return found


# ------------------------------------------------------------------------------ remakes
def by_task(
    executor: Executor,
    folder: Path,
    run: Callable[[str, int], Any],
    tasks: Iterable[str],
    seeds: int,
) -> Any:
    """Tables of runs of all seeds and tasks."""
    running = {
        (seed, task): executor.submit(once, folder, run, task, seed)
        for seed in range(seeds)
        for task in tasks
    }
    return tables(
        [
            ({"seed": seed, "task": task}, future.result())
            for (seed, task), future in running.items()
        ]
    )


def remake_depth(executor: Executor, folder: Path) -> Result:
    """The three checkpoints at every depth. Some minutes."""
    found = each_seed(executor, folder, SEEDS, depths)
    return Result(found, {"drops": DROPS, "training": RATE})


def remake_subnetworks(executor: Executor, folder: Path) -> Result:
    """Subnetworks of three seeds by four tasks. About ten minutes on two cores."""
    found = by_task(executor, folder, one_task, TASKS, SEEDS)
    settings = {"tasks": TASKS, "tuning": TUNE, "longer": LONGER, "texts": MEASURED}
    return Result(found, settings)


def remake_depth_sst2(executor: Executor, folder: Path) -> Result:
    """Every depth of a real encoder on SST-2, three fine-tunings each way."""
    found = each_seed(executor, folder, SST2["seeds"], real_depths)
    return Result(found, {"drops": DROPS, **SST2})


def remake_subnetworks_glue(executor: Executor, folder: Path) -> Result:
    """Subnetworks of a real encoder, three tasks of GLUE, two seeds."""
    return Result(by_task(executor, folder, real_tickets, GLUE["tasks"], GLUE["seeds"]), GLUE)


RESULTS: dict[str, Callable[[Executor, Path], Result]] = {
    "lab09_depth": remake_depth,
    "lab09_subnetworks": remake_subnetworks,
    "lab09_depth_sst2": remake_depth_sst2,
    "lab09_subnetworks_glue": remake_subnetworks_glue,
}
