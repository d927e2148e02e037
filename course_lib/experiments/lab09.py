"""Lab 09: depth on demand, and subnetworks of heads and feed-forward blocks, on the
sentiment checkpoints that come with the course (``data/results/make/lab09_results.py``).

Importance and choices go by validation texts; accuracies are % of test texts.

Source: Fan, Grave & Joulin 2020; Prasanna, Rogers & Rumshisky 2020.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib import experiments
from course_lib.data import pieces, reviews
from course_lib.experiments import common
from course_lib.experiments.lab07 import losses
from course_lib.models import checkpoints
from course_lib.pruning import heads, layers
from course_lib.show import plots
from course_lib.training import Batch, accuracy, fit_batches, warm_up_then_decay

LAYERS, HEADS = 4, 8
PATH = "bert.encoder.layer"
RATE: dict[str, Any] = {"steps": 300, "lr": 3e-4}  # of training on short reviews
TASKS = ("sentiment", "negated", "contrast", "domain")
TUNE: dict[str, Any] = {"texts": 2000, "batch": 32, "steps": 250, "lr": 3e-4}
LONGER: dict[str, Any] = {"domain": {**TUNE, "steps": 800, "lr": 5e-4}}  # TUNE is too short
MEASURED = {"validation": 300, "test": 1000}
# tasks on which not every retrained subnetwork reaches the full model, and their names
SHOWN = {
    "lab09_subnetworks": {"sentiment": "sentiment", "negated": "negated"},
    "lab09_subnetworks_glue": {"sst2": "SST-2", "stsb": "STS-B"},
}

Measure = Callable[[nn.Module, Sequence[Batch]], float]
Rows = list[dict[str, Any]]


@cache
def texts() -> dict[str, Any]:
    """The encoded full reviews, "train", "validation" and "test"."""
    tokenizer = checkpoints.load("reviews-bert-0").tokenizer
    data = reviews.load(TUNE["texts"], MEASURED["validation"], MEASURED["test"])
    return dict(pieces.encode(data, tokenizer))


@cache
def short_reviews(count: int, held_back: int = 1000) -> tuple[list[Any], list[Any]]:
    """Reviews with at most one filler: for training, and for the test."""
    every = reviews.texts("short", count + 2 * held_back, seed=1)
    return every[2 * held_back :], every[held_back : 2 * held_back]


def batches(split: str, task: str) -> list[Batch]:
    """Validation or test texts, from short to long."""
    return list(pieces.batches(texts()[split], task, 50))


# -------------------------------------------------------------------------------- depth
def pretrained(seed: int) -> nn.Module:
    """A checkpoint that comes with the course."""
    model: nn.Module = checkpoints.load(f"reviews-bert-{seed}").model
    return model


def trained_on(model: nn.Module, seed: int, how: Mapping[str, Any] = RATE) -> nn.Module:
    """Trained further on short reviews; in place."""
    tokenizer = checkpoints.load(f"reviews-bert-{seed}").tokenizer
    stream = reviews.batches(short_reviews(32 * RATE["steps"])[0], tokenizer, seed)
    rate = warm_up_then_decay(how["steps"] // 10)
    fit_batches(model, stream, how["steps"], lr=how["lr"], rate=rate, seed=seed, progress=False)
    return model.eval()


def on_short(model: nn.Module, seed: int) -> float:
    """Sentiment of short reviews, % right."""
    tokenizer = checkpoints.load(f"reviews-bert-{seed}").tokenizer
    return accuracy(model, reviews.batches(short_reviews(32 * RATE["steps"])[1], tokenizer, 0))


def draw_layerdrop() -> Figure:
    """Two steps of LayerDrop, and the same network cut to half of its depth."""
    runs = {"one step": (0, 1, 3), "the next": (1, 3), "half, for use": (0, 2)}
    columns = [f"layer {layer + 1}" for layer in range(4)]
    mask = pd.DataFrame({s: [i in of for i in range(4)] for s, of in runs.items()}, columns).T
    return plots.grid(mask, title="Which layers run? (Dark; a light one lets its input through)")


def draw_depths(
    tables: Mapping[str, pd.DataFrame], mine: float | None = None, guess: float | None = None
) -> Figure:
    """Accuracy at every depth, a panel per table; the student's run and guess in the first."""
    rows = pd.concat([table.assign(data=name) for name, table in tables.items()])
    fig = plots.curves(
        rows[rows["kept"] == "evenly spaced"], x="depth", y="test", panels="data", control=None,
        constant=50, ylim=(44, 102), title="Any depth from one training?",
        xlabel="layers kept", ylabel="test accuracy (%)",
    )  # fmt: skip
    if mine is not None:
        first, half = fig.axes[0], LAYERS // 2
        own = first.plot(half, mine, "D", color=plots.BLACK, ms=8, zorder=7, label="yours, live")
        own += plots.draw_guess(first, (half, guess))
        first.legend(handles=own, loc="lower right")
    return fig


# -------------------------------------------------------------------------- subnetworks
class Tools(NamedTuple):
    """The functions of 9.3 to 9.5, and the gates of heads: by default, the library's."""

    gated: Callable[..., AbstractContextManager[None]] = heads.gated
    gated_mlps: Callable[..., AbstractContextManager[None]] = layers.gated_mlps
    joint_importance: Callable[..., tuple[Tensor, Tensor]] = layers.joint_importance
    prune_while: Callable[..., list[tuple[Tensor, Tensor, float]]] = layers.prune_while
    subnetworks: Callable[..., dict[str, tuple[Tensor, Tensor]]] = layers.subnetworks


LIBRARY = Tools()


def start(task: str, seed: int) -> nn.Module:
    """The first checkpoint with a new classifier, drawn by ``seed``."""
    model: nn.Module = common.new_classifier(pretrained(0), 3 if task == "domain" else 2, seed)
    return model


def tune(model: nn.Module, task: str, seed: int, how: Mapping[str, Any] | None = None) -> None:
    """Fine-tune in place, as chosen for the task by validation texts."""
    mean = lambda net, batch: losses(net, batch).mean()  # noqa: E731
    common.fine_tune(model, texts()["train"], task, seed, how or LONGER.get(task, TUNE), loss=mean)
    model.eval()


def tickets(
    model: nn.Module,
    train: Callable[[nn.Module], object],
    validation: Sequence[Batch],
    test: Sequence[Batch],
    seed: int,
    measure: Measure = accuracy,
    tools: Tools = LIBRARY,
) -> dict[str, Rows]:
    """Fine-tune a model, prune it while 90 % are left, and measure good, random and bad
    subnetworks, as they are ("pruned") and "retrained", on ``test``. Returns rows by
    table; ``parts`` are blocks.
    """
    encoder = (p for p in model.named_parameters() if p[0].startswith("bert.encoder"))
    before = {name: p.detach().clone() for name, p in encoder}
    train(model)
    full = measure(model, test)

    def score(xi: Tensor, nu: Tensor) -> float:
        with tools.gated(model, xi.float()), tools.gated_mlps(model, nu.float()):
            return measure(model, validation)

    def score_parts(xi: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
        with tools.gated(model, xi.float()), tools.gated_mlps(model, nu.float()):
            return tools.joint_importance(model, validation, losses)

    importance = tools.joint_importance(model, validation, losses)  # of the full model
    rounds = tools.prune_while(score, score_parts, *importance[0].shape)
    xi, nu, _ = rounds[-1]
    scores: Rows = []
    three = tools.subnetworks(xi, nu, *importance, torch.Generator().manual_seed(seed))
    for name, (x, n) in three.items():
        retrained = copy.deepcopy(model)
        layers.retrain(retrained, before, x, n, train)
        for when, net in (("pruned", model), ("retrained", retrained)):
            with tools.gated(net, x.float()), tools.gated_mlps(net, n.float()):
                scores.append({"subnetwork": name, "when": when, "score": measure(net, test)})
    return {
        "full": [{"score": full}],
        "rounds": [
            {"round": r, "heads": int(x.sum()), "parts": int(n.sum()), "validation": v}
            for r, (x, n, v) in enumerate(rounds)
        ],
        "scores": scores,
        "heads": [
            {"layer": layer, "head": head, "kept": int(xi[layer, head])}
            for layer, head in product(*map(range, xi.shape))
        ],
        "parts": [{"layer": layer, "kept": int(kept)} for layer, kept in enumerate(nu.tolist())],
    }


def short_tickets(task: str, how: Mapping[str, Any], tools: Tools) -> dict[str, pd.DataFrame]:
    """:func:`tickets` of a short training with seed 0, measured on validation texts."""
    validation = batches("validation", task)
    train = lambda net: tune(net, task, 0, {**TUNE, **how})  # noqa: E731
    found = tickets(start(task, 0), train, validation, validation, 0, tools=tools)
    return {name: pd.DataFrame(rows) for name, rows in found.items()}


def shares_of_lead() -> pd.DataFrame:
    """Stored scores of ``SHOWN``; ``share``: % of the full model's lead over a constant answer."""
    found = []
    for result, tasks in SHOWN.items():
        scores, full = (experiments.read(f"{result}/{name}") for name in ("scores", "full"))
        both = scores.merge(full, on=["seed", "task"], suffixes=("", "_full"))
        lead = (both["score"] - both["constant"]) / (both["score_full"] - both["constant"])
        found.append(both.assign(task=both["task"].map(tasks), share=100 * lead))
    return pd.concat(found).dropna(subset="task")[["seed", "task", "subnetwork", "when", "share"]]


def draw_shares(shares: pd.DataFrame, guess: tuple[str, float] | None = None) -> Figure:
    """The :func:`shares_of_lead` before and after retraining; the guess is of after."""
    fig, panels = plots.subplots(2, 1, 6.6)
    for axes, when in zip(panels, ("pruned", "retrained"), strict=True):
        plots.bars(
            shares[shares["when"] == when], x="task", y="share", by="subnetwork", fmt="{:.0f}",
            title={"pruned": "Before retraining", "retrained": "After retraining"}[when],
            ylabel="% of the lead", guess=guess if when == "retrained" else None,
            ylim=(0, 138), ax=axes,
        )  # fmt: skip
        axes.axhline(100, color=plots.BLACK, linewidth=1, zorder=1)
        for number in axes.texts:  # readable on the line
            number.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    return fig


# ---------------------------------------------------------------------------- agreement
def masks(kept: pd.DataFrame) -> list[list[Tensor]]:
    """The bool masks (layers, heads) of a table "heads": for each seed a list of tasks."""
    return [
        [
            torch.tensor(one.pivot(index="layer", columns="head", values="kept").to_numpy()).bool()
            for _, one in of_seed.groupby("task", sort=False)
        ]
        for _, of_seed in kept.groupby("seed")
    ]


def overlaps(
    of_heads: list[list[Tensor]], overlap: Callable[[Tensor, Tensor], tuple[int, float]]
) -> pd.DataFrame:
    """Heads that two :func:`masks` share, and how many random ones would ("random"), for
    pairs of one task and two seeds, and of one seed and two tasks. ``overlap``: of 9.6.
    """
    by_task = [list(of_task) for of_task in zip(*of_heads, strict=True)]
    rows = [
        {"pair": pair, "seed": k if groups is by_task else seed, "method": method, "heads": count}
        for pair, groups in (("one task, two seeds", by_task), ("one seed, two tasks", of_heads))
        for seed, group in enumerate(groups)
        for k, two in enumerate(combinations(group, 2))
        for method, count in zip(("measured", "random"), overlap(*two), strict=True)
    ]
    return pd.DataFrame(rows)


def kappas(of_heads: list[list[Tensor]]) -> str:
    """Fleiss' κ of each task's seeds, as text."""
    return ", ".join(
        f"{task} {layers.fleiss_kappa(torch.stack(seeds).flatten(1)):.2f}"
        for task, seeds in zip(TASKS, zip(*of_heads, strict=True), strict=True)
    )


def show_survivors(rounds: pd.DataFrame, kept: pd.DataFrame) -> Callable[..., Figure]:
    """For an explorer: the heads of a task and seed that survive."""

    def draw(task: str = "sentiment", seed: int = 0) -> Figure:
        mask = kept[(kept["task"] == task) & (kept["seed"] == seed)]
        last = rounds[(rounds["task"] == task) & (rounds["seed"] == seed)].iloc[-1]
        title = f"{last['heads']} heads, {last['parts']} blocks kept: {last['validation']:.0f} %"
        counted = mask.assign(layer=mask["layer"] + 1, head=mask["head"] + 1)
        wide = counted.pivot(index="layer", columns="head", values="kept").astype(bool)
        return plots.grid(wide, title=f"{task}, seed {seed}: {title}")

    return draw


# -------------------------------------------------------------------------------- costs
def good_subnetwork(task: str = "sentiment", seed: int = 0) -> nn.Module:
    """The first checkpoint without the heads and blocks that did not survive."""
    tables = (experiments.read(f"lab09_subnetworks/{name}") for name in ("heads", "parts"))
    kept, parts = (table.query(f"task == {task!r} and seed == {seed}") for table in tables)
    smaller = heads.remove_heads(pretrained(0), masks(kept)[0][0])
    return layers.remove_mlps(smaller, torch.tensor(parts["kept"].to_numpy()).bool())


def measure_costs(nets: Mapping[str, nn.Module]) -> pd.DataFrame:
    """``parameters`` of the layers, ``bits`` of the model, ``macs`` of a review of 37 pieces,
    ``ms`` of 64 such reviews on one core, by ``model``.
    """
    one = batches("test", "sentiment")[-1]["input_ids"][:1, :37]
    table = common.costs(nets, one, one.repeat(64, 1), repeats=9)
    of_layers = [net.get_submodule(PATH).parameters() for net in nets.values()]
    table.insert(1, "parameters", [sum(p.numel() for p in every) for every in of_layers])
    return table.rename(columns={"method": "model"})
