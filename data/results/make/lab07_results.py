"""Lab 07's stored results: three small BERTs on reviews, and a real encoder on SST-2.

Scores are taken on validation texts, accuracies on test texts (SST-2: GLUE's development
set); no choice depends on test texts. In the tables layers and heads count from 1,
``removed`` is a fraction of all heads (missing for the model with all heads), ``draw``
counts random masks, ``empty_layers`` are those without a head.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?"; the places:
Budhraja et al. 2020, "On the Weak Link between Importance and Prunability of Attention
Heads".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data import pieces, reviews
from course_lib.experiments import Result
from course_lib.experiments.lab07 import (
    clock,
    evaluator,
    losses,
    mover,
    per_head,
    read_reviews,
    size,
    wide_layer,
)
from course_lib.experiments.once import each_seed
from course_lib.models import checkpoints
from course_lib.pruning import heads as library
from course_lib.pruning.heads import head_importance, lowest_heads
from course_lib.training import Batch, accuracy, fit_batches, warm_up_then_decay

FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)  # of all heads, removed
ONE_KEPT = (0.5, 0.7, 0.8)  # the same, where each layer keeps a head
STEP = 3  # heads removed between two scorings, about a tenth
TEXTS = {"validation": 1000, "test": 2000}  # what scores and accuracies are taken on
DRAWS, TUNED_DRAWS = 10, 4  # random masks per checkpoint and fraction
TUNED: dict[str, Any] = {"fractions": (0.5, 0.8), "steps": 200, "lr": 3e-4, "batch": 16}
DOMAIN_TEXTS = 1500  # per importance that is compared with another
REPEATS = {1: 40, 4: 20, 16: 12, 64: 6}  # texts in a batch -> how often it is timed
REVIEWS = {"fractions": FRACTIONS, "step": STEP, "texts": TEXTS, "tuned": TUNED}
REVIEWS |= {"domain texts": DOMAIN_TEXTS}
SST2: dict[str, Any] = {"sentences": 12_000, "validation": 1000, "removed": (0.39, 0.58)}
SST2 |= {"draws": DRAWS, "seeds": (0, 1, 2)}

Rows = list[dict[str, Any]]
Arm = tuple[str, float, int]  # method, fraction removed, draw
Masks = dict[Arm, Tensor]  # the heads kept


# ----------------------------------------------------------------- three checkpoints
def measure_reviews(seed: int) -> dict[str, Rows]:
    """Everything that is measured of one checkpoint: table -> rows."""
    checkpoint = checkpoints.load(f"reviews-bert-{seed}")
    model, batches = checkpoint.model, read_reviews(checkpoint.tokenizer, **TEXTS).batches
    validation, test, (layers, heads) = batches["validation"], batches["test"], size(model)
    each = library.ablate_each(evaluator(model, validation), layers, heads)
    moved = library.ablate_each(mover(model, validation), layers, heads)
    # 32 candidates, which differ by more than single ablations do
    few = evaluator(model, validation[::2])
    alone = library.all_but_one(few, evaluator(model, test), layers, heads)
    scores = {
        "I_h": head_importance(model, validation, losses),
        "single ablation": -each.mul(1000).round().div(1000),
        "single ablation, logits": moved,
    }
    scores["most important first"] = -scores["I_h"]
    of = (model, validation, scores, seed)
    slim = library.remove_heads(model, torch.arange(heads).expand(layers, heads) < heads // 2)
    timed = {"small BERT": (model, slim), "one layer of BERT-base": wide_layer()}
    return {
        "ablations": per_head(-scores["single ablation"], "change"),
        "importance": per_head(scores["I_h"], "importance"),
        "all_but_one": [
            {"layer": f"layer {layer}", "head": head + 1, "change": round(change, 2)}
            for layer, (head, change) in enumerate(alone, start=1)
        ],
        "removal": removal(model, test, removal_masks(*of, FRACTIONS)),
        "one_kept": removal(model, test, removal_masks(*of, ONE_KEPT, least=1)),
        "fine_tuning": fine_tuning(model, checkpoint.tokenizer, test, tuned_masks(*of), seed),
        "domains": domains(model, checkpoint.tokenizer),
        "seconds": [{"model": m, **row} for m, p in timed.items() for row in clock(*p, REPEATS)],
    }


def lowest(scores: dict[str, Tensor], fractions: Sequence[float], least: int = 0) -> Masks:
    """The lowest heads by each of the scores are removed; each layer keeps ``least``."""
    return {
        (method, fraction, 0): lowest_heads(of, round(fraction * of.numel()), least)
        for method, of in scores.items()
        for fraction in fractions
    }


def drawn(
    shape: Sequence[int], fractions: Sequence[float], seed: int, draws: int, least: int = 0,
    rule: str = "random",
) -> Masks:  # fmt: skip
    masks, (layers, heads), place = {}, shape, rule.replace(" ", "_")
    for draw in range(draws):
        generator = torch.Generator().manual_seed(1000 * seed + draw)
        for fraction in fractions:
            count = round(fraction * layers * heads)
            keep = library.choose_heads(layers, heads, count, place, generator, least)
            masks[rule, fraction, draw] = keep
    return masks


def in_steps(
    model: nn.Module, texts: list[Batch], fractions: Sequence[float], least: int = 0
) -> Masks:
    """I_h, computed again before each step."""
    score, masks = partial(head_importance, batches=texts, loss_fn=losses), {}
    for fraction in fractions:
        count = round(fraction * math.prod(size(model)))
        counts = [*range(STEP, count, STEP), count]
        kept = library.prune_heads_iteratively(model, score, counts, min_per_layer=least)
        masks["I_h, iterative", fraction, 0] = kept[-1]
    return masks


def removal_masks(
    model: nn.Module, validation: list[Batch], scores: dict[str, Tensor], seed: int,
    fractions: Sequence[float], least: int = 0,
) -> Masks:  # fmt: skip
    masks = lowest(scores, fractions, least) | in_steps(model, validation, fractions, least)
    return masks | drawn(size(model), fractions, seed, DRAWS, least)


def tuned_masks(
    model: nn.Module, validation: list[Batch], scores: dict[str, Tensor], seed: int
) -> Masks:
    """Masks of the models that are fine-tuned; "dense" keeps all heads."""
    shape, fractions = size(model), TUNED["fractions"]
    importance = torch.tensor(scores["I_h"].tolist())  # float32, as in the first run
    by = {"I_h": importance, "I_h, by layer": library.normalise_by_layer(importance)}
    masks = {("dense", 0.0, 0): torch.ones(shape, dtype=torch.bool)} | lowest(by, fractions)
    masks |= in_steps(model, validation, fractions)
    for fraction in fractions:
        masks |= drawn(shape, [fraction], seed, TUNED_DRAWS)
        for rule in ("top", "bottom", "middle"):
            masks |= drawn(shape, [fraction], seed, 1, rule=rule)
    return masks | drawn(shape, fractions[:1], seed, 1, rule="no consecutive")  # at most a half


def removal(model: nn.Module, test: list[Batch], masks: Masks) -> Rows:
    """Test accuracy in % with all heads, and with the heads of each mask."""
    evaluate = evaluator(model, test)
    whole = round(evaluate(torch.ones(size(model))), 2)
    rows = [{"method": "dense", "draw": 0, "removed": None, "empty_layers": 0, "test": whole}]
    for arm, keep in masks.items():
        rows.append({**named(arm, keep), "test": round(evaluate(keep.float()), 2)})
    return rows


def named(arm: Arm, keep: Tensor) -> dict[str, Any]:
    method, fraction, draw = arm
    empty = int((keep.sum(1) == 0).sum())
    return {"method": method, "draw": draw, "removed": fraction, "empty_layers": empty}


def fine_tuning(
    model: nn.Module, tokenizer: Any, test: list[Batch], masks: Masks, seed: int
) -> Rows:
    """Test accuracy in % before and after a short fine-tuning; the full model gets it, too."""
    steps, batch = TUNED["steps"], TUNED["batch"]
    texts = reviews.load(train=steps * batch, validation=0, test=0)["train"]
    training = pieces.encode(texts, tokenizer)
    how = {"lr": TUNED["lr"], "rate": warm_up_then_decay(20, 20), "seed": seed}
    found = []
    for arm, keep in masks.items():
        smaller = library.remove_heads(model, keep)
        before = round(accuracy(smaller, test), 2)
        stream = pieces.batches(training, "sentiment", batch, seed=seed)
        fit_batches(smaller, stream, steps, progress=False, **how)
        after = round(accuracy(smaller, test), 2)
        for when, value in (("removed", before), ("fine-tuned", after)):
            found.append({**named(arm, keep), "when": when, "test": value})
    return found


def domains(model: nn.Module, tokenizer: Any) -> Rows:
    """I_h of all heads by domain, on two samples of fresh texts each."""
    # no text of seed 0: the models were trained on some of them
    fresh = reviews.load(train=7 * DOMAIN_TEXTS, validation=0, test=0, seed=1)["train"]
    rows = []
    for d, domain in enumerate(reviews.DOMAINS):
        mine = [i for i, of_text in enumerate(fresh["domain"]) if of_text == d]
        encoded = pieces.encode(fresh.select(mine[: 2 * DOMAIN_TEXTS]), tokenizer)
        for sample in range(2):
            half = encoded.select(range(sample * DOMAIN_TEXTS, (sample + 1) * DOMAIN_TEXTS))
            importance = head_importance(model, pieces.batches(half, "sentiment", 50), losses)
            found = per_head(importance, "importance")
            rows += [{"domain": domain, "sample": sample, **row} for row in found]
    return rows


# ------------------------------------------------------------------------------ SST-2
def measure_sst2(seed: int) -> dict[str, Rows]:
    """Fine-tune the packaged encoder, score its heads on sentences cut from the training
    part, and remove some: table -> rows.
    """
    import glue_classifier as recipe

    model, tokenizer = recipe.load_classifier(seed)
    data = recipe.prepared(SST2["sentences"], tokenizer=tokenizer)
    recipe.fine_tune(model, data, seed=seed)
    validation = pieces.batches(data["validation"].select(range(SST2["validation"])), batch_size=50)
    importance = head_importance(model, validation, losses)
    scores = {"I_h": importance, "most important first": -importance}
    masks = lowest(scores, SST2["removed"]) | drawn(size(model), SST2["removed"], 0, SST2["draws"])
    test = list(pieces.batches(data["test"], batch_size=50))
    return {
        "importance": per_head(importance, "importance"),
        "removal": removal(model, test, masks),
    }


def remake_reviews(executor: Executor, folder: Path) -> Result:
    """Heads of three small BERTs on reviews: alone, together, by place, and fine-tuned."""
    return Result(each_seed(executor, folder, 3, measure_reviews), REVIEWS)


def remake_sst2(executor: Executor, folder: Path) -> Result:
    """SST-2 with a real encoder of 6 layers of 12 heads."""
    return Result(each_seed(executor, folder, 3, measure_sst2), SST2)


RESULTS = {"lab07_heads": remake_reviews, "lab07_sst2": remake_sst2}
