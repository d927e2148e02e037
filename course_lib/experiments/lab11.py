"""Lab 11: the steps that compress the two given models, and the results of the course's
own pipelines of such steps (``data/results/make/lab11_results.py`` runs them).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import experiments
from course_lib.capstone.measured import LEVELS, Measured, digits, unmet_requirements
from course_lib.data import images, pieces, reviews
from course_lib.experiments import common
from course_lib.experiments.lab07 import losses
from course_lib.models import checkpoints
from course_lib.pruning import weights
from course_lib.pruning.channels import remove_filters, select_channels
from course_lib.pruning.channels.slimming import penalty
from course_lib.pruning.heads import head_importance, lowest_heads, remove_heads
from course_lib.pruning.layers import ffn_importance, slice_ffn
from course_lib.show import course_table, plots
from course_lib.training import Batch, fit, warm_up_then_decay

Loss = Callable[[nn.Module, Batch], Tensor]

NORMS = ("bn1", "bn2", "bn3", "bn4")
CNN: dict[str, Any] = {"lr": 2e-3, "batch_size": 64, "schedule": "cosine", "lam": 1e-2}
BERT: dict[str, Any] = {"texts": 8000, "batch": 32, "lr": 5e-4, "scores": 300}

# ---------------------------------------------------------------- the convolutional net


def tuned(model: nn.Module, seed: int, epochs: int, lam: float = 0.0) -> nn.Module:
    """Train in place on digits that are distorted in another way in every epoch; weights that
    are 0 stay 0. The model is in evaluation mode afterwards.

    Args:
        lam: times the L1 norm of batch norm's scales is added to the loss.
    """
    split = images.distorted(digits().train, torch.Generator().manual_seed(1000 + seed), epochs)
    options = {key: CNN[key] for key in ("lr", "batch_size", "schedule")}
    options["masks"] = {name: weight != 0 for name, weight in weights.prunable(model).items()}
    options["penalty"] = (lambda: penalty(model, lam)) if lam else None
    fit(model, split, epochs=1, seed=seed, progress=False, **options)
    return model.eval()


def slimmed(
    model: nn.Module,
    shares: Sequence[float],
    seed: int,
    epochs: int = 24,
    sparse_epochs: int = 16,
    at_random: bool = False,
) -> nn.Module:
    """Network slimming (lab 04) of a trained net: train with L1 on the scales, remove this
    share of the channels of each of the four layers, train again.

    Args:
        at_random: draw as many channels of each layer instead, without L1 before.
    """
    sparse = copy.deepcopy(model)
    if not at_random:
        tuned(sparse, seed, sparse_epochs, lam=CNN["lam"])
    keep: dict[str, Tensor] = {}
    generator = torch.Generator().manual_seed(seed)
    for norm, share in zip(NORMS, shares, strict=True):
        keep |= select_channels(sparse, share, names=[norm])
        if at_random:
            keep[norm] = keep[norm][torch.randperm(len(keep[norm]), generator=generator)]
    smaller, _ = remove_filters(sparse, keep, digits().train.images[:1])
    return tuned(smaller, seed, epochs)


def thinned(
    model: nn.Module, targets: Sequence[float], epochs: Sequence[int], seed: int
) -> nn.Module:
    """Magnitude pruning of all layers together, to each target in turn, with training after
    each.
    """
    model = copy.deepcopy(model)
    for target, some in zip(targets, epochs, strict=True):
        scores = weights.magnitude(weights.prunable(model))
        weights.apply(model, weights.global_masks(scores, target))
        tuned(model, seed, some)
    return model


# --------------------------------------------------------------------------------- BERT


@cache
def texts() -> Any:
    """Reviews of a draw of our own, "train" and "validation"."""
    tokenizer = checkpoints.load("reviews-bert-0").tokenizer
    return pieces.encode(reviews.load(BERT["texts"], 500, 10, seed=50), tokenizer)


def taught(teacher: nn.Module) -> Loss:
    """A loss by which a narrower model learns from the given one: its softened answers
    (temperature 2), its states after every layer, and the labels.

    Source: Hinton, Vinyals & Dean 2015, "Distilling the Knowledge in a Neural Network";
    states: Jiao et al. 2020, "TinyBERT", equation 8.
    """
    teacher = copy.deepcopy(teacher).eval()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        with torch.no_grad():
            right = teacher(**inputs, output_hidden_states=True)
        found = model(**inputs, output_hidden_states=True)
        answers = (found.logits / 2).log_softmax(1), (right.logits / 2).softmax(1)
        real = batch["attention_mask"][..., None].to(found.logits.dtype)  # (B, L, 1)
        apart: Tensor = sum(
            ((a - b).square() * real).sum() / real.sum() / a.shape[-1]
            for a, b in zip(found.hidden_states[1:], right.hidden_states[1:], strict=True)
        )
        labels = F.cross_entropy(found.logits, batch["labels"])
        return 4 * F.kl_div(*answers, reduction="batchmean") + labels / 2 + apart

    return loss


def trained(
    model: nn.Module,
    steps: int,
    seed: int,
    loss: Loss | None = None,
    post_step: Callable[[], None] | None = None,
) -> nn.Module:
    """Fine-tune in place; in evaluation mode afterwards."""
    options = {"loss": loss, "post_step": post_step, "rate": warm_up_then_decay(20, steps // 3)}
    how: dict[str, Any] = {**BERT, "steps": steps}
    common.fine_tune(model, texts()["train"], "sentiment", seed, how, **options)
    return model.eval()


def narrowed(model: nn.Module, heads: float, neurons: float, seed: int | None = None) -> nn.Module:
    """Remove this share of the heads and of the feed-forward neurons, the least important
    first, by the gradient of the loss for a gate; each layer keeps one of both.

    Args:
        seed: draws them at random instead; None: by importance.
    """
    some = texts()["train"].select(range(BERT["scores"]))
    batches = list(pieces.batches(some, "sentiment", 50))
    of_heads = head_importance(model, batches, losses)
    of_neurons = ffn_importance(model, batches, losses)
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        of_heads = torch.rand(of_heads.shape, generator=generator)
        of_neurons = [torch.rand(len(each), generator=generator) for each in of_neurons]
    kept = lowest_heads(of_heads, round(heads * of_heads.numel()), min_per_layer=1)
    together = torch.cat(of_neurons)
    stays = weights.prune_lowest(together, round(neurons * len(together)))
    parts = stays.split([len(each) for each in of_neurons])
    parts = [p | (each == each.max()) for p, each in zip(parts, of_neurons, strict=True)]
    return slice_ffn(remove_heads(model, kept), parts)


def faded(
    model: nn.Module, target: float, steps: int, seed: int, loss: Loss | None = None
) -> nn.Module:
    """Magnitude pruning of all matrices and the word embeddings together on Zhu and
    Gupta's cubic, every tenth step of the first 70 %, while a copy is trained.
    """
    model = copy.deepcopy(model)
    large = {name: p for name, p in weights.prunable(model).items() if p.numel() > 2000}
    shares = dict(enumerate(weights.cubic(target, max(1, round(0.07 * steps)))))
    masks: dict[str, Tensor] = {}
    done = itertools.count()

    def post_step() -> None:
        tens, rest = divmod(next(done), 10)
        if rest == 0 and tens in shares:
            masks.update(weights.global_masks(weights.magnitude(large), shares[tens]))
        weights.apply(model, masks)

    return trained(model, steps, seed, loss, post_step)


# ------------------------------------------------------------------ results of pipelines

MODELS = {"bert": "BERT", "cnn": "convolutional net"}
EDGE = 4.0  # points lost; what is further is drawn there, with its number


def levels() -> pd.DataFrame:
    """The levels of 11.4 and 11.5, shares in %; all four limits count at once."""
    return pd.DataFrame(
        {"level": f"{name} {n}", "points": level.points, **limits(model, n), "lost": level.drop}
        for model, name in MODELS.items()
        for n, level in enumerate(LEVELS[model], start=1)
    )


def limits(kind: str, level: int) -> dict[str, float]:
    """A level as a budget for :func:`candidates`."""
    one = LEVELS[kind][level - 1]
    return {"bits": 100 * one.storage, "macs": 100 * one.macs, "faster": one.faster}


def parts_of_bert(
    state: Mapping[str, Tensor], model_bits: Callable[[dict[str, Tensor]], int]
) -> pd.DataFrame:
    """Columns ``part``, ``numbers``, and ``percent`` of the bits, by ``model_bits``."""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, x in state.items():
        words = ("embeddings", "attention", "pooler", "classifier")
        part = next((word for word in words if word in name), "feed-forward")
        parts.setdefault(part if x.ndim > 1 else "biases and norms", {})[name] = x
    return pd.DataFrame(
        {
            "part": part,
            "numbers": sum(x.numel() for x in mine.values()),
            "percent": 100 * model_bits(mine) / model_bits(dict(state)),
        }
        for part, mine in parts.items()
    )


def pipelines(model: str) -> pd.DataFrame:
    """The stored pipelines of "cnn" or "bert", means over draws of hidden data: a row per
    ``method`` and ``seed`` (of three given models) with ``storage`` and ``products`` (in % of
    the given model), ``faster`` (times), ``accuracy``, ``lost`` (points of it),
    ``validation``, and ``levels_met``.
    """
    found = experiments.read("lab11_capstone/measured")
    means = found.groupby(["model", "seed", "method"], sort=False, as_index=False).mean()
    table = means.merge(experiments.read("lab11_capstone/pipelines"))
    return table[table["model"] == model].drop(columns=["draw", "model"])


def candidates(model: str) -> pd.DataFrame:
    """The stored pipelines of "cnn" or "bert" as candidates, the largest first: a row per
    ``method``, means over the given models. ``bits`` and ``macs`` are in % of the given
    model, ``ms`` is 1 for it; ``validation`` and ``lost`` have an entry per given model.
    """
    groups = pipelines(model).groupby("method", sort=False)
    found = groups[["storage", "products", "faster", "accuracy"]].mean()
    found = found.rename(columns={"storage": "bits", "products": "macs"})
    found["validation"], found["lost"] = (
        groups["validation"].apply(list),
        groups["lost"].apply(list),
    )
    found = found.assign(ms=1 / found["faster"], levels_met=groups["levels_met"].min())
    return found.reset_index().sort_values("bits", ascending=False, ignore_index=True)


def with_own(table: pd.DataFrame, kind: str, found: Measured) -> pd.DataFrame:
    """:func:`candidates`, and a model of one's own as ``submit`` measured it."""
    own: dict[str, Any] = {
        "bits": 100 * found.storage,
        "macs": 100 * found.macs_share,
        "ms": 1 / found.faster,
    }
    own |= {"faster": found.faster, "accuracy": found.accuracy, "lost": [found.drop]}
    own["levels_met"] = sum(not unmet_requirements(level, found) for level in LEVELS[kind])
    both = pd.concat([table, pd.DataFrame([{"method": "yours", **own}])])
    return both.sort_values("bits", ascending=False, ignore_index=True)


def picture(
    rows: Mapping[str, pd.DataFrame], filled: Callable[..., list[int]], title: str, guess: Any = ...
) -> Figure:
    """Points lost by the :func:`candidates` of some models. ``filled`` takes the rows of a model
    as dicts, and returns which marks are filled; a star is the guess for random heads and neurons.
    """
    counts = [len(table) for table in rows.values()]
    look: dict[str, Any] = {"sharex": True, "squeeze": False, "height_ratios": counts}
    fig, axes = plots.subplots(len(rows), 1, 1.3 + 0.3 * sum(counts), **look)
    for ax, (model, table) in zip(axes.flat, rows.items(), strict=True):
        size = [f"{row.bits:.0f} %, {row.faster:.1f}×" for row in table.itertuples()]
        course_table.draw_rows(ax, table.assign(size=size), EDGE, filled(table.to_dict("records")))
        ax.axvline(LEVELS[model][0].drop, color="0.5", ls="--", lw=1.2, zorder=1)
        ax.set_title(MODELS[model], fontsize=11)
        ax.invert_yaxis()
        at_random = table.index[table["method"] == "random heads and neurons 60 %"]
        plots.draw_guess(ax, (guess, int(at_random[0])) if len(at_random) else None)
    axes.flat[-1].set_xlabel("accuracy lost (points); at the right: storage, times faster")
    fig.suptitle(title)
    return fig


def explore(
    rows: Mapping[str, pd.DataFrame],
    pick: Callable[..., int | None],
    model: str = "bert",
    storage: int = 30,
    faster: float = 1.5,
) -> Figure:
    """For the explorer: the :func:`candidates` that fit a budget (storage in % of the given
    model, times faster), and which of them ``pick`` takes.
    """
    table = rows[model]
    taken = pick(table.to_dict("records"), {"bits": storage, "faster": faster})
    fits = table.index[(table["bits"] <= storage) & (table["faster"] >= faster)].tolist()
    title = "Nothing fits" if taken is None else f"Filled: fits. Picked: {table['method'][taken]}"
    return picture({model: table}, lambda _: fits, title)
