"""Lab 09's runs: depth on demand, and subnetworks of heads and feed-forward parts, on
the shipped sentiment checkpoints.

Importance, and what is chosen, go by validation texts; accuracies are % of test texts.
``course remake lab09_depth`` and ``course remake lab09_subnetworks`` make the shipped
results again; ``lab09_depth_sst2`` and ``lab09_subnetworks_glue`` are the same with a
real encoder on GLUE, whose development sets serve as test.

Source: Fan, Grave & Joulin 2020, "Reducing Transformer Depth on Demand with Structured
Dropout"; Prasanna, Rogers & Rumshisky 2020, "When BERT Plays the Lottery, All Tickets
Are Winning".
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.data import glue, pieces, reviews
from course_lib.experiments.lab07 import losses
from course_lib.experiments.once import once
from course_lib.models import checkpoints
from course_lib.modes import evaluating
from course_lib.pruning.heads import gated
from course_lib.pruning.layers import (
    gated_mlps,
    joint_importance,
    layerdrop,
    prune_while,
    retrain,
    subnetworks,
    take_layers,
)
from course_lib.recipes.reviews import batches_of
from course_lib.recipes.reviews import name as checkpoint_name
from course_lib.training import Batch, accuracy, fit_batches, warm_up_then_decay

LAYERS, HEADS = 4, 8
PATH = "bert.encoder.layer"
# of further training, on reviews with at most one filler
RATE: dict[str, Any] = {"steps": 300, "lr": 3e-4}
DROPS = (0.2, 0.5)  # p of LayerDrop
TASKS = ("sentiment", "negated", "contrast", "domain")
TUNE: dict[str, Any] = {"texts": 2000, "batch": 32, "steps": 250, "lr": 3e-4}
# TUNE leaves it at chance, and 1e-3 jumps
LONGER: dict[str, Any] = {"domain": {**TUNE, "steps": 800, "lr": 5e-4}}
MEASURED = {"validation": 300, "test": 1000}

Measure = Callable[[nn.Module, Sequence[Batch]], float]


@cache
def texts() -> dict[str, Any]:
    """The encoded full reviews, "train", "validation" and "test"."""
    tokenizer = checkpoints.load(checkpoint_name(0)).tokenizer
    data = reviews.load(TUNE["texts"], MEASURED["validation"], MEASURED["test"])
    return dict(pieces.encode(data, tokenizer, aligned=()))


@cache
def short_reviews(count: int, held_back: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Reviews with at most one filler: for training, validation and test."""
    every = reviews.texts("short", count + 2 * held_back, seed=1)
    return every[2 * held_back :], every[:held_back], every[held_back : 2 * held_back]


def batches(split: str, task: str, size: int = 50) -> list[Batch]:
    """Validation or test texts, from short to long."""
    return list(pieces.batches(texts()[split], task, size))


# -------------------------------------------------------------------------------- depth
def pretrained(seed: int) -> nn.Module:
    """A shipped checkpoint."""
    model: nn.Module = checkpoints.load(checkpoint_name(seed)).model
    return model


def trained_on(
    model: nn.Module, seed: int, p: float = 0.0, how: Mapping[str, Any] = RATE
) -> nn.Module:
    """Trained further on short reviews, each layer skipped with probability ``p``; in
    place.
    """
    tokenizer = checkpoints.load(checkpoint_name(seed)).tokenizer
    training, _, _ = short_reviews(32 * RATE["steps"], 1000)
    stream = batches_of(training, tokenizer, seed)
    layers: Any = model.get_submodule(PATH)
    generator = torch.Generator().manual_seed(seed)
    with layerdrop(layers, p, generator) if p else nullcontext():
        fit_batches(
            model,
            stream,
            how["steps"],
            lr=how["lr"],
            rate=warm_up_then_decay(how["steps"] // 10),
            seed=seed,
            progress=False,
        )
    return model.eval()


def on_short(model: nn.Module, seed: int, split: str = "test") -> float:
    """Sentiment of short reviews, % right."""
    tokenizer = checkpoints.load(checkpoint_name(seed)).tokenizer
    _, validation, test = short_reviews(32 * RATE["steps"], 1000)
    return accuracy(model, batches_of(test if split == "test" else validation, tokenizer, 0))


def first_layers(model: nn.Module, depth: int) -> nn.Module:
    """The control: the first ``depth`` layers in place of evenly spaced ones."""
    smaller = copy.deepcopy(model)
    smaller.get_submodule("bert.encoder").layer = smaller.get_submodule(PATH)[:depth]  # type: ignore[index]
    return smaller


def depths(seed: int) -> dict[str, Any]:
    """Accuracy at every depth, "validation" and "test": trained plainly, with
    LayerDrop, each cut evenly and to its first layers; and trained at that depth.
    """
    found: dict[str, Any] = {}
    for name, p in (("plain", 0.0), *((f"LayerDrop {p:g}", p) for p in DROPS)):
        model = trained_on(pretrained(seed), seed, p)
        for split in ("validation", "test"):
            found.setdefault(name, {})[split] = [
                on_short(take_layers(model, PATH, d), seed, split) for d in range(1, LAYERS + 1)
            ]
        found[f"{name}, first"] = {
            "test": [on_short(first_layers(model, d), seed) for d in range(1, LAYERS + 1)]
        }
    found["trained at that depth"] = {
        "test": [
            on_short(trained_on(take_layers(pretrained(seed), PATH, d), seed), seed)
            for d in range(1, LAYERS + 1)
        ]
    }
    return found


# -------------------------------------------------------------------------- subnetworks
def endless(task: str, seed: int) -> Iterator[Batch]:
    """Training batches, epoch after epoch."""
    for epoch in itertools.count():
        yield from pieces.batches(texts()["train"], task, TUNE["batch"], seed=1000 * seed + epoch)


def classes(task: str) -> int:
    """How many labels a task has."""
    return 3 if task == "domain" else 2


def start(task: str, seed: int) -> nn.Module:
    """The first checkpoint with a fresh classifier, drawn by ``seed``: the start of all
    fine-tunings.
    """
    model: Any = pretrained(0)
    generator = torch.Generator().manual_seed(seed)
    fresh = nn.Linear(model.config.hidden_size, classes(task))
    nn.init.normal_(fresh.weight, std=0.05, generator=generator)
    nn.init.zeros_(fresh.bias)
    model.classifier = fresh
    model.num_labels = model.config.num_labels = classes(task)
    return model


def tune(model: nn.Module, task: str, seed: int, how: Mapping[str, Any] | None = None) -> None:
    """Fine-tune in place, as chosen for the task by validation texts."""
    how = how or LONGER.get(task, TUNE)
    fit_batches(
        model,
        endless(task, seed),
        how["steps"],
        loss=lambda net, batch: losses(net, batch).mean(),
        lr=how["lr"],
        rate=warm_up_then_decay(how["steps"] // 10),
        seed=seed,
        progress=False,
    )
    model.eval()


def search(
    model: nn.Module, validation: Sequence[Batch], measure: Measure
) -> tuple[list[Any], tuple[Tensor, Tensor]]:
    """Rounds of :func:`prune_while` on validation texts, and the importance of the full
    model.
    """

    def score(xi: Tensor, nu: Tensor) -> float:
        with gated(model, xi.float()), gated_mlps(model, nu.float()):
            return measure(model, validation)

    def importance(xi: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
        with gated(model, xi.float()), gated_mlps(model, nu.float()):
            return joint_importance(model, validation, losses)

    full = joint_importance(model, validation, losses)
    return prune_while(score, importance, *full[0].shape), full


def tickets(
    model: nn.Module,
    train: Callable[[nn.Module], object],
    validation: Sequence[Batch],
    test: Sequence[Batch],
    seed: int,
    measure: Measure = accuracy,
) -> dict[str, Any]:
    """Fine-tuned by ``train``, pruned while 90 % are left, and good, random and bad
    subnetworks, as they are and retrained.

    Returns:
        "full" and the measure of each subnetwork ("pruned", "retrained"), of test
        texts; "rounds": heads, parts, measure of validation texts; the masks "xi",
        "nu".
    """
    before = {
        name: p.detach().clone()
        for name, p in model.named_parameters()
        if name.startswith("bert.encoder")
    }
    train(model)
    steps, (of_heads, of_mlps) = search(model, validation, measure)
    xi, nu, _ = steps[-1]
    found: dict[str, Any] = {
        "full": measure(model, test),
        "rounds": [[int(x.sum()), int(n.sum()), s] for x, n, s in steps],
        "xi": xi.int().tolist(),
        "nu": nu.int().tolist(),
        "pruned": {},
        "retrained": {},
    }
    three = subnetworks(xi, nu, of_heads, of_mlps, torch.Generator().manual_seed(seed))
    for name, (x, n) in three.items():
        with gated(model, x.float()), gated_mlps(model, n.float()):
            found["pruned"][name] = measure(model, test)
        again = copy.deepcopy(model)
        retrain(again, before, x, n, train)
        with gated(again, x.float()), gated_mlps(again, n.float()):
            found["retrained"][name] = measure(again, test)
    return found


def one_task(task: str, seed: int) -> dict[str, Any]:
    """:func:`tickets` of a task of the reviews, accuracies in %."""
    return tickets(
        start(task, seed),
        lambda net: tune(net, task, seed),
        batches("validation", task),
        batches("test", task),
        seed,
    )


def remake_depth(executor: Executor, folder: Path) -> dict[str, Any]:
    """The three checkpoints: ``seeds``, one of :func:`depths` each. Some minutes."""
    running = [
        executor.submit(once, folder / f"seed{seed}.json", depths, seed) for seed in range(3)
    ]
    return {"drops": DROPS, "seeds": [future.result() for future in running]}


def remake_subnetworks(executor: Executor, folder: Path) -> dict[str, Any]:
    """Three seeds by four tasks: ``runs``, seeds of tasks, one of :func:`one_task`
    each. About ten minutes on two cores.
    """
    running = [
        [
            executor.submit(once, folder / f"{task}{seed}.json", one_task, task, seed)
            for task in TASKS
        ]
        for seed in range(3)
    ]
    return {"tasks": TASKS, "runs": [[future.result() for future in row] for row in running]}


# ----------------------------------------------------------------------- real sentences
SST2: dict[str, Any] = {"sentences": 8000, "depth": 3, "seeds": 3}
GLUE: dict[str, Any] = {
    # rows for training, epochs: enough to learn them, which would not do for CoLA
    "tasks": {"sst2": [4000, 1], "qnli": [1500, 2], "stsb": [2000, 2]},
    "validation": 400,  # rows for the search
    "test": 900,  # rows, where there are as many
    "longest": 64,  # pieces
    "seeds": 2,
}


def matthews(model: nn.Module, batches: Iterable[Batch]) -> float:
    """Matthews correlation of predictions and labels, times 100: 0 for whoever always
    says the same, however many texts have that label.
    """
    said, right = list[int](), list[int]()
    with evaluating(model), torch.no_grad():
        for batch in batches:
            inputs = {name: part for name, part in batch.items() if name != "labels"}
            said += model(**inputs).logits.argmax(dim=1).tolist()
            right += batch["labels"].tolist()
    return glue.score("cola", said, right)


def real_depths(seed: int) -> dict[str, Any]:
    """A real encoder fine-tuned on SST-2, plainly and with LayerDrop, cut to every
    depth, evenly; cut to the first half; and trained at half of its depth: accuracies
    of GLUE's development set.
    """
    from course_lib.models.pretrained import load_classifier
    from course_lib.recipes import sst2 as recipe

    model, tokenizer = load_classifier(seed=seed, download=False)
    data = recipe.prepared(SST2["sentences"], tokenizer=tokenizer)
    test, half = list(pieces.batches(data["test"], batch_size=50)), SST2["depth"]

    def trained(net: nn.Module, p: float = 0.0) -> nn.Module:
        layers: Any = net.get_submodule(PATH)
        with layerdrop(layers, p, torch.Generator().manual_seed(seed)) if p else nullcontext():
            recipe.fine_tune(net, data, seed=seed, progress=False)
        return net.eval()

    found: dict[str, Any] = {}
    for name, p in (("plain", 0.0), *((f"LayerDrop {p:g}", p) for p in DROPS)):
        net = trained(copy.deepcopy(model), p)
        layers = len(net.get_submodule(PATH))  # type: ignore[arg-type]
        found[name] = [accuracy(take_layers(net, PATH, d), test) for d in range(1, layers + 1)]
        found[f"{name}, first"] = accuracy(first_layers(net, half), test)
    found["trained at that depth"] = accuracy(trained(take_layers(model, PATH, half)), test)
    return found


def real_texts(task: str, tokenizer: Any) -> dict[str, Any]:
    """The encoded rows of a task of GLUE, "train", "validation" and "test". STS-B's
    scores, from 0 to 5, become two classes: whether it is more than the middle.
    """
    from course_lib.recipes import sst2 as recipe

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


def real_tickets(task: str, seed: int) -> dict[str, Any]:
    """:func:`tickets` of a real encoder on a task of GLUE, Matthews correlations; and
    the "accuracy" of the full model, beside that of the more frequent label.
    """
    from course_lib.models.pretrained import load_classifier
    from course_lib.recipes import sst2 as recipe

    _, epochs = GLUE["tasks"][task]
    model, tokenizer = load_classifier(seed=seed, download=False)
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
    return found | {"accuracy": accuracies[0], "majority": 100 * max(positive, 1 - positive)}


def remake_depth_sst2(executor: Executor, folder: Path) -> dict[str, Any]:
    """Every depth of a real encoder on SST-2, three fine-tunings each way:
    ``settings``, ``drops``, and ``seeds``, one of :func:`real_depths` each.
    """
    running = [
        executor.submit(once, folder / f"seed{seed}.json", real_depths, seed)
        for seed in range(SST2["seeds"])
    ]
    return {
        "settings": SST2,
        "drops": DROPS,
        "seeds": [future.result() for future in running],
    }


def remake_subnetworks_glue(executor: Executor, folder: Path) -> dict[str, Any]:
    """Subnetworks of a real encoder, three tasks of GLUE, two seeds: ``settings``, and
    ``runs``, seeds of tasks, one of :func:`real_tickets` each.
    """
    running = [
        [
            executor.submit(once, folder / f"{task}{seed}.json", real_tickets, task, seed)
            for task in GLUE["tasks"]
        ]
        for seed in range(GLUE["seeds"])
    ]
    return {
        "settings": GLUE,
        "tasks": list(GLUE["tasks"]),
        "runs": [[future.result() for future in row] for row in running],
    }


RESULTS: dict[str, Callable[[Executor, Path], dict[str, Any]]] = {
    "lab09_depth": remake_depth,
    "lab09_subnetworks": remake_subnetworks,
    "lab09_depth_sst2": remake_depth_sst2,
    "lab09_subnetworks_glue": remake_subnetworks_glue,
}
