"""Lab 07: what heads are worth, at a length that a lab has no time for: three small
BERTs on reviews, and a real encoder on SST-2.

``course remake lab07_heads`` measures, for each of the shipped checkpoints
"reviews-bert-0" to "-2", single ablations, all heads but one, accuracy against heads
removed by score and by place, fine-tuning after removal, and importance in different
domains. ``course remake lab07_sst2`` fine-tunes a real encoder first.

Scores are taken on validation texts, accuracies on test texts; nothing is chosen by the
latter.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?"; the places:
Budhraja et al. 2020, "On the Weak Link between Importance and Prunability of Attention
Heads".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.data import pieces, reviews
from course_lib.experiments.once import once
from course_lib.models import checkpoints
from course_lib.pruning.heads import (
    ablate_each,
    all_but_one,
    choose_heads,
    find_attention,
    gate_evaluator,
    head_importance,
    lowest_heads,
    normalise_by_layer,
    prune_heads_iteratively,
    remove_heads,
)
from course_lib.recipes.reviews import SEEDS
from course_lib.recipes.reviews import name as checkpoint_name
from course_lib.training import Batch, accuracy, fit_batches, warm_up_then_decay

FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)  # of all heads, removed
PLACES = ("top", "bottom", "middle", "no_consecutive")
TEXTS = {"validation": 1000, "test": 2000}  # what scores and accuracies are taken on
DRAWS = 10  # random masks for each checkpoint and fraction
PLACED = 2  # draws for each rule by place, which leaves to chance which heads of a layer go
TUNED: dict[str, Any] = {"fractions": (0.5, 0.8), "steps": 200, "draws": 4, "lr": 3e-4, "batch": 16}
DOMAIN_TEXTS = 1500  # for each importance that is compared with another
SST2: dict[str, Any] = {
    "sentences": 12_000,
    "validation": 1000,
    "removed": (0.39, 0.58),
    "draws": 10,
    "seeds": (0, 1, 2),
}


def losses(model: nn.Module, batch: Batch) -> Tensor:
    """The cross-entropy of each text of a batch, (B,): the ``loss_fn`` of
    ``head_importance``.
    """
    inputs = {name: part for name, part in batch.items() if name != "labels"}
    return F.cross_entropy(model(**inputs).logits, batch["labels"], reduction="none")


def evaluator(model: nn.Module, batches: Sequence[Batch]) -> Callable[[Tensor], float]:
    """Accuracy in % on ``batches`` as a function of gates (layers, heads)."""
    return gate_evaluator(model, lambda gated: accuracy(gated, batches))


def review_batches(tokenizer: Any, **texts: int) -> dict[str, list[Batch]]:
    """Generated reviews as batches of texts of like length:
    ``review_batches(tokenizer, validation=500, test=500)``.
    """
    data = reviews.load(texts.get("train", 0), texts.get("validation", 0), texts.get("test", 0))
    encoded = pieces.encode(data, tokenizer, aligned=())
    return {part: list(pieces.batches(encoded[part], "sentiment", 50)) for part in texts}


# ------------------------------------------------------------------- one part at a time
def ablations(seed: int) -> dict[str, Any]:
    """``each``: change in validation accuracy with one head off, (layers, heads), in
    points; ``all_but_one``: for each layer the head that stays (chosen on validation
    texts), and the change in test accuracy.
    """
    model, batches = _checkpoint(seed)
    layers, heads = _size(model)
    on = {part: evaluator(model, batches[part]) for part in TEXTS}
    # 32 candidates, which differ by more than single ablations do
    few = evaluator(model, batches["validation"][::2])
    return {
        "each": _rounded(ablate_each(on["validation"], layers, heads)),
        "all_but_one": [
            [head, round(change, 2)] for head, change in all_but_one(few, on["test"], layers, heads)
        ],
    }


def removal(seed: int, each: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Test accuracy in % at :data:`FRACTIONS`: for each rule a list of draws (one,
    where nothing is drawn), None where a rule cannot remove so many. And ``dense``, and
    the ``importance`` that "I_h" goes by.

    Args:
        each: the single ablations of the same checkpoint, on the same validation texts
            as the importance.
    """
    model, batches = _checkpoint(seed)
    layers, heads = _size(model)
    evaluate = evaluator(model, batches["test"])
    counts = [round(fraction * layers * heads) for fraction in FRACTIONS]

    def score(of: nn.Module) -> Tensor:
        return head_importance(of, batches["validation"], losses)

    importance, changes = score(model), torch.tensor(each)
    masks: dict[str, list[list[Tensor | None]]] = {
        "I_h": [[lowest_heads(importance, count) for count in counts]],
        "I_h, by layer": [
            [lowest_heads(normalise_by_layer(importance), count) for count in counts]
        ],
        "I_h, iterative": [list(prune_heads_iteratively(model, score, counts))],
        "single ablation": [[lowest_heads(-changes, count) for count in counts]],
        "most important first": [[lowest_heads(-importance, count) for count in counts]],
    }
    for rule, draws in {"random": DRAWS, **dict.fromkeys(PLACES, PLACED)}.items():
        generators = [torch.Generator().manual_seed(1000 * seed + draw) for draw in range(draws)]
        masks[rule] = [
            [_placed(layers, heads, count, rule, g) for count in counts] for g in generators
        ]
    curves = {
        rule: [[None if keep is None else round(evaluate(keep), 2) for keep in row] for row in rows]
        for rule, rows in masks.items()
    }
    return {
        "dense": round(evaluate(torch.ones(layers, heads)), 2),
        "importance": importance.tolist(),
        "curves": curves,
    }


def fine_tuning(seed: int, importance: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Test accuracy in % before and after a short fine-tuning,
    ``{"0.5": [{"rule", "left", "before", "after"}, …]}``; at "0.0" the full model,
    which gets the same training. ``left``: heads left in each layer.
    """
    model, batches = _checkpoint(seed)
    layers, heads = _size(model)
    tokenizer = checkpoints.load(checkpoint_name(seed)).tokenizer
    steps, batch = TUNED["steps"], TUNED["batch"]
    training = pieces.encode(
        reviews.load(train=steps * batch, validation=0, test=0)["train"], tokenizer, aligned=()
    )
    masks: dict[str, list[tuple[str, Tensor]]] = {
        "0.0": [("dense", torch.ones(layers, heads, dtype=torch.bool))]
    }
    for fraction in TUNED["fractions"]:
        count = round(fraction * layers * heads)
        scores = {
            "I_h": torch.tensor(importance),
            "I_h, by layer": normalise_by_layer(torch.tensor(importance)),
        }
        masks[str(fraction)] = [
            (rule, lowest_heads(score, count)) for rule, score in scores.items()
        ]
        for draw in range(TUNED["draws"]):
            generator = torch.Generator().manual_seed(1000 * seed + draw)
            masks[str(fraction)].append(
                ("random", choose_heads(layers, heads, count, "random", generator))
            )
    results: dict[str, Any] = {}
    for fraction_name, rows in masks.items():
        results[fraction_name] = []
        for rule, keep in rows:
            smaller = remove_heads(model, keep)
            before = accuracy(smaller, batches["test"])
            fit_batches(
                smaller,
                pieces.batches(training, "sentiment", batch, seed=seed),
                steps,
                lr=TUNED["lr"],
                rate=warm_up_then_decay(20, 20),
                seed=seed,
                progress=False,
            )
            after = accuracy(smaller, batches["test"])
            row = {
                "rule": rule,
                "left": keep.sum(1).tolist(),
                "before": round(before, 2),
                "after": round(after, 2),
            }
            results[fraction_name].append(row)
    return results


def domains(seed: int) -> dict[str, Any]:
    """I_h of all heads by domain, from two samples of fresh texts each:
    ``{domain: [importance, importance]}``, flat lists.
    """
    checkpoint = checkpoints.load(checkpoint_name(seed))
    # no text of seed 0: none was trained on
    fresh = reviews.load(train=7 * DOMAIN_TEXTS, validation=0, test=0, seed=1)
    result = {}
    for domain, data in reviews.by_domain(fresh).items():
        encoded = pieces.encode(
            data["train"].select(range(2 * DOMAIN_TEXTS)), checkpoint.tokenizer, aligned=()
        )
        halves = [encoded.select(range(i * DOMAIN_TEXTS, (i + 1) * DOMAIN_TEXTS)) for i in range(2)]
        result[domain] = [
            head_importance(checkpoint.model, pieces.batches(half, "sentiment", 50), losses)
            .flatten()
            .tolist()
            for half in halves
        ]
    return result


def pearson(by_domain: dict[str, list[list[float]]]) -> dict[str, list[float]]:
    """Correlations of importance over heads: ``across`` each pair of domains (mean of
    the four pairs of samples), and ``same``, between the two samples of each domain,
    which is the most that the former can be expected to reach.
    """

    def r(a: list[float], b: list[float]) -> float:
        return float(torch.corrcoef(torch.tensor([a, b], dtype=torch.float64))[0, 1])

    pairs = itertools.combinations(by_domain.values(), 2)
    across = [sum(r(x, y) for x in a for y in b) / (len(a) * len(b)) for a, b in pairs]
    return {"across": across, "same": [r(*samples) for samples in by_domain.values()]}


# ---------------------------------------------------------------------------- the files
def remake_reviews(executor: Executor, folder: Path) -> dict[str, Any]:
    """All of the above for the three checkpoints: ``{part: [one for each seed]}``, and
    the settings.
    """

    def each(part: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
        paths = [folder / f"{part.__name__}-{seed}.json" for seed in SEEDS]
        return list(executor.map(once, paths, itertools.repeat(part), SEEDS, *arguments))

    ablated = each(ablations)
    removed = each(removal, [found["each"] for found in ablated])
    return {
        "settings": {
            "fractions": FRACTIONS,
            "texts": TEXTS,
            "tuned": TUNED,
            "domain texts": DOMAIN_TEXTS,
        },
        "ablations": ablated,
        "removal": removed,
        "fine-tuning": each(fine_tuning, [found["importance"] for found in removed]),
        "domains": each(domains),
    }


def remake_sst2(executor: Executor, folder: Path) -> dict[str, Any]:
    """SST-2 with a real encoder of 6 layers of 12 heads: ``seeds``, one of :func:`sst2`
    each, and the settings.
    """
    paths = [folder / f"sst2-{seed}.json" for seed in SST2["seeds"]]
    runs = list(executor.map(once, paths, itertools.repeat(sst2), SST2["seeds"]))
    return {"settings": SST2, "seeds": runs}


def sst2(seed: int) -> dict[str, Any]:
    """Fine-tune the packaged encoder, score its heads on sentences cut from the
    training part, remove some, and measure the accuracy on GLUE's development set,
    which serves as test.

    Returns:
        ``importance`` (layers, heads); ``dense``, accuracy in %; ``test``: {rule:
        [[accuracy in % for each share removed], one row for each draw]}.
    """
    from course_lib.models.pretrained import load_classifier
    from course_lib.recipes import sst2 as recipe

    model, tokenizer = load_classifier(seed=seed, download=False)
    data = recipe.prepared(SST2["sentences"], tokenizer=tokenizer)
    recipe.fine_tune(model, data, seed=seed)
    validation = data["validation"].select(range(SST2["validation"]))
    importance = head_importance(model, pieces.batches(validation, batch_size=50), losses)
    layers, heads = importance.shape
    evaluate = evaluator(model, list(pieces.batches(data["test"], batch_size=50)))
    counts = [round(share * layers * heads) for share in SST2["removed"]]
    generators = [torch.Generator().manual_seed(draw) for draw in range(SST2["draws"])]
    masks = {
        "I_h": [[lowest_heads(importance, count) for count in counts]],
        "I_h, by layer": [
            [lowest_heads(normalise_by_layer(importance), count) for count in counts]
        ],
        "random": [
            [choose_heads(layers, heads, count, "random", g) for count in counts]
            for g in generators
        ],
        "most important first": [[lowest_heads(-importance, count) for count in counts]],
    }
    test = {
        rule: [[round(evaluate(keep), 2) for keep in row] for row in rows]
        for rule, rows in masks.items()
    }
    dense = round(evaluate(torch.ones(layers, heads)), 2)
    return {"importance": importance.tolist(), "dense": dense, "test": test}


# ------------------------------------------------------------------------------ helpers
def _checkpoint(seed: int) -> tuple[Any, dict[str, list[Batch]]]:
    checkpoint = checkpoints.load(checkpoint_name(seed))
    return checkpoint.model, review_batches(checkpoint.tokenizer, **TEXTS)


def _size(model: nn.Module) -> tuple[int, int]:
    found = find_attention(model)
    return len(found), found[0].heads


def _placed(
    layers: int, heads: int, count: int, rule: str, generator: torch.Generator
) -> Tensor | None:
    try:
        return choose_heads(layers, heads, count, rule, generator)
    except ValueError:  # "no_consecutive" cannot empty neighbours
        return None


def _rounded(values: Tensor) -> list[list[float]]:
    return [[round(value, 3) for value in row] for row in values.tolist()]


RESULTS = {"lab07_heads": remake_reviews, "lab07_sst2": remake_sst2}
