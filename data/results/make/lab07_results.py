"""Lab 07's stored results: three small BERTs on reviews, and a real encoder on SST-2.

Scores are taken on validation texts, accuracies on test texts (SST-2: GLUE's development
set); no choice depends on test texts. In the tables layers and heads count from 1,
``removed`` is a fraction of all heads (missing for the model with all heads), ``draw``
counts random masks, ``empty_layers`` are those without a head.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?"; Budhraja et al. 2020,
"On the Weak Link between Importance and Prunability of Attention Heads" (places).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data import pieces, reviews
from course_lib.experiments import by_seed, lab07
from course_lib.experiments.lab07 import evaluator, losses, per_head, size
from course_lib.models import checkpoints
from course_lib.pruning import heads as library
from course_lib.pruning.heads import head_importance, lowest_heads
from course_lib.training import Batch, accuracy, fit_batches, warm_up_then_decay

FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)  # of all heads, removed
ONE_KEPT = (0.5, 0.7, 0.8)  # the same, where each layer keeps a head
STEP = 3  # heads removed between two scorings, about a tenth
TEXTS = {"validation": 1000, "test": 2000}  # what scores and accuracies are taken on
DRAWS = 10  # random masks per checkpoint and fraction
TUNED_DRAWS = {"random": 4, "top": 1, "bottom": 1, "middle": 1, "no consecutive": 1}
TUNED: dict[str, Any] = {"fractions": (0.5, 0.8), "steps": 200, "lr": 3e-4, "batch": 16}
DOMAIN_TEXTS = 1500  # per importance that is compared with another
REPEATS = {1: 40, 4: 20, 16: 12, 64: 6}  # texts in a batch -> how often it is timed
REVIEWS = {"fractions": FRACTIONS, "step": STEP, "texts": TEXTS, "tuned": TUNED}
SST2: dict[str, Any] = {"sentences": 12_000, "validation": 1000, "removed": (0.39, 0.58)}
SST2 |= {"draws": DRAWS, "seeds": (0, 1, 2)}

Rows = list[dict[str, Any]]
Masks = dict[tuple[str, float, int], Tensor]  # method, fraction removed, draw -> heads kept


def measure_reviews(seed: int) -> dict[str, Rows]:
    """Everything that is measured of one checkpoint: table -> rows."""
    checkpoint = checkpoints.load(f"reviews-bert-{seed}")
    model, batches = checkpoint.model, lab07.read_reviews(checkpoint.tokenizer, **TEXTS).batches
    validation, test, (layers, heads) = batches["validation"], batches["test"], size(model)
    each = library.ablate_each(evaluator(model, validation), layers, heads)
    moved = library.ablate_each(lab07.mover(model, validation), layers, heads)
    # 32 candidates, which differ by more than single ablations do
    few = evaluator(model, validation[::2])
    alone = library.all_but_one(few, evaluator(model, test), layers, heads)
    scores = {
        "I_h": head_importance(model, validation, losses),
        "single ablation": -each.mul(1000).round().div(1000),
        "single ablation, logits": moved,
    }
    scores["most important first"] = -scores["I_h"]
    of, draws = (model, validation, scores, seed), {"random": DRAWS}
    removed = removal(model, test, choose(*of, FRACTIONS, draws))
    kept = removal(model, test, choose(*of, ONE_KEPT, draws, least=1))
    slim = library.remove_heads(model, torch.arange(heads).expand(layers, heads) < heads // 2)
    timed = {"small BERT": (model, slim), "one layer of BERT-base": lab07.wide_layer()}
    return {
        "ablations": per_head(-scores["single ablation"], "change"),
        "importance": per_head(scores["I_h"], "importance"),
        "all_but_one": [
            {"layer": f"layer {layer}", "head": head + 1, "change": round(change, 2)}
            for layer, (head, change) in enumerate(alone, start=1)
        ],
        "removal": removed,
        "one_kept": [{"layers": "may be emptied", **r} for r in removed if r["removed"] in ONE_KEPT]
        + [{"layers": "keep a head each", **r} for r in kept[1:]],
        "fine_tuning": fine_tuning(*of, checkpoint.tokenizer, test),
        "domains": domains(model, checkpoint.tokenizer),
        "seconds": [{"model": m, **r} for m, p in timed.items() for r in lab07.clock(*p, REPEATS)],
    }


def choose(
    model: nn.Module, texts: list[Batch], scores: dict[str, Tensor], seed: int,
    fractions: Sequence[float], draws: dict[str, int], least: int = 0,
) -> Masks:  # fmt: skip
    """The lowest heads by each of the scores are removed, and by "I_h, iterative", where texts
    are given; and masks by the rules of ``draws``. Each layer keeps ``least`` heads.
    """
    (layers, heads), masks = size(model), {}
    score = partial(head_importance, batches=texts, loss_fn=losses)
    counts = {fraction: round(fraction * layers * heads) for fraction in fractions}
    for fraction, count in counts.items():
        for method, of in scores.items():
            masks[method, fraction, 0] = lowest_heads(of, count, least)
        if texts:
            steps = [*range(STEP, count, STEP), count]
            kept = library.prune_heads_iteratively(model, score, steps, min_per_layer=least)
            masks["I_h, iterative", fraction, 0] = kept[-1]
    for rule, many in draws.items():
        for draw in range(many):
            generator = torch.Generator().manual_seed(1000 * seed + draw)
            name = rule.replace(" ", "_")
            for fraction, count in counts.items():
                if rule != "no consecutive" or fraction <= 0.5:
                    keep = library.choose_heads(layers, heads, count, name, generator, least)
                    masks[rule, fraction, draw] = keep
    return masks


def named(masks: Masks) -> Iterator[tuple[dict[str, Any], Tensor]]:
    for (method, fraction, draw), keep in masks.items():
        arm = {"method": method, "draw": draw, "removed": fraction}
        yield arm | {"empty_layers": int((keep.sum(1) == 0).sum())}, keep


def removal(model: nn.Module, test: list[Batch], masks: Masks) -> Rows:
    """Test accuracy in % with all heads, and with the heads of each mask."""
    evaluate = evaluator(model, test)
    whole = round(evaluate(torch.ones(size(model))), 2)
    rows = [{"method": "dense", "draw": 0, "removed": None, "empty_layers": 0, "test": whole}]
    return rows + [{**arm, "test": round(evaluate(keep.float()), 2)} for arm, keep in named(masks)]


def fine_tuning(
    model: nn.Module, validation: list[Batch], scores: dict[str, Tensor], seed: int,
    tokenizer: Any, test: list[Batch],
) -> Rows:  # fmt: skip
    """Test accuracy in % before and after a short fine-tuning; the full model gets it, too."""
    importance = torch.tensor(scores["I_h"].tolist())  # float32, as in the first run
    by = {"I_h": importance, "I_h, by layer": library.normalise_by_layer(importance)}
    masks: Masks = {("dense", 0.0, 0): torch.ones(size(model), dtype=torch.bool)}
    for fraction in TUNED["fractions"]:
        masks |= choose(model, validation, by, seed, [fraction], TUNED_DRAWS)
    steps, batch = TUNED["steps"], TUNED["batch"]
    texts = reviews.load(train=steps * batch, validation=0, test=0)["train"]
    training = pieces.encode(texts, tokenizer)
    how = {"lr": TUNED["lr"], "rate": warm_up_then_decay(20, 20), "seed": seed}
    found = []
    for arm, keep in named(masks):
        smaller = library.remove_heads(model, keep)
        for when in ("removed", "fine-tuned"):
            if when == "fine-tuned":
                stream = pieces.batches(training, "sentiment", batch, seed=seed)
                fit_batches(smaller, stream, steps, progress=False, **how)
            found.append({**arm, "when": when, "test": round(accuracy(smaller, test), 2)})
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


def measure_sst2(seed: int) -> dict[str, Rows]:
    """Fine-tune the packaged encoder and remove heads, scored on sentences cut from the
    training part: table -> rows.
    """
    import glue_classifier as recipe

    model, tokenizer = recipe.load_classifier(seed)
    data = recipe.prepared(SST2["sentences"], tokenizer=tokenizer)
    recipe.fine_tune(model, data, seed=seed)
    validation = pieces.batches(data["validation"].select(range(SST2["validation"])), batch_size=50)
    importance = head_importance(model, validation, losses)
    scores = {"I_h": importance, "most important first": -importance}
    masks = choose(model, [], scores, 0, SST2["removed"], {"random": SST2["draws"]})
    return {"removal": removal(model, list(pieces.batches(data["test"], batch_size=50)), masks)}


RESULTS = {
    "lab07_heads": by_seed(
        "Heads of three small BERTs on reviews: alone, together, by place, and fine-tuned.",
        REVIEWS, 3, measure_reviews,
    ),
    "lab07_sst2": by_seed(
        "SST-2 with a real encoder of 6 layers of 12 heads.", SST2, 3, measure_sst2
    ),
}  # fmt: skip
