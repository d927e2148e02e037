"""Lab 04: batch norm folded, filters removed, network slimming, the causes of its collapse,
and rivals at equal MACs.

The student's own functions come in as arguments: ``fold_bn``, ``remove_filters``,
``cascade``. Accuracies are % of validation images, except where "test" is said.
``course remake lab04_slimming_digits`` and ``lab04_slimming_mnist`` make the stored results
again (``data/results/make/lab04_results.py``).

Source: Liu et al. 2017, "Learning Efficient Convolutional Networks through Network
Slimming"; trained from scratch: Liu et al. 2019, "Rethinking the Value of Network Pruning".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib import intervals
from course_lib.cost import latency, model_cost, totals
from course_lib.data.images import ImageData
from course_lib.experiments import common
from course_lib.models import SmallConvNet
from course_lib.parallel import sweep
from course_lib.pruning.channels import l1_filters, removal, select_channels, slimming
from course_lib.pruning.channels.groups import Group, channel_groups
from course_lib.pruning.weights import apply, global_masks, local_masks, magnitude, prunable
from course_lib.show import plots, tables
from course_lib.training import evaluate, fit

Keep = Mapping[str, Tensor]  # "bn1" -> bool (C,), True = kept
Cut = Callable[..., nn.Module]  # (model, keep, absorb=()) -> a smaller copy
# of every training
RECIPE: dict[str, Any] = {"optimizer": "sgd", "weight_decay": 1e-4, "schedule": "cosine"}
# lam, the weight of the penalty: so large that about 70 % of the scales end below 0.02
DIGITS: dict[str, Any] = {"images": 1097, "epochs": 20, "finetune": 5, "lam": 2e-2}
MNIST: dict[str, Any] = {"images": 6000, "epochs": 8, "finetune": 3, "lam": 1.5e-2}
FRACTION = 0.7  # of all channels, removed
LAYERS = (1, 2, 3, 4)
# what is repaired after the removal: the layers whose constants are absorbed, and whether
# batch norm is recalibrated
REPAIRS: dict[str, tuple[Sequence[int], bool]] = {
    "only removed": ((), False),
    "layer 4 absorbed": ((4,), False),
    "layers 1–3 absorbed": ((1, 2, 3), False),
    "all absorbed": (LAYERS, False),
    "recalibrated": ((), True),
    "layer 4 absorbed, recalibrated": ((4,), True),
    "both repairs": (LAYERS, True),
}


# ------------------------------------------------------------------ training, measuring
def train(
    model: nn.Module,
    data: ImageData,
    seed: int,
    *,
    epochs: int,
    lr: float = 0.2,
    penalty: Callable[[nn.Module], Tensor] | None = None,
    masks: Mapping[str, Tensor] | None = None,
) -> nn.Module:
    """Train in place on ``data.train``; ``penalty(model)`` is added to the loss, weights
    outside ``masks`` remain 0.
    """
    extra = None if penalty is None else (lambda: penalty(model))
    options = {**RECIPE, "penalty": extra, "masks": masks, "progress": False}
    fit(model, data.train, epochs=epochs, lr=lr, seed=seed, **options)
    return model


def trained(
    data: ImageData,
    seeds: int,
    epochs: int,
    penalty: Callable[[nn.Module], Tensor] | None = None,
) -> list[nn.Module]:
    """A convolutional network per seed, trained from scratch."""
    return common.trained(
        "convnet", data, seeds,
        lambda model, seed: train(model, data, seed, epochs=epochs, penalty=penalty),
    )  # fmt: skip


def macs(model: nn.Module, image: Tensor) -> int:
    """Multiply-accumulates for one image, (1, C, H, W)."""
    return int(totals(model_cost(model, image))["macs"])


def costs(models: Mapping[str, nn.Module], batch: Tensor, repeats: int = 80) -> pd.DataFrame:
    """The cost of networks; the first is the baseline of the ratios.

    Returns:
        The columns of :func:`.common.costs`, and how many times ``fewer`` MACs.
    """
    table = common.costs(models, batch[:1], batch, repeats=repeats)
    return table.assign(fewer=table["macs"].iloc[0] / table["macs"])


def draw_times(costs: pd.DataFrame, title: str, **options: Any) -> Figure:
    """How many times faster against how many times fewer MACs, of networks called
    "method, …", beside the line on which MACs are time; both axes logarithmic.
    """
    lines = costs.assign(method=costs["method"].str.split(",").str[0])
    ideal = lines.assign(method="if MACs were time", faster=lines["fewer"])
    both = pd.concat([lines[1:], ideal], ignore_index=True)
    labels: dict[str, Any] = {"xlabel": "times fewer MACs", "ylabel": "times faster, measured"}
    fig = plots.curves(
        both, x="fewer", y="faster", control=None, title=title, log=True, **labels, **options
    )
    powers = [2**k for k in range(1 + int(np.log2(costs["fewer"].max())))]
    (ax,) = fig.axes
    ax.set_xscale("log")
    ax.set_xticks(powers, powers)
    ax.set_yticks(powers, powers)
    ax.minorticks_off()
    return fig


# ------------------------------------------------------------------------- batch norm
def blocks(model: Any) -> list[tuple[int, Any, Any]]:
    """(1, conv1, bn1), (2, conv2, bn2), …"""
    numbers = range(1, model.depth + 1)
    return [(i, model.get_submodule(f"conv{i}"), model.get_submodule(f"bn{i}")) for i in numbers]


def fold_all(model: nn.Module, fold_bn: Callable[..., nn.Conv2d]) -> nn.Module:
    """A copy without batch norms, each folded into the convolution before it."""
    model = copy.deepcopy(model).eval()
    for i, conv, bn in blocks(model):
        setattr(model, f"conv{i}", fold_bn(conv, bn))
        setattr(model, f"bn{i}", nn.Identity())
    return model


@torch.no_grad()
def rounding(model: nn.Module, fold: Callable[[nn.Module], nn.Module], images: Tensor) -> None:
    """Say how far the outputs of ``fold(model)`` are from the model's, divided by the largest."""
    for dtype in (torch.float32, torch.float64):
        exact = copy.deepcopy(model).to(dtype).eval()
        y, z = exact(images.to(dtype)), fold(exact)(images.to(dtype))
        print(f"{dtype}: largest relative difference {(z - y).abs().max() / y.abs().max():.0e}")


def folding_times(pairs: Mapping[str, tuple[nn.Module, nn.Module, Tensor]]) -> pd.DataFrame:
    """Milliseconds of the processor for a network as trained and folded, taking turns;
    how many times faster it is (median over rounds), and the quartiles of this ratio.

    Args:
        pairs: name -> the network, the folded network, the images of one call.
    """
    rows = []
    for name, (model, folded, images) in pairs.items():
        jobs = {"as trained": common.forward_on_cpu(model, images)}
        jobs["folded"] = common.forward_on_cpu(folded, images)
        times = latency.compare(jobs, repeats=60 if isinstance(model, SmallConvNet) else 20)
        ratios = np.divide(times["as trained"].samples, times["folded"].samples)
        low, faster, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        row: dict[str, Any] = {"network": name}
        row |= {f"{how} (ms)": 1e3 * time.median for how, time in times.items()}
        rows.append(row | {"times faster": faster, "quartiles": f"{low:.2f} to {high:.2f}"})
    return pd.DataFrame(rows)


# ----------------------------------------------------------------------- filters removed
def as_conv(fc: nn.Linear) -> nn.Conv2d:
    """A linear layer as the 1×1 convolution that it is."""
    conv = nn.Conv2d(fc.in_features, fc.out_features, 1)
    conv.weight = nn.Parameter(fc.weight.detach()[:, :, None, None])
    conv.bias = nn.Parameter(fc.bias.detach().clone())
    return conv


def as_linear(conv: Any) -> nn.Linear:
    """The inverse of :func:`as_conv`."""
    fc = nn.Linear(conv.in_channels, conv.out_channels)
    fc.weight = nn.Parameter(conv.weight.detach()[:, :, 0, 0])
    fc.bias = nn.Parameter(conv.bias.detach())
    return fc


def cut(
    model: Any,
    keep: Keep,
    remove_filters: Callable[..., Any],
    cascade: Callable[..., Any],
    absorb: Sequence[int] = (),
) -> nn.Module:
    """A smaller copy, one layer after the other.

    Args:
        keep: of "bn1", "bn2", … the channels to keep.
        remove_filters: as in 4.2; called with the linear layer as a 1×1 convolution, too.
        cascade: as in 4.3; the shift of layer 4 goes into the last layer's bias. The other
            layers have no bias: there the running mean of the batch norm after them loses it.
        absorb: the layers whose constants are absorbed.
    """
    model = copy.deepcopy(model)
    for i in range(1, model.depth + 1):
        last = i == model.depth
        conv, bn = model.get_submodule(f"conv{i}"), model.get_submodule(f"bn{i}")
        after = as_conv(model.fc) if last else model.get_submodule(f"conv{i + 1}")
        kept = keep[f"bn{i}"].nonzero().flatten().tolist()
        smaller_conv, smaller_bn, smaller = remove_filters(conv, bn, after, kept)
        if i in absorb:
            _, shift = cascade(keep[f"bn{i}"], after.weight.detach(), bn.bias.detach())
            if last:
                smaller.bias.data += shift
            else:
                model.get_submodule(f"bn{i + 1}").running_mean -= shift
        setattr(model, f"conv{i}", smaller_conv)
        setattr(model, f"bn{i}", smaller_bn)
        setattr(model, "fc" if last else f"conv{i + 1}", as_linear(smaller) if last else smaller)
    return model


def larger_half(bn: Any) -> Tensor:
    """The half of the channels with the larger |α|: bool (C,)."""
    alpha = bn.weight.detach().abs()
    return alpha > alpha.median()


@torch.no_grad()
def border_errors(
    model: Any,
    remove_filters: Callable[..., Any],
    cascade: Callable[..., Any],
    images: Tensor,
    padding: str = "zeros",
) -> pd.DataFrame:
    """Half of layer 1 (the smaller |α|) is removed, with and without its constants
    absorbed: the error of conv2's output where it should be that with α = 0.

    Returns:
        Columns ``method``, ``row``, ``column``, ``error`` and ``size`` (mean |error| and
        mean |output| over images and filters at this position).
    """
    model = copy.deepcopy(model).eval()
    model.conv2.padding_mode = padding
    keep = larger_half(model.bn1)
    kept = keep.nonzero().flatten().tolist()
    layers = model.conv1, model.bn1, model.conv2

    def output(conv: Any, bn: Any, after: Any) -> Tensor:
        result: Tensor = after(torch.relu(bn(conv(images))))  # (B, M, E, F)
        return result

    expected = output(model.conv1, silence_channels(model, {"bn1": keep}).bn1, model.conv2)
    removed = output(*remove_filters(*layers, kept)) - expected
    _, shift = cascade(keep, model.conv2.weight.detach(), model.bn1.bias.detach())
    absorbed = removed + shift[:, None, None]
    rows = []
    for method, error in (("removed", removed), ("removed, constant absorbed", absorbed)):
        size, mean = expected.abs().mean((0, 1)), error.abs().mean((0, 1))  # (E, F)
        for i, j in np.ndindex(*mean.shape):
            place = {"method": method, "row": i + 1, "column": j + 1}
            rows.append(place | {"error": float(mean[i, j]), "size": float(size[i, j])})
    return pd.DataFrame(rows)


def draw_border(errors: pd.DataFrame) -> Figure:
    """Two maps of :func:`border_errors`."""
    maps = {}
    for method, part in errors.groupby("method", sort=False):
        exact = (part["error"] < 1e-5).sum()
        table = part.pivot(index="row", columns="column", values="error")
        maps[f"{method}\nzero at {exact} of {len(part)} places"] = table
    title = "What is left of the removed constants, place by place?"
    return plots.grid(maps, title=title, colour_label="mean |error| of conv2", fmt="{:.2f}")


def removed_filters(
    filters: int, channels: int, next_filters: int, removed: Sequence[int]
) -> Figure:
    """All that is removed with filters of layer i: their rows, their entries of batch norm,
    and the columns of the next layer. A cell of a weight is one 3 × 3 kernel, a map is 8 × 8.
    """
    keep = torch.ones(filters, dtype=torch.bool)
    keep[list(removed)] = False
    masks = {
        f"layer i: {filters} × {channels}": keep[:, None].expand(-1, channels),
        "batch norm: α, β, μ, σ²": keep[:, None].expand(-1, 4),
        f"layer i + 1: {next_filters} × {filters}": keep.expand(next_filters, -1),
    }
    gone, whole = len(removed) * (channels + next_filters), filters * (channels + next_filters)
    title = (
        f"Pruned: {9 * gone + 2 * len(removed)} of {9 * whole + 2 * filters} parameters,"
        f" {576 * gone:,} of {576 * whole:,} MACs"
    )
    return plots.grid(masks, title=title)


# ---------------------------------------------------------------------- which channels
def scales(model: nn.Module) -> Tensor:
    """All |α| of a network, (n,)."""
    return torch.cat(list(slimming.scales(model).values()))


def draw_scales(models: Mapping[str, Sequence[nn.Module]], title: str) -> Figure:
    """|α| of all channels of the networks of two methods, as two histograms."""
    alphas = {
        f"{name}, largest {max(float(scales(m).max()) for m in of_seeds):.2f}": torch.cat(
            [scales(m) for m in of_seeds]
        )
        for name, of_seeds in models.items()
    }
    label = "|α| of all channels"
    return plots.histograms(alphas, title=title, xlabel=label, ylabel="channels", bins=60)


def l2_penalty(model: nn.Module, lam: float) -> Tensor:
    """½λ·Σα²: at α = 1 it pulls as hard as λ·Σ|α|."""
    squares = [bn.weight.square().sum() for bn in model.modules() if isinstance(bn, nn.BatchNorm2d)]
    return lam / 2 * torch.stack(squares).sum()


def widths(keep: Keep) -> list[int]:
    """How many filters each layer keeps."""
    return [int(kept.sum()) for kept in keep.values()]


@torch.no_grad()
def silence_channels(model: Any, keep: Keep) -> Any:
    """A copy in which the scales of the channels that are not kept are 0; no channel is
    removed, and their constants are still there.
    """
    model = copy.deepcopy(model)
    for name, kept in keep.items():
        model.get_submodule(name).weight[~kept] = 0
    return model


@torch.no_grad()
def constants_left(model: Any, keep: Keep, cascade: Callable[..., Any]) -> pd.DataFrame:
    """Of each layer: how many channels are removed, how many of them leave a constant
    (β > 0), and the mean size of the shift of the next layer's kept sums, also divided by
    the standard deviation σ of the sum (batch norm's; none after layer 4).
    """
    rows = []
    for i, _, bn in blocks(model):
        last, removed = i == model.depth, ~keep[f"bn{i}"]
        after = as_conv(model.fc) if last else model.get_submodule(f"conv{i + 1}")
        _, shift = cascade(keep[f"bn{i}"], after.weight.detach(), bn.bias.detach())
        if not last:  # of the outputs that are kept
            kept, norm = keep[f"bn{i + 1}"], model.get_submodule(f"bn{i + 1}")
            shift, sigma = shift[kept], norm.running_var.sqrt()[kept]
        rows.append(
            {
                "layer": f"layer {i}",
                "removed": int(removed.sum()),
                "of these β > 0": int((bn.bias[removed] > 0).sum()),
                "mean |shift|": float(shift.abs().mean()),
                "in σ": np.nan if last else float((shift / sigma).abs().mean()),
            }
        )
    return pd.DataFrame(rows)


def repair(
    model: nn.Module, keep: Keep, cut: Cut, data: ImageData, how: str, images: int = 1024
) -> nn.Module:
    """The network without the other channels, repaired as :data:`REPAIRS` says ``how``; batch
    norm is measured again on ``images`` training images. No weight is trained.
    """
    layers, recalibrated = REPAIRS[how]
    smaller = cut(model, keep, absorb=layers)
    return common.recalibrated(smaller, data, images) if recalibrated else smaller


def tune(
    model: nn.Module,
    data: ImageData,
    seed: int,
    epochs: int,
    masks: Mapping[str, Tensor] | None = None,
) -> nn.Module:
    """A copy, outside ``masks`` 0, recalibrated and then fine-tuned for ``epochs``, if any."""
    model = copy.deepcopy(model)
    if masks is not None:
        apply(model, masks)
    model = common.recalibrated(model, data, 1024)
    return train(model, data, 100 + seed, epochs=epochs, lr=0.1, masks=masks) if epochs else model


def weights_at_macs(model: nn.Module, budget: int, image: Tensor) -> dict[str, Tensor]:
    """Masks of the largest weights of all layers together, as many as ``budget`` MACs allow."""
    weights = {name: weight.detach() for name, weight in prunable(model).items()}
    products = {  # per weight: the positions at which it is used
        f"{row.name}.weight": row.macs / weights[f"{row.name}.weight"].numel()
        for row in model_cost(model, image)
        if f"{row.name}.weight" in weights
    }
    score = magnitude(weights)
    low, high = 0.0, 1.0
    for _ in range(20):  # the share that is pruned, halved each time
        middle = (low + high) / 2
        masks = global_masks(score, middle)
        left = sum(products[name] * int(mask.sum()) for name, mask in masks.items())
        low, high = (low, middle) if left <= budget else (middle, high)
    return global_masks(score, high)


def stored(table: str) -> pd.DataFrame:
    """A table of the stored runs on the digits and on MNIST, with a column ``data``."""
    results = {name: f"lab04_slimming_{name.lower()}" for name in ("digits", "MNIST")}
    return common.read_all(results, table, "data")


def two_by_two(collapse: pd.DataFrame) -> tables.Table:
    """Accuracy by the layers whose constants are absorbed, and by recalibration."""
    absorbed = {(): "nothing", (4,): "layer 4", LAYERS: "all layers"}
    crossed = [how for how, (layers, _) in REPAIRS.items() if layers in absorbed]
    arms = collapse[collapse["repair"].isin(crossed)].copy()
    arms["absorbed"] = [absorbed[tuple(REPAIRS[how][0])] for how in arms["repair"]]
    done = {False: "as it was", True: "recalibrated"}
    arms["batch norm"] = [done[REPAIRS[how][1]] for how in arms["repair"]]
    return tables.means(arms, "accuracy", rows=["data", "absorbed"], columns="batch norm")


def draw_rivals(equal: pd.DataFrame) -> Figure:
    """Accuracy minus slimming's, of the networks of the same MACs at :data:`FRACTION`."""
    found = equal[equal["removed"] == FRACTION]
    ahead = intervals.differences(found, "accuracy", against="slimming", within=["data"])
    ahead = ahead[ahead["method"] != "slimming"]
    short = ahead["method"].str.replace(", ", ",\n").str.replace(" w", "\nw")
    title = f"Validation accuracy minus slimming's, {FRACTION:.0%} of the channels removed"
    return plots.bars(
        ahead.assign(method=short), x="method", y="accuracy", by="data", title=title,
        ylabel="difference (points)", difference=True, fmt="{:+.1f}",
    )  # fmt: skip


def at_three_sizes(
    dense: nn.Module, sparse: nn.Module, cut: Cut, image: Tensor
) -> dict[str, nn.Module]:
    """The dense network, and without a share of the channels or single weights of as many
    MACs, at three shares; not trained.
    """
    nets = {"dense": dense}
    for removed in (0.5, FRACTION, 0.8):
        small, zeros = cut(sparse, select_channels(sparse, removed)), copy.deepcopy(dense)
        apply(zeros, weights_at_macs(zeros, macs(small, image), image))
        nets |= {f"single weights, {removed:.0%}": zeros, f"slimming, {removed:.0%}": small}
    return nets


def halved(
    model: nn.Module, image: Tensor, groups: Sequence[Group] | None = None
) -> tuple[nn.Module, removal.Report]:
    """A copy without half of the channels of each group (None: of all that can be pruned):
    those with the smallest sums of filter norms; and the report of the removal.
    """
    if groups is None:
        groups = [group for group in channel_groups(model, image) if group.pinned is None]
    masks = local_masks(l1_filters(model, groups), 0.5)
    keep: dict[str, Tensor] = {}
    for group in groups:
        keep |= group.masks(masks[group.producers[0]])
    smaller, report = removal.remove_filters(model, keep, image)
    return smaller.eval(), report


# -------------------------------------------------------------------------- the explorer
def slimming_explorer(model: nn.Module, cut: Cut, data: ImageData) -> Callable[..., Figure]:
    """A function that draws, for a fraction removed and a repair, the scale of each channel,
    and accuracy against the MACs left.
    """
    dense = macs(model, data.validation.images[:1])

    def measure(how: str, removed: float) -> dict[str, float]:
        smaller = repair(model, select_channels(model, removed), cut, data, how)
        left = 100 * macs(smaller, data.validation.images[:1]) / dense
        return {"macs": left, "accuracy": evaluate(smaller, data.validation)}

    paths = sweep(measure, how=list(REPAIRS), removed=[k / 20 for k in range(20)])
    alphas = slimming.scales(model)

    def explore(fraction: float = 0.7, how: str = "only removed") -> Figure:
        keep, here = select_channels(model, fraction), measure(how, fraction)
        fig, (left, right) = plots.subplots(1, 2, 4.6, width_ratios=[1.25, 1])
        start, ticks = 0, {}
        for name, alpha in alphas.items():
            order = alpha.argsort()
            kept, x = keep[name][order].cpu(), start + torch.arange(len(alpha))
            for marker, colour, part in (("o", "slimming", kept), ("x", "random", ~kept)):
                dots = {"s": 14, "marker": marker, "color": plots.COLOURS[colour]}
                left.scatter(x[part], alpha[order].cpu()[part], **dots)
            ticks[start + len(alpha) / 2] = f"{name}\n{int(kept.sum())}/{len(alpha)}"
            start += len(alpha) + 10
        left.set_xticks(list(ticks), list(ticks.values()))
        left.set(ylabel="|α|", title="kept (dots), removed (crosses)")
        path = paths[paths["how"] == how]
        right.plot(path["macs"], path["accuracy"], color=plots.COLOURS["dense"], linewidth=1.2)
        dot = {"color": plots.COLOURS["slimming"], "markersize": 11}
        right.plot(here["macs"], here["accuracy"], "o", **dot)
        right.set(xlabel="MACs (% of dense)", ylabel="validation accuracy (%)", title=how)
        right.set(xlim=(102, -2), ylim=(0, 102))
        share = f"{here['macs']:.0f} % of the MACs"
        fig.suptitle(f"Accuracy {here['accuracy']:.1f} % with {share}, no weight trained")
        return fig

    return explore
