"""Make lab 05's stored results: every experiment of the lab, six seeds on the digits and
five on MNIST.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cost import nonzero_macs
from course_lib.data.images import ImageData, load
from course_lib.experiments import by_seed, common, lab05
from course_lib.experiments.lab05 import Row
from course_lib.models import build
from course_lib.modes import evaluating
from course_lib.pruning.activations import gated_macs, gating
from course_lib.pruning.channels.slimming import scales
from course_lib.pruning.weights import combine_columns, group_columns, prune_lowest, random
from course_lib.training import evaluate, fit

BLOCKS = (4, 8)  # m of 1:m, of weights and activations together
SHARES = (0.3, 0.15, 0.05)  # of the MACs, for gates


def group_in_random_order(weight: Tensor, size: int, gamma: float, seed: int) -> list[list[int]]:
    """Columns come in random order, and join the first group that the two limits allow."""
    there = (weight != 0).T  # (C, R)
    groups: list[list[int]] = []
    covered: list[Tensor] = []  # per group, the rows where one of its columns is not 0: (R,)
    conflicts: list[int] = []
    order = torch.randperm(len(there), generator=torch.Generator().manual_seed(seed))
    for column in order[there[order].any(1).cpu()].tolist():
        for i, group in enumerate(groups):
            more = conflicts[i] + int((covered[i] & there[column]).sum())
            if len(group) < size and more <= gamma * weight.shape[0]:
                group.append(column)
                covered[i], conflicts[i] = covered[i] | there[column], more
                break
        else:
            groups.append([column])
            covered.append(there[column])
            conflicts.append(0)
    return groups


def packed(model: nn.Module, seed: int) -> list[Row]:
    """The greedy rule, and random order with the same limits. (In random order without a
    limit: random groups.)
    """
    rules: dict[str, Callable[..., Any]] = {
        "greedy": group_columns,
        "random order": partial(group_in_random_order, seed=seed),
    }
    return [
        {"method": method, **row}
        for method, rule in rules.items()
        for row in lab05.packings(model, combine_columns, rule)
    ]


def measure_products(model: nn.Module, images: Tensor) -> Row:
    """``products``, the share of all products of :data:`lab05.LAYERS` (padding's included)
    in which both factors are other than 0.
    """
    inputs, left, total = common.layer_inputs(model, images), 0, 0
    for name in lab05.LAYERS:
        weight, x = model.get_submodule(name).get_parameter("weight").detach(), inputs[name]
        left += nonzero_macs(weight, x, padding=1)
        total += x[:, 0].numel() * weight.numel()
    return {"products": left / total}


def joint(model: nn.Module, data: ImageData, seed: int, finetune: int) -> list[Row]:
    """Weights and activations 1:m, chosen in three ways."""
    count = partial(measure_products, images=data.validation.images)
    return [
        {"m": m, "pattern": f"1:{m} × 1:{m}", "method": how}
        | lab05.joint(model, data, seed, m, finetune, how, also=count)
        for m in BLOCKS
        for how in lab05.CHOOSING
    ]


def hold_gates(net: nn.Module, gates: Sequence[Tensor]) -> AbstractContextManager[Any]:
    """Inside the block each layer's channels are multiplied by these gates, (B, M) or
    (1, M).
    """
    constant: dict[str, Any] = {
        key: lambda _, gate=gate: gate for key, gate in zip(lab05.GATED, gates, strict=True)
    }
    return gating(net, constant)


def measure_gates(gated: lab05.GatedNet, data: ImageData, seed: int) -> list[Row]:
    """The gates as they are ("dynamic"), and each image with those of a random other one."""
    own = lab05.measure_gates(gated, data)  # its decisions are kept in the network
    images, labels = data.validation
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    shuffled = [gate[order] for gate in gated.decided]
    with evaluating(gated), torch.no_grad(), hold_gates(gated.net, shuffled):
        other = 100 * float((gated.net(images).argmax(1) == labels).double().mean())
    names = "dynamic", "another image's gates"
    return [{"method": names[0], **own}, {"method": names[1], **own, "accuracy": other}]


def choose_static_gates(
    model: nn.Module, macs: Sequence[float], target: float, seed: int | None = None
) -> list[Tensor]:
    """The channels of largest |α|, or random ones, of as many as :func:`lab05.choose_widths` says:
    (1, M) for each layer.
    """
    score = scales(model)
    if seed is not None:
        score = random(score, torch.Generator().manual_seed(seed))
    kept = lab05.choose_widths([len(s) for s in score.values()], macs, target)
    return [
        prune_lowest(s, len(s) - k).float()[None] for k, s in zip(kept, score.values(), strict=True)
    ]


def train_static(
    model: nn.Module, data: ImageData, seed: int, target: float, epochs: int, at_random: bool
) -> Row:
    """:func:`choose_static_gates` open for all images, and the network trained with them."""
    macs = list(lab05.count_macs(model, data).values())
    gates = choose_static_gates(model, macs, target, seed if at_random else None)
    share = float(gated_macs(gates, macs) / sum(macs))
    net, adam = copy.deepcopy(model), partial(torch.optim.Adam, lr=lab05.NET_RATE)
    with hold_gates(net, gates):
        fit(net, data.train, epochs=epochs, seed=seed, optimizer=adam, **lab05.SMALL_BATCHES)
        return {"accuracy": evaluate(net, data.validation), "macs": share}


def gates(model: nn.Module, data: ImageData, seed: int, epochs: int) -> list[Row]:
    """Gates whose network trains with them; and static channels of as many products, whose
    network trains as long.
    """
    rows: list[Row] = []
    for share in SHARES:
        gated = lab05.learn_gates(model, data, seed, share, epochs)
        dynamic = measure_gates(gated, data, seed)
        rows += [{"share": share, **row} for row in dynamic]
        static = partial(train_static, model, data, seed, dynamic[0]["macs"], epochs)
        rows.append({"share": share, "method": "largest |α|", **static(at_random=False)})
        rows.append({"share": share, "method": "random channels", **static(at_random=True)})
    return rows


def one_seed(seed: int, data: str, settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Everything of the lab with one seed: the rows of each table."""
    images = load(data).subset(settings["images"], validation=lab05.VALIDATION)
    fresh = build("convnet", images, seed=seed)
    model = lab05.train_dense(fresh, images, seed, settings["epochs"])
    finetune = settings["finetune"]
    return {
        "dense": [{"validation": evaluate(model, images.validation)}],
        "patterns": lab05.patterns(model, images, seed, finetune),
        "packed": packed(lab05.sparse_start(model, images, seed, finetune), seed),
        "joint": joint(model, images, seed, finetune),
        "gates": gates(model, images, seed, settings["gates"]),
    }


RESULTS = {
    "lab05_between_digits": by_seed(
        "Every experiment of lab 05 on the digits, six seeds.",
        lab05.DIGITS, 6, one_seed, data="digits",
    ),
    "lab05_between_mnist": by_seed(
        "The same on MNIST, 2,000 images, five seeds.",
        lab05.MNIST, 5, one_seed, data="mnist",
    ),
}  # fmt: skip
