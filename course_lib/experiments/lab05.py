"""Lab 05: what lies between single weights and whole filters, on the small conv net:
N:M, combined columns, activations, gates.

conv2 to conv4 are pruned, along their inputs; conv1 has one input channel and stays.
Accuracies are % of validation images, except where "test" is said.
``course remake lab05_between_digits`` and ``lab05_between_mnist`` make the shipped
results again.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cost import model_cost
from course_lib.data.images import ImageData, load
from course_lib.experiments.once import each_seed
from course_lib.models import build
from course_lib.modes import evaluating
from course_lib.pruning.activations import (
    ChannelGate,
    gated_macs,
    gating,
    nm_activation,
    pruned_inputs,
    target_penalty,
)
from course_lib.pruning.channels import recalibrate
from course_lib.pruning.channels.slimming import scales
from course_lib.pruning.weights import (
    Masks,
    apply,
    combine_columns,
    group_columns,
    local_masks,
    magnitude,
    nm_masks,
    prunable,
    random,
    utilisation,
)
from course_lib.training import evaluate, fit

LAYERS = ("conv2", "conv3", "conv4")
WEIGHTS = tuple(f"{name}.weight" for name in LAYERS)
RECIPE: dict[str, Any] = {
    "optimizer": "sgd",
    "weight_decay": 5e-4,
    "schedule": "cosine",
    "progress": False,
}
DIGITS: dict[str, Any] = {"images": 1097, "epochs": 20, "finetune": 5, "gates": 10}
MNIST: dict[str, Any] = {"images": 2000, "epochs": 8, "finetune": 3, "gates": 4}
VALIDATION = 1000  # of MNIST's 5,000; enough, and quick
PATTERNS = ((2, 4), (1, 4), (1, 8), (1, 16))
ARMS = ("element", "N:M", "row", "kernel", "filter", "N:M at random")
PACKINGS = ((8, 0.0), (8, 0.05), (8, 0.1), (8, 0.25), (8, 0.5), (16, 0.5))  # size α and conflicts γ
RANDOM_SIZES = (2, 3, 4, 5, 6, 8)
# n of the weights, n of the activations, m
JOINT = ((2, 2, 4), (1, 2, 4), (2, 1, 4), (1, 1, 4), (1, 1, 8))
CHOOSING = ("by size", "random", "drawn once")
SHARES = (0.5, 0.3, 0.2)  # of the MACs, for gates on a frozen network
SMALL_SHARES = (0.3, 0.15, 0.05)  # and for those whose network trains with them


def trained(model: nn.Module, data: ImageData, seed: int, epochs: int) -> nn.Module:
    """The dense conv net, trained in place."""
    fit(model, data.train, epochs=epochs, lr=0.2, seed=seed, **RECIPE)
    return model


def tuned(model: nn.Module, data: ImageData, masks: Masks, epochs: int, seed: int) -> nn.Module:
    """A copy, trained on with its zeros kept."""
    model = copy.deepcopy(model)
    fit(model, data.train, epochs=epochs, lr=0.05, seed=seed, masks=masks, **RECIPE)
    return model


def chosen(model: nn.Module) -> dict[str, Tensor]:
    """The weights that are pruned."""
    weights = prunable(model)
    return {name: weights[name].detach() for name in WEIGHTS}


def pattern_masks(model: nn.Module, arm: str, n: int, m: int, seed: int) -> Masks:
    """Masks of equal sparsity 1 − n/m in each layer, in one of :data:`ARMS`."""
    score = magnitude(chosen(model))
    if arm == "N:M":
        return nm_masks(score, n, m)
    if arm == "N:M at random":
        return nm_masks(random(chosen(model), torch.Generator().manual_seed(seed)), n, m)
    return local_masks(score, 1 - n / m, arm)


def patterns(
    model: nn.Module,
    data: ImageData,
    seed: int,
    grid: Iterable[tuple[int, int]] = PATTERNS,
    arms: Iterable[str] = ARMS,
    finetune: int = 0,
) -> dict[str, dict[str, list[float]]]:
    """Pruned; batch norms recalibrated; trained on for ``finetune`` epochs (if any):
    accuracy by arm, one for each n:m of ``grid``.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for arm in arms:
        rows: dict[str, list[float]] = {"one-shot": [], "recalibrated": [], "fine-tuned": []}
        for n, m in grid:
            masks = pattern_masks(model, arm, n, m, seed)
            pruned = copy.deepcopy(model)
            apply(pruned, masks)
            rows["one-shot"].append(evaluate(pruned, data.validation))
            if finetune:
                rows["fine-tuned"].append(
                    evaluate(tuned(pruned, data, masks, finetune, seed), data.validation)
                )
            recalibrate(pruned, data.train.images)
            rows["recalibrated"].append(evaluate(pruned, data.validation))
        found[arm] = rows
    return found


def sparse_start(
    model: nn.Module, data: ImageData, seed: int, finetune: int, sparsity: float = 0.85
) -> nn.Module:
    """What columns are combined of: magnitude-pruned layer by layer, and trained on."""
    masks = local_masks(magnitude(chosen(model)), sparsity)
    return tuned(model, data, masks, finetune, seed)


def random_groups(weight: Tensor, size: int, seed: int) -> list[list[int]]:
    """The control: columns that hold anything, in random groups of this size."""
    there = (weight != 0).any(0).nonzero()[:, 0]
    order = there[torch.randperm(len(there), generator=torch.Generator().manual_seed(seed))]
    return [part.tolist() for part in order.split(size)]


def in_drawn_order(weight: Tensor, size: int, gamma: float, seed: int) -> list[list[int]]:
    """The other control: columns come in random order, and join the first group that
    the two limits allow.
    """
    there = (weight != 0).T  # (C, R)
    groups: list[list[int]] = []
    for column in torch.randperm(
        len(there), generator=torch.Generator().manual_seed(seed)
    ).tolist():
        if not there[column].any():
            continue
        for group in groups:
            together = there[[*group, column]]
            if (
                len(group) < size
                and int(together.sum() - together.any(0).sum()) <= gamma * weight.shape[0]
            ):
                group.append(column)
                break
        else:
            groups.append([column])
    return groups


def packed(
    model: nn.Module,
    data: ImageData,
    grouping: Callable[[Tensor], Sequence[Sequence[int]]],
    seed: int,
    finetune: int = 0,
) -> dict[str, float]:
    """Columns grouped and combined in every layer of :data:`WEIGHTS`.

    Returns:
        "utilisation" of the packed arrays together, "lost": the share of the non-zeros
        that conflicts cost, "accuracy" right after it, and "fine-tuned" (if
        ``finetune`` epochs are given).
    """
    masks: Masks = {}
    cells = kept = before = 0.0
    for name, w in chosen(model).items():
        matrix = w.flatten(1)
        groups = grouping(matrix)
        mask = combine_columns(matrix, groups)[2]
        masks[name] = mask.view(w.shape)
        cells += mask.shape[0] * len(groups)
        kept += utilisation(mask, groups) * mask.shape[0] * len(groups)
        before += float((matrix != 0).sum())
    pruned = copy.deepcopy(model)
    apply(pruned, masks)
    found = {
        "utilisation": kept / cells,
        "lost": 1 - kept / before,
        "accuracy": evaluate(pruned, data.validation),
    }
    if finetune:
        found["fine-tuned"] = evaluate(tuned(pruned, data, masks, finetune, seed), data.validation)
    return found


def packed_at_random(
    model: nn.Module, data: ImageData, size: int, seed: int, finetune: int = 0
) -> dict[str, float]:
    """:func:`packed` in random groups."""
    return packed(model, data, partial(random_groups, size=size, seed=seed), seed, finetune)


def joint(
    model: nn.Module,
    data: ImageData,
    seed: int,
    n_w: int,
    n_x: int,
    m: int,
    finetune: int,
    how: str = "by size",
) -> dict[str, float]:
    """Weights n_w:m and the inputs of these layers n_x:m, trained on together.

    Args:
        how: one of :data:`CHOOSING`: both "by size"; both at "random", the activations
            anew in every pass; or both at random and "drawn once", so that every input
            loses the same places.

    Returns:
        "accuracy", and "products": the share of the layers' products with both factors
        other than 0, over the validation images.
    """
    generator = torch.Generator().manual_seed(seed)

    once: dict[torch.Size, Tensor] = {}  # each layer's inputs have a shape of their own

    def drawn(*shape: int) -> Tensor:
        return nm_activation(1 + torch.rand(shape, generator=generator), n_x, m) != 0

    def rule(x: Tensor) -> Tensor:
        if how == "by size":
            return nm_activation(x, n_x, m)
        if how == "random":
            return x * drawn(*x.shape)
        if x.shape[1:] not in once:
            once[x.shape[1:]] = drawn(1, *x.shape[1:])
        return x * once[x.shape[1:]]

    masks = pattern_masks(model, "N:M" if how == "by size" else "N:M at random", n_w, m, seed)
    model = copy.deepcopy(model)
    with pruned_inputs(model, rule, LAYERS):
        fit(
            model, data.train, epochs=finetune, lr=0.05, seed=seed, masks=masks, **RECIPE
        )  # in place: the hooks are on it
        return {
            "accuracy": evaluate(model, data.validation),
            "products": products(model, data.validation.images),
        }


def products(model: nn.Module, images: Tensor) -> float:
    """The share of all products of :data:`LAYERS` (padding's included) in which both
    factors are other than 0.
    """
    left = total = 0.0

    def count(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        nonlocal left, total
        there = (inputs[0] != 0).double()
        weight = module.weight.ne(0).double()  # type: ignore[operator]
        left += float(module._conv_forward(there, weight, None).sum())  # type: ignore[operator]
        total += output.numel() * weight[0].numel()

    hooks = [model.get_submodule(name).register_forward_hook(count) for name in LAYERS]
    try:
        with evaluating(model), torch.no_grad():
            model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return left / total


GATED = ("conv1->bn1", "conv2->bn2", "conv3->bn3", "conv4->bn4")


def dense_macs(model: nn.Module, data: ImageData) -> list[float]:
    """MACs of conv1 … conv4 for an image."""
    rows = model_cost(model, data.train.images[:1])
    by_name = {row.name: float(row.macs) for row in rows}
    return [by_name[key.partition("->")[0]] for key in GATED]


class Gated(nn.Module):
    """A network whose channels open and close.

    Args:
        by_image: False: the same gates with their weights held at 0, so that every
            image has the same channels.
        frozen: only the gates learn; batch norms keep their statistics.
    """

    def __init__(
        self, model: nn.Module, seed: int, by_image: bool = True, frozen: bool = True
    ) -> None:
        super().__init__()
        self.net = copy.deepcopy(model).requires_grad_(not frozen)
        self.frozen = frozen
        generator = torch.Generator().manual_seed(seed)  # its own: threads share torch's
        self.opened = []
        for key in GATED:
            conv = self.net.get_submodule(key.partition("->")[0])
            gate = ChannelGate(conv.in_channels, conv.out_channels)  # type: ignore[arg-type]
            if by_image:
                nn.init.kaiming_uniform_(gate.score.weight, math.sqrt(5), generator=generator)
            else:
                # all alike they would all close together
                nn.init.uniform_(gate.score.bias, 0.5, 1.5, generator)
                nn.init.zeros_(gate.score.weight).requires_grad_(False)
            self.opened.append(gate)
        self.gates = nn.ModuleList(self.opened)
        self.decided: list[Tensor] = []

    def train(self, mode: bool = True) -> Gated:
        super().train(mode)
        if self.frozen:
            self.net.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        with gating(self.net, dict(zip(GATED, self.opened, strict=True))) as latest:
            out = self.net(x)
        self.decided = list(latest)
        return out


def learned_gates(
    model: nn.Module,
    data: ImageData,
    seed: int,
    target: float,
    epochs: int,
    by_image: bool = True,
    frozen: bool = True,
) -> tuple[Gated, list[float]]:
    """Train the gates towards ``target`` of the dense MACs, and the network with them
    unless it is frozen; it, and the layers' dense MACs.

    The target falls from 1 over the first 70 % of the steps: if it is there at once,
    its pull closes whole layers before the loss has a say.
    """
    macs = dense_macs(model, data)
    gated = Gated(model, seed, by_image, frozen)
    groups: list[dict[str, Any]] = [
        {"params": [p for p in gated.gates.parameters() if p.requires_grad], "lr": 0.01}
    ]
    if not frozen:
        groups.append({"params": list(gated.net.parameters()), "lr": NET_RATE})
    falling = max(1, round(0.7 * epochs * math.ceil(len(data.train.labels) / 16)))
    steps = itertools.count(1)

    def penalty() -> Tensor:
        now = 1 - (1 - target) * min(1.0, next(steps) / falling)
        return 10 * target_penalty(gated_macs(gated.decided, macs), sum(macs), now)

    _fit_slowly(gated, data, epochs, seed, lambda _: torch.optim.Adam(groups), penalty=penalty)
    return gated, macs


NET_RATE = 1e-3  # of Adam, for the network's own weights: with gates and without


def _fit_slowly(
    model: nn.Module,
    data: ImageData,
    epochs: int,
    seed: int,
    optimizer: Callable[..., Any],
    **how: Any,
) -> None:
    """Small batches: gates see many."""
    fit(
        model,
        data.train,
        epochs=epochs,
        seed=seed,
        progress=False,
        optimizer=optimizer,
        batch_size=16,
        **how,
    )


def measured(
    gated: Gated, data: ImageData, macs: Sequence[float], shuffled: int | None = None
) -> dict[str, float]:
    """Accuracy on the validation images and the mean share of the MACs; ``shuffled``:
    with every image's gates taken from another one.
    """
    images, labels = data.validation.images, data.validation.labels
    with evaluating(gated), torch.no_grad():
        logits = gated(images)
        share = float(gated_macs(gated.decided, macs).mean() / sum(macs))
        if shuffled is not None:
            order = torch.randperm(len(images), generator=torch.Generator().manual_seed(shuffled))
            logits = with_gates(gated.net, [gate[order] for gate in gated.decided], images)
    right = int((logits.argmax(1) == labels).count_nonzero())
    return {"accuracy": 100 * right / len(labels), "macs": share}


def _multiplied(gate: Tensor) -> Callable[..., Tensor]:
    return lambda module, inputs, output: output * gate[:, :, None, None]


def with_gates(net: nn.Module, gates: Sequence[Tensor], images: Tensor) -> Tensor:
    """The network with these channels open, (B, M) or (1, M) for each layer."""
    with fixed(net, gates):
        return net(images)


@contextmanager
def fixed(net: nn.Module, gates: Sequence[Tensor]) -> Iterator[None]:
    """Inside the block each layer's channels are multiplied by these gates, (B, M) or
    (1, M).
    """
    with ExitStack() as stack:
        for key, gate in zip(GATED, gates, strict=True):
            hook = net.get_submodule(key.partition("->")[2]).register_forward_hook(
                _multiplied(gate)
            )
            stack.callback(hook.remove)
        yield


def static_gates(
    model: nn.Module, macs: Sequence[float], target: float, seed: int | None = None
) -> tuple[list[Tensor], float]:
    """The channels of largest |α|, or random ones, the same share in each layer, so
    many that the MACs come closest to ``target``; (1, M) for each layer, and the share
    of the MACs.
    """
    score = scales(model)
    if seed is not None:
        score = random(score, torch.Generator().manual_seed(seed))
    choices = [
        [_top(s, step / 100).float()[None] for s in score.values()] for step in range(1, 100)
    ]
    shares = [float(gated_macs(gates, macs) / sum(macs)) for gates in choices]
    best = min(range(len(shares)), key=lambda i: abs(shares[i] - target))
    return choices[best], shares[best]


def static_channels(
    model: nn.Module, data: ImageData, target: float, seed: int | None = None
) -> dict[str, float]:
    """:func:`static_gates` open for all images: accuracy without and with batch norms
    recalibrated, and nothing trained.
    """
    gates, share = static_gates(model, dense_macs(model, data), target, seed)
    net = copy.deepcopy(model)
    with fixed(net, gates):
        as_it_is = evaluate(net, data.validation)
        recalibrate(net, data.train.images)
        return {"macs": share, "as it is": as_it_is, "recalibrated": evaluate(net, data.validation)}


def _top(score: Tensor, share: float) -> Tensor:
    count = max(1, round(share * len(score)))
    kept = torch.zeros(len(score), dtype=torch.bool)
    kept[score.argsort(descending=True, stable=True)[:count]] = True
    return kept


def gates_on_a_frozen_net(
    model: nn.Module, data: ImageData, seed: int, target: float, epochs: int
) -> dict[str, dict[str, float]]:
    """Gates by image, the same with another image's gates, gates that are the same for
    all, and channels chosen without learning.
    """
    dynamic, macs = learned_gates(model, data, seed, target, epochs)
    static, _ = learned_gates(model, data, seed, target, epochs, by_image=False)
    return {
        "dynamic": measured(dynamic, data, macs),
        "another image's gates": measured(dynamic, data, macs, shuffled=seed),
        "static, learned": measured(static, data, macs),
        "static, largest scale": static_channels(model, data, target),
        "static, random": static_channels(model, data, target, seed),
    }


def gates_and_network(
    model: nn.Module, data: ImageData, seed: int, target: float, epochs: int
) -> dict[str, dict[str, float]]:
    """The same with a network that trains with its gates; and static channels whose
    network trains as long.
    """
    dynamic, macs = learned_gates(model, data, seed, target, epochs, frozen=False)
    found = {
        "dynamic": measured(dynamic, data, macs),
        "another image's gates": measured(dynamic, data, macs, shuffled=seed),
    }
    for name, chance in (("static, largest scale", None), ("static, random", seed)):
        gates, share = static_gates(model, macs, target, chance)
        net = copy.deepcopy(model)
        with fixed(net, gates):
            _fit_slowly(
                net,
                data,
                epochs,
                seed,
                lambda parameters: torch.optim.Adam(parameters, lr=NET_RATE),
            )
            found[name] = {"accuracy": evaluate(net, data.validation), "macs": share}
    return found


def one_seed(name: str, seed: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Everything of the lab with one seed: "dense" (validation, test), "patterns",
    "packed", "joint", "gates", "gates, trained".
    """
    data = load(name).subset(settings["images"], validation=VALIDATION)
    model = trained(build("convnet", data, seed=seed), data, seed, settings["epochs"])
    finetune = settings["finetune"]
    sparse = sparse_start(model, data, seed, finetune)
    greedy = {
        f"size {size}, γ {gamma:g}": packed(
            sparse, data, partial(group_columns, size=size, gamma=gamma), seed, finetune
        )
        for size, gamma in PACKINGS
    }
    by_chance = {
        f"random, size {size}": packed_at_random(sparse, data, size, seed, finetune)
        for size in RANDOM_SIZES
    }
    return {
        "dense": [evaluate(model, data.validation), evaluate(model, data.test)],
        "patterns": patterns(model, data, seed, finetune=finetune),
        "packed": greedy | by_chance,
        "joint": {
            f"W {n_w}:{m} × A {n_x}:{m}": {
                how: joint(model, data, seed, n_w, n_x, m, finetune, how) for how in CHOOSING
            }
            for n_w, n_x, m in JOINT
        },
        "gates": {
            f"{share:g}": gates_on_a_frozen_net(model, data, seed, share, settings["gates"])
            for share in SHARES
        },
        "gates, trained": {
            f"{share:g}": gates_and_network(model, data, seed, share, 2 * settings["gates"])
            for share in SMALL_SHARES
        },
    }


def remake_digits(executor: Executor, folder: Path) -> dict[str, Any]:
    """Five seeds on the digits: ``settings``, and ``seeds``, one of :func:`one_seed`
    each.
    """
    return each_seed(executor, folder, 5, one_seed, "digits", DIGITS)


def remake_mnist(executor: Executor, folder: Path) -> dict[str, Any]:
    """The same on MNIST, 2,000 images, three seeds."""
    return each_seed(executor, folder, 3, one_seed, "mnist", MNIST)


RESULTS = {"lab05_between_digits": remake_digits, "lab05_between_mnist": remake_mnist}
