"""Lab 01: what its notebook runs.

Every function takes the functions that it tries as arguments: the student's in the
notebook, the library's where ``data/results/make/lab01_results.py`` runs the same with
more seeds. Results are long tables with the columns ``seed``, ``method``, ``sparsity``
(a fraction), ``accuracy`` (% of validation images) and ``network``.

Source: Han et al. 2015, "Learning both Weights and Connections for Efficient Neural
Networks", section 3.4; the cubic schedule: Zhu & Gupta 2017, "To Prune, or Not to
Prune", section 3.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from course_lib.data.images import ImageData
from course_lib.experiments import common
from course_lib.models import build
from course_lib.parallel import sweep
from course_lib.pruning.weights import (
    GRANULARITIES,
    Masks,
    apply,
    local_masks,
    magnitude,
    prunable,
    sparsity,
)
from course_lib.training import evaluate, fit

DENSE: dict[str, Any] = {"lr": 0.2, "optimizer": "sgd", "weight_decay": 5e-3, "schedule": "cosine"}
FINETUNE: dict[str, Any] = DENSE | {"lr": 0.1, "weight_decay": 5e-4}
# images used for training; epochs of the dense networks; epochs of fine-tuning that
# every method gets in total
SETTINGS: dict[str, dict[str, int]] = {
    "digits": {"train": 1097, "dense_epochs": 20, "budget": 6},
    "mnist": {"train": 3000, "dense_epochs": 8, "budget": 3},
}
VALIDATION = 1000  # of MNIST's 5,000; enough, and quick
STEPS = {"fine-tuned": 1, "iterative": 3}
COSTS = ["bits", "macs", "ms"]  # as the ledger names them
AGAIN = "dense, again"  # timed as a network of its own: what chance does
#: epochs of training after pruning by the sparsities that question 1.4 asks for
TRIED = 10

#: ``choose(weights, sparsity)`` returns masks.
Choose = Callable[[Mapping[str, Tensor], float], Masks]


# ------------------------------------------------------------------------ building blocks
def accuracy(data: ImageData, model: nn.Module, split: str = "validation") -> float:
    """Accuracy in % on "train", "validation" or "test"."""
    return evaluate(model, getattr(data, split), batch_size=256)


def noise(weights: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Random numbers in place of the weights: to prune the smallest of these is to
    prune at random.
    """
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.rand(w.shape, generator=generator).to(w.device) for name, w in weights.items()
    }


def finetune_for(data: ImageData, epochs: int, seed: int) -> Callable[..., None]:
    """A ``finetune(model, post_step)`` that trains for so many epochs."""

    def finetune(
        model: nn.Module,
        post_step: Callable[[], None] | None = None,
        masks: Mapping[str, Tensor] | None = None,
    ) -> None:
        how = {**FINETUNE, "masks": masks, "post_step": post_step, "progress": False}
        fit(model, data.train, epochs=epochs, seed=100 + seed, **how)

    return finetune


def by_seed(dense: pd.DataFrame) -> dict[int, Any]:
    """Seed -> network, of a table as :func:`train_dense` returns it."""
    return dict(zip(dense.seed, dense.network, strict=True))


# ------------------------------------------------------------------------------ experiments
def example_masks(sparsity: float = 0.5) -> Masks:
    """One small convolution (6, 6, 3, 3) of random weights, pruned in pieces of each
    size: granularity -> mask.
    """
    weight = torch.randn(6, 6, 3, 3, generator=torch.Generator().manual_seed(0)).abs()
    return {g: local_masks({"": weight}, sparsity, g)[""] for g in GRANULARITIES}


def train_dense(data: ImageData, seeds: Iterable[int], epochs: int) -> pd.DataFrame:
    """Train the convolutional network once per seed; method "dense", ``sparsity`` is
    missing.
    """
    # built here, since threads share torch's random numbers
    models = {seed: build("convnet", data, seed=seed) for seed in seeds}

    def run(seed: int, **_: Any) -> dict[str, Any]:
        fit(models[seed], data.train, epochs=epochs, seed=seed, progress=False, **DENSE)
        return {"accuracy": accuracy(data, models[seed]), "network": models[seed]}

    return sweep(run, seed=models, method=["dense"], sparsity=[math.nan])


def count_weights(weights: Mapping[str, Tensor]) -> pd.DataFrame:
    """How many weights each layer has, and what share (%) that is of all."""
    rows = [(name, str(tuple(w.shape)), w.numel()) for name, w in weights.items()]
    rows.append(("all", "", sum(w.numel() for w in weights.values())))
    table = pd.DataFrame(rows, columns=["layer", "shape", "weights"])
    return table.assign(**{"% of all": 100 * table.weights / table.weights.iloc[-1]})


def scale_layer(dense: pd.DataFrame, data: ImageData, name: str, factor: float) -> pd.DataFrame:
    """The dense networks with one layer's weights times ``factor``, and batch norm
    recalibrated: the same functions.
    """
    models = []
    for network in dense.network:
        model = copy.deepcopy(network)
        with torch.no_grad():
            model.get_parameter(name).mul_(factor)
        models.append(common.recalibrated(model, data))
    return dense.assign(accuracy=[accuracy(data, model) for model in models], network=models)


def read_both(table: str) -> pd.DataFrame:
    """A stored table of the experiments on the digits and on MNIST: column ``images``."""
    return common.read_all({name: f"lab01_pruning_{name}" for name in SETTINGS}, table, "images")


def prune_once(
    dense: pd.DataFrame,
    data: ImageData,
    methods: Mapping[str, Choose],
    sparsities: Sequence[float],
    *,
    repair: bool = False,
    epochs: int = 0,
    restarts: int = 1,
) -> pd.DataFrame:
    """Prune copies of the dense networks in one cut.

    Args:
        dense: as :func:`train_dense` returns it.
        methods: name -> function that chooses the masks. A method whose name begins with
            "random" gets random numbers in place of the weights.
        repair: measure batch norm's statistics again (:func:`recalibrated`).
        epochs: of training after the cut, in total; the masks are held.
        restarts: how often the learning rate begins again in these epochs, as it does after
            each step of :func:`prune_in_steps`.

    Returns:
        The rows of ``dense``, then one per seed, method and sparsity.
    """
    networks = by_seed(dense)

    def run(seed: int, method: str, sparsity: float) -> dict[str, Any]:
        model = copy.deepcopy(networks[seed])
        weights = prunable(model)
        scores = noise(weights, seed) if method.startswith("random") else weights
        masks = methods[method](scores, sparsity)
        apply(model, masks)
        if repair:
            model = common.recalibrated(model, data)
        for _ in range(restarts if epochs else 0):
            finetune_for(data, epochs // restarts, seed)(model, masks=masks)
        return {"accuracy": accuracy(data, model), "network": model}

    return pd.concat([dense, sweep(run, seed=networks, method=methods, sparsity=sparsities)])


def prune_in_steps(
    dense: pd.DataFrame,
    data: ImageData,
    prune: Callable[[nn.Module, list[float], Callable[..., None]], Any],
    schedule: Callable[[float, int], list[float]],
    sparsities: Sequence[float],
    epochs: int,
    steps: Mapping[str, int] = STEPS,
) -> pd.DataFrame:
    """Prune copies of the dense networks in steps, with training after each.

    Args:
        prune: ``prune(model, targets, finetune)``, as question 1.6 asks for it.
        schedule: ``schedule(final, steps)``: the targets.
        epochs: of training in total, spread over the steps.
        steps: method -> in how many steps it prunes.

    Returns:
        The rows of ``dense``, then one per seed, method and sparsity.
    """
    networks = by_seed(dense)

    def run(seed: int, method: str, sparsity: float) -> dict[str, Any]:
        model, count = copy.deepcopy(networks[seed]), steps[method]
        prune(model, schedule(sparsity, count), finetune_for(data, epochs // count, seed))
        return {"accuracy": accuracy(data, model), "network": model}

    return pd.concat([dense, sweep(run, seed=networks, method=steps, sparsity=sparsities)])


def prune_each_layer(dense: pd.DataFrame, choose: Choose, sparsity: float) -> pd.DataFrame:
    """What share of each layer goes if ``choose`` prunes all layers together, and if
    each layer loses the same share: ``layer``, ``pruned (%)``.
    """
    rows = []
    for seed, model in by_seed(dense).items():
        for name, mask in choose(dict(model.named_parameters()), sparsity).items():
            share = {"each layer": sparsity, "global": 1 - mask.float().mean().item()}
            layer = name.removesuffix(".weight")
            rows += [(seed, method, layer, 100 * pruned) for method, pruned in share.items()]
    return pd.DataFrame(rows, columns=["seed", "method", "layer", "pruned (%)"])


def map_sensitivity(
    dense: pd.DataFrame,
    data: ImageData,
    sensitivity: Callable[..., dict[str, list[float]]],
    sparsities: Sequence[float],
) -> pd.DataFrame:
    """Prune one layer alone, as the library's ``sensitivity`` does, and measure the
    recalibrated network: columns ``layer``, ``sparsity`` and ``accuracy``.
    """
    networks = by_seed(dense)

    def measure(model: nn.Module, split: str) -> float:
        return accuracy(data, common.recalibrated(model, data), split)

    def run(seed: int) -> list[dict[str, Any]]:
        return [
            {"layer": name.removesuffix(".weight"), "sparsity": sparsity, "accuracy": value}
            for name, values in sensitivity(networks[seed], measure, list(sparsities)).items()
            for sparsity, value in zip(sparsities, values, strict=True)
        ]

    return sweep(run, seed=networks)


def try_sparsities(
    dense: pd.DataFrame, data: ImageData, choices: Mapping[str, Mapping[str, float]]
) -> pd.DataFrame:
    """Prune by each choice of a sparsity per layer, recalibrate and fine-tune: by
    ``choice``, what is pruned in all (%) and the mean ``accuracy`` over the networks.
    """

    def by_layer(shares: Mapping[str, float]) -> Choose:
        return lambda weights, _: local_masks(
            magnitude(weights), {name: shares[name.removesuffix(".weight")] for name in weights}
        )

    methods = {choice: by_layer(shares) for choice, shares in choices.items()}
    found = prune_once(dense, data, methods, [0], repair=True, epochs=TRIED).iloc[len(dense) :]
    gone = [
        100 * sparsity({name: w != 0 for name, w in prunable(network).items()})
        for network in found.network
    ]
    table = found.assign(**{"choice": found.method, "pruned (%)": gone})
    return table.groupby("choice", sort=False)[["pruned (%)", "accuracy"]].mean().reset_index()


# -------------------------------------------------------------------------- what it was worth
def within_a_point(rows: pd.DataFrame, dense: float) -> float:
    """The largest sparsity up to which the mean accuracy of one method's rows stays within
    a point of the ``dense`` networks' mean; 0 if it does so at none.
    """
    good = rows.groupby("sparsity").accuracy.mean() >= dense - 1
    return max(good[good.cummin()].index, default=0.0)


def share_of_dense(costs: pd.DataFrame) -> pd.DataFrame:
    """The bits, MACs and time of :func:`common.costs_and_tests` as ``% of dense``, by
    ``method`` (its words on lines of their own) and ``measure``.
    """
    first = costs.drop_duplicates("method").set_index("method")
    shares = 100 * first[["bits", "macs"]] / first.loc["dense", ["bits", "macs"]]
    shares = shares.rename(columns={"macs": "MACs"}).assign(time=100 / first.faster)
    shares.index = shares.index.str.replace("(?<!\\d) |, ", "\n", regex=True)
    return shares.melt(
        var_name="measure", value_name="% of dense", ignore_index=False
    ).reset_index()
