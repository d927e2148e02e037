"""Lab 06: BERT's weights, pruned before and while it is fine-tuned to a task that it was
not trained for.

The pre-trained models are the sentiment checkpoints of the course; the task after pruning
is "negated" (is the main clause negated?) with few texts. Accuracies are % of validation
texts, except where "test" is said. ``course remake lab06_weights`` makes the stored
result again (``data/results/make/lab06_results.py``).

Source: Gordon, Duh & Andrews 2020, "Compressing BERT"; Sanh, Wolf & Rush 2020,
"Movement Pruning"; Guo et al. 2019, "Reweighted Proximal Pruning for Large-Scale
Language Representation"; Wang, Wohlwend & Lei 2020, "Structured Pruning of Large
Language Models".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.utils import parametrize

from course_lib.cost import model_cost, totals
from course_lib.cost.storage import model_bits, tensor_bits
from course_lib.data import pieces, reviews
from course_lib.experiments import common
from course_lib.models import checkpoints
from course_lib.pruning import components
from course_lib.pruning.weights import Masks, encoder_weights, local_masks, magnitude, random
from course_lib.show import plots
from course_lib.show.style import BLUE, GREY
from course_lib.training import Batch, accuracy

Row = dict[str, Any]  # of a long table

TASK = "negated"
TEXTS: dict[str, Any] = {"train": 1000, "validation": 600, "test": 2000}
# of fine-tuning: steps, texts in a batch, rate of the weights
FULL: dict[str, Any] = {"steps": 200, "batch": 32, "lr": 3e-4}
SPARSITIES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SCORES_LR = 1e-2
TAU = 0.45  # of soft movement: scores begin at σ(0) = ½, and 200 steps do not take them far
RANK_SHARES = (0.65, 0.35, 0.15, 0.1, 0.05)  # of the encoder's weights
TARGET = 0.1
EPS = 0.01
DIFFERENCES = {
    "said": "a fixed\nshare",
    "matrices": "+ its share of\neach matrix",
    "schedule": "+ its\nschedule",
    "matrices and schedule": "+ both",
    "penalty": "+ its\npenalty",
    "soft": "soft\nmovement",
}  # between movement with a fixed share and soft movement


@cache
def texts(tokenizer_of: str = "reviews-bert-0") -> dict[str, Any]:
    """The encoded texts, "train", "validation" and "test"; all checkpoints share one
    tokenizer.
    """
    tokenizer = checkpoints.load(tokenizer_of).tokenizer
    return dict(pieces.encode(reviews.load(**TEXTS), tokenizer))


def batches(split: str, task: str = TASK, size: int = 100) -> list[Batch]:
    """Validation or test texts, from short to long."""
    return list(pieces.batches(texts()[split], task, size))


def pretrained(seed: int, head: bool = True) -> nn.Module:
    """A shipped checkpoint; ``head``: with a fresh classifier for the new task."""
    model: nn.Module = checkpoints.load(f"reviews-bert-{seed}").model
    return common.new_classifier(model, 2, seed) if head else model


def finetune(
    model: nn.Module,
    post_step: Callable[[], None] | None = None,
    *,
    seed: int,
    how: Mapping[str, Any] = FULL,
    groups: Callable[[nn.Module], list[dict[str, Any]]] | None = None,
    penalty: Callable[[], Tensor] | None = None,
) -> list[float]:
    """AdamW, warm-up and linear decay; the training loss every 100 steps. ``penalty``
    is added to the loss.
    """

    def loss(net: nn.Module, batch: Batch) -> Tensor:
        value: Tensor = net(**batch).loss
        return value if penalty is None else value + penalty()

    options = {"loss": loss, "groups": groups and groups(model), "post_step": post_step}
    return common.fine_tune(model, texts()["train"], TASK, seed, how, **options)


def measured(model: nn.Module, task: str = TASK, test: bool = False) -> float:
    """Accuracy in % on validation (or test) texts, in evaluation mode."""
    model.eval()
    return accuracy(model, batches("test" if test else "validation", task))


def by_size(model: nn.Module, sparsity: float) -> Masks:
    """Each encoder matrix pruned by size to the same share."""
    return local_masks(magnitude(encoder_weights(model)), sparsity)


def at_random(model: nn.Module, sparsity: float, seed: int) -> Masks:
    """The control."""
    return local_masks(
        random(encoder_weights(model), torch.Generator().manual_seed(seed)), sparsity
    )


def kept_at(step: int, steps: int, keep: float) -> float:
    """Sanh's cubic: all for the first tenth, ``keep`` from seven tenths on."""
    way = min(1.0, max(0.0, (step / steps - 0.1) / 0.6))
    return keep + (1 - keep) * (1 - way) ** 3


def by_mask(
    seed: int,
    mask: Callable[[Tensor, float], Tensor],
    keep: float,
    how: Mapping[str, Any],
    penalty: Callable[[list[Tensor]], Tensor] | None = None,
) -> Row:
    """Every encoder matrix is computed with as W ∘ mask(S, share), on the way from all
    to ``keep``; S learns from what autograd makes of ``mask``.

    Args:
        penalty: of all scores, added to the loss.

    Returns:
        ``accuracy``, ``kept``: the % of the encoder's weights that the masks leave in the
        end, and the matrices of which they leave least and most.
    """
    model, share, done = pretrained(seed), [1.0], itertools.count(1)
    by = {name: _By(w, lambda s: mask(s, share[0])) for name, w in encoder_weights(model).items()}
    for name, place in by.items():
        path, _, attribute = name.rpartition(".")
        parametrize.register_parametrization(
            model.get_submodule(path), attribute, place, unsafe=True
        )
    scores = [place.scores for place in by.values()]

    def fewer() -> None:
        share[0] = kept_at(next(done), how["steps"], keep)

    finetune(
        model,
        fewer,
        seed=seed,
        how=how,
        groups=lambda net: apart(net, how["lr"], scores, SCORES_LR),
        penalty=None if penalty is None else lambda: penalty(list(scores)),
    )
    with torch.no_grad():
        masks = {name: place.mask(place.scores) for name, place in by.items()}
    left = {name: float(mask.mean()) for name, mask in masks.items()}
    every = torch.cat([mask.flatten() for mask in masks.values()])

    ends = {"least": min(left, key=left.__getitem__), "most": max(left, key=left.__getitem__)}
    return {
        "accuracy": measured(model),
        "kept": 100 * float(every.double().mean()),
        **{
            end: f"{100 * left[name]:.0f} % of {name.removeprefix('bert.encoder.')}"
            for end, name in ends.items()
        },
    }


def apart(
    net: nn.Module, lr: float, those: Sequence[Tensor], their_lr: float
) -> list[dict[str, Any]]:
    """Parameter groups: ``those`` at a rate of their own, without weight decay."""
    mine = {id(p) for p in those}
    own = [p for p in net.parameters() if id(p) not in mine]
    return [
        {"params": own, "lr": lr},
        {"params": list(those), "lr": their_lr, "weight_decay": 0.0},
    ]


class _By(nn.Module):
    """The parametrization W -> W ∘ mask(S)."""

    def __init__(self, weight: Tensor, mask: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.scores, self.mask = nn.Parameter(torch.zeros_like(weight)), mask

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.mask(self.scores)


def name_regimes(
    table: pd.DataFrame,
    regime: Callable[[float, list[float], list[float], float], list[str]],
    tolerance: float,
) -> pd.DataFrame:
    """Of each checkpoint the regime at each sparsity, a column each.

    Args:
        table: the stored regimes. regime: of the dense accuracy, those with zeros held and
            let go, and the tolerance in points.
    """
    rows = []
    for seed, of in table.groupby("seed"):
        arms = {name: rows["accuracy"].to_list() for name, rows in of.groupby("method")}
        names = regime(arms["dense"][0], arms["zeros held"], arms["let go"], tolerance)
        columns = [f"{100 * sparsity:g} %" for sparsity in SPARSITIES]
        rows.append({"checkpoint": seed, **dict(zip(columns, names, strict=True))})
    return pd.DataFrame(rows)


def draw_regimes(
    table: pd.DataFrame,
    regime: Callable[[float, list[float], list[float], float], list[str]],
    checkpoint: int = 0,
    tolerance: float = 2.0,
) -> Figure:
    """For the explorer: accuracies of one checkpoint, with the letter of each regime; dotted:
    the dense accuracy minus the tolerance (points).

    Args:
        table, regime, tolerance: as for :func:`name_regimes`.
    """
    mine = table[table["seed"] == checkpoint]
    (named,) = name_regimes(mine, regime, tolerance).to_dict("records")
    names = list(named.values())[1:]
    of = mine[mine["method"].isin(["dense", "zeros held", "let go"])]
    fig = plots.curves(
        of.drop(columns="seed"), x="sparsity", y="accuracy", control=None, xaxis="sparsity",
        title="; ".join(f"{s:.0%}: {name}" for s, name in zip(SPARSITIES, names, strict=True)),
    )  # fmt: skip
    (axes,) = fig.axes
    dense = float(of.loc[of["method"] == "dense", "accuracy"].iloc[0])
    axes.axhline(dense - tolerance, color=GREY, linestyle=":")
    axes.set_ylim(axes.get_ylim()[0] - 4, None)  # room for the letters
    held = of[of["method"] == "zeros held"]
    for x, y, name in zip(held["sparsity"], held["accuracy"], names, strict=True):
        axes.annotate(
            name[0].upper(), (x, y), xytext=(0, -16), textcoords="offset points", ha="center"
        )
    return fig


def draw_two_scores() -> Figure:
    """Six weights before and after fine-tuning; what their size before and their movement
    say of them. The three largest of each score are kept.
    """
    before = np.array([-0.9, 0.15, 0.75, -0.2, 0.5, -0.1])
    after = np.array([-0.45, 0.5, 0.85, -0.6, 0.25, -0.15])
    scores = {"size before: |w|": np.abs(before), "movement: w · Δw": before * (after - before)}
    place = np.arange(len(before))
    fig, (weights, *others) = plots.subplots(1, 3, 3.4, sharey=True)
    weights.axvline(0, color=GREY, linewidth=1)
    for y, (start, end) in enumerate(zip(before, after, strict=True)):
        arrow = {"arrowstyle": "-|>", "color": BLUE, "lw": 2}
        weights.annotate("", (end, y), (start, y), arrowprops=arrow)
    weights.plot(before, place, "o", color=BLUE)
    weights.set(xlim=(-1, 1), yticks=[], xlabel="dot: before, arrow: after")
    weights.set_title("six weights, fine-tuned", fontsize=11.5)
    for axes, (name, score) in zip(others, scores.items(), strict=True):
        kept = score >= np.sort(score)[-3]
        axes.barh(place, score, color=np.where(kept, BLUE, "#D0D0D0"))
        axes.axvline(0, color=GREY, linewidth=1)
        axes.set_title(name, fontsize=11.5)
        axes.set(yticks=[], xticks=[0], xlabel="blue: kept")
        axes.set_ylim(len(before) - 0.5, -0.5)
    fig.suptitle("Which three of six weights are kept?")
    return fig


def with_target(sizes: pd.DataFrame) -> pd.DataFrame:
    """The sizes of gated models on their way, and the size that the target has, in % of
    the dense encoder.
    """
    steps = range(FULL["steps"])
    shares = [kept_at(step, FULL["steps"], TARGET) for step in steps]
    target = pd.DataFrame({"seed": 0, "method": "target", "step": steps, "size": shares})
    table = pd.concat([sizes.assign(method="expected size"), target])
    return table.assign(size=100 * table["size"])


def by_part(table: pd.DataFrame, part: str) -> pd.DataFrame:
    """The open components of each checkpoint, summed by "layer" (from 1) or by "depth"
    ("first" or "last" half of the layers).
    """
    table = table.assign(layer=table["layer"] + 1)
    depth = ["first" if layer < 3 else "last" for layer in table["layer"]]
    return table.assign(depth=depth).groupby(["seed", part], as_index=False)["components"].sum()


def one_difference(table: pd.DataFrame) -> pd.DataFrame:
    """Of the arms of ``lab06_soft`` those of :data:`DIFFERENCES`, in its order, with a
    column ``arm`` for their labels.
    """
    rows = table.set_index("method").loc[list(DIFFERENCES)].reset_index()
    return rows.assign(arm=rows["method"].map(DIFFERENCES))


def low_rank(table: pd.DataFrame, model: nn.Module) -> nn.Module:
    """A model with as many components in each matrix as the gates left of checkpoint 0.

    Args:
        table: ``open`` of the stored result.
    """
    left = table[table["seed"] == 0]
    ranks = {
        f"bert.encoder.layer.{layer}.{matrix}.weight": max(1, count)
        for layer, matrix, count in zip(
            left["layer"], left["matrix"], left["components"], strict=True
        )
    }
    return components.truncate(model, ranks)


def texts_to_time() -> Tensor:
    """Token numbers of 64 texts of 37 tokens."""
    return batches("validation")[-1]["input_ids"][:1, :37].repeat(64, 1)


def costs(
    stored: Mapping[str, pd.DataFrame],
    prune_then_finetune: Callable[..., None],
) -> pd.DataFrame:
    """What each method costs and keeps, with the accuracies on test texts of the stored
    result.

    Bits and products depend on the number of weights alone: as many are pruned at random.

    Args:
        stored: tables by name. prune_then_finetune: of a model, masks, a training and
            whether to hold the zeros.

    Returns:
        A row per method and seed: ``kept`` % of the encoder's weights, ``bits`` of the
        whole model and ``kb`` of it, ``encoder_kb``, ``macs`` for a text, ``ms`` of the
        processor for 64 texts, and ``test`` accuracy.
    """
    regimes, learned, l1 = stored["regimes"], stored["learned"], stored["l1"]
    bold = learned[(learned["rate"] == "bold") & (learned["keep"] == 0.1)]
    held = regimes[(regimes["method"] == "zeros held") & (regimes["sparsity"] == 0.8)]
    proximal = l1[(l1["method"] == "reweighted") & (l1["strength"] == 3.0)]
    parts = stored["components"]
    soft = bold[bold["method"] == "soft movement"]
    arms = {
        "dense": (1.0, regimes[regimes["method"] == "dense"]),
        "by size, then tuned (80 %)": (0.2, held),
        "by size on the way, bold (90 %)": (0.1, bold[bold["method"] == "magnitude"]),
        "movement, bold (90 %)": (0.1, bold[bold["method"] == "movement"]),
        "soft movement, bold (90 %)": (float(soft["share"].mean()), soft),
        "reweighted proximal": (1 - float(proximal["zeros"].mean()), proximal),
        "low rank, gates (90 %)": (TARGET, parts[parts["method"] == "gates"]),
    }
    texts, dense = texts_to_time(), pretrained(0, head=False)
    small = low_rank(stored["open"], dense)
    pair = {"dense": dense, "low rank": small}
    ms = common.costs(pair, texts[:1], texts, repeats=9).set_index("method")["ms"]
    rows: list[Row] = []
    for method, (kept, found) in arms.items():
        net = small if (low := method.startswith("low rank")) else pretrained(0)
        if not low:
            prune_then_finetune(net, at_random(net, 1 - kept, 0), lambda *_: None, hold=False)
        bits = model_bits(net.state_dict())
        encoder = sum(tensor_bits(w.detach()) for w in encoder_weights(net).values())
        cost = {
            "kept": 100 * kept,
            "bits": bits,
            "kb": bits / 8e3,
            "encoder_kb": encoder / 8e3,
            "macs": totals(model_cost(net, texts[:1]))["nonzero_macs"],
            "ms": ms["low rank" if low else "dense"],
        }
        rows += [
            {"seed": s, "method": method, **cost, "test": test}
            for s, test in enumerate(found["test"])
        ]
    return pd.DataFrame(rows)
