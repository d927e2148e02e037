"""Lab 05: what lies between single weights and whole filters, on the small conv net:
N:M, combined columns, activations, gates.

conv2 to conv4 are pruned, along their inputs; conv1 has one input channel and is kept.
Accuracies are % of validation images, except where "test" is said.
``course remake lab05_between_digits`` and ``lab05_between_mnist`` make the stored
results again (``data/results/make/lab05_results.py``).
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib.cost import latency, model_cost, totals
from course_lib.cost.encodings import bitmap_bits
from course_lib.cost.storage import model_bits
from course_lib.data.images import ImageData
from course_lib.experiments import common
from course_lib.modes import evaluating
from course_lib.parallel import side_by_side
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
    local_masks,
    magnitude,
    nm_masks,
    prunable,
    random,
    smallest,
)
from course_lib.show import plots
from course_lib.training import evaluate, fit

Row = dict[str, Any]  # of a long table
Grouping = Callable[[Tensor], Sequence[Sequence[int]]]  # a matrix's columns in groups

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
SIZES = tuple(f"{n}:{m}" for n, m in PATTERNS)
ARMS = ("element", "N:M", "row", "kernel", "filter", "N:M at random")
SIZE = 8  # columns in a group, at most
# γ, the conflicts per row that a group may have
LIMITS = {"γ 0": 0.0, "γ 0.05": 0.05, "γ 0.25": 0.25, "γ 0.5": 0.5, "none": math.inf}
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
    """The weights that are pruned."""
    weights = prunable(model)
    return {name: weights[name].detach() for name in WEIGHTS}


def pattern_masks(model: nn.Module, arm: str, n: int, m: int, seed: int) -> Masks:
    """Masks of equal sparsity 1 − n/m in each layer, in one of :data:`ARMS`."""
    score = magnitude(select_weights(model))
    if arm == "N:M":
        return nm_masks(score, n, m)
    if arm == "N:M at random":
        return nm_masks(random(select_weights(model), torch.Generator().manual_seed(seed)), n, m)
    return local_masks(score, 1 - n / m, arm)


def patterns(
    model: nn.Module,
    data: ImageData,
    seed: int,
    grid: Iterable[tuple[int, int]] = PATTERNS,
    arms: Iterable[str] = ARMS,
    finetune: int = 0,
) -> list[Row]:
    """The dense network, and each pattern at each n:m of ``grid``.

    Returns:
        Rows of ``method``, ``sparsity`` (NaN: dense), and the accuracy ``pruned``,
        ``recalibrated`` (batch norms only), and ``finetuned`` for that many epochs, if any.
    """
    dense = evaluate(model, data.validation)
    rows: list[Row] = [
        {"method": "dense", "sparsity": math.nan, "pruned": dense, "recalibrated": dense}
    ]
    for arm, (n, m) in itertools.product(arms, grid):
        masks = pattern_masks(model, arm, n, m, seed)
        net = copy.deepcopy(model)
        apply(net, masks)
        repaired = common.recalibrated(net, data, len(data.train.labels))
        accuracy = {"pruned": evaluate(net, data.validation)}
        accuracy["recalibrated"] = evaluate(repaired, data.validation)
        if finetune:
            net = fine_tune(net, data, masks, finetune, seed)
            accuracy["finetuned"] = evaluate(net, data.validation)
        rows.append({"method": arm, "sparsity": 1 - n / m, **accuracy})
    return rows


def pruned_to(
    model: nn.Module, data: ImageData, seed: int, n: int, m: int, epochs: int
) -> nn.Module:
    """A copy with weights n:m by size, trained on."""
    return fine_tune(model, data, pattern_masks(model, "N:M", n, m, seed), epochs, seed)


def sparse_start(
    model: nn.Module, data: ImageData, seed: int, finetune: int, sparsity: float = 0.85
) -> nn.Module:
    """What columns are combined of: magnitude-pruned layer by layer, and trained on."""
    masks = local_masks(magnitude(select_weights(model)), sparsity)
    return fine_tune(model, data, masks, finetune, seed)


def sparse_nets(models: Sequence[nn.Module], data: ImageData, finetune: int) -> list[nn.Module]:
    """:func:`sparse_start` of each network, with its index as the seed."""
    jobs = [(model, data, seed, finetune) for seed, model in enumerate(models)]
    return side_by_side(sparse_start, jobs)


def group_at_random(weight: Tensor, size: int, seed: int) -> list[list[int]]:
    """The control: columns that hold a non-zero, in random groups of this size."""
    there = weight.any(0).nonzero()[:, 0]
    order = there[torch.randperm(len(there), generator=torch.Generator().manual_seed(seed))]
    return [part.tolist() for part in order.split(size)]


def group_in_random_order(weight: Tensor, size: int, gamma: float, seed: int) -> list[list[int]]:
    """The other control: columns come in random order, and join the first group that
    the two limits allow.
    """
    there = (weight != 0).T  # (C, R)
    groups: list[list[int]] = []
    covered: list[Tensor] = []  # per group, the rows where one of its columns is not 0: (R,)
    conflicts: list[int] = []

    order = torch.randperm(len(there), generator=torch.Generator().manual_seed(seed))
    for column in order[there[order].any(1).cpu()].tolist():
        for i, group in enumerate(groups):
            if len(group) >= size:
                continue
            more = conflicts[i] + int((covered[i] & there[column]).sum())
            if more <= gamma * weight.shape[0]:
                group.append(column)
                covered[i], conflicts[i] = covered[i] | there[column], more
                break
        else:
            groups.append([column])
            covered.append(there[column])
            conflicts.append(0)
    return groups


def pack(
    model: nn.Module, data: ImageData, grouping: Grouping, seed: int, finetune: int = 0
) -> Row:
    """Columns grouped and combined in every layer of :data:`WEIGHTS`.

    Returns:
        ``utilisation`` of the packed arrays together, ``lost``: the fraction of the
        non-zeros that conflicts cost, ``accuracy`` right after it, and ``finetuned`` for
        that many epochs, if any.
    """
    masks: Masks = {}
    cells = kept = before = 0
    for name, w in select_weights(model).items():
        matrix = w.flatten(1)
        groups = grouping(matrix.cpu())
        masks[name] = combine_columns(matrix, groups)[2].view(w.shape)
        cells += len(w) * len(groups)
        kept += int(masks[name].count_nonzero())
        before += int(w.count_nonzero())
    pruned = copy.deepcopy(model)
    apply(pruned, masks)
    row = {
        "utilisation": kept / cells,
        "lost": 1 - kept / before,
        "accuracy": evaluate(pruned, data.validation),
    }
    if finetune:
        tuned = fine_tune(pruned, data, masks, finetune, seed)
        row["finetuned"] = evaluate(tuned, data.validation)
    return row


def packings(
    model: nn.Module,
    data: ImageData,
    seed: int,
    group_columns: Callable[[Tensor, int, float], list[list[int]]],
) -> list[Row]:
    """Columns packed in groups of :data:`SIZE` at each of :data:`LIMITS`, nothing trained:
    by the greedy rule, in random order, and, without a limit, in random groups.

    Args:
        group_columns: the greedy rule, of a matrix, a size and γ.

    Returns:
        Rows of ``method``, ``limit``, and what :func:`pack` measures.
    """

    def greedy(gamma: float) -> Grouping:
        return lambda matrix: group_columns(matrix, SIZE, gamma)

    groupings = [("greedy", limit, greedy(gamma)) for limit, gamma in LIMITS.items()]
    groupings += [
        ("random order", limit, partial(group_in_random_order, size=SIZE, gamma=gamma, seed=seed))
        for limit, gamma in LIMITS.items()
        if limit != "none"
    ]
    groupings.append(("random groups", "none", partial(group_at_random, size=SIZE, seed=seed)))
    return [
        {"method": method, "limit": limit, **pack(model, data, grouping, seed)}
        for method, limit, grouping in groupings
    ]


def in_percent(table: pd.DataFrame) -> pd.DataFrame:
    """A table of packings with ``utilisation`` and ``lost`` in %."""
    return table.assign(utilisation=100 * table["utilisation"], lost=100 * table["lost"])


def bitmap_kb(matrix: Tensor) -> float:
    """kB of a matrix stored as a bitmap and its non-zeros (lab 00)."""
    return bitmap_bits(matrix) / 8e3


def count_packed_bits(weight: Tensor, groups: Sequence[Sequence[int]], bits: int = 32) -> int:
    """Bits of a matrix (R, C) packed in groups of at most :data:`SIZE` columns: in each
    cell a value and which of its group's columns that is, and the list of the groups.
    """
    rows, columns = weight.shape
    listed = sum(map(len, groups)) * math.ceil(math.log2(columns))
    return rows * len(groups) * (bits + math.ceil(math.log2(SIZE))) + listed


def joint(
    model: nn.Module,
    data: ImageData,
    seed: int,
    n_w: int,
    n_x: int,
    m: int,
    finetune: int,
    how: str = "by size",
) -> Row:
    """Weights n_w:m and the inputs of these layers n_x:m, trained on together.

    Args:
        how: one of :data:`CHOOSING`: both "by size"; both at "random", the activations
            anew in every pass; or both at random and "drawn once", so that every input
            loses the same places.

    Returns:
        ``accuracy``, and ``products``: the fraction of the layers' products with both
        factors other than 0, over the validation images.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw_mask(shape: tuple[int, ...]) -> Tensor:
        drawn = nm_activation(1 + torch.rand(shape, generator=generator), n_x, m) != 0
        return drawn.to(where)

    where = next(model.parameters()).device
    draw_once = cache(draw_mask)  # each layer's inputs have a shape of their own

    def rule(x: Tensor) -> Tensor:
        if how == "by size":
            return nm_activation(x, n_x, m)
        return x * (draw_mask(x.shape) if how == "random" else draw_once((1, *x.shape[1:])))

    masks = pattern_masks(model, "N:M" if how == "by size" else "N:M at random", n_w, m, seed)
    model = copy.deepcopy(model)
    with pruned_inputs(model, rule, LAYERS):
        fit(
            model, data.train, epochs=finetune, lr=0.05, seed=seed, masks=masks, **RECIPE
        )  # in place: the hooks are on it
        return {
            "accuracy": evaluate(model, data.validation),
            "products": measure_products(model, data.validation.images),
        }


def measure_products(model: nn.Module, images: Tensor) -> float:
    """The share of all products of :data:`LAYERS` (padding's included) in which both
    factors are other than 0.
    """
    there: list[Tensor] = []  # where the inputs are other than 0, a tensor per layer

    def note(x: Tensor) -> Tensor:
        there.append(x != 0)
        return x

    with pruned_inputs(model, note, LAYERS), evaluating(model), torch.no_grad():
        model(images)
    left = total = 0.0
    for name, x in zip(LAYERS, there, strict=True):
        conv: Any = model.get_submodule(name)
        output = conv._conv_forward(x.double(), conv.weight.ne(0).double(), None)
        left += float(output.sum())
        total += output.numel() * conv.weight[0].numel()
    return left / total


GATED = tuple(f"conv{i}->bn{i}" for i in range(1, 5))
NET_RATE = 1e-3  # of Adam, for the network's own weights: with gates and without
# so that gates are trained for many steps
SMALL_BATCHES: dict[str, Any] = {"batch_size": 16, "progress": False}


class GatedNet(nn.Module):
    """A network whose channels open and close.

    Args:
        macs: of each gated layer with everything open, for an image.
        by_image: False: the same gates with their weights held at 0, so that every
            image has the same channels.
        frozen: only the gates learn; batch norms keep their statistics.
    """

    def __init__(
        self,
        model: nn.Module,
        macs: Sequence[float],
        seed: int,
        by_image: bool = True,
        frozen: bool = True,
    ) -> None:
        super().__init__()
        self.net = copy.deepcopy(model).requires_grad_(not frozen)
        self.macs, self.frozen = macs, frozen
        self.decided: list[Tensor] = []
        self.gates = nn.ModuleList()
        generator = torch.Generator().manual_seed(seed)  # its own: threads share torch's
        for key in GATED:
            conv: Any = self.net.get_submodule(key.partition("->")[0])
            gate = ChannelGate(conv.in_channels, conv.out_channels)
            if by_image:
                nn.init.kaiming_uniform_(gate.score.weight, math.sqrt(5), generator=generator)
            else:
                # all alike they would all close together
                nn.init.uniform_(gate.score.bias, 0.5, 1.5, generator)
                nn.init.zeros_(gate.score.weight).requires_grad_(False)
            self.gates.append(gate.to(conv.weight.device))

    def train(self, mode: bool = True) -> GatedNet:
        super().train(mode)
        if self.frozen:
            self.net.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        gates: dict[str, Any] = dict(zip(GATED, self.gates, strict=True))
        with gating(self.net, gates) as latest:
            out: Tensor = self.net(x)
        self.decided = list(latest)
        return out


def count_dense_macs(model: nn.Module, data: ImageData) -> list[float]:
    """MACs of conv1 … conv4 for an image."""
    rows = model_cost(model, data.train.images[:1])
    return [float(row.macs) for row in rows if row.name.startswith("conv")]


def learn_gates(
    model: nn.Module,
    data: ImageData,
    seed: int,
    target: float,
    epochs: int,
    by_image: bool = True,
    frozen: bool = True,
) -> GatedNet:
    """Train the gates towards ``target`` of the dense MACs, and the network with them
    unless it is frozen.

    The target falls from 1 over the first 70 % of the steps: if it is there at once,
    its pull closes whole layers before the loss has a say.
    """
    gated = GatedNet(model, count_dense_macs(model, data), seed, by_image, frozen)
    groups: list[dict[str, Any]] = [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": lr}
        for part, lr in ((gated.gates, 0.01), (gated.net, NET_RATE))
    ]
    falling = max(1, round(0.7 * epochs * math.ceil(len(data.train.labels) / 16)))
    steps = itertools.count(1)

    def penalty() -> Tensor:
        now = 1 - (1 - target) * min(1.0, next(steps) / falling)
        return 10 * target_penalty(gated_macs(gated.decided, gated.macs), sum(gated.macs), now)

    fit(
        gated, data.train, epochs=epochs, seed=seed, penalty=penalty,
        optimizer=lambda _: torch.optim.Adam(groups), **SMALL_BATCHES,
    )  # fmt: skip
    return gated


def measure_gates(
    gated: GatedNet, data: ImageData, shuffled: int | None = None
) -> dict[str, float]:
    """Accuracy on the validation images and the mean share of the MACs; ``shuffled``:
    with every image's gates taken from another one.
    """
    images, labels = data.validation
    with evaluating(gated), torch.no_grad():
        logits = gated(images)
        share = float(gated_macs(gated.decided, gated.macs).mean() / sum(gated.macs))
        if shuffled is not None:
            order = torch.randperm(len(images), generator=torch.Generator().manual_seed(shuffled))
            with hold_gates(gated.net, [gate[order] for gate in gated.decided]):
                logits = gated.net(images)
    right = int((logits.argmax(1) == labels).count_nonzero())
    return {"accuracy": 100 * right / len(labels), "macs": share}


def hold_gates(net: nn.Module, gates: Sequence[Tensor]) -> AbstractContextManager[Any]:
    """Inside the block each layer's channels are multiplied by these gates, (B, M) or
    (1, M).
    """
    constant: dict[str, Any] = {
        key: lambda _, gate=gate: gate for key, gate in zip(GATED, gates, strict=True)
    }
    return gating(net, constant)


def choose_static_gates(
    model: nn.Module, macs: Sequence[float], target: float, seed: int | None = None
) -> tuple[list[Tensor], float]:
    """The channels of largest |α|, or random ones, the same share in each layer, so
    many that the MACs come closest to ``target``; (1, M) for each layer, and the share
    of the MACs.
    """
    score = scales(model)
    if seed is not None:
        score = random(score, torch.Generator().manual_seed(seed))
    choices = (
        [smallest(s, 1 - max(step / 100, 1 / len(s))).float()[None] for s in score.values()]
        for step in range(1, 100)
    )
    found = [(gates, float(gated_macs(gates, macs) / sum(macs))) for gates in choices]
    return min(found, key=lambda choice: abs(choice[1] - target))


def measure_static_channels(
    model: nn.Module, data: ImageData, target: float, seed: int | None = None
) -> list[Row]:
    """:func:`choose_static_gates` open for all images, nothing trained: as they are, and
    with batch norms recalibrated.
    """
    name = "largest |α|" if seed is None else "random"
    gates, share = choose_static_gates(model, count_dense_macs(model, data), target, seed)
    net = copy.deepcopy(model)
    with hold_gates(net, gates):
        pruned = evaluate(net, data.validation)
        recalibrate(net, data.train.images)
        repaired = evaluate(net, data.validation)
    return [
        {"method": name, "accuracy": pruned, "macs": share},
        {"method": f"{name}, recalibrated", "accuracy": repaired, "macs": share},
    ]


def gates_on_a_frozen_net(
    model: nn.Module, data: ImageData, seed: int, target: float, epochs: int
) -> list[Row]:
    """Gates by image, the same with another image's gates, gates that are the same for
    all images, and channels chosen without learning.

    Returns:
        Rows of ``method``, ``accuracy`` and ``macs``, the fraction that is computed.
    """
    dynamic = learn_gates(model, data, seed, target, epochs)
    static = learn_gates(model, data, seed, target, epochs, by_image=False)
    return [
        {"method": "dynamic", **measure_gates(dynamic, data)},
        {"method": "another image's gates", **measure_gates(dynamic, data, shuffled=seed)},
        {"method": "static, learned", **measure_gates(static, data)},
        *measure_static_channels(model, data, target),
        *measure_static_channels(model, data, target, seed),
    ]


def timed(functions: Mapping[str, Callable[[], Any]]) -> pd.DataFrame:
    """Rows of ``what`` and ``time`` of the processor, with that of the first function
    as 1.
    """
    with torch.no_grad():
        found = latency.compare(functions, repeats=10, threads=1)
    first = next(iter(found.values())).median
    return pd.DataFrame([{"what": name, "time": t.median / first} for name, t in found.items()])


def costs(
    models: Mapping[str, Sequence[nn.Module]],
    data: ImageData,
    nm_bits: Callable[[int, int, int, int], int],
    group_columns: Callable[[Tensor, int, float], list[list[int]]],
) -> pd.DataFrame:
    """What each method costs and keeps; this looks at the test images.

    Args:
        models: method ("dense", an n:m such as "2:4", or "columns, γ 0") -> a network per
            seed.
        nm_bits: bits of a matrix, of its rows, its columns, n and m.
        group_columns: the greedy rule, of a matrix, a size and γ.

    Returns:
        A row per method and seed: ``bits`` of the whole model (every tensor in the
        cheapest general format), and ``kb``; ``stored_kb`` of conv2 to conv4 as the method
        stores them; ``macs`` with a non-zero weight, and ``kmacs``; ``ms`` of the processor
        for 64 images (of seed 0); ``test`` accuracy.
    """

    def bits_of(method: str, weight: Tensor) -> int:
        if method == "dense":
            return 32 * weight.numel()
        if method.startswith("columns"):
            matrix = weight.flatten(1).cpu()
            return count_packed_bits(matrix, group_columns(matrix, SIZE, 0.0))
        n, m = map(int, method.split(":"))  # blocks along C
        return nm_bits(weight[:, 0].numel(), weight.shape[1], n, m)

    images, rows = data.validation.images, []
    first = {method: nets[0] for method, nets in models.items()}
    ms = common.costs(first, images[:1], images[:64], repeats=20).set_index("method")["ms"]
    for method, nets in models.items():
        for seed, net in enumerate(nets):
            bits = model_bits(net.state_dict())
            stored = sum(bits_of(method, weight) for weight in select_weights(net).values())
            rows.append({
                "seed": seed,
                "method": method,
                "bits": bits,
                "kb": bits / 8e3,
                "stored_kb": stored / 8e3,
                "macs": (macs := totals(model_cost(net, data.test.images[:1]))["nonzero_macs"]),
                "kmacs": macs / 1e3,
                "ms": math.nan if seed else ms[method],
                "test": evaluate(net, data.test),
            })  # fmt: skip
    return pd.DataFrame(rows)


def draw_pattern(
    model: nn.Module, table: pd.DataFrame, arm: str = "N:M", size: str = "1:8"
) -> Figure:
    """For the explorer: conv3's mask at one place of its kernels, and accuracy after each
    step.

    Args:
        table: the stored result, as :func:`patterns` gives it. arm: one of :data:`ARMS`.
        size: such as "1:8".
    """
    n, m = map(int, size.split(":"))
    rows = table[(table["method"] == arm) & (table["sparsity"] == 1 - n / m)]
    steps = rows.melt(
        ["seed", "method"], ["pruned", "recalibrated", "finetuned"], "step", "accuracy"
    )
    fig, (left, right) = plots.subplots(1, 2, 4.4)
    mask = pattern_masks(model, arm, n, m, 0)["conv3.weight"][:, :, 0, 0].cpu()
    left.imshow(mask, cmap="Blues", vmin=-0.2, vmax=1.2, aspect="auto")
    left.set(xticks=[], yticks=[], title="conv3: kept (dark)", ylabel=f"{len(mask)} filters")
    left.set_xlabel(f"{mask.shape[1]} channels, one place of the kernel")
    title = f"{arm}, {100 - 100 * n / m:g} % pruned"
    look: dict[str, Any] = {"ylim": (0, 105), "fmt": "{:.0f}", "constant": 10}
    plots.bars(steps, x="step", y="accuracy", ax=right, title=title, **look)
    return fig
