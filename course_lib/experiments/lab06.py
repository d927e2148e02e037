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
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.utils import parametrize

from course_lib.data import pieces, reviews
from course_lib.experiments import common
from course_lib.experiments.lab05 import add_live  # noqa: F401  (the lab draws with it)
from course_lib.models import checkpoints
from course_lib.pruning import components
from course_lib.pruning.weights import (
    Masks,
    apply,
    encoder_weights,
    local_masks,
    magnitude,
    random,
    remaining,
)
from course_lib.show import plots
from course_lib.show.style import BLUE, GREY
from course_lib.training import Batch, accuracy, warm_up_then_decay

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


def score(model: nn.Module) -> Row:
    """Accuracies on validation and test texts."""
    return {"accuracy": measured(model), "test": measured(model, test=True)}


def choose(model: nn.Module, sparsity: float, seed: int | None = None) -> Masks:
    """Each encoder matrix pruned to the same share, by size, or at random by ``seed``."""
    matrices = encoder_weights(model)
    if seed is None:
        return local_masks(magnitude(matrices), sparsity)
    return local_masks(random(matrices, torch.Generator().manual_seed(seed)), sparsity)


def kept_at(step: int, steps: int, keep: float) -> float:
    """Sanh's cubic: all for the first tenth, ``keep`` from seven tenths on."""
    way = min(1.0, max(0.0, (step / steps - 0.1) / 0.6))
    return keep + (1 - keep) * (1 - way) ** 3


def by_mask(
    seed: int,
    mask: Callable[[Tensor, float], Tensor],
    keep: float,
    how: Mapping[str, Any],
    penalty: Callable[[list[nn.Parameter]], Tensor] | None = None,
) -> Row:
    """Fine-tune with W ∘ mask(S, share): ``mask`` gets the scores of the whole encoder as one
    vector and the share, on the way from 1 to ``keep``; S learns from its gradient.

    Args:
        penalty: of all scores, added to the loss.

    Returns:
        As :func:`describe`.
    """
    model, share, done = pretrained(seed), [1.0], itertools.count(1)
    before = {name: w.detach().clone() for name, w in encoder_weights(model).items()}
    scores = {name: nn.Parameter(torch.zeros_like(w)) for name, w in before.items()}
    now: dict[str, Tensor] = {}

    def compute_masks(*_: Any) -> None:
        chosen = mask(torch.cat([s.flatten() for s in scores.values()]), share[0])
        parts = chosen.split([s.numel() for s in scores.values()])
        now.update({n: part.view_as(scores[n]) for n, part in zip(scores, parts, strict=True)})

    def prune_more() -> None:
        share[0] = kept_at(next(done), how["steps"], keep)

    model.register_forward_pre_hook(compute_masks)
    for name, score in scores.items():
        path, _, attribute = name.rpartition(".")
        product = _Times(score, partial(now.__getitem__, name))
        parametrize.register_parametrization(
            model.get_submodule(path), attribute, product, unsafe=True
        )
    values = list(scores.values())
    finetune(
        model,
        prune_more,
        seed=seed,
        how=how,
        groups=lambda net: apart(net, how["lr"], values, SCORES_LR),
        penalty=None if penalty is None else lambda: penalty(values),
    )
    with torch.no_grad():
        compute_masks()
    return describe(model, before, {name: part > 0 for name, part in now.items()})


class _Times(nn.Module):
    """The parametrization W -> W ∘ M, which holds the scores."""

    def __init__(self, scores: nn.Parameter, mask: Callable[[], Tensor]) -> None:
        super().__init__()
        self.scores, self.mask = scores, mask

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.mask()


def describe(model: nn.Module, old: Mapping[str, Tensor], masks: Masks) -> Row:
    """Accuracies; ``before``: the median size of the kept weights before training, relative
    to the median of all; ``share`` kept.
    """
    kept = torch.cat([w[masks[name]].abs() for name, w in old.items()]).median()
    every = torch.cat([w.abs().flatten() for w in old.values()]).median()
    return {**score(model), "before": float(kept / every), "share": remaining(masks)}


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


def rate_of(how: Mapping[str, Any]) -> Callable[[], float]:
    """A function that returns the learning rate of the next step at each call."""
    done, rate = itertools.count(), warm_up_then_decay(how["steps"] // 10)
    return lambda: how["lr"] * rate(next(done), how["steps"])


def name_losses(
    table: pd.DataFrame, regime: Callable[[float, float, float, float], str], tolerance: float
) -> pd.DataFrame:
    """What each checkpoint has lost at each sparsity: ``regime`` of dense, held and let go."""
    wide = table.pivot_table("accuracy", ["seed", "sparsity"], "method")
    dense = table.query("method == 'dense'").set_index("seed")["accuracy"]
    arms = zip(wide.index, wide["zeros held"], wide["let go"], strict=True)
    wide["lost"] = [regime(dense[seed], h, let_go, tolerance) for (seed, _), h, let_go in arms]
    found = wide["lost"].unstack("sparsity")
    return found.rename(columns="{:.0%}".format).rename_axis("checkpoint").reset_index()


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


def ranks_for(model: nn.Module, share: float) -> dict[str, int]:
    """Ranks with which each encoder matrix has this share of its weights."""
    matrices = encoder_weights(model).items()
    return {name: round(share * w.numel() / sum(w.shape)) for name, w in matrices}


def costs(stored: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What each method costs (:func:`course_lib.experiments.common.costs` for one text,
    ``ms`` for 64), ``kept`` % of the encoder's weights, and the stored accuracies on test texts.

    Single zeros are drawn: bits and products depend on their number alone.
    """
    regimes, l1 = stored["regimes"], stored["l1"]
    bold = stored["learned"].query("rate == 'bold' and keep == 0.1").groupby("method")
    parts = stored["components"].groupby("method")
    arms = {
        "dense": regimes.query("method == 'dense'").assign(share=1.0),
        "by size, then tuned (80 %)": regimes.query(
            "method == 'zeros held' and sparsity == 0.8"
        ).assign(share=0.2),
        "by size on the way, bold (90 %)": bold.get_group("magnitude"),
        "movement, bold (90 %)": bold.get_group("movement"),
        "soft movement, bold (90 %)": bold.get_group("soft movement"),
        "reweighted proximal": l1.query("method == 'reweighted' and strength == 3").eval(
            "share = 1 - zeros"
        ),
        "low rank, gates (90 %)": parts.get_group("gates"),
        "low rank, singular values (90 %)": parts.get_group("largest"),
    }
    share = {method: float(rows["share"].mean()) for method, rows in arms.items()}
    dense = pretrained(0, head=False)
    left = stored["open"].query("seed == 0").set_index("name")["components"]
    ranks = {"gates": left.to_dict(), "singular values": ranks_for(dense, TARGET)}
    nets = {f"low rank, {by} (90 %)": components.truncate(dense, r) for by, r in ranks.items()}
    for method in arms:
        if method not in nets:
            nets[method] = pretrained(0, head=False)
            apply(nets[method], choose(dense, 1 - share[method], 0))
    nets = {method: nets[method] for method in arms}
    texts = batches("validation")[-1]["input_ids"][:1, :37].repeat(64, 1)
    found = common.costs(nets, texts[:1], texts, repeats=9).drop(columns="faster")
    found["kept"] = 100 * found["method"].map(share)
    tested = pd.concat([rows.assign(method=method) for method, rows in arms.items()])
    return found.merge(tested[["seed", "method", "test"]], on="method")
