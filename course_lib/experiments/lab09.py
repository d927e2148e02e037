"""Lab 09: depth on demand, and subnetworks of heads and feed-forward parts, on the
sentiment checkpoints that come with the course.

Importance and choices go by validation texts; accuracies are % of test texts. The stored
results ``lab09_*`` are made by ``data/results/make/lab09_results.py``.

Source: Fan, Grave & Joulin 2020, "Reducing Transformer Depth on Demand with Structured
Dropout"; Prasanna, Rogers & Rumshisky 2020, "When BERT Plays the Lottery, All Tickets
Are Winning".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib import experiments, ledger
from course_lib.data import pieces, reviews
from course_lib.experiments import common
from course_lib.experiments.lab07 import losses
from course_lib.models import checkpoints
from course_lib.pruning import heads, layers
from course_lib.show import plots
from course_lib.show.words import minus, say
from course_lib.training import Batch, accuracy, fit_batches, warm_up_then_decay

LAYERS, HEADS = 4, 8
PATH = "bert.encoder.layer"
# of further training, on reviews with at most one filler
RATE: dict[str, Any] = {"steps": 300, "lr": 3e-4}
TASKS = ("sentiment", "negated", "contrast", "domain")
TUNE: dict[str, Any] = {"texts": 2000, "batch": 32, "steps": 250, "lr": 3e-4}
# TUNE leaves it at chance, and 1e-3 jumps
LONGER: dict[str, Any] = {"domain": {**TUNE, "steps": 800, "lr": 5e-4}}
MEASURED = {"validation": 300, "test": 1000}

Measure = Callable[[nn.Module, Sequence[Batch]], float]
Rows = list[dict[str, Any]]


@cache
def texts() -> dict[str, Any]:
    """The encoded full reviews, "train", "validation" and "test"."""
    tokenizer = checkpoints.load("reviews-bert-0").tokenizer
    data = reviews.load(TUNE["texts"], MEASURED["validation"], MEASURED["test"])
    return dict(pieces.encode(data, tokenizer))


@cache
def short_reviews(count: int, held_back: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Reviews with at most one filler: for training, validation and test."""
    every = reviews.texts("short", count + 2 * held_back, seed=1)
    return every[2 * held_back :], every[:held_back], every[held_back : 2 * held_back]


def batches(split: str, task: str, size: int = 50) -> list[Batch]:
    """Validation or test texts, from short to long."""
    return list(pieces.batches(texts()[split], task, size))


# -------------------------------------------------------------------------------- depth
def count_layers(
    layerdrop: Callable[..., AbstractContextManager[None]], p: float, steps: int = 1000
) -> list[int]:
    """How many of four layers run in each step.

    Args:
        layerdrop: of 9.1. p: the probability to skip a layer.
    """

    class PlusOne(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    stack = nn.ModuleList(PlusOne() for _ in range(LAYERS)).train()
    ran = []
    with layerdrop(stack, p, torch.Generator().manual_seed(0)):
        for _ in range(steps):
            x = torch.zeros(())
            for layer in stack:
                x = layer(x)
            ran.append(int(x))
    return ran


def pretrained(seed: int) -> nn.Module:
    """A checkpoint that comes with the course."""
    model: nn.Module = checkpoints.load(f"reviews-bert-{seed}").model
    return model


def trained_on(
    model: nn.Module, seed: int, p: float = 0.0, how: Mapping[str, Any] = RATE
) -> nn.Module:
    """Trained further on short reviews, each layer skipped with probability ``p``; in
    place.
    """
    tokenizer = checkpoints.load(f"reviews-bert-{seed}").tokenizer
    training, _, _ = short_reviews(32 * RATE["steps"], 1000)
    stream = reviews.batches(training, tokenizer, seed)
    blocks: Any = model.get_submodule(PATH)
    generator = torch.Generator().manual_seed(seed)
    with layers.layerdrop(blocks, p, generator) if p else nullcontext():
        rate = warm_up_then_decay(how["steps"] // 10)
        fit_batches(model, stream, how["steps"], lr=how["lr"], rate=rate, seed=seed, progress=False)
    return model.eval()


def on_short(model: nn.Module, seed: int, split: str = "test") -> float:
    """Sentiment of short reviews, % right."""
    tokenizer = checkpoints.load(f"reviews-bert-{seed}").tokenizer
    _, validation, test = short_reviews(32 * RATE["steps"], 1000)
    return accuracy(model, reviews.batches(test if split == "test" else validation, tokenizer, 0))


# -------------------------------------------------------------------------- subnetworks
class Tools(NamedTuple):
    """The functions of 9.3 to 9.5, and the gates of heads: by default, the library's."""

    gated: Callable[..., AbstractContextManager[None]] = heads.gated
    gated_mlps: Callable[..., AbstractContextManager[None]] = layers.gated_mlps
    joint_importance: Callable[..., tuple[Tensor, Tensor]] = layers.joint_importance
    prune_while: Callable[..., list[tuple[Tensor, Tensor, float]]] = layers.prune_while
    subnetworks: Callable[..., dict[str, tuple[Tensor, Tensor]]] = layers.subnetworks
    retrain: Callable[..., None] = layers.retrain


LIBRARY = Tools()


def start(task: str, seed: int) -> nn.Module:
    """The first checkpoint with a new classifier, drawn by ``seed``: the start of all
    fine-tunings.
    """
    model: nn.Module = common.new_classifier(pretrained(0), 3 if task == "domain" else 2, seed)
    return model


def tune(model: nn.Module, task: str, seed: int, how: Mapping[str, Any] | None = None) -> None:
    """Fine-tune in place, as chosen for the task by validation texts."""
    mean = lambda net, batch: losses(net, batch).mean()  # noqa: E731
    common.fine_tune(model, texts()["train"], task, seed, how or LONGER.get(task, TUNE), loss=mean)
    model.eval()


def search(
    model: nn.Module,
    validation: Sequence[Batch],
    measure: Measure = accuracy,
    tools: Tools = LIBRARY,
) -> tuple[list[tuple[Tensor, Tensor, float]], tuple[Tensor, Tensor]]:
    """Rounds of ``prune_while`` on validation texts, and the importance of heads and
    parts of the full model.
    """

    def score(xi: Tensor, nu: Tensor) -> float:
        with tools.gated(model, xi.float()), tools.gated_mlps(model, nu.float()):
            return measure(model, validation)

    def importance(xi: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
        with tools.gated(model, xi.float()), tools.gated_mlps(model, nu.float()):
            return tools.joint_importance(model, validation, losses)

    full = tools.joint_importance(model, validation, losses)
    return tools.prune_while(score, importance, *full[0].shape), full


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
    subnetworks, as they are and retrained.

    Args:
        train: fine-tunes in place. seed: of the random subnetwork.
        tools: the functions that do it.

    Returns:
        Rows of tables: "full", the ``score`` of the full model; "rounds", ``round``,
        ``heads``, ``parts`` and the ``validation`` score of each; "scores",
        ``subnetwork``, ``when`` ("pruned", "retrained") and ``score``; "heads" and
        "parts", whether each is ``kept`` in the end (0 or 1). Scores are of ``test``.
    """
    before = {
        name: p.detach().clone()
        for name, p in model.named_parameters()
        if name.startswith("bert.encoder")
    }
    train(model)
    full = measure(model, test)
    rounds, (of_heads, of_mlps) = search(model, validation, measure, tools)
    xi, nu, _ = rounds[-1]
    scores: Rows = []
    three = tools.subnetworks(xi, nu, of_heads, of_mlps, torch.Generator().manual_seed(seed))
    for name, (x, n) in three.items():
        with tools.gated(model, x.float()), tools.gated_mlps(model, n.float()):
            scores.append({"subnetwork": name, "when": "pruned", "score": measure(model, test)})
        again = copy.deepcopy(model)
        tools.retrain(again, before, x, n, train)
        with tools.gated(again, x.float()), tools.gated_mlps(again, n.float()):
            scores.append({"subnetwork": name, "when": "retrained", "score": measure(again, test)})
    return {
        "full": [{"score": full}],
        "rounds": [
            {"round": r, "heads": int(x.sum()), "parts": int(n.sum()), "validation": v}
            for r, (x, n, v) in enumerate(rounds)
        ],
        "scores": scores,
        "heads": [
            {"layer": layer, "head": head, "kept": int(kept)}
            for layer, row in enumerate(xi.tolist())
            for head, kept in enumerate(row)
        ],
        "parts": [{"layer": layer, "kept": int(kept)} for layer, kept in enumerate(nu.tolist())],
    }


def short_tickets(task: str, how: Mapping[str, Any], tools: Tools) -> dict[str, pd.DataFrame]:
    """:func:`tickets` of a short training with seed 0, measured on validation texts.

    Args:
        how: ``steps`` and ``lr``. tools: the functions that do it.
    """
    validation, settings = batches("validation", task), {**TUNE, **how}

    def train(net: nn.Module) -> None:
        tune(net, task, 0, settings)

    found = tickets(start(task, 0), train, validation, validation, 0, tools=tools)
    return {name: pd.DataFrame(rows) for name, rows in found.items()}


def with_full(result: str) -> pd.DataFrame:
    """The scores of a stored result's subnetworks, with the full model, which is neither
    pruned nor retrained, among the subnetworks of both.
    """
    scores, full = (experiments.read(f"{result}/{name}") for name in ("scores", "full"))
    both = [full.assign(subnetwork="full", when=when) for when in scores["when"].unique()]
    return pd.concat([*both, scores])[list(scores.columns)]


def say_agreement(
    shared: pd.DataFrame,
    masks: list[list[Tensor]],
    kappa: Callable[[Tensor], float],
    survivors_below: Callable[[list[list[Tensor]], int], float],
) -> None:
    """Print what of the survivors agrees: between pairs of masks beyond chance, between
    seeds of a task, and over tasks.

    Args:
        shared: as :func:`overlaps` returns it.
        masks: [seed][task] -> (layers, heads).
        kappa, survivors_below: the answers of 9.7.
    """
    for pair, part in shared.groupby("pair", sort=False):
        say(f"More than random, {pair}: {minus(part, 'heads', 'measured', 'random', unit='')}.")
    for t, task in enumerate(TASKS):
        seeds = torch.stack([of_seed[t].flatten() for of_seed in masks])
        say(f"κ over seeds, {task}: {kappa(seeds):.2f}")
    few = len(TASKS) - 1
    say(
        f"{survivors_below(masks, few):.0%} of the heads survive in fewer than {few} of"
        f" {len(TASKS)} tasks."
    )


def add_to_ledger(evenly: pd.DataFrame, costs: pd.DataFrame) -> None:
    """A row per way to half of the depth, and one of the dense model.

    Args:
        evenly: test accuracies by ``method`` and ``depth``, evenly spaced layers.
        costs: as :func:`measure_costs` returns it.
    """
    at_half = evenly[evenly["depth"] == LAYERS // 2]
    whole = evenly[(evenly["depth"] == LAYERS) & (evenly["method"] == "plain")]
    rows = {"dense": ("dense", whole)}
    for name in ("plain", "LayerDrop 0.5", "trained at that depth"):
        short = name.replace("trained at that depth", "trained so")
        rows[f"half the depth, {short}"] = ("half", at_half[at_half["method"] == name])
    for name, (model, tested) in rows.items():
        cost = costs.set_index("model").loc[model, ["bits", "macs", "ms"]].to_dict()
        ledger.add("bert-small, short reviews", name, lab="09", accuracy=tested["test"], **cost)


def heads_and_parts(rounds: pd.DataFrame) -> pd.DataFrame:
    """What survived of each task: a column per seed, "14 heads, 2 parts"."""
    last = rounds.loc[rounds.groupby(["task", "seed"], sort=False)["round"].idxmax()]
    text = last["heads"].astype(str) + " heads, " + last["parts"].astype(str) + " parts"
    wide = last.assign(text=text).pivot(index="task", columns="seed", values="text")
    return wide.loc[list(rounds["task"].unique())].add_prefix("seed ").reset_index()


def scores_one_by_one(scores: pd.DataFrame) -> pd.DataFrame:
    """A row per task and seed, a column per subnetwork, pruned and retrained: for a heat
    map.
    """
    named = scores.assign(
        run=scores["task"] + ", seed " + scores["seed"].astype(str),
        subnetwork=scores["subnetwork"]
        + scores["when"]
        .map({"pruned": "", "retrained": ",\nagain"})
        .where(scores["subnetwork"] != "full", ""),
    )
    wide = named.drop_duplicates(["run", "subnetwork"]).pivot(
        index="run", columns="subnetwork", values="score"
    )
    return wide.loc[named["run"].unique(), named["subnetwork"].unique()]


def masks(kept: pd.DataFrame) -> list[list[Tensor]]:
    """The bool masks (layers, heads) of a table "heads": for each seed a list of tasks."""
    return [
        [
            torch.tensor(one.pivot(index="layer", columns="head", values="kept").to_numpy()).bool()
            for _, one in of_seed.groupby("task", sort=False)
        ]
        for _, of_seed in kept.groupby("seed")
    ]


def by_head(values: Tensor) -> pd.DataFrame:
    """A number per head, (layers, heads), as a wide table: for a heat map."""
    layers, heads = (range(1, n + 1) for n in values.shape)
    return pd.DataFrame(
        values.numpy(), pd.Index(layers, name="layer"), pd.Index(heads, name="head")
    )


def overlaps(
    of_heads: list[list[Tensor]], overlap: Callable[[Tensor, Tensor], tuple[int, float]]
) -> pd.DataFrame:
    """Heads that two masks share, and how many would be shared by chance.

    Args:
        of_heads: of :func:`masks`. overlap: of 9.7.

    Returns:
        Columns ``pair`` ("one task, two seeds" or "one seed, two tasks"), ``seed`` (the
        number of the pair of seeds, or the seed), ``method`` ("measured", "random")
        and ``heads``.
    """
    seeds, tasks = range(len(of_heads)), range(len(of_heads[0]))
    found = [
        ("one task, two seeds", k, overlap(of_heads[a][t], of_heads[b][t]))
        for t in tasks
        for k, (a, b) in enumerate((a, b) for a in seeds for b in range(a))
    ]
    found += [
        ("one seed, two tasks", s, overlap(of_heads[s][t], of_heads[s][u]))
        for s in seeds
        for t in tasks
        for u in range(t)
    ]
    rows = [
        {"pair": pair, "seed": seed, "method": method, "heads": count}
        for pair, seed, both in found
        for method, count in zip(("measured", "random"), both, strict=True)
    ]
    return pd.DataFrame(rows)


def draw_layerdrop() -> Figure:
    """LayerDrop: two steps of training in which some of four layers are skipped, and the
    same network cut to half of its depth.
    """
    runs = {"one step": (0, 1, 3), "the next": (1, 3), "half, for use": (0, 2)}
    columns = [f"layer {layer + 1}" for layer in range(4)]
    mask = pd.DataFrame({s: [i in of for i in range(4)] for s, of in runs.items()}, columns).T
    return plots.grid(mask, title="Which layers run? (Dark; a light one lets its input through)")


def show_survivors(rounds: pd.DataFrame, kept: pd.DataFrame) -> Callable[..., Figure]:
    """For an explorer: the heads of a task and seed that survive, and the rounds of the
    search.
    """

    def draw(task: str = "sentiment", seed: int = 0) -> Figure:
        mine = rounds[(rounds["task"] == task) & (rounds["seed"] == seed)]
        mask = kept[(kept["task"] == task) & (kept["seed"] == seed)]
        last, least = mine.iloc[-1], 0.9 * mine["validation"].iloc[0]
        fig, (left, right) = plots.subplots(1, 2, 4.2)
        grid = mask.pivot(index="layer", columns="head", values="kept").to_numpy()
        left.imshow(grid, cmap="Blues", vmin=-0.2, vmax=1.2, aspect="auto")
        left.set(xlabel="head", ylabel="layer", title="kept (dark)")
        left.set_xticks(range(HEADS), range(1, HEADS + 1))
        left.set_yticks(range(LAYERS), range(1, LAYERS + 1))
        left.grid(visible=False)
        right.plot(LAYERS * HEADS - mine["heads"], mine["validation"], "o-", color="C0")
        right.axhline(least, color="0.5", ls=":")
        near = {"xytext": (0, 4), "textcoords": "offset points"}
        right.annotate("90 % of the full score", (0, least), **near)
        right.set(xlabel="heads pruned", ylabel="validation accuracy (%)")
        fig.suptitle(
            f"{task}, seed {seed}: {last['heads']:.0f} heads and {last['parts']:.0f} feed-forward"
            f" parts kept, {last['validation']:.0f} %"
        )
        return fig

    return draw


# -------------------------------------------------------------------------------- costs
def good_subnetwork(task: str = "sentiment", seed: int = 0) -> nn.Module:
    """The first checkpoint without the heads and parts that did not survive."""
    kept, parts = (experiments.read(f"lab09_subnetworks/{name}") for name in ("heads", "parts"))
    one = kept[(kept["task"] == task) & (kept["seed"] == seed)]
    nu = parts[(parts["task"] == task) & (parts["seed"] == seed)]["kept"]
    ((xi,),) = masks(one)
    return layers.remove_mlps(
        heads.remove_heads(pretrained(0), xi), torch.tensor(nu.to_numpy()).bool()
    )


def measure_costs(nets: Mapping[str, nn.Module]) -> pd.DataFrame:
    """What models cost: columns ``model``, ``parameters`` (of the layers alone), ``bits``
    (of the whole model), ``macs`` (of a review of 37 pieces), and ``ms`` of 64 such
    reviews, on one core.
    """
    one = batches("test", "sentiment")[-1]["input_ids"][:1, :37]
    table = common.costs(nets, one, one.repeat(64, 1), repeats=9)
    of_layers = [net.get_submodule(PATH).parameters() for net in nets.values()]
    table.insert(1, "parameters", [sum(p.numel() for p in every) for every in of_layers])
    return table.rename(columns={"method": "model"})
