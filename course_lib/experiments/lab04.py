"""What lab 04 and its deck run: batch norm as a line, filters removed, network slimming,
and what the next layer loses.

The student's own functions come in as arguments: ``fold_bn``, ``remove_filters``,
``absorb_removed``, ``select_channels``, ``cascade``. Tables have one row per seed and
network. Longer runs of the slimming table are stored, and made again by
``data/results/make/lab04_results.py``.

Source: Liu et al. 2017, "Learning Efficient Convolutional Networks through Network
Slimming"; trained from scratch: Liu et al. 2019, "Rethinking the Value of Network
Pruning".
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

from course_lib import devices
from course_lib.cost import latency, model_cost, totals
from course_lib.data.images import ImageData
from course_lib.experiments import common
from course_lib.models import SmallConvNet
from course_lib.models.initial import weights_from
from course_lib.parallel import side_by_side, sweep
from course_lib.pruning.channels import l1_filters, removal, slimming
from course_lib.pruning.channels.groups import Group
from course_lib.pruning.weights import apply, local_masks, magnitude, prunable
from course_lib.show import plots
from course_lib.training import evaluate, fit

Keep = Mapping[str, Tensor]  # "bn1" -> bool (C,), True = kept
Cut = Callable[..., nn.Module]  # (model, keep, absorb=False) -> a smaller copy
# of every training
RECIPE: dict[str, Any] = {"optimizer": "sgd", "weight_decay": 1e-4, "schedule": "cosine"}
STEPS = ("pruned", "+ absorbed", "BN recalibrated", "fine-tuned")


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


def from_scratch(
    data: ImageData, widths: Sequence[Sequence[int]], epochs: int, first: int = 0
) -> list[nn.Module]:
    """A network of each of these widths, trained from scratch from weights that it does not
    share with others; seeds count from ``first``.
    """
    fresh = []
    for seed, filters in enumerate(widths, start=first):
        with weights_from(1000 + seed):
            net = SmallConvNet(data.shape[0], data.classes, filters)
        fresh.append((net.to(devices.current()), seed))
    return side_by_side(lambda model, seed: train(model, data, seed, epochs=epochs), fresh)


def list_networks(models: Sequence[nn.Module], **labels: str) -> pd.DataFrame:
    """Columns ``seed``, ``labels``, ``model``: one row per network."""
    return pd.DataFrame([{"seed": s, **labels, "model": m} for s, m in enumerate(models)])


def measured(networks: pd.DataFrame, data: ImageData, split: str = "validation") -> pd.DataFrame:
    """The table without its column ``model``, but with the ``accuracy`` (of
    ``split="test"``: ``test``) of each in %.
    """
    scores = [evaluate(model, getattr(data, split)) for model in networks["model"]]
    column = "test" if split == "test" else "accuracy"
    return networks.drop(columns="model").assign(**{column: scores})


def accuracies(
    models: Mapping[str, Sequence[nn.Module]], data: ImageData, split: str = "validation"
) -> pd.DataFrame:
    """:func:`measured` of networks by method, a list over seeds each."""
    networks = [list_networks(of_seeds, method=method) for method, of_seeds in models.items()]
    return measured(joined(*networks), data, split)


def pick(networks: pd.DataFrame, **labels: Any) -> list[nn.Module]:
    """The networks of the rows with these entries, in their order."""
    for column, entry in labels.items():
        networks = networks[networks[column] == entry]
    return list(networks["model"])


def joined(*tables: pd.DataFrame) -> pd.DataFrame:
    """All rows of several tables; a column that one of them lacks is NaN there."""
    return pd.concat(tables, ignore_index=True)


def parameters(model: nn.Module) -> int:
    """How many parameters a network has."""
    return sum(parameter.numel() for parameter in model.parameters())


def macs(model: nn.Module, image: Tensor) -> int:
    """Multiply-accumulates for one image, (1, C, H, W)."""
    return int(totals(model_cost(model, image))["macs"])


def share_left(smaller: nn.Module, model: nn.Module, image: Tensor) -> str:
    """ "25% of the MACs and 26% of the parameters"."""
    products = macs(smaller, image) / macs(model, image)
    return (
        f"**{products:.0%}** of the MACs and"
        f" {parameters(smaller) / parameters(model):.0%} of the parameters"
    )


def macs_by_layer(models: Mapping[str, nn.Module], image: Tensor) -> pd.DataFrame:
    """Columns ``network``, ``layer``, ``macs``: thousands for one image."""
    return pd.DataFrame(
        {"network": name, "layer": cost.name, "macs": cost.macs / 1e3}
        for name, model in models.items()
        for cost in model_cost(model, image)
    )


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
    fig = plots.curves(
        joined(lines[1:], ideal), x="fewer", y="faster", control=None, title=title,
        xlabel="times fewer MACs", ylabel="times faster, measured", log=True, **options,
    )  # fmt: skip
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


@torch.no_grad()
def line_errors(scale_shift: Callable[..., Any], norms: Mapping[str, Any]) -> pd.DataFrame:
    """The largest error of p · x + q on random maps, and of a version whose p divides by
    σ² + ε without the root; by batch norm.
    """
    rows = []
    for name, bn in norms.items():
        x = torch.randn(64, 32, 8, 8, generator=torch.Generator().manual_seed(0))  # (B, C, H, W)
        x = x.to(bn.weight.device)
        y = bn.eval()(x)
        p, q = scale_shift(bn)
        slip = bn.weight / (bn.running_var + bn.eps)
        lines = {
            "y = p·x + q": (p, q),
            "without the root": (slip, bn.bias - slip * bn.running_mean),
        }
        row: dict[str, Any] = {"batch norm": name}
        for how, (scale, shift) in lines.items():
            line = scale[:, None, None] * x + shift[:, None, None]
            row[f"{how}, largest error"] = float((line - y).abs().max())
        rows.append(row)
    return pd.DataFrame(rows)


def fold_all(model: nn.Module, fold_bn: Callable[..., nn.Conv2d]) -> nn.Module:
    """A copy without batch norms, each folded into the convolution before it."""
    model = copy.deepcopy(model).eval()
    for i, conv, bn in blocks(model):
        setattr(model, f"conv{i}", fold_bn(conv, bn))
        setattr(model, f"bn{i}", nn.Identity())
    return model


@torch.no_grad()
def folding_errors(
    model: nn.Module, fold: Callable[[nn.Module], nn.Module], images: Tensor
) -> pd.DataFrame:
    """How far the outputs of ``fold(model)`` are from those of the model, in float32 and in
    float64.
    """
    rows = []
    for dtype in (torch.float32, torch.float64):
        exact = copy.deepcopy(model).to(dtype).eval()
        y, z = exact(images.to(dtype)), fold(exact)(images.to(dtype))
        apart, largest = float((z - y).abs().max()), float(y.abs().max())
        rows.append(
            {
                "numbers": str(dtype).removeprefix("torch."),
                "largest output": largest,
                "largest difference": apart,
                "relative": apart / largest,
            }
        )
    return pd.DataFrame(rows)


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


@torch.no_grad()
def multiply_filters(model: Any, factor: float, eps: bool = False) -> Any:
    """A copy whose filters are ``factor`` times larger, with statistics that follow as they
    would in training; with ``eps`` ε is scaled as σ² is.
    """
    model = copy.deepcopy(model)
    for _, conv, bn in blocks(model):
        conv.weight.mul_(factor)
        bn.running_mean.mul_(factor)
        bn.running_var.mul_(factor**2)
        bn.eps *= factor**2 if eps else 1
    return model


@torch.no_grad()
def penalties(
    model: Any, scale_shift: Callable[..., Any], images: Tensor, factor: float = 10
) -> pd.DataFrame:
    """Σ|α| and Σ|p| as trained and with all filters multiplied, and the largest difference
    of the outputs from those as trained.
    """
    networks = {
        "as trained": model,
        f"all filters × {factor:g}, ε × {factor**2:g}": multiply_filters(model, factor, eps=True),
        f"all filters × {factor:g}, the same ε": multiply_filters(model, factor),
    }
    before = model.eval()(images)
    rows = []
    for name, network in networks.items():
        norms = [bn for _, _, bn in blocks(network)]
        rows.append(
            {
                "network": name,
                "Σ|α|": sum(float(bn.weight.abs().sum()) for bn in norms),
                "Σ|p|": sum(float(scale_shift(bn)[0].abs().sum()) for bn in norms),
                "difference": float((network.eval()(images) - before).abs().max()),
            }
        )
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
    absorb_removed: Callable[..., Tensor] | None = None,
) -> nn.Module:
    """A smaller copy, one layer after the other.

    Args:
        keep: of "bn1", "bn2", … the channels to keep.
        remove_filters: as in 4.3; called with the linear layer as a 1×1 convolution, too.
        absorb_removed: as in 4.4; its shift goes into the last layer's bias. The other
            layers have no bias: there the running mean of the batch norm after them loses
            it. None: constants are not absorbed.
    """
    model = copy.deepcopy(model)
    for i in range(1, model.depth + 1):
        last = i == model.depth
        after = as_conv(model.fc) if last else model.get_submodule(f"conv{i + 1}")
        layers = model.get_submodule(f"conv{i}"), model.get_submodule(f"bn{i}"), after
        kept = keep[f"bn{i}"].nonzero().flatten().tolist()
        conv, bn, smaller = remove_filters(*layers, kept)
        if absorb_removed and last:
            smaller.bias.data += absorb_removed(*layers, kept)
        elif absorb_removed:
            model.get_submodule(f"bn{i + 1}").running_mean -= absorb_removed(*layers, kept)
        setattr(model, f"conv{i}", conv)
        setattr(model, f"bn{i}", bn)
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
    absorb_removed: Callable[..., Tensor],
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
    absorbed = removed + absorb_removed(*layers, kept)[:, None, None]
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


# ---------------------------------------------------------------------- which channels
def scales(model: nn.Module) -> Tensor:
    """All |α| of a network, (n,)."""
    return torch.cat(list(slimming.scales(model).values()))


def scale_table(models: Mapping[str, Sequence[nn.Module]], data: ImageData) -> pd.DataFrame:
    """Columns ``seed``, ``method``, ``accuracy``, the share of channels with |α| < 0.02, and
    the largest |α|.
    """
    every = [scales(model) for of_seeds in models.values() for model in of_seeds]
    table = accuracies(models, data)
    table["near zero (%)"] = [100 * float((alpha < 0.02).float().mean()) for alpha in every]
    table["largest |α|"] = [float(alpha.max()) for alpha in every]
    return table


def draw_scales(models: Mapping[str, Sequence[nn.Module]], title: str) -> Figure:
    """|α| of all channels of the networks of two methods, as two histograms."""
    alphas = {
        f"{name}, largest {max(float(scales(m).max()) for m in of_seeds):.2f}": torch.cat(
            [scales(m) for m in of_seeds]
        )
        for name, of_seeds in models.items()
    }
    label = "|α|, all channels of all networks"
    return plots.histograms(alphas, title=title, xlabel=label, ylabel="channels", bins=60)


def cascade(filters: int, channels: int, next_filters: int, removed: Sequence[int]) -> Figure:
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


def l2_penalty(model: nn.Module, lam: float) -> Tensor:
    """½λ·Σα²: at α = 1 it pulls as hard as λ·Σ|α|."""
    squares = [bn.weight.square().sum() for bn in model.modules() if isinstance(bn, nn.BatchNorm2d)]
    return lam / 2 * torch.stack(squares).sum()


def kept_by_layer(keeps: Sequence[Keep]) -> pd.DataFrame:
    """Columns ``seed``, ``layer``, ``filters`` and ``kept`` (% of the layer's channels)."""
    return pd.DataFrame(
        {
            "seed": seed,
            "layer": f"layer {name.removeprefix('bn')}",
            "filters": int(kept.sum()),
            "kept": 100 * float(kept.float().mean()),
        }
        for seed, keep in enumerate(keeps)
        for name, kept in keep.items()
    )


def widths(keep: Keep) -> list[int]:
    """How many filters each layer keeps."""
    return [int(kept.sum()) for kept in keep.values()]


def constants_left(models: Sequence[Any], keeps: Sequence[Keep]) -> pd.DataFrame:
    """Of each layer: how many channels are removed in all networks together, how many of
    them leave a constant (β > 0), and its mean.
    """
    rows = []
    for name in keeps[0]:
        pairs = zip(models, keeps, strict=True)
        beta = torch.cat([m.get_submodule(name).bias.detach()[~keep[name]] for m, keep in pairs])
        rows.append(
            {"layer": f"layer {name.removeprefix('bn')}", "removed": len(beta),
             "of these β > 0": int((beta > 0).sum()),
             "mean of max(β, 0)": float(beta.relu().mean())}
        )  # fmt: skip
    return pd.DataFrame(rows)


@torch.no_grad()
def silence_channels(model: Any, keep: Keep) -> Any:
    """A copy in which the scales of the channels that are not kept are 0; no channel is
    removed, and their constants are still there.
    """
    model = copy.deepcopy(model)
    for name, kept in keep.items():
        model.get_submodule(name).weight[~kept] = 0
    return model


def draw_scores(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """A random score per channel, (C,), by batch norm."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.rand(len(alpha), generator=generator)
        for name, alpha in slimming.scales(model).items()
    }


def largest_filters(model: nn.Module, keep: Keep) -> dict[str, Tensor]:
    """As many channels of each layer as ``keep`` keeps: those of the filters with the
    largest L1 norms.
    """
    removed = {name: 1 - float(kept.double().mean()) for name, kept in keep.items()}
    return local_masks(slimming.filter_norms(model), removed)


def random_channels(keep: Keep, seed: int) -> dict[str, Tensor]:
    """As many channels of each layer as ``keep`` keeps, chosen at random."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: kept[torch.randperm(len(kept), generator=generator)] for name, kept in keep.items()
    }


def prune_in_steps(
    model: nn.Module,
    keep: Keep,
    cut: Cut,
    data: ImageData,
    seed: int,
    epochs: int,
    images: int = 512,
) -> dict[str, nn.Module]:
    """The network after each of :data:`STEPS`: pruned, its constants absorbed, batch norm
    measured again on ``images`` training images, and fine-tuned for ``epochs``.
    """
    absorbed = cut(model, keep, absorb=True)
    repaired = common.recalibrated(absorbed, data, images)
    tuned = train(copy.deepcopy(repaired), data, seed, epochs=epochs, lr=0.1)
    return dict(zip(STEPS, (cut(model, keep), absorbed, repaired, tuned), strict=True))


def slimming_steps(
    dense: Sequence[nn.Module],
    sparse: Sequence[nn.Module],
    chosen: Mapping[str, Sequence[Keep]],
    cut: Cut,
    data: ImageData,
    settings: Mapping[str, Any],
) -> pd.DataFrame:
    """The networks of the slimming table, one row each.

    Args:
        dense, sparse: trained without and with the penalty, by seed.
        chosen: method ("slimming" first) -> the channels kept, by seed.
        cut: see :func:`cut`. settings: ``epochs`` from scratch, ``finetune``.

    Returns:
        Columns ``seed``, ``method``, ``step``, ``model``.
    """

    def run(method: str, seed: int) -> list[dict[str, Any]]:
        keep, epochs = chosen[method][seed], settings["finetune"]
        found = prune_in_steps(sparse[seed], keep, cut, data, 100 + seed, epochs)
        return [{"step": step, "model": model} for step, model in found.items()]

    keeps = chosen["slimming"]
    silent = [silence_channels(m, keep) for m, keep in zip(sparse, keeps, strict=True)]
    scratch = from_scratch(data, [widths(keep) for keep in keeps], settings["epochs"])
    return joined(
        list_networks(dense, method="slimming", step="dense"),
        list_networks(sparse, method="slimming", step="sparse-trained"),
        list_networks(silent, method="slimming", step="silenced"),
        sweep(run, method=chosen, seed=range(len(sparse))),
        list_networks(scratch, method="slimming", step="from scratch"),
    )


def which_score(
    dense: Sequence[nn.Module],
    sparse: Sequence[nn.Module],
    select_channels: Callable[..., Keep],
    cut: Cut,
    data: ImageData,
    fractions: Sequence[float],
) -> pd.DataFrame:
    """Four ways to choose channels; constants absorbed, batch norm measured again, no
    weight trained. "slimming" and "α, dense" rank the channels of all layers by |α|, with
    and without the training for it; "filter L1" and "random" rank those of each layer.

    Returns:
        Columns ``method``, ``seed``, ``removed``, ``accuracy``; "dense" removes none (NaN).
    """
    # before the threads: a model cannot be traced in several at a time
    scores = {
        "filter L1": [slimming.filter_norms(model) for model in dense],
        "random": [draw_scores(model, seed) for seed, model in enumerate(dense)],
    }

    def run(method: str, seed: int, removed: float) -> float:
        model = sparse[seed] if method == "slimming" else dense[seed]
        if method in scores:
            keep: Keep = local_masks(scores[method][seed], removed)
        else:
            keep = select_channels(model, removed)
        return evaluate(common.recalibrated(cut(model, keep, absorb=True), data), data.validation)

    methods = ("slimming", "α, dense", *scores)
    found = sweep(run, method=methods, seed=range(len(dense)), removed=fractions)
    return joined(found, accuracies({"dense": dense}, data))


def given_back(results: pd.DataFrame) -> pd.DataFrame:
    """Of the points of accuracy that removing channels cost slimming, the share that each
    later step gives back (ratio of means over seeds), per entry of ``data``, if there is
    that column.
    """
    slim = results[results["method"] == "slimming"]
    rows = []
    for name, part in slim.groupby("data", sort=False) if "data" in slim else [("", slim)]:
        mean = part.groupby("step")["accuracy"].mean()
        lost = mean["sparse-trained"] - mean["pruned"]
        shares = {step: (mean[step] - mean["pruned"]) / lost for step in STEPS[1:]}
        rows.append(({"data": name} if name else {}) | {"of the lost points": "come back"} | shares)
    return pd.DataFrame(rows)


def stored(table: str = "accuracy") -> pd.DataFrame:
    """A table of the stored runs on the digits (six seeds) and on MNIST (three), with a
    column ``data``.
    """
    results = {name: f"lab04_slimming_{name.lower()}" for name in ("digits", "MNIST")}
    return common.read_all(results, table, "data")


# ------------------------------------------------------------------------ the next layer
def who_takes(
    models: Sequence[Any], keeps: Sequence[Keep], cascade: Callable[..., Any]
) -> pd.DataFrame:
    """Why the weights of each layer are removed, when these channels are kept.

    Returns:
        Columns ``seed``, ``layer`` (a convolution, or "all"), ``reason`` ("own filter out",
        "cascade alone", "left") and ``share`` (% of the layer's weights).
    """
    reasons = ("own filter out", "cascade alone", "left")
    rows = []
    for seed, (model, keep) in enumerate(zip(models, keeps, strict=True)):
        counts: dict[str, Any] = {}
        for i, conv, _ in blocks(model):
            weight = conv.weight.detach()  # (M, C, R, S)
            inputs = keep[f"bn{i - 1}"] if i > 1 else torch.ones_like(weight[0, :, 0, 0]) > 0
            useful, _ = cascade(inputs, weight)
            own = keep[f"bn{i}"][:, None, None, None].expand_as(weight)
            parts = (~own, own & ~useful, own & useful)
            counts[f"conv{i}"] = np.array([int(part.sum()) for part in parts])
        counts["all"] = sum(counts.values())
        for layer, count in counts.items():
            for reason, share in zip(reasons, 100 * count / count.sum(), strict=True):
                rows.append({"seed": seed, "layer": layer, "reason": reason, "share": share})
    return pd.DataFrame(rows)


def match_sizes(slim: nn.Module, model: nn.Module) -> dict[str, Tensor]:
    """Masks of the largest weights of ``model``: in each layer as many as ``slim`` has, so
    that the MACs are equal, too.
    """
    sizes = {name: weight.numel() for name, weight in prunable(slim).items()}
    weights = prunable(model)
    return local_masks(
        magnitude(weights), {name: 1 - sizes[name] / w.numel() for name, w in weights.items()}
    )


def at_equal_macs(
    dense: Sequence[nn.Module],
    sparse: Sequence[nn.Module],
    slim: Mapping[float, Sequence[nn.Module]],
    select_channels: Callable[..., Keep],
    cut: Cut,
    fractions: Sequence[float],
    data: ImageData,
    epochs: int,
) -> pd.DataFrame:
    """Three ways to the same MACs, each recalibrated and fine-tuned for ``epochs``:
    channels of ``sparse`` that ``select_channels`` chooses ("structured"), as many random
    channels of ``dense``, and single weights of ``dense`` ("unstructured").

    Args:
        slim: fraction removed -> the structured networks that are fine-tuned already.

    Returns:
        Columns ``removed``, ``seed``, ``method``, ``model`` and ``remaining`` (MACs left, a
        fraction; the mean of the structured networks).
    """

    def tune(model: nn.Module, seed: int, masks: Any = None) -> nn.Module:
        if masks is not None:
            model = copy.deepcopy(model)
            apply(model, masks)
        model = common.recalibrated(model, data)
        return train(model, data, 100 + seed, epochs=epochs, lr=0.1, masks=masks)

    def run(removed: float, seed: int) -> list[dict[str, Any]]:
        keep = select_channels(sparse[seed], removed)
        structured = slim[removed][seed] if removed in slim else tune(cut(sparse[seed], keep), seed)
        left = macs(structured, image) / macs(dense[seed], image)
        found = {
            "structured": structured,
            "unstructured": tune(dense[seed], seed, match_sizes(structured, dense[seed])),
            "random": tune(cut(dense[seed], random_channels(keep, seed)), seed),
        }
        return [{"method": how, "model": m, "remaining": left} for how, m in found.items()]

    image = data.validation.images[:1]
    table = sweep(run, removed=fractions, seed=range(len(dense)))
    return table.assign(remaining=table.groupby("removed")["remaining"].transform("mean"))


def halved(
    model: nn.Module, groups: Sequence[Group], image: Tensor
) -> tuple[nn.Module, removal.Report]:
    """A copy without half of the channels of each group: those with the smallest sums of
    filter norms; and the report of the removal.
    """
    masks = local_masks(l1_filters(model, groups), 0.5)
    keep: dict[str, Tensor] = {}
    for group in groups:
        keep |= group.masks(masks[group.producers[0]])
    smaller, report = removal.remove_filters(model, keep, image)
    return smaller.eval(), report


# -------------------------------------------------------------------------- the explorer
REPAIRS = ["pruned", "+ absorbed", "BN recalibrated"]


def slimming_explorer(
    model: nn.Module, select_channels: Callable[..., Keep], cut: Cut, data: ImageData
) -> Callable[..., Figure]:
    """A function that draws, for a fraction removed and a repair, the scale of each channel,
    and accuracy against the MACs left.
    """
    whole = macs(model, data.validation.images[:1])

    def measure(repair: str, removed: float) -> dict[str, float]:
        smaller = cut(model, select_channels(model, removed), absorb=repair != "pruned")
        smaller = common.recalibrated(smaller, data) if repair == "BN recalibrated" else smaller
        left = 100 * macs(smaller, data.validation.images[:1]) / whole
        return {"macs": left, "accuracy": evaluate(smaller, data.validation)}

    paths = sweep(measure, repair=REPAIRS, removed=[k / 20 for k in range(20)])

    alphas = slimming.scales(model)
    everything = scales(model).sort().values
    before = evaluate(model, data.validation)

    def explore(fraction: float = 0.7, repair: str = "pruned") -> Figure:
        keep, here = select_channels(model, fraction), measure(repair, fraction)
        removed = round(fraction * len(everything))
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
        if removed:
            left.axhline(float(everything[removed - 1]), color="k", linewidth=1)
        left.set_xticks(list(ticks), list(ticks.values()))
        left.set(ylabel="|α|", title="kept (dots), removed (crosses)")
        path, blue = paths[paths["repair"] == repair], plots.COLOURS["slimming"]
        right.plot(path["macs"], path["accuracy"], color=plots.COLOURS["dense"], linewidth=1.2)
        right.plot(here["macs"], here["accuracy"], "o", color=blue, markersize=11)
        right.set(xlabel="MACs (% of dense)", ylabel="validation accuracy (%)", title=repair)
        right.set(xlim=(102, -2), ylim=(0, 102))
        fig.suptitle(
            f"Accuracy {here['accuracy']:.1f} % with {here['macs']:.0f} % of the MACs (before"
            f" pruning {before:.1f} %)"
        )
        return fig

    return explore
