"""How the results of lab 09 were made: ``course remake lab09_depth``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import glue_classifier as recipe
import numpy as np
import torch
from sklearn.metrics import matthews_corrcoef
from torch import nn

from course_lib.data import pieces
from course_lib.experiments import by_seed, lab09
from course_lib.experiments.lab09 import LAYERS, PATH, Rows
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


def by_task(run: Callable[[str, int], dict[str, Rows]], tasks: Iterable[str], seed: int) -> Any:
    """The rows of all tasks, table by table."""
    found = [(task, run(task, seed)) for task in tasks]
    return {
        name: [{"task": task, **row} for task, one in found for row in one[name]]
        for name in found[0][1]
    }


def subnetworks(seed: int) -> dict[str, Rows]:
    return by_task(one_task, lab09.TASKS, seed)


def real_subnetworks(seed: int) -> dict[str, Rows]:
    return by_task(real_tickets, GLUE["tasks"], seed)


SMALL = {"tuning": lab09.TUNE, "longer": lab09.LONGER, "texts": lab09.MEASURED}
RESULTS = {
    "lab09_depth": by_seed(
        "The three checkpoints at every depth. Some minutes.",
        {"drops": DROPS, "training": lab09.RATE}, SEEDS, depths,
    ),
    "lab09_subnetworks": by_seed(
        "Three seeds by four tasks. About ten minutes on two cores.", SMALL, SEEDS, subnetworks
    ),
    "lab09_depth_sst2": by_seed(
        "Every depth of a real encoder on SST-2, three fine-tunings each way.",
        {"drops": DROPS, **SST2}, SEEDS, real_depths,
    ),
    "lab09_subnetworks_glue": by_seed(
        "Subnetworks of a real encoder, two tasks of GLUE.", GLUE, SEEDS, real_subnetworks
    ),
}  # fmt: skip
