"""Lab 11: the steps that compress the two given models, and what the course's own
pipelines of such steps reached (``data/results/make/lab11_results.py`` runs them).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import experiments
from course_lib.capstone.measured import LEVELS, digits
from course_lib.data import images, pieces, reviews
from course_lib.experiments import common
from course_lib.experiments.lab07 import losses
from course_lib.models import checkpoints
from course_lib.pruning import weights
from course_lib.pruning.channels import remove_filters, select_channels
from course_lib.pruning.channels.slimming import penalty
from course_lib.pruning.heads import head_importance, lowest_heads, remove_heads
from course_lib.pruning.layers import ffn_importance, slice_ffn
from course_lib.show import plots
from course_lib.training import Batch, fit, warm_up_then_decay

NORMS = ("bn1", "bn2", "bn3", "bn4")
CNN: dict[str, Any] = {"lr": 2e-3, "batch_size": 64, "lam": 1e-2}
BERT: dict[str, Any] = {"texts": 8000, "batch": 32, "lr": 5e-4, "scores": 300}


# ---------------------------------------------------------------- the convolutional net


def tuned(
    model: nn.Module,
    seed: int,
    epochs: int,
    lam: float = 0.0,
    masks: Mapping[str, Tensor] | None = None,
) -> nn.Module:
    """Train on digits that are distorted in another way in every epoch, in place; in
    evaluation mode.
    """
    split = images.distorted(digits().train, torch.Generator().manual_seed(1000 + seed), epochs)
    fit(
        model,
        split,
        epochs=1,
        lr=CNN["lr"],
        batch_size=CNN["batch_size"],
        seed=seed,
        schedule="cosine",
        masks=masks,
        penalty=(lambda: penalty(model, lam)) if lam else None,
        progress=False,
    )
    return model.eval()


def slimmed(
    model: nn.Module,
    shares: Sequence[float],
    seed: int,
    sparse_epochs: int = 16,
    epochs: int = 24,
    at_random: bool = False,
) -> nn.Module:
    """Network slimming (lab 04) of a trained net: L1 on the scales, then in each layer
    this share of the channels goes, then training.

    Args:
        at_random: as many of each layer are drawn instead, of the net as it came.
    """
    keep: dict[str, Tensor] = {}
    if at_random:
        sparse = copy.deepcopy(model)
        generator = torch.Generator().manual_seed(seed)
        for norm, share in zip(NORMS, shares, strict=True):
            kept = select_channels(sparse, share, names=[norm])[norm]
            keep[norm] = kept[torch.randperm(len(kept), generator=generator)]
    else:
        sparse = tuned(copy.deepcopy(model), seed, sparse_epochs, lam=CNN["lam"])
        for norm, share in zip(NORMS, shares, strict=True):
            keep |= select_channels(sparse, share, names=[norm])
    smaller, _ = remove_filters(sparse, keep, digits().train.images[:1])
    return tuned(smaller, seed, epochs)


def thinned(
    model: nn.Module, targets: Sequence[float], epochs: Sequence[int], seed: int
) -> nn.Module:
    """Magnitude pruning of all layers together, to each target in turn, with training
    behind each.
    """
    model = copy.deepcopy(model)
    for target, some in zip(targets, epochs, strict=True):
        masks = weights.global_masks(weights.magnitude(weights.prunable(model)), target)
        tuned(model, seed, some, masks=masks)
    return model


# --------------------------------------------------------------------------------- BERT


@cache
def texts(seed: int = 50) -> Any:
    """Reviews of a draw of our own, "train" and "validation": as many as one likes may
    be drawn.
    """
    tokenizer = checkpoints.load("reviews-bert-0").tokenizer
    return pieces.encode(reviews.load(BERT["texts"], 500, 10, seed=seed), tokenizer)


def taught(teacher: nn.Module, temperature: float = 2.0) -> Callable[[nn.Module, Batch], Tensor]:
    """A loss by which a narrower model learns from the given one: its softened answers,
    its states behind every layer, and the labels.

    Source: Hinton, Vinyals & Dean 2015, "Distilling the Knowledge in a Neural Network";
    states: Jiao et al. 2020, "TinyBERT", equation 8.
    """
    teacher = copy.deepcopy(teacher).eval()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        with torch.no_grad():
            right = teacher(**inputs, output_hidden_states=True)
        found = model(**inputs, output_hidden_states=True)
        soft = F.kl_div(
            (found.logits / temperature).log_softmax(1),
            (right.logits / temperature).softmax(1),
            reduction="batchmean",
        )
        real = batch["attention_mask"][..., None].to(found.logits.dtype)  # (B, L, 1)
        apart: Tensor = sum(
            ((a - b).square() * real).sum() / real.sum() / a.shape[-1]
            for a, b in zip(found.hidden_states[1:], right.hidden_states[1:], strict=True)
        )
        return temperature**2 * soft + F.cross_entropy(found.logits, batch["labels"]) / 2 + apart

    return loss


def trained(
    model: nn.Module,
    steps: int,
    seed: int,
    loss: Callable[[nn.Module, Batch], Tensor] | None = None,
    post_step: Callable[[], None] | None = None,
) -> nn.Module:
    """Fine-tune in place; in evaluation mode."""
    rate = warm_up_then_decay(20, decay_from=steps // 3)
    options: dict[str, Any] = {"loss": loss, "post_step": post_step, "rate": rate}
    how = {**BERT, "steps": steps}
    common.fine_tune(model, texts()["train"], "sentiment", seed, how, **options)
    return model.eval()


def narrowed(model: nn.Module, heads: float, neurons: float, seed: int | None = None) -> nn.Module:
    """Without this share of the heads and of the feed-forward neurons, the lowest by
    the loss's gradient by a gate; or at random.

    Args:
        seed: draws them; None: by importance.
    """
    some = pieces.batches(texts()["train"].select(range(BERT["scores"])), "sentiment", 50)
    batches = list(some)
    of_heads = head_importance(model, batches, losses)
    of_neurons = ffn_importance(model, batches, losses)
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        of_heads = torch.rand(of_heads.shape, generator=generator)
        of_neurons = [torch.rand(len(each), generator=generator) for each in of_neurons]
    kept = lowest_heads(of_heads, round(heads * of_heads.numel()), min_per_layer=1)
    together = torch.cat(of_neurons)
    stays = torch.ones(len(together), dtype=torch.bool)
    stays[together.argsort()[: round(neurons * len(together))]] = False
    parts = [
        part | (each == each.max())
        for part, each in zip(stays.split(list(map(len, of_neurons))), of_neurons, strict=True)
    ]
    return slice_ffn(remove_heads(model, kept), parts)


def faded(
    model: nn.Module,
    target: float,
    steps: int,
    seed: int,
    loss: Callable[[nn.Module, Batch], Tensor] | None = None,
) -> nn.Module:
    """Magnitude pruning of all matrices and the word embeddings together on Zhu and
    Gupta's cubic, while a copy is trained.
    """
    model = copy.deepcopy(model)
    large = {name: p for name, p in weights.prunable(model).items() if p.numel() > 2000}
    # every tenth step, for the first 70 %
    shares = weights.cubic(target, max(1, round(0.07 * steps)))
    masks: dict[str, Tensor] = {}
    done = 0

    def post_step() -> None:
        nonlocal masks, done
        if done % 10 == 0 and done // 10 < len(shares):
            masks = weights.global_masks(weights.magnitude(large), shares[done // 10])
        done += 1
        weights.apply(model, masks)

    return trained(model, steps, seed, loss, post_step)


# ------------------------------------------------------------------ results of pipelines

MODELS = {"cnn": "convolutional net", "bert": "BERT"}


def levels() -> pd.DataFrame:
    """The levels of 11.4 and 11.5; all four limits count at once."""
    return pd.DataFrame(
        {
            "level: all at once": f"{name} {number}",
            "points": f"{level.points:g}",
            "storage": f"≤ {level.storage:.0%}",
            "products": f"≤ {level.macs:.0%}",
            "times faster": f"≥ {level.faster:g}",
            "accuracy lost": f"≤ {level.drop:g} points",
        }
        for model, name in MODELS.items()
        for number, level in enumerate(LEVELS[model], start=1)
    )


def parts_of_bert(
    state: Mapping[str, Tensor], model_bits: Callable[[dict[str, Tensor]], int]
) -> pd.DataFrame:
    """Columns ``part``, ``numbers``, and ``percent`` of the bits, by ``model_bits``."""

    def part(name: str, x: Tensor) -> str:
        if x.ndim < 2:
            return "biases and norms"
        if "embeddings" in name:
            return "embeddings"
        if "attention" in name:
            return "attention"
        return (
            "feed-forward"
            if ".dense.weight" in name and "pooler" not in name
            else "pooler and classifier"
        )

    names = pd.Series({name: part(name, x) for name, x in state.items()})
    total = model_bits(dict(state))
    rows = []
    for name, members in names.groupby(names, sort=False):
        mine = {key: state[key] for key in members.index}
        numbers = sum(x.numel() for x in mine.values())
        rows.append({"part": name, "numbers": numbers, "percent": 100 * model_bits(mine) / total})
    return pd.DataFrame(rows)


def relative(measured: pd.DataFrame) -> pd.DataFrame:
    """Measurements compared with the given model: ``storage`` and ``products`` in % of
    it, ``ms`` (its time is 1), ``lost`` (points of accuracy).
    """
    return measured.assign(
        storage=100 * measured["bits"] / measured["given_bits"],
        products=100 * measured["macs"] / measured["given_macs"],
        ms=1 / measured["faster"],
        lost=measured["given_accuracy"] - measured["accuracy"],
    )


def pipelines(model: str) -> pd.DataFrame:
    """The stored pipelines of "cnn" or "bert", means over draws of hidden data.

    Returns:
        A row per ``method`` and ``seed`` (of three given models): ``bits``, ``macs``,
        ``accuracy``, ``faster``, the columns of :func:`relative`, ``validation``, and
        ``level``: how many of the three levels are met.
    """
    found = relative(experiments.read("lab11_capstone/measured"))
    means = found.groupby(["model", "seed", "method"], sort=False, as_index=False).mean()
    table = means.merge(experiments.read("lab11_capstone/pipelines"))
    met = table[[column for column in table if column.startswith("level_")]].sum(axis=1)
    return table.assign(level=met)[table["model"] == model].drop(columns=["draw", "model"])


def candidates(pipelines: pd.DataFrame) -> pd.DataFrame:
    """A row per pipeline, with its ``number``: means over the given models.
    ``validation`` is the list of their accuracies, ``lost_least`` and ``lost_most`` are
    the ends of ``lost``, ``levels_met`` is the number of levels that all of them meet.
    """
    numbers = ["storage", "products", "faster", "lost", "bits", "macs", "ms", "accuracy"]
    groups = pipelines.groupby("method", sort=False)
    found = groups[numbers].mean()
    found["lost_least"], found["lost_most"] = groups["lost"].min(), groups["lost"].max()
    found["levels_met"] = groups["level"].min()
    found["validation"] = groups["validation"].apply(list)
    return found.reset_index().rename_axis("number").reset_index()


def chosen_or_random(pipelines: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The pipelines that have a random baseline, with it.

    Returns:
        Columns ``seed``, ``pipeline``, ``method`` ("chosen" or "random"), ``lost``.
    """
    pairs = {
        "slimming 60 %": "random channels 60 %",
        "slimming 70 % + magnitude 78 %": "random channels 70 % + magnitude 78 %",
        "heads and neurons 60 %": "random heads and neurons 60 %",
        "heads 70 %, neurons 80 % + magnitude 60 %, taught": (
            "random heads 70 %, neurons 80 % + magnitude 60 %, taught"
        ),
    }
    table = pd.concat(pipelines.values())
    return pd.concat(
        table.loc[table["method"] == name, ["seed", "lost"]].assign(pipeline=chosen, method=method)
        for chosen, random in pairs.items()
        for method, name in (("chosen", chosen), ("random", random))
    )


def draw(
    ax: Axes, rows: pd.DataFrame, model: str, filled: Sequence[int], square: int | None
) -> None:
    """Accuracy lost against storage for :func:`candidates`, by number; random choices
    are crosses, bars reach from the best to the worst given model.
    """
    for i, row in enumerate(rows.itertuples()):
        random = "random" in row.method
        colour = plots.COLOURS["random"] if random else "C2" if i == square else "C0"
        ax.errorbar(
            row.storage,
            row.lost,
            yerr=[[row.lost - row.lost_least], [row.lost_most - row.lost]],
            marker="x" if random else "s" if i == square else "o",
            markersize=12 if i == square else 8,
            capsize=3,
            color=colour,
            markerfacecolor=colour if i in filled else "white",
        )
        ax.annotate(str(i), (row.storage, row.lost), xytext=(6, 5), textcoords="offset points")
    ticks = {"cnn": (3, 5, 10, 25, 100), "bert": (20, 30, 40, 60, 100)}[model]
    ax.set_xscale("log")
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_xticks([], minor=True)
    if model == "bert":
        ax.set_yscale("symlog", linthresh=2)
        ax.set_yticks((0, 1, 2, 5, 15), ("0", "1", "2", "5", "15"))
    ax.invert_yaxis()
    ax.set(xlabel="storage (% of the given model)", ylabel="accuracy lost (points)")


def picture(
    rows: Mapping[str, pd.DataFrame], frontier: Callable[..., list[int]], guess: Any = ...
) -> Figure:
    """:func:`candidates` of both models; filled: on the frontier; grey lines: the levels'
    storage, and their accuracy; a star: the guess of the points that BERT loses.
    """
    fig, axes = plots.subplots(1, 2, 4.8)
    for ax, (model, table) in zip(axes, rows.items(), strict=True):
        draw(ax, table, model, frontier(table.to_dict("records")), None)
        for level in LEVELS[model]:
            ax.axvline(100 * level.storage, color="0.75", lw=1, zorder=0)
        ax.axhline(LEVELS[model][0].drop, color="0.75", lw=1, zorder=0)
        ax.set_title(MODELS[model])
    plots.draw_guess(axes[1], (None, guess))
    fig.suptitle("Which pipelines are on the frontier? (filled)")
    return fig


def explore(
    rows: Mapping[str, pd.DataFrame],
    pick: Callable[..., int | None],
    model: str = "bert",
    storage: int = 30,
    faster: float = 1.5,
) -> Figure:
    """For the explorer: the :func:`candidates` of a model that fit a budget (storage in % of
    the given model, times faster), and which of them ``pick`` takes.
    """
    table = rows[model]
    budget = {"bits": storage, "faster": faster}
    taken = pick(table.assign(bits=table["storage"]).to_dict("records"), budget)
    fits = (table["storage"] <= storage) & (table["faster"] >= faster)
    fig, ax = plots.subplots(1, 1, 4.6)
    draw(ax, table, model, list(table.index[fits]), taken)
    ax.axvline(storage, color="0.6", lw=1)
    text = "nothing fits" if taken is None else f"picked: {taken}, {table['method'][taken]}"
    fig.suptitle(f"Filled: fits; square: {text}")
    return fig
