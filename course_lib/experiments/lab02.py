"""Lab 02: forecasts of what a weight's removal costs, beside what it does cost; and
those forecasts as orders of removal.

LeNet-300-100 without batch norm, so that nothing but the criterion is compared. Every
accuracy in % is one of validation images, except where "test" is said.
``course remake lab02_criteria_digits`` and ``lab02_criteria_mnist`` make the shipped
results again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.data.images import ImageData, Split, load
from course_lib.experiments.once import each_seed
from course_lib.models import build
from course_lib.modes import evaluating
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
TARGETS = (0.5, 0.8, 0.9, 0.95, 0.97, 0.98)  # with training after each
ROUND_SAMPLES = 256  # that the scores are made of where they are asked for often
L1 = (1e-4, 3e-4, 1e-3, 2e-3, 3e-3)
REWEIGHTED = 0.05  # of λ: the penalty λ·0.05/(|w| + 0.01) is λ for a weight of 0.04

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
# that one has lost the net by then
TRAINED = tuple(name for name in CRITERIA if name != "signed forecast")


def scorer(criterion: str, x: Tensor, y: Tensor, seed: int) -> Callable[[nn.Module], Scores]:
    """The criterion's scores of a model as it is when asked."""
    return lambda model: CRITERIA[criterion](model, x, y, seed)


def trained(model: nn.Module, data: ImageData, seed: int, epochs: int) -> nn.Module:
    """Train a dense LeNet-300-100, in place."""
    fit(model, data.train, epochs=epochs, seed=seed, **RECIPE)
    return model


def sample_of(split: Split, count: int) -> tuple[Tensor, Tensor]:
    """The first images and labels: they lie in random order."""
    return split.images[:count], split.labels[:count]


def mean_loss(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Mean cross entropy in evaluation mode, in double precision behind the logits."""
    with evaluating(model), torch.no_grad():
        return float(F.cross_entropy(model(x).double(), y))


def single_weights(
    model: nn.Module, x: Tensor, y: Tensor, count: int, seed: int
) -> dict[str, list[float]]:
    """``count`` weights drawn from all layers alike: what the mean loss on these
    samples changes by when each, alone, becomes 0.

    Returns:
        "truth" -> the changes, in double precision; every criterion -> its scores of
        the same weights.
    """
    scored = {name: criterion(model, x, y, seed) for name, criterion in CRITERIA.items()}
    judge = copy.deepcopy(model).double()
    weights = prunable(judge)
    names = list(weights)
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, list[float]] = {"truth": [], **{name: [] for name in scored}}
    x = x.double()
    before = mean_loss(judge, x, y)
    for i in range(count):
        name = names[i % len(names)]
        w = weights[name].data.view(-1)
        at = int(torch.randint(len(w), (1,), generator=generator))
        kept = float(w[at])
        w[at] = 0
        found["truth"].append(mean_loss(judge, x, y) - before)
        w[at] = kept
        for criterion, scores in scored.items():
            found[criterion].append(float(scores[name].reshape(-1)[at]))
    return found


def rank_correlation(a: Iterable[float], b: Iterable[float]) -> float:
    """Spearman's ρ."""
    from scipy.stats import spearmanr

    return float(spearmanr(list(a), list(b)).statistic)


def at_once(
    model: nn.Module,
    data: ImageData,
    criteria: Iterable[str],
    sparsities: Iterable[float],
    samples: int,
    seed: int,
) -> dict[str, list[float]]:
    """Validation accuracy after all goes in one step, all layers together; nothing is
    trained.
    """
    x, y = sample_of(data.train, samples)
    scores = {criterion: CRITERIA[criterion](model, x, y, seed) for criterion in criteria}

    def prune(pruned: nn.Module, criterion: str, sparsity: float) -> None:
        apply(pruned, global_masks(scores[criterion], sparsity))

    return _accuracies(model, data, scores, sparsities, prune)


def in_rounds(
    model: nn.Module,
    data: ImageData,
    criteria: Iterable[str],
    sparsities: Iterable[float],
    samples: int,
    seed: int,
    rounds: int = ROUNDS,
) -> dict[str, list[float]]:
    """Validation accuracy where the scores are asked for anew before each of ``rounds``
    removals; nothing is trained.
    """
    x, y = sample_of(data.train, samples)

    def prune(pruned: nn.Module, criterion: str, sparsity: float) -> None:
        prune_rescored(pruned, geometric(sparsity, rounds), scorer(criterion, x, y, seed))

    return _accuracies(model, data, criteria, sparsities, prune)


def _accuracies(
    model: nn.Module,
    data: ImageData,
    criteria: Iterable[str],
    sparsities: Iterable[float],
    prune: Callable[[nn.Module, str, float], object],
) -> dict[str, list[float]]:
    """Validation accuracies of copies that ``prune(copy, criterion, sparsity)`` has
    pruned.
    """
    found: dict[str, list[float]] = {}
    sparsities = list(sparsities)
    for criterion in criteria:
        found[criterion] = []
        for sparsity in sparsities:
            pruned = copy.deepcopy(model)
            prune(pruned, criterion, sparsity)
            found[criterion].append(evaluate(pruned, data.validation))
    return found


def trained_between(
    model: nn.Module,
    data: ImageData,
    criterion: str,
    targets: Iterable[float],
    samples: int,
    epochs: int,
    seed: int,
) -> tuple[nn.Module, list[float]]:
    """A copy, the scores asked for anew before each target and ``epochs`` of training
    after it; and its validation accuracies then.
    """
    validation: list[float] = []

    def train(now: nn.Module, post_step: Callable[[], None]) -> None:
        fit(now, data.train, epochs=epochs, seed=seed, post_step=post_step, **RECIPE)
        validation.append(evaluate(now, data.validation))

    pruned = copy.deepcopy(model)
    prune_rescored(pruned, targets, scorer(criterion, *sample_of(data.train, samples), seed), train)
    return pruned, validation


def with_training(
    model: nn.Module,
    data: ImageData,
    criteria: Iterable[str],
    targets: Sequence[float],
    samples: int,
    epochs: int,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """:func:`trained_between` by each criterion.

    Returns:
        Criterion -> "validation": accuracy after the training at each target; "test":
        at the last.
    """
    found: dict[str, dict[str, Any]] = {}
    for criterion in criteria:
        pruned, validation = trained_between(model, data, criterion, targets, samples, epochs, seed)
        found[criterion] = {"validation": validation, "test": evaluate(pruned, data.test)}
    return found


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
            "subgradient" (of λΣ|w| in the loss), or "l2" (λΣw² in it).

    Returns:
        "zeros": exact ones, "small": below 0.001 in size, both in % of the weights;
        "validation": accuracy.
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
        "validation": evaluate(model, data.validation),
    }


def one_seed(name: str, seed: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Everything of the lab with one seed.

    Returns:
        "dense": validation and test accuracy; "rank correlation": criterion -> [with
        the signed change, with its size]; "at once", "in rounds": as the functions of
        that name; "with training"; "l1": how -> a list over :data:`L1`.
    """
    data = load(name).subset(settings["images"])
    samples = settings["samples"]
    model = trained(build("lenet300", data, seed=seed), data, seed, settings["epochs"])
    single = single_weights(model, *sample_of(data.train, samples), 300, seed)
    truth = single.pop("truth")
    size = [abs(t) for t in truth]
    few = min(samples, ROUND_SAMPLES)
    return {
        "dense": [evaluate(model, data.validation), evaluate(model, data.test)],
        "rank correlation": {
            criterion: [rank_correlation(s, truth), rank_correlation(map(abs, s), size)]
            for criterion, s in single.items()
        },
        "at once": at_once(model, data, CRITERIA, SPARSITIES, samples, seed),
        "in rounds": in_rounds(model, data, CRITERIA, SPARSITIES, few, seed),
        "with training": with_training(
            model, data, TRAINED, TARGETS, few, settings["retrain"], seed
        ),
        "l1": {
            how: [
                with_l1(
                    build("lenet300", data, seed=seed), data, seed, how, lam, settings["l1_epochs"]
                )
                for lam in L1
            ]
            for how in ("proximal", "reweighted", "subgradient", "l2")
        },
    }


def remake_digits(executor: Executor, folder: Path) -> dict[str, Any]:
    """Six seeds on the digits: ``settings``, and ``seeds``, one of :func:`one_seed`
    each.
    """
    return each_seed(executor, folder, 6, one_seed, "digits", DIGITS)


def remake_mnist(executor: Executor, folder: Path) -> dict[str, Any]:
    """The same on MNIST, 6,000 images, three seeds."""
    return each_seed(executor, folder, 3, one_seed, "mnist", MNIST)


RESULTS = {"lab02_criteria_digits": remake_digits, "lab02_criteria_mnist": remake_mnist}
