"""Lab 02: forecasts of the loss change when a weight is removed, the true change, and
those forecasts as orders of removal.

LeNet-300-100 without batch norm, so that only the criteria differ. Columns: ``accuracy``
is validation accuracy and ``test`` is test accuracy, both in %; ``sparsity`` is the
fraction of weights removed. The stored results are made by
``data/results/make/lab02_results.py``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.data.images import ImageData, Split
from course_lib.experiments import common
from course_lib.models import build
from course_lib.modes import evaluating
from course_lib.parallel import side_by_side
from course_lib.pruning.weights import (
    Proximal,
    Scores,
    apply,
    curvature,
    empirical_fisher,
    geometric,
    global_masks,
    gradients,
    input_aware,
    loss_change,
    magnitude,
    prunable,
    prune_rescored,
    random,
    taylor,
)
from course_lib.show import plots
from course_lib.show.style import pt
from course_lib.training import evaluate, fit

DIGITS: dict[str, Any] = {
    "images": 1097,
    "epochs": 30,
    "samples": 1024,
    "retrain": 5,
    "l1_epochs": 40,
}
MNIST: dict[str, Any] = {"images": 6000, "epochs": 8, "samples": 256, "retrain": 1, "l1_epochs": 10}
RECIPE: dict[str, Any] = {"lr": 1.2e-3, "batch_size": 60, "progress": False}  # Adam, as in lab 03
SPARSITIES = (0.5, 0.8, 0.9, 0.95)
ROUNDS = 12  # between two of which the scores are asked for anew
ROUND_SAMPLES = 256  # that the scores are made of where they are asked for often
REWEIGHTED = 0.05  # of λ: the penalty λ·0.05/(|w| + 0.01) is λ for a weight of 0.04

# model, samples, labels, seed -> scores
Criterion = Callable[[nn.Module, Tensor, Tensor, int], Scores]
# model, score, targets -> anything; zeros the weights that are pruned
Prune = Callable[[nn.Module, Callable[[nn.Module], Scores], list[float]], object]


def signed_forecast(model: nn.Module, x: Tensor, y: Tensor, seed: int = 0) -> Scores:
    """−g·w + ½·h·w²: what the mean loss changes by, signed; those go first whose
    removal lowers it.
    """
    g, h = gradients(model, x, y), curvature(model, x)
    return {
        name: loss_change(w.double(), g[name].double(), h[name])
        for name, w in prunable(model).items()
    }


def _second_order(model: nn.Module, h: Scores) -> Scores:
    return {name: h[name] * w.detach().double().square() / 2 for name, w in prunable(model).items()}


CRITERIA: dict[str, Criterion] = {
    "signed forecast": signed_forecast,
    "OBD": lambda model, x, y, seed: _second_order(model, curvature(model, x)),
    "Fisher": lambda model, x, y, seed: _second_order(model, empirical_fisher(model, x, y)),
    "Taylor": lambda model, x, y, seed: taylor(model, x, y),
    "input-aware": lambda model, x, y, seed: input_aware(model, [x]),
    "magnitude": lambda model, x, y, seed: magnitude(prunable(model)),
    "random": lambda model, x, y, seed: random(
        prunable(model), torch.Generator().manual_seed(seed)
    ),
}


def scorer(criterion: str, x: Tensor, y: Tensor, seed: int) -> Callable[[nn.Module], Scores]:
    """The criterion's scores of a model as it is when asked."""
    return lambda model: CRITERIA[criterion](model, x, y, seed)


def trained(model: nn.Module, data: ImageData, seed: int, epochs: int) -> nn.Module:
    """Train a dense LeNet-300-100, in place."""
    fit(model, data.train, epochs=epochs, seed=seed, **RECIPE)
    return model


def dense_networks(data: ImageData, seeds: int, epochs: int) -> list[nn.Module]:
    """A trained dense LeNet-300-100 per seed 0, 1, …"""
    return common.trained(
        "lenet300", data, seeds, lambda model, seed: trained(model, data, seed, epochs)
    )


def dense_rows(models: Sequence[nn.Module], data: ImageData) -> pd.DataFrame:
    """``seed``, ``method`` ("dense") and ``accuracy``: the dense line of a figure."""
    accuracy = [evaluate(model, data.validation) for model in models]
    return pd.DataFrame({"seed": range(len(models)), "method": "dense", "accuracy": accuracy})


def sample_of(split: Split, count: int) -> tuple[Tensor, Tensor]:
    """The first images and labels: they lie in random order."""
    return split.images[:count], split.labels[:count]


def mean_loss(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Mean cross entropy in evaluation mode; double precision after the logits."""
    with evaluating(model), torch.no_grad():
        return float(F.cross_entropy(model(x).double(), y))


# ------------------------------------------------------------------------ single weights
def single_weights(
    model: nn.Module, x: Tensor, y: Tensor, count: int, seed: int
) -> list[dict[str, Any]]:
    """Draw ``count`` weights, the same number from each layer, set each alone to 0, and
    measure the change of the mean loss on these samples, in double precision.

    Returns:
        A row per weight and criterion: ``weight`` (its number), ``method``, ``score`` and
        ``change`` (nat).
    """
    scored = {
        method: {name: score.cpu() for name, score in criterion(model, x, y, seed).items()}
        for method, criterion in CRITERIA.items()
    }
    judge = copy.deepcopy(model).double()
    weights = prunable(judge)
    names = list(weights)
    generator = torch.Generator().manual_seed(seed)
    x = x.double()
    before = mean_loss(judge, x, y)
    rows = []
    for i in range(count):
        name = names[i % len(names)]
        w = weights[name].data.view(-1)
        at = int(torch.randint(len(w), (1,), generator=generator))
        kept = float(w[at])
        w[at] = 0
        change = mean_loss(judge, x, y) - before
        w[at] = kept
        for method, scores in scored.items():
            score = float(scores[name].reshape(-1)[at])
            rows.append({"weight": i, "method": method, "score": score, "change": change})
    return rows


def rank_correlations(single: pd.DataFrame) -> pd.DataFrame:
    """Spearman's ρ between score and true change, by seed and method: ``signed``, as they
    are, and ``size``, of their absolute values.
    """

    def correlate(part: pd.DataFrame) -> pd.Series:
        signed = spearmanr(part.score, part.change).statistic
        size = spearmanr(part.score.abs(), part.change.abs()).statistic
        return pd.Series({"signed": signed, "size": size})

    parts = single.groupby(["seed", "method"], sort=False)[["score", "change"]]
    return parts.apply(correlate).reset_index()


def draw_forecast() -> Figure:
    """The loss along one weight w = 0.8, nearly a parabola, and what is forecast at w: by
    the gradient alone, and with the curvature. Pruning is a step to 0.
    """
    w, at = 0.8, np.linspace(-0.1, 1.3, 57)
    g, h = 2 * (w - 1.3) + (w - 1.3) ** 3, 2 + 3 * (w - 1.3) ** 2
    loss = (at - 1.3) ** 2 + 0.25 * (at - 1.3) ** 4
    here, step = float(np.interp(w, at, loss)), at - w
    lines = {"true loss": loss, "−gw alone": here + g * step}
    lines["−gw + ½hw²"] = lines["−gw alone"] + h * step**2 / 2
    table = pd.DataFrame(lines, pd.Index(at, name="weight")).melt(
        var_name="method", value_name="loss", ignore_index=False
    )
    fig = plots.curves(
        table.reset_index().query("method == 'true loss' or weight <= 0.81"), x="weight", y="loss",
        control=None, title="The loss along one weight w, and two forecasts made at w",
        ylabel="loss",
    )  # fmt: skip
    fig.set_figheight(3.6)
    (ax,) = fig.axes
    ax.plot([w], [here], "o", color=plots.COLOURS["dense"], markersize=11, zorder=5)
    ax.set_xticks([0, w], ["0: pruned", "w"])
    return fig


def forecast_and_truth(single: pd.DataFrame) -> Figure:
    """The true change of the loss against two criteria, of the weights of one seed; the
    2 % largest changes lie outside.
    """
    fig, axes = plots.subplots(1, 2, 4.2, sharey=True)
    single = single.assign(change=1e3 * single.change)
    limit = float(single.change.abs().quantile(0.98))
    scores = {"signed forecast": "−gw + ½hw² (10⁻³ nat)", "magnitude": "|w|"}
    for ax, (method, xlabel) in zip(axes, scores.items(), strict=True):
        signed = method == "signed forecast"
        part = single[single.method == method]
        part = part.assign(score=part.score * (1e3 if signed else 1))
        labels: dict[str, Any] = {"xlabel": xlabel, "ylabel": "true change (10⁻³ nat)"}
        plots.scatter(part, x="score", y="change", title=method, diagonal=signed, ax=ax, **labels)
        ax.set(ylim=(-limit, limit), **({"xlim": (-limit, limit)} if signed else {}))
        ax.set_title(method, fontsize=pt(13), fontweight="bold", loc="left")
        ax.set_ylabel("")
    fig.suptitle("")  # a slide's title: here each panel has its own
    axes[0].set_ylabel("true change (10⁻³ nat)")
    return fig


# ----------------------------------------------------------------------- many at a time
def at_once(
    model: nn.Module,
    data: ImageData,
    method: str,
    sparsities: Iterable[float],
    samples: int,
    seed: int,
) -> list[dict[str, float]]:
    """Rows ``sparsity``, ``accuracy``: all layers together, pruned in one step; nothing
    is trained.
    """
    # a copy: while derivatives are computed, a model holds other tensors, and other threads
    # may need it then
    scores = CRITERIA[method](copy.deepcopy(model), *sample_of(data.train, samples), seed)

    def prune(pruned: nn.Module, sparsity: float) -> None:
        apply(pruned, global_masks(scores, sparsity))

    return _accuracies(model, data, sparsities, prune)


def in_rounds(
    prune: Prune,
    model: nn.Module,
    data: ImageData,
    method: str,
    sparsities: Iterable[float],
    samples: int,
    seed: int,
    rounds: int = ROUNDS,
) -> list[dict[str, float]]:
    """The same with ``prune(model, score, targets)``, which computes the scores again
    before each of ``rounds`` removals.
    """
    score = scorer(method, *sample_of(data.train, samples), seed)
    return _accuracies(
        model, data, sparsities, lambda pruned, s: prune(pruned, score, geometric(s, rounds))
    )


def _accuracies(
    model: nn.Module,
    data: ImageData,
    sparsities: Iterable[float],
    prune: Callable[[nn.Module, float], object],
) -> list[dict[str, float]]:
    rows = []
    for sparsity in sparsities:
        pruned = copy.deepcopy(model)
        prune(pruned, sparsity)
        rows.append({"sparsity": sparsity, "accuracy": evaluate(pruned, data.validation)})
    return rows


def first_round(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    """The first of :data:`ROUNDS` rounds by the signed forecast: how many ``weights`` are
    removed, the sum of their ``forecast`` changes, and the loss ``before`` and ``after``.
    """
    pruned = copy.deepcopy(model)
    forecast = signed_forecast(pruned, x, y)
    masks = global_masks(forecast, geometric(0.9, ROUNDS)[0])
    apply(pruned, masks)
    return {
        "weights": sum(int((~mask).sum()) for mask in masks.values()),
        "forecast": sum(float(forecast[name][~mask].sum()) for name, mask in masks.items()),
        "before": mean_loss(model, x, y),
        "after": mean_loss(pruned, x, y),
    }


def trained_between(
    model: nn.Module,
    data: ImageData,
    method: str,
    targets: Iterable[float],
    samples: int,
    epochs: int,
    seed: int,
) -> tuple[nn.Module, list[float]]:
    """A pruned copy, and its validation accuracies: the scores are computed again before
    each target, and ``epochs`` of training follow it.
    """
    validation: list[float] = []

    def train(now: nn.Module, post_step: Callable[[], None]) -> None:
        fit(now, data.train, epochs=epochs, seed=seed, post_step=post_step, **RECIPE)
        validation.append(evaluate(now, data.validation))

    pruned = copy.deepcopy(model)
    prune_rescored(pruned, targets, scorer(method, *sample_of(data.train, samples), seed), train)
    return pruned, validation


def costs(models: Mapping[str, Sequence[nn.Module]], data: ImageData) -> pd.DataFrame:
    """What networks cost and reach.

    Returns:
        A row per method and seed. Of the method's first network: size of the whole model
        in ``bits``, ``macs`` without those by zero weights, and ``ms`` of the processor
        for 64 images. Of each: ``test`` accuracy.
    """
    return common.costs_and_tests(models, data)[["seed", "method", "test", "bits", "macs", "ms"]]


# ---------------------------------------------------------------------- zeros by training


def with_l1(
    model: nn.Module,
    data: ImageData,
    seed: int,
    how: str,
    lam: float,
    epochs: int,
    eps: float = 0.01,
    every: int = 5,
) -> dict[str, float]:
    """Train a fresh LeNet-300-100 by SGD with a penalty, in place.

    Args:
        how: "proximal", "reweighted" (from the second ``every`` epochs on),
            "subgradient" (of λΣ|w| in the loss), or "L2" (λΣw² in it).
        lam: λ, the strength of the penalty.

    Returns:
        ``zeros``: exact zeros, ``small``: below 0.001 in size, both in % of the weights;
        ``accuracy``.
    """
    parameters = list(prunable(model).values())
    proximal = Proximal(parameters, lam) if how in ("proximal", "reweighted") else None

    def maker(some: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(some, lr=0.1)
        return proximal.attach(optimizer) if proximal else optimizer

    def penalty() -> Tensor:
        terms = [p.abs().sum() if how == "subgradient" else p.square().sum() for p in parameters]
        return lam * torch.stack(terms).sum()

    for start in range(0, epochs, every):
        if how == "reweighted" and start:
            assert proximal is not None
            proximal.reweight(eps, lam * REWEIGHTED)
        some = min(every, epochs - start)
        loss = None if proximal else penalty
        options: dict[str, Any] = {
            "optimizer": maker,
            "batch_size": 60,
            "penalty": loss,
            "progress": False,
        }
        fit(model, data.train, epochs=some, seed=1000 * seed + start, lr=0.1, **options)
    w = torch.cat([p.detach().flatten().abs() for p in parameters])
    return {
        "zeros": 100 * float((w == 0).double().mean()),
        "small": 100 * float((w < 1e-3).double().mean()),
        "accuracy": evaluate(model, data.validation),
    }


def zeros_by_training(
    data: ImageData, seeds: int, strengths: Mapping[str, float], epochs: int
) -> pd.DataFrame:
    """:func:`with_l1` for each entry {how: λ} of ``strengths``, each seed from the same
    start: ``seed``, ``method``, ``zeros``, ``small``, ``accuracy``.
    """
    jobs = [
        (build("lenet300", data, seed=seed), data, seed, how, lam, epochs)
        for how, lam in strengths.items()
        for seed in range(seeds)
    ]
    found = side_by_side(with_l1, jobs)
    rows = [{"seed": j[2], "method": j[3], **row} for j, row in zip(jobs, found, strict=True)]
    return pd.DataFrame(rows)


def at_equal_zeros(penalties: pd.DataFrame, shares: Iterable[float]) -> pd.DataFrame:
    """``accuracy`` at each share of ``zeros`` (in %, as text), by seed and method: on a
    straight line between two strengths of the penalty.
    """
    rows = []
    for (seed, method), part in penalties.sort_values("zeros").groupby(["seed", "method"]):
        for share in shares:
            accuracy = float(np.interp(share, part.zeros, part.accuracy))
            zeros = f"{share:g} % zeros"
            rows.append({"seed": seed, "method": method, "zeros": zeros, "accuracy": accuracy})
    return pd.DataFrame(rows)


# ----------------------------------------------------------------------------- to play
def explore(
    single: pd.DataFrame,
    pruned: pd.DataFrame,
    criterion: str = "signed forecast",
    sparsity: float = 0.9,
) -> Figure:
    """For the explorer: a criterion's scores beside the truth (first seed), and the accuracy
    with them.
    """
    fig, (left, right) = plots.subplots(1, 2, 4.6)
    of_one = single[single.method == criterion]
    first = of_one[of_one.seed == 0]
    plots.scatter(
        first.assign(score=first.score.abs(), change=first.change.abs()),
        x="score",
        y="change",
        xlabel=f"{criterion}, its size",
        ylabel="true change, its size (nat)",
        title="one weight is pruned",
        log=True,
        ax=left,
    )
    many = pruned[(pruned.method == criterion) & pruned.procedure.isin(["at once", "in rounds"])]
    plots.curves(
        many,
        x="sparsity",
        y="accuracy",
        by="procedure",
        xaxis="sparsity",
        control=None,
        title="many are pruned",
        ylim=(0, 102),
        ax=right,
    )
    right.axvline(sparsity, color=plots.COLOURS["dense"], linewidth=1)
    now = many[many.sparsity == sparsity].groupby("procedure", sort=False).accuracy.mean()
    fig.suptitle(
        f"ρ with the size of the true change {rank_correlations(of_one)['size'].mean():.2f};"
        f" at {100 * sparsity:.0f} % pruned "
        + ", ".join(f"{how} {accuracy:.0f} %" for how, accuracy in now.items())
    )
    return fig
