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

import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.data.images import ImageData, Split
from course_lib.experiments import common
from course_lib.modes import evaluating
from course_lib.pruning.weights import (
    Proximal,
    Scores,
    apply,
    curvature,
    empirical_fisher,
    global_masks,
    gradients,
    input_aware,
    loss_change,
    magnitude,
    prunable,
    prune_lowest,
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
SGD: dict[str, Any] = {"lr": 0.1, "batch_size": 60, "progress": False}  # where penalties train
ROUND_SAMPLES = 256  # that the scores are made of where they are asked for often

# model, samples, labels, seed -> scores
Criterion = Callable[[nn.Module, Tensor, Tensor, int], Scores]


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
def add_up(model: nn.Module, x: Tensor, y: Tensor, shares: Iterable[float]) -> list[dict[str, Any]]:
    """Removal of many weights, in the order of the signed forecast and of magnitude: the
    change of the mean loss by three predictions of increasing completeness.

    Returns:
        Rows ``order``, ``sparsity``, ``method`` and ``change`` (nat): "sum of forecasts" (each
        weight alone), "with all cross terms" (−gᵀw + ½·wᵀGw of the removed weights; G is the
        whole Gauss–Newton matrix, and wᵀGw the mean variance of the logits' change under p,
        one directional derivative) and "true".
    """
    judge = copy.deepcopy(model).double().eval()
    x = x.double()
    weights = {name: w.detach() for name, w in prunable(judge).items()}
    p = judge(x).detach().softmax(1)  # (N, classes)
    forecast, g = signed_forecast(judge, x, y), gradients(judge, x, y)
    before, rows = mean_loss(judge, x, y), []
    for order, scores in {"signed forecast": forecast, "magnitude": magnitude(weights)}.items():
        for sparsity in shares:
            masks = global_masks(scores, sparsity)
            removed = copy.deepcopy(judge)
            apply(removed, masks)
            step = {name: -w * ~masks[name] for name, w in weights.items()}
            jvp = torch.func.jvp(
                lambda now: torch.func.functional_call(judge, now, (x,)), (weights,), (step,)
            )
            change = jvp[1].detach()  # (N, classes) of the logits
            spread = (p * change**2).sum(1) - (p * change).sum(1) ** 2
            linear = sum(float((g[name] * step[name]).sum()) for name in masks)
            found = {
                "sum of forecasts": sum(float(forecast[n][~masks[n]].sum()) for n in masks),
                "with all cross terms": linear + float(spread.mean()) / 2,
                "true": mean_loss(removed, x, y) - before,
            }
            rows += [
                {"order": order, "sparsity": sparsity, "method": method, "change": value}
                for method, value in found.items()
            ]
    return rows


LADDER = ("identity (magnitude)", "diagonal (Wanda)", "full matrix (OBS)", "random")


def on_the_ladder(
    model: nn.Module,
    data: ImageData,
    method: str,
    sparsities: Iterable[float],
    samples: int,
    seed: int,
) -> list[dict[str, float]]:
    """Rows ``sparsity``, ``accuracy``: every row of every layer loses the same share, by
    E‖(W − W')a‖² with E[a·aᵀ] = M taken as the identity, as its diagonal, or in full, where
    the kept weights of a row are solved for again (1 % of the mean diagonal is added to M).
    Inputs are those of the dense network.
    """
    x, y = sample_of(data.train, samples)
    inputs = {f"{name}.weight": a.double() for name, a in common.layer_inputs(model, x).items()}
    drawn, full = CRITERIA["random"](model, x, y, seed), method == "full matrix (OBS)"

    def prune(pruned: nn.Module, sparsity: float) -> None:
        for name, w in prunable(pruned).items():
            M = inputs[name].T @ inputs[name] / len(x)  # (in, in)
            size, diagonal = w.detach().double().square(), M.diagonal().clone()
            M += 0.01 * diagonal.mean() * torch.eye(len(M))
            by_method = {
                "identity (magnitude)": size,
                "diagonal (Wanda)": size * diagonal,
                "random": drawn[name],
            }
            score = size / M.inverse().diagonal() if full else by_method[method]
            kept = prune_lowest(score, round(sparsity * w.shape[1]), dim=1)
            for row, keep in zip(w.data, kept, strict=True):
                if full:  # what the removed did, the kept do as well
                    removed = M[keep][:, ~keep] @ row[~keep].double()
                    row[keep] += torch.linalg.solve(M[keep][:, keep], removed).to(row.dtype)
                row[~keep] = 0

    return accuracies(model, data, sparsities, prune)


def accuracies(
    model: nn.Module,
    data: ImageData,
    sparsities: Iterable[float],
    prune: Callable[[nn.Module, float], object],
) -> list[dict[str, float]]:
    """Rows ``sparsity``, ``accuracy`` of copies that ``prune(model, sparsity)`` has pruned."""
    rows = []
    for sparsity in sparsities:
        pruned = copy.deepcopy(model)
        prune(pruned, sparsity)
        rows.append({"sparsity": sparsity, "accuracy": evaluate(pruned, data.validation)})
    return rows


def trained_between(
    model: nn.Module,
    data: ImageData,
    criterion: Criterion,
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

    pruned, (x, y) = copy.deepcopy(model), sample_of(data.train, samples)
    prune_rescored(pruned, targets, lambda now: criterion(now, x, y, seed), train)
    return pruned, validation


# ---------------------------------------------------------------------- zeros by training


def with_l1(
    model: nn.Module, data: ImageData, seed: int, how: str, lam: float, epochs: int, every: int = 5
) -> dict[str, float]:
    """Train a fresh LeNet-300-100 by SGD with a penalty, in place.

    Args:
        how: "proximal", "subgradient" (of λΣ|w| in the loss), or "L2" (λΣw² in it).
        lam: λ, the strength of the penalty.
        every: epochs, after which the order of the images begins again.

    Returns:
        ``zeros``: exact zeros, ``small``: below 0.001 in size, both in % of the weights;
        ``accuracy``.
    """
    parameters = list(prunable(model).values())
    proximal = Proximal(parameters, lam) if how == "proximal" else None

    def maker(some: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(some, lr=0.1)
        return proximal.attach(optimizer) if proximal else optimizer

    def penalty() -> Tensor:
        terms = [p.abs().sum() if how == "subgradient" else p.square().sum() for p in parameters]
        return lam * torch.stack(terms).sum()

    options: dict[str, Any] = {"optimizer": maker, "penalty": None if proximal else penalty}
    for start in range(0, epochs, every):
        some = min(every, epochs - start)
        fit(model, data.train, epochs=some, seed=1000 * seed + start, **SGD, **options)
    return zeros_and_accuracy(model, data)


def zeros_and_accuracy(model: nn.Module, data: ImageData) -> dict[str, float]:
    w = torch.cat([p.detach().flatten().abs() for p in prunable(model).values()])
    return {
        "zeros": 100 * float((w == 0).double().mean()),
        "small": 100 * float((w < 1e-3).double().mean()),
        "accuracy": evaluate(model, data.validation),
    }


# ------------------------------------------------------------------------------ figures
def read_both(table: str) -> pd.DataFrame:
    """A stored table of the experiments on the digits and on MNIST: column ``images``."""
    results = {"digits": "lab02_criteria_digits", "MNIST": "lab02_criteria_mnist"}
    return common.read_all(results, table, "images")


def draw_sums(stored: pd.DataFrame, live: Iterable[Mapping[str, Any]] = ()) -> Figure:
    """:func:`add_up` of all seeds, a panel per order; the live run's points as crosses."""
    orders = stored["order"].unique()
    fig = plots.curves(
        stored.assign(order="by " + stored["order"]),
        x="sparsity",
        y="change",
        xaxis="sparsity",
        panels="order",
        control=None,
        title="Removed together: three predictions",
        ylabel="change of the loss (nat)",
    )
    for ax, order in zip(fig.axes, orders, strict=True):
        for row in live:
            if row["order"] == order:
                ax.plot(row["sparsity"], row["change"], "x", color="k", zorder=6)
        ax.set_yscale("symlog", linthresh=0.1)
    return fig
