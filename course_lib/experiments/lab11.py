"""Lab 11's runs: reference pipelines that compress the two given models, with random
controls, measured as the grader measures.

What is decided (shares, steps, rates) was decided on validation images and texts; the
figures are of hidden data drawn by seeds that were not looked at before.
``course remake lab11_capstone`` makes the shipped result again, and proves the levels
of :data:`course_lib.capstone.LEVELS`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.capstone import Measured, given, measure, met, read, write
from course_lib.capstone.measured import LEVELS, digits
from course_lib.data import images, pieces, reviews
from course_lib.experiments.lab07 import losses
from course_lib.experiments.once import once
from course_lib.models import checkpoints
from course_lib.pruning import weights
from course_lib.pruning.channels import remove_filters, select_channels
from course_lib.pruning.channels.slimming import penalty
from course_lib.pruning.heads import head_importance, lowest_heads, remove_heads
from course_lib.pruning.layers import ffn_importance, slice_ffn, take_layers
from course_lib.training import Batch, fit, fit_batches, warm_up_then_decay

SEEDS = (2611, 2612)  # of hidden data: each given model is measured on both, and the worse counts
CHOSEN_BY = 2600  # of validation images and texts
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


def cnn_pipelines(number: int) -> Iterator[tuple[str, nn.Module]]:
    """Name and model, from the simplest to the smallest."""
    dense, seed = given("cnn", number), number
    yield "as given", dense
    yield "magnitude 90 %", thinned(dense, (0.6, 0.9), (12, 24), seed)
    wide = (0.6, 0.6, 0.6, 0.6)
    yield "slimming 60 %", slimmed(dense, wide, seed)
    yield "random channels 60 %", slimmed(dense, wide, seed, at_random=True)
    narrow = slimmed(dense, (0.6, 0.7, 0.7, 0.7), seed, epochs=96)
    yield "slimming 70 %", narrow
    steps, epochs = (0.4, 0.6, 0.7, 0.75, 0.78), (32, 32, 32, 32, 128)
    yield "slimming 70 % + magnitude 60 %", thinned(narrow, steps[:2], (32, 64), seed)
    yield "slimming 70 % + magnitude 78 %", thinned(narrow, steps, epochs, seed)
    yield (
        "slimming 70 % + magnitude 78 %, in one step",
        thinned(narrow, steps[-1:], (sum(epochs),), seed),
    )
    chance = slimmed(dense, (0.6, 0.7, 0.7, 0.7), seed, epochs=96, at_random=True)
    yield "random channels 70 % + magnitude 78 %", thinned(chance, steps, epochs, seed)


# --------------------------------------------------------------------------------- BERT


@cache
def texts(seed: int = 50) -> Any:
    """Reviews of a draw of our own, "train" and "validation": as many as one likes may
    be drawn.
    """
    tokenizer = checkpoints.load("reviews-bert-0").tokenizer
    return pieces.encode(reviews.load(BERT["texts"], 500, 10, seed=seed), tokenizer, aligned=())


def stream(seed: int) -> Iterator[Batch]:
    epoch = 0
    while True:
        yield from pieces.batches(
            texts()["train"], "sentiment", BERT["batch"], seed=1000 * seed + epoch
        )
        epoch += 1


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
    fit_batches(
        model,
        stream(seed),
        steps,
        loss=loss,
        lr=BERT["lr"],
        rate=rate,
        seed=seed,
        post_step=post_step,
        progress=False,
    )
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


def bert_pipelines(number: int) -> Iterator[tuple[str, nn.Module]]:
    """Name and model, from the simplest to the smallest."""
    dense, seed = given("bert", number), number
    teacher = taught(dense)
    yield "as given", dense
    yield "magnitude 50 %", faded(dense, 0.5, 250, seed)
    yield "layers 0 and 2", trained(take_layers(dense, "bert.encoder.layer", 2), 250, seed)
    yield "heads and neurons 60 %", trained(narrowed(dense, 0.6, 0.6), 400, seed)
    yield "random heads and neurons 60 %", trained(narrowed(dense, 0.6, 0.6, seed), 400, seed)
    small = trained(narrowed(dense, 0.6, 0.6), 400, seed, teacher)
    yield "heads and neurons 60 %, taught", small
    yield "heads and neurons 60 % + magnitude 50 %, taught", faded(small, 0.5, 400, seed, teacher)
    smaller = trained(narrowed(dense, 0.7, 0.8), 600, seed, teacher)
    yield "heads 70 %, neurons 80 %, taught", smaller
    yield (
        "heads 70 %, neurons 80 % + magnitude 60 %, taught",
        faded(smaller, 0.6, 800, seed, teacher),
    )
    chance = trained(narrowed(dense, 0.7, 0.8, seed), 600, seed, teacher)
    yield (
        "random heads 70 %, neurons 80 % + magnitude 60 %, taught",
        faded(chance, 0.6, 800, seed, teacher),
    )


# --------------------------------------------------------------------------- the result

PIPELINES = {"cnn": cnn_pipelines, "bert": bert_pipelines}


def proved(kind: str, number: int, folder: Path) -> list[dict[str, Any]]:
    """Every pipeline from one given model: its measurements for each of :data:`SEEDS`,
    levels met by all of them, its file in ``folder``.
    """
    rows: list[dict[str, Any]] = []
    for name, model in PIPELINES[kind](number):
        file = folder / f"{kind}-{number}-{len(rows)}.safetensors"
        write(model, file)
        found = [measure(kind, read(file), number, seed) for seed in SEEDS]
        chosen_by = measure(kind, read(file), number, CHOSEN_BY, "validation")
        rows.append(
            {
                "name": name,
                "validation": chosen_by.accuracy,
                "measured": [numbers(one) for one in found],
                "levels": levels(kind, found),
            }
        )
    return rows


def numbers(found: Measured) -> dict[str, float]:
    """What is stored of a measurement."""
    names = ("bits", "given_bits", "macs", "given_macs", "faster", "accuracy", "given_accuracy")
    return {name: getattr(found, name) for name in names}


def levels(kind: str, found: Sequence[Measured]) -> list[bool]:
    """Is each level met on every draw?"""
    return [not any(met(level, one) for one in found) for level in LEVELS[kind]]


def remake_capstone(executor: Executor, folder: Path) -> dict[str, Any]:
    """Both given models of three trainings, every pipeline; some ten minutes on two
    cores. The models lie beside it afterwards.
    """
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    jobs = [(kind, number) for kind in ("bert", "cnn") for number in range(3)]
    running = {
        (kind, number): executor.submit(
            once, folder / f"{kind}-{number}.json", proved, kind, number, files
        )
        for kind, number in jobs
    }
    return {kind: [running[kind, number].result() for number in range(3)] for kind in PIPELINES}


RESULTS: dict[str, Callable[[Executor, Path], dict[str, Any]]] = {"lab11_capstone": remake_capstone}
