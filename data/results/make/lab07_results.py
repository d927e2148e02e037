"""Lab 07's stored results: three small BERTs on reviews, and a real encoder on SST-2.

``course remake lab07_heads`` measures, for each of the shipped checkpoints
"reviews-bert-0" to "-2", single ablations, all heads but one, accuracy against heads
removed by score and by place, fine-tuning after removal, and importance in different
domains. ``course remake lab07_sst2`` fine-tunes a real encoder first.

Scores are taken on validation texts, accuracies on test texts; no choice depends on test
texts. In the tables layers and heads count from 1, ``removed`` is a fraction of all heads
(missing for the model with all heads), ``draw`` counts random masks, and a rule that
cannot remove so many heads has no row.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?"; the places:
Budhraja et al. 2020, "On the Weak Link between Importance and Prunability of Attention
Heads".
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data import pieces, reviews
from course_lib.experiments import Result
from course_lib.experiments.lab07 import PLACES, evaluator, losses, per_head, read_reviews, size
from course_lib.experiments.once import each_seed
from course_lib.models import checkpoints
from course_lib.pruning.heads import (
    ablate_each,
    all_but_one,
    choose_heads,
    head_importance,
    lowest_heads,
    normalise_by_layer,
    prune_heads_iteratively,
    remove_heads,
)
from course_lib.training import Batch, accuracy, fit_batches, warm_up_then_decay

FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)  # of all heads, removed
TEXTS = {"validation": 1000, "test": 2000}  # what scores and accuracies are taken on
DRAWS = 10  # random masks per checkpoint and fraction
SEEDS = (0, 1, 2)
PLACED = 2  # draws per rule by place, which leaves open which heads of a layer are removed
TUNED: dict[str, Any] = {"fractions": (0.5, 0.8), "steps": 200, "draws": 4, "lr": 3e-4, "batch": 16}
DOMAIN_TEXTS = 1500  # per importance that is compared with another
SST2: dict[str, Any] = {
    "sentences": 12_000,
    "validation": 1000,
    "removed": (0.39, 0.58),
    "draws": 10,
    "seeds": (0, 1, 2),
}

Rows = list[dict[str, Any]]


def remake_reviews(executor: Executor, folder: Path) -> Result:
    """Heads of three small BERTs on reviews: alone, together, by place, and fine-tuned."""
    found = each_seed(executor, folder, len(SEEDS), measure_reviews)
    settings = {
        "fractions": FRACTIONS,
        "texts": TEXTS,
        "tuned": TUNED,
        "domain texts": DOMAIN_TEXTS,
    }
    return Result(found, settings)


def remake_sst2(executor: Executor, folder: Path) -> Result:
    """SST-2 with a real encoder of 6 layers of 12 heads."""
    return Result(each_seed(executor, folder, len(SST2["seeds"]), measure_sst2), SST2)


# ----------------------------------------------------------------- three checkpoints
def measure_reviews(seed: int) -> dict[str, Rows]:
    """Everything that is measured of one checkpoint: table -> rows."""
    checkpoint = checkpoints.load(f"reviews-bert-{seed}")
    model = checkpoint.model
    batches = read_reviews(checkpoint.tokenizer, **TEXTS).batches
    changes, kept_alone = ablations(model, batches)
    importance = head_importance(model, batches["validation"], losses)
    masks = dict(removal_masks(model, batches["validation"], importance, changes, seed))
    tuned, left = fine_tuning(model, checkpoint.tokenizer, batches["test"], importance, seed)
    return {
        "ablations": per_head(changes, "change"),
        "all_but_one": kept_alone,
        "importance": per_head(importance, "importance"),
        "removal": removal(model, batches["test"], masks, FRACTIONS),
        "fine_tuning": tuned,
        "heads_left": left,
        "domains": domains(model, checkpoint.tokenizer),
    }


def ablations(model: nn.Module, batches: dict[str, list[Batch]]) -> tuple[Tensor, Rows]:
    """Change in validation accuracy with one head off, (layers, heads), in points; and for
    each layer with all heads off but one the head that is kept (chosen on validation
    texts) and the change in test accuracy.
    """
    layers, heads = size(model)
    each = ablate_each(evaluator(model, batches["validation"]), layers, heads)
    # 32 candidates, which differ by more than single ablations do
    few = evaluator(model, batches["validation"][::2])
    kept = all_but_one(few, evaluator(model, batches["test"]), layers, heads)
    return each.double().mul(1000).round().div(1000), [
        {"layer": layer, "head": head + 1, "change": round(change, 2)}
        for layer, (head, change) in enumerate(kept, start=1)
    ]


def removal_masks(
    model: nn.Module, validation: list[Batch], importance: Tensor, changes: Tensor, seed: int
) -> Iterator[tuple[tuple[str, int], list[Tensor | None]]]:
    """(method, draw) -> a mask per fraction, None where the method cannot remove so many."""
    counts = [round(fraction * importance.numel()) for fraction in FRACTIONS]

    def score(of: nn.Module) -> Tensor:
        return head_importance(of, validation, losses)

    yield ("I_h", 0), [lowest_heads(importance, count) for count in counts]
    within = normalise_by_layer(importance)
    yield ("I_h, by layer", 0), [lowest_heads(within, count) for count in counts]
    yield ("I_h, iterative", 0), list(prune_heads_iteratively(model, score, counts))
    yield ("single ablation", 0), [lowest_heads(-changes, count) for count in counts]
    yield ("most important first", 0), [lowest_heads(-importance, count) for count in counts]
    for method, draws in {"random": DRAWS, **dict.fromkeys(PLACES, PLACED)}.items():
        for draw in range(draws):
            generator = torch.Generator().manual_seed(1000 * seed + draw)
            masks = [_placed(importance.shape, count, method, generator) for count in counts]
            yield (method, draw), masks


def removal(
    model: nn.Module,
    test: list[Batch],
    masks: dict[tuple[str, int], list[Tensor | None]],
    fractions: tuple[float, ...],
) -> Rows:
    """Test accuracy in % with the heads of each mask, and with all heads."""
    evaluate = evaluator(model, test)
    whole = round(evaluate(torch.ones(size(model))), 2)
    return [{"method": "dense", "draw": 0, "removed": None, "test": whole}] + [
        {
            "method": method,
            "draw": draw,
            "removed": fraction,
            "test": round(evaluate(keep.float()), 2),
        }
        for (method, draw), kept in masks.items()
        for fraction, keep in zip(fractions, kept, strict=True)
        if keep is not None
    ]


def fine_tuning(
    model: nn.Module, tokenizer: Any, test: list[Batch], importance: Tensor, seed: int
) -> tuple[Rows, Rows]:
    """Test accuracy in % before and after a short fine-tuning, and the heads left in each
    layer; the full model gets the same training.
    """
    steps, batch = TUNED["steps"], TUNED["batch"]
    texts = reviews.load(train=steps * batch, validation=0, test=0)["train"]
    training = pieces.encode(texts, tokenizer)
    layers, heads = importance.shape
    stored = torch.tensor(importance.tolist())  # float32, as normalise_by_layer got it
    masks = [("dense", 0.0, 0, torch.ones(importance.shape, dtype=torch.bool))]
    for fraction in TUNED["fractions"]:
        count = round(fraction * importance.numel())
        masks.append(("I_h", fraction, 0, lowest_heads(stored, count)))
        masks.append(
            ("I_h, by layer", fraction, 0, lowest_heads(normalise_by_layer(stored), count))
        )
        for draw in range(TUNED["draws"]):
            generator = torch.Generator().manual_seed(1000 * seed + draw)
            keep = choose_heads(layers, heads, count, "random", generator)
            masks.append(("random", fraction, draw, keep))
    accuracies, left = [], []
    for method, fraction, draw, keep in masks:
        arm = {"method": method, "removed": fraction, "draw": draw}
        smaller = remove_heads(model, keep)
        accuracies.append({**arm, "when": "removed", "test": round(accuracy(smaller, test), 2)})
        fit_batches(
            smaller,
            pieces.batches(training, "sentiment", batch, seed=seed),
            steps,
            lr=TUNED["lr"],
            rate=warm_up_then_decay(20, 20),
            seed=seed,
            progress=False,
        )
        accuracies.append({**arm, "when": "fine-tuned", "test": round(accuracy(smaller, test), 2)})
        counts = enumerate(keep.sum(1).tolist(), start=1)
        left += [{**arm, "layer": layer, "heads_left": count} for layer, count in counts]
    return accuracies, left


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
    part, remove some, and measure the accuracy on GLUE's development set, which serves as
    test: table -> rows.
    """
    import glue_classifier as recipe

    model, tokenizer = recipe.load_classifier(seed)
    data = recipe.prepared(SST2["sentences"], tokenizer=tokenizer)
    recipe.fine_tune(model, data, seed=seed)
    validation = data["validation"].select(range(SST2["validation"]))
    importance = head_importance(model, pieces.batches(validation, batch_size=50), losses)
    shares = SST2["removed"]
    counts = [round(share * importance.numel()) for share in shares]
    within = normalise_by_layer(importance)
    masks: dict[tuple[str, int], list[Tensor | None]] = {
        ("I_h", 0): [lowest_heads(importance, count) for count in counts],
        ("I_h, by layer", 0): [lowest_heads(within, count) for count in counts],
    }
    for draw in range(SST2["draws"]):
        generator = torch.Generator().manual_seed(draw)
        masks["random", draw] = [_placed(importance.shape, n, "random", generator) for n in counts]
    masks["most important first", 0] = [lowest_heads(-importance, count) for count in counts]
    test = list(pieces.batches(data["test"], batch_size=50))
    return {
        "importance": per_head(importance, "importance"),
        "removal": removal(model, test, masks, shares),
    }


def _placed(
    shape: torch.Size, count: int, method: str, generator: torch.Generator
) -> Tensor | None:
    try:
        return choose_heads(shape[0], shape[1], count, method.replace(" ", "_"), generator)
    except ValueError:  # "no consecutive" cannot empty neighbours
        return None


RESULTS = {"lab07_heads": remake_reviews, "lab07_sst2": remake_sst2}
