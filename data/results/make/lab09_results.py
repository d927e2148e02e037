"""How the results of lab 09 were made: ``course remake lab09_depth``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import glue_classifier as recipe
import numpy as np
import torch
from sklearn.metrics import matthews_corrcoef
from torch import nn

from course_lib.data import pieces
from course_lib.experiments import Result, lab09
from course_lib.experiments.lab09 import LAYERS, PATH, Rows
from course_lib.experiments.once import each_seed, once, tables
from course_lib.modes import evaluating
from course_lib.pruning.layers import layerdrop, take_layers
from course_lib.training import Batch, accuracy

DROPS = {"plain": 0.0, "LayerDrop 0.2": 0.2, "LayerDrop 0.5": 0.5}  # p
SEEDS, PARTS = 3, ("validation", "test")
SST2: dict[str, Any] = {"sentences": 8000, "depth": 3}
GLUE: dict[str, Any] = {
    "tasks": {"sst2": [4000, 1], "stsb": [2000, 2]},  # rows for training, epochs
    "validation": 400,  # rows for the search
    "test": 900,  # rows, where there are as many
}


def every_depth(
    model: nn.Module,
    train: Callable[[nn.Module], object],
    measure: Callable[[nn.Module], float],
    seed: int,
    alone: Iterable[int],
) -> dict[str, Rows]:
    """Accuracy at every depth: trained plainly and with LayerDrop, and cut evenly;
    half of it also to the first layers; and cut to the depths ``alone``, then trained.
    """
    rows: Rows = []

    def add(method: str, kept: str, depth: int, net: nn.Module) -> None:
        rows.append({"method": method, "kept": kept, "depth": depth, "test": measure(net)})

    for method, p in DROPS.items():
        net = copy.deepcopy(model)
        layers: Any = net.get_submodule(PATH)
        with layerdrop(layers, p, torch.Generator().manual_seed(seed)) if p else nullcontext():
            train(net)
        for depth in range(1, len(layers) + 1):
            add(method, "evenly spaced", depth, take_layers(net, PATH, depth))
        add(method, "first", len(layers) // 2, take_layers(net, PATH, range(len(layers) // 2)))
    for depth in alone:
        train(net := take_layers(model, PATH, depth))
        add("trained at that depth", "evenly spaced", depth, net)
    return {"depths": rows}


def depths(seed: int) -> dict[str, Rows]:
    """``every_depth`` of a checkpoint on short reviews."""
    train, test = lab09.trained_on, lab09.on_short
    model, measured = lab09.pretrained(seed), lambda net: test(net, seed)
    return every_depth(model, lambda net: train(net, seed), measured, seed, range(1, LAYERS + 1))


def tune(net: nn.Module, data: Any, seed: int, epochs: int = 1) -> None:
    """Fine-tune a real encoder in place."""
    recipe.fine_tune(net, data, epochs=epochs, seed=seed, progress=False)
    net.eval()


def real_depths(seed: int) -> dict[str, Rows]:
    """``every_depth`` of a real encoder on SST-2: accuracies of GLUE's development set."""
    model, tokenizer = recipe.load_classifier(seed)
    data = recipe.prepared(SST2["sentences"], tokenizer=tokenizer)
    test = list(pieces.batches(data["test"], batch_size=50))
    return every_depth(
        model,
        lambda net: tune(net, data, seed),
        lambda net: accuracy(net, test),
        seed,
        [SST2["depth"]],
    )


def one_task(task: str, seed: int) -> dict[str, Rows]:
    """``tickets`` of a task of the reviews, accuracies in %; "constant": of the constant answer."""
    validation, test = (lab09.batches(part, task) for part in PARTS)
    train = lambda net: lab09.tune(net, task, seed)  # noqa: E731
    found = lab09.tickets(lab09.start(task, seed), train, validation, test, seed)
    counts = torch.cat([batch["labels"] for batch in test]).bincount()
    found["full"][0]["constant"] = 100 * int(counts.max()) / int(counts.sum())
    return found


def matthews(model: nn.Module, batches: Iterable[Batch]) -> float:
    """Matthews correlation of predictions and labels, times 100: 0 for a constant answer."""
    said, right = list[int](), list[int]()
    with evaluating(model), torch.no_grad():
        for batch in batches:
            said += model(**batch).logits.argmax(dim=1).tolist()
            right += batch["labels"].tolist()
    return 100 * float(matthews_corrcoef(right, said))


def real_texts(task: str, tokenizer: Any) -> dict[str, Any]:
    """The encoded rows of a task of GLUE. STS-B's scores, 0 to 5, become two classes."""
    parts = dict(recipe.prepared(GLUE["tasks"][task][0], tokenizer=tokenizer, name=task))
    for name, part in parts.items():
        if name in GLUE:
            part = part.select(np.random.RandomState(0).permutation(len(part))[: GLUE[name]])
        if task == "stsb":
            similar = [int(score > 2.5) for score in part["label"]]
            part = part.remove_columns("label").add_column("label", similar)
        parts[name] = part
    return parts


def real_tickets(task: str, seed: int) -> dict[str, Rows]:
    """``tickets`` of a real encoder on a task of GLUE, Matthews correlations."""
    model, tokenizer = recipe.load_classifier(seed)
    data = real_texts(task, tokenizer)
    validation, test = (list(pieces.batches(data[k], batch_size=50)) for k in PARTS)
    train = lambda net: tune(net, data, seed, GLUE["tasks"][task][1])  # noqa: E731
    found = lab09.tickets(model, train, validation, test, seed, matthews)
    found["full"][0]["constant"] = 0.0
    return found


def by_task(executor: Executor, folder: Path, run: Callable[..., Any], tasks: Iterable[str]) -> Any:
    """Tables of runs of all seeds and tasks."""
    runs = [{"seed": seed, "task": task} for seed in range(SEEDS) for task in tasks]
    done = [executor.submit(once, folder, run, each["task"], each["seed"]) for each in runs]
    return tables((each, one.result()) for each, one in zip(runs, done, strict=True))


def remake_depth(executor: Executor, folder: Path) -> Result:
    """The three checkpoints at every depth. Some minutes."""
    found = each_seed(executor, folder, SEEDS, depths)
    return Result(found, {"drops": DROPS, "training": lab09.RATE})


def remake_subnetworks(executor: Executor, folder: Path) -> Result:
    """Subnetworks of three seeds by four tasks. About ten minutes on two cores."""
    settings = {"tuning": lab09.TUNE, "longer": lab09.LONGER, "texts": lab09.MEASURED}
    return Result(by_task(executor, folder, one_task, lab09.TASKS), settings)


def remake_depth_sst2(executor: Executor, folder: Path) -> Result:
    """Every depth of a real encoder on SST-2, three fine-tunings each way."""
    return Result(each_seed(executor, folder, SEEDS, real_depths), {"drops": DROPS, **SST2})


def remake_subnetworks_glue(executor: Executor, folder: Path) -> Result:
    """Subnetworks of a real encoder, two tasks of GLUE."""
    return Result(by_task(executor, folder, real_tickets, GLUE["tasks"]), GLUE)


RESULTS: dict[str, Callable[[Executor, Path], Result]] = {
    "lab09_depth": remake_depth,
    "lab09_subnetworks": remake_subnetworks,
    "lab09_depth_sst2": remake_depth_sst2,
    "lab09_subnetworks_glue": remake_subnetworks_glue,
}
