"""Lab 05: what lies between single weights and whole filters, on the small conv net:
N:M, combined columns, activations, gates.

conv2 to conv4 are pruned, along their inputs; conv1 has one input channel and is kept.
Accuracies are % of validation images, except where "test" is said. Functions that the
student writes are arguments, with the course's as default. The stored results are made by
``data/results/make/lab05_results.py``.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib.cost import model_cost
from course_lib.data.images import ImageData
from course_lib.experiments import common
from course_lib.modes import evaluating
from course_lib.pruning import activations, weights
from course_lib.pruning.channels import remove_filters
from course_lib.pruning.weights import Masks
from course_lib.show import plots
from course_lib.training import evaluate, fit

Row = dict[str, Any]  # of a long table
Grouping = Callable[[Tensor], Sequence[Sequence[int]]]  # a matrix's columns in groups

LAYERS = ("conv2", "conv3", "conv4")
RECIPE: dict[str, Any] = {
    "optimizer": "sgd",
    "weight_decay": 5e-4,
    "schedule": "cosine",
    "progress": False,
}
DIGITS: dict[str, Any] = {"images": 1097, "epochs": 20, "finetune": 5, "gates": 20}
MNIST: dict[str, Any] = {"images": 2000, "epochs": 8, "finetune": 3, "gates": 8}
RESULTS = {"digits": "lab05_between_digits", "MNIST": "lab05_between_mnist"}
VALIDATION = 1000  # of MNIST's 5,000; enough, and quick
TARGETS = (0.25, 0.125, 0.0625)  # share of the products of LAYERS that is left
ARMS = ("element", "N:M", "row", "kernel", "filter", "N:M at random")
SIZE = 8  # columns in a group, at most
LIMITS = (0.0, 0.05, 0.25, 0.5, math.inf)  # γ, the conflicts per row that a group may have
CHOOSING = ("by size", "random", "drawn once")


def train_dense(model: nn.Module, data: ImageData, seed: int, epochs: int) -> nn.Module:
    """The dense conv net, trained in place."""
    fit(model, data.train, epochs=epochs, lr=0.2, seed=seed, **RECIPE)
    return model


def dense_nets(data: ImageData, seeds: int, epochs: int) -> list[nn.Module]:
    """The dense conv net with seeds 0, 1, …, trained two at a time."""
    return common.trained("convnet", data, seeds, lambda net, s: train_dense(net, data, s, epochs))


def fine_tune(model: nn.Module, data: ImageData, masks: Masks, epochs: int, seed: int) -> nn.Module:
    """A copy, trained on with its zeros kept."""
    model = copy.deepcopy(model)
    fit(model, data.train, epochs=epochs, lr=0.05, seed=seed, masks=masks, **RECIPE)
    return model


def select_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights that are pruned, by the name of their layer's parameter."""
    found = weights.prunable(model)
    return {f"{name}.weight": found[f"{name}.weight"].detach() for name in LAYERS}


def count_macs(model: nn.Module, data: ImageData) -> dict[str, float]:
    """Dense MACs of conv1 … conv4 for an image."""
    rows = model_cost(model, data.train.images[:1])
    return {row.name: float(row.macs) for row in rows if row.name.startswith("conv")}


# ------------------------------------------------------------------- patterns of weights
NMRule = Callable[[Tensor, int, int, int], Tensor]  # weight, n, m, dim -> mask


def nm_masks(
    model: nn.Module, m: int, seed: int | None = None, rule: NMRule = weights.nm_mask
) -> Masks:
    """Masks 1:m along the inputs: the largest weights, or random ones if there is a seed."""
    score = weights.magnitude(select_weights(model))
    if seed is not None:
        score = weights.random(score, torch.Generator().manual_seed(seed))
    return {name: rule(s, 1, m, 1) for name, s in score.items()}


def choose_widths(full: Sequence[int], macs: Iterable[float], target: float) -> list[int]:
    """How many filters each layer keeps: the same share of each, up to rounding and two of
    the last layer, so that the products come closest to the share ``target`` of ``macs``.
    """
    macs = list(macs)

    def share(kept: Sequence[int]) -> float:
        shares = [1.0, *(k / f for k, f in zip(kept, full, strict=True))]
        return sum(m * a * b for m, a, b in zip(macs, shares, shares[1:], strict=False)) / sum(macs)

    found = [
        [*(max(1, round(step / 200 * f)) for f in full[:-1]), round(step / 200 * full[-1]) + more]
        for step in range(1, 201)
        for more in range(-2, 3)
    ]
    found = [kept for kept in found if 1 <= kept[-1] <= full[-1]]
    return min(found, key=lambda kept: abs(share(kept) - target))


def filter_masks(score: Mapping[str, Tensor], macs: Mapping[str, float], target: float) -> Masks:
    """The largest filters. The inputs that removed filters no longer produce are pruned from
    the next layer, too.
    """
    kept = choose_widths([len(s) for s in score.values()], [macs[n] for n in LAYERS], target)
    masks: Masks = {}
    there = None  # of the layer before, (C,)
    for k, (name, s) in zip(kept, score.items(), strict=True):
        stays = weights.prune_lowest(s.double().sum((1, 2, 3)), len(s) - k)
        masks[name] = stays[:, None, None, None].expand_as(s).clone()
        if there is not None:
            masks[name] &= there[None, :, None, None]
        there = stays
    return masks


def share_of_products(masks: Masks, macs: Mapping[str, float]) -> float:
    """The share of the MACs of :data:`LAYERS` whose weight is kept."""
    kept = sum(macs[name] * float(masks[f"{name}.weight"].float().mean()) for name in LAYERS)
    return kept / sum(macs[name] for name in LAYERS)


def prune(
    model: nn.Module,
    data: ImageData,
    arm: str,
    target: float,
    seed: int,
    nm_mask: NMRule = weights.nm_mask,
) -> tuple[nn.Module, Masks, float]:
    """A copy, pruned in one of :data:`ARMS` to the share ``target`` of its products; its
    masks; and the share, counted. Filters are removed: the copy is smaller, without masks.
    """
    macs, score = count_macs(model, data), weights.magnitude(select_weights(model))
    if arm.startswith("N:M"):
        masks = nm_masks(
            model, round(1 / target), seed if arm == "N:M at random" else None, nm_mask
        )
    elif arm == "filter":
        masks = filter_masks(score, macs, target)
    else:
        masks = weights.local_masks(score, 1 - target, arm)
    net = copy.deepcopy(model)
    weights.apply(net, masks)
    if arm != "filter":
        return net, masks, share_of_products(masks, macs)
    keep = {name: masks[f"{name}.weight"].flatten(1).any(1) for name in LAYERS}
    smaller, _ = remove_filters(net, keep, data.train.images[:2])
    return smaller, {}, share_of_products(masks, macs)


def pruned_nets(
    models: Sequence[nn.Module], data: ImageData, arm: str, epochs: int
) -> list[nn.Module]:
    """Copies with an eighth of the products, trained on."""
    pruned = [prune(model, data, arm, 0.125, 0)[:2] for model in models]
    return [fine_tune(net, data, masks, epochs, seed) for seed, (net, masks) in enumerate(pruned)]


def patterns(
    model: nn.Module,
    data: ImageData,
    seed: int,
    finetune: int,
    arms: Iterable[str] = ARMS,
    targets: Iterable[float] = TARGETS,
    nm_mask: NMRule = weights.nm_mask,
) -> list[Row]:
    """Each pattern at equal products.

    Returns:
        Rows of ``method``, ``target``, the measured share ``macs``, and the accuracy
        ``recalibrated`` (batch norms only) and ``finetuned``.
    """
    rows = []
    for arm, target in itertools.product(arms, targets):
        net, masks, share = prune(model, data, arm, target, seed, nm_mask)
        repaired = common.recalibrated(net, data, len(data.train.labels))
        rows.append({
            "method": arm,
            "target": target,
            "macs": share,
            "recalibrated": evaluate(repaired, data.validation),
            "finetuned": evaluate(fine_tune(net, data, masks, finetune, seed), data.validation),
        })  # fmt: skip
    return rows


# ------------------------------------------------------------------------ packed columns
def sparse_start(
    model: nn.Module, data: ImageData, seed: int, finetune: int, sparsity: float = 0.85
) -> nn.Module:
    """What columns are combined of: magnitude-pruned layer by layer, and trained on."""
    masks = weights.local_masks(weights.magnitude(select_weights(model)), sparsity)
    return fine_tune(model, data, masks, finetune, seed)


def pack(model: nn.Module, grouping: Grouping, combine: Callable[..., Any]) -> Row:
    """Columns grouped and combined in every layer of :data:`LAYERS`.

    Returns:
        ``utilisation``, the % of the packed cells that hold a weight, and ``lost``, the %
        of the non-zeros that conflicts cost.
    """
    cells = kept = before = 0
    for w in select_weights(model).values():
        matrix = w.flatten(1).cpu()
        groups = grouping(matrix)
        cells += len(w) * len(groups)
        kept += int(combine(matrix, groups)[2].count_nonzero())
        before += int(w.count_nonzero())
    return {"utilisation": 100 * kept / cells, "lost": 100 * (1 - kept / before)}


def packings(
    model: nn.Module, combine: Callable[..., Any], rule: Callable[..., Any] = weights.group_columns
) -> list[Row]:
    """Columns in groups of at most :data:`SIZE` by a ``rule``, at each of :data:`LIMITS`.

    Returns:
        Rows of ``limit`` ("γ 0", …, "none"), and what :func:`pack` measures.
    """
    return [
        {"limit": "none" if gamma == math.inf else f"γ {gamma:g}"}
        | pack(model, partial(rule, size=SIZE, gamma=gamma), combine)
        for gamma in LIMITS
    ]


# --------------------------------------------------------------------------------- gates
GATED = tuple(f"conv{i}->bn{i}" for i in range(1, 5))
NET_RATE = 1e-3  # of Adam, for the network's own weights: with gates and without
# so that gates are trained for many steps
SMALL_BATCHES: dict[str, Any] = {"batch_size": 16, "progress": False}


class GatedNet(nn.Module):
    """A copy of a network, whose channels open and close for each image.

    Args:
        macs: of each gated layer with everything open, for an image.
        gate: (channels in, channels out) -> the module that decides.
    """

    def __init__(
        self,
        model: nn.Module,
        macs: Sequence[float],
        seed: int,
        gate: Callable[[int, int], nn.Module],
    ) -> None:
        super().__init__()
        self.net, self.macs = copy.deepcopy(model), macs
        self.decided: list[Tensor] = []
        self.gates = nn.ModuleList()
        generator = torch.Generator().manual_seed(seed)  # its own: threads share torch's
        for key in GATED:
            conv: Any = self.net.get_submodule(key.partition("->")[0])
            made: Any = gate(conv.in_channels, conv.out_channels)
            nn.init.kaiming_uniform_(made.score.weight, math.sqrt(5), generator=generator)
            nn.init.constant_(made.score.bias, 1.0)  # all are open at first
            self.gates.append(made.to(conv.weight.device))

    def forward(self, x: Tensor) -> Tensor:
        gates: dict[str, Any] = dict(zip(GATED, self.gates, strict=True))
        with activations.gating(self.net, gates) as latest:
            out: Tensor = self.net(x)
        self.decided = list(latest)
        return out


def learn_gates(
    model: nn.Module,
    data: ImageData,
    seed: int,
    target: float,
    epochs: int,
    gate: Callable[[int, int], nn.Module] = activations.ChannelGate,
) -> GatedNet:
    """Train the gates towards ``target`` of the dense MACs, and the network with them.

    The target falls from 1 over the first 70 % of the steps: if it is there at once,
    its pull closes whole layers before the loss has a say.
    """
    gated = GatedNet(model, list(count_macs(model, data).values()), seed, gate)
    groups: list[dict[str, Any]] = [
        {"params": list(gated.gates.parameters()), "lr": 0.01},
        {"params": list(gated.net.parameters()), "lr": NET_RATE},
    ]
    falling = max(1, round(0.7 * epochs * math.ceil(len(data.train.labels) / 16)))
    steps = itertools.count(1)

    def penalty() -> Tensor:
        now = 1 - (1 - target) * min(1.0, next(steps) / falling)
        macs = activations.gated_macs(gated.decided, gated.macs)
        return 10 * activations.target_penalty(macs, sum(gated.macs), now)

    fit(
        gated, data.train, epochs=epochs, seed=seed, penalty=penalty,
        optimizer=lambda _: torch.optim.Adam(groups), **SMALL_BATCHES,
    )  # fmt: skip
    return gated


def measure_gates(gated: GatedNet, data: ImageData) -> Row:
    """``accuracy`` and ``macs``, the mean share that is computed, of the validation images."""
    accuracy = evaluate(gated, data.validation)
    with evaluating(gated), torch.no_grad():
        gated(data.validation.images)
    share = activations.gated_macs(gated.decided, gated.macs).mean() / sum(gated.macs)
    return {"accuracy": accuracy, "macs": float(share)}


# ---------------------------------------------------------------- weights and activations
def joint(
    model: nn.Module,
    data: ImageData,
    seed: int,
    m: int,
    finetune: int,
    how: str = "by size",
    nm_activation: Callable[[Tensor, int, int], Tensor] = activations.nm_activation,
    also: Callable[[nn.Module], Row] = lambda _: {},
) -> Row:
    """Weights 1:m and the inputs of these layers 1:m, trained on together.

    Args:
        how: one of :data:`CHOOSING`: both "by size"; both at "random", the activations
            drawn again in every pass; or both at random and "drawn once", so that every
            input loses the same places.
        also: measures something else of the network, with its inputs pruned.

    Returns:
        ``accuracy``, and what ``also`` returns.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw_mask(shape: tuple[int, ...]) -> Tensor:
        drawn = activations.nm_activation(1 + torch.rand(shape, generator=generator), 1, m) != 0
        return drawn.to(where)

    where = next(model.parameters()).device
    draw_once = cache(draw_mask)  # each layer's inputs have a shape of their own

    def rule(x: Tensor) -> Tensor:
        if how == "by size":
            return nm_activation(x, 1, m)
        return x * (draw_mask(x.shape) if how == "random" else draw_once((1, *x.shape[1:])))

    masks = nm_masks(model, m, None if how == "by size" else seed)
    model = copy.deepcopy(model)
    with activations.pruned_inputs(model, rule, LAYERS):
        fit(
            model, data.train, epochs=finetune, lr=0.05, seed=seed, masks=masks, **RECIPE
        )  # in place: the hooks are on it
        return {"accuracy": evaluate(model, data.validation), **also(model)}


# ----------------------------------------------------------------------- figures and costs
def read_both(table: str) -> pd.DataFrame:
    """A stored table of both data sets, told apart by ``images``."""
    return common.read_all(RESULTS, table, "images")


def add_live(
    fig: Figure, panel: int, rows: Sequence[Row], x: str, y: str, guess: Any = ...
) -> Figure:
    """The live run's points as black crosses in one panel of a figure, and the guess at the
    first of them as a star.
    """
    axes = fig.axes[panel]
    low, top = axes.get_ylim()
    at, values = ([float(row[name]) for row in rows] for name in (x, y))
    cross: Row = {"color": "k", "ms": 9, "mew": 2.5, "zorder": 7, "label": "your run"}
    points = axes.plot(at, values, "x", **cross)
    points += plots.draw_guess(axes, (at[0], guess))
    lowest = min(values if guess is ... else [*values, guess])
    axes.set_ylim(min(low, lowest - 0.06 * (top - lowest)), top)
    if axes.get_legend() is None:  # that of the bars says what the colours are
        axes.legend(handles=points, loc="best", fontsize="small")
    return fig
