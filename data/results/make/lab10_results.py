"""Make lab 10's stored results: schedules chosen and fine-tuned, learned thresholds, policies and
cascades at equal cost, and scores compared on reviews and on SST-2.

Source: Goyal et al. 2020, "PoWER-BERT"; Kim et al. 2022, "Learned Token Pruning for
Transformers"; Wang et al. 2021, "SpAtten".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

import glue_classifier as sst2
import torch
from torch import Tensor, nn

from course_lib.data import pieces, reviews
from course_lib.experiments import by_seed, lab10
from course_lib.experiments.lab10 import Schedule, measure, ratio
from course_lib.models import checkpoints
from course_lib.modes import evaluating
from course_lib.pruning import tokens
from course_lib.pruning.heads import gated
from course_lib.pruning.tokens import SoftThreshold, cascading, dropping
from course_lib.pruning.tokens.dropping import Score
from course_lib.training import Batch, accuracy, fit_batches, warm_up_then_decay

MEASURED = 1000  # reviews of validation and of test
FINE_TUNE: dict[str, Any] = {"steps": 1500, "lr": 3e-4, "target": 2.1, "texts": 400}
THRESHOLDS: dict[str, Any] = {
    "steps": 1500,
    "lr": 3e-4,
    "lr_theta": 1.5e-2,
    "sparsity": 0.04,
    "hot": 0.3,
    "cold": 0.1,
    "hard": 0.6,
}
SST2: dict[str, Any] = {
    "sentences": 12_000,
    "draws": 5,
    "schedules": {"gentle": {2: 0.7, 3: 0.5, 4: 0.4}, "steep": {1: 0.7, 2: 0.5, 3: 0.3, 4: 0.2}},
}
SEEDS = 3
PARTS = ("validation", "test")
# the same for four layers: as many products are left
REVIEWS: dict[str, Schedule] = {
    "gentle": {1: 0.7, 2: 0.5},
    "steep": {0: 0.7, 1: 0.5, 2: 0.3},
}
EQUAL_COST: dict[str, Any] = {"budgets": (1.5, 2.0, 2.5), "heads": {"0": 6, "1": 4}}
ARMS = {
    "fine-tuned": ("dense", "informed", "random"),
    "thresholds": ("hard phase", "soft to the end"),
}


# ------------------------------------------------------------------ reviews, fine-tuned
def held_back(tokenizer: Any, texts: int, part: str = "validation") -> list[Batch]:
    """Reviews of a held-back part in batches of 100, from short to long."""
    return list(pieces.batches(pieces.encode(_reviews(texts, part), tokenizer), "sentiment", 100))


@cache
def _reviews(texts: int, part: str) -> Any:
    """Generated once, for all trainings of a process."""
    sizes: dict[str, Any] = {"train": 0, "validation": 0, "test": 0, part: texts}
    return reviews.load(**sizes)[part]


def training_batches(tokenizer: Any, steps: int, seed: int) -> Iterator[Batch]:
    """New batches of training reviews, as large as those that the checkpoints were
    trained on; no text comes twice.
    """
    return reviews.batches(reviews.texts("full", 32 * steps), tokenizer, seed)


def schedules(layers: int, target: float) -> Iterator[Schedule]:
    """Schedules whose MACs are about ``target`` times fewer on paper: shares that fall,
    from a coarse grid, solved for the last.

    Layers are counted from 0. Nothing but [CLS] goes on from the last layer's
    attention, since only its row is read there (a share so small that one token is
    left), which is exact.
    """
    # shares of all drops but the last, added up: each layer costs half before its drop,
    # half after
    budget = layers / target - 0.5
    for head in itertools.product(
        (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2), repeat=layers - 2
    ):
        last = budget - sum(head)
        falls = [*head, last]
        if last >= 0.04 and all(a >= b for a, b in itertools.pairwise(falls)):
            shares = {layer: round(share, 3) for layer, share in enumerate(falls) if share < 1}
            yield {**shares, layers - 1: 1e-6}


def best_schedule(
    model: nn.Module,
    batches: Sequence[Batch],
    target: float,
    *,
    scales: Sequence[float] = (1.0,),
    within: float = 0.1,
) -> Schedule:
    """The schedule of that cost that does best on these validation texts before any
    fine-tuning; of equal ones the first.

    Args:
        scales: of the cost on paper, which is only near the cost of these texts.
        within: how far the cost may be from the target, relative.
    """
    config: Any = model.config
    lengths = torch.cat([batch["attention_mask"].sum(1) for batch in batches])
    fitting = [
        shares
        for scale in scales
        for shares in schedules(config.num_hidden_layers, scale * target)
        if abs(ratio(config, lengths, shares) / target - 1) < within
    ]
    return max(fitting, key=lambda shares: measure(model, batches, shares)["accuracy"])


def fine_tuned(seed: int, arm: str, shares: Schedule) -> dict[str, dict[str, float]]:
    """A checkpoint trained on for some steps with its tokens dropped ("informed", by the row of
    [CLS], or "random") or with all of them ("dense"), and measured on held-back reviews.
    """
    loaded, steps = checkpoints.load(f"reviews-bert-{seed}"), FINE_TUNE["steps"]
    model, tokenizer = loaded.model, loaded.tokenizer
    generator = torch.Generator().manual_seed(seed)
    score: Score = "random" if arm == "random" else "cls"
    keep = {} if arm == "dense" else shares
    with dropping(model, keep, score=score, generator=generator) if keep else nullcontext():
        texts, rate = (
            training_batches(tokenizer, steps, 100 + seed),
            warm_up_then_decay(50, steps // 4),
        )
        fit_batches(model, texts, steps, lr=FINE_TUNE["lr"], rate=rate, seed=seed, progress=False)
    return {p: measure(model, held_back(tokenizer, MEASURED, p), keep, score=score) for p in PARTS}


# ------------------------------------------------------------------- learned thresholds
def thresholds(seed: int, arm: str) -> dict[str, Any]:
    """A checkpoint trained with learned thresholds by :data:`THRESHOLDS`, measured with hard ones.

    The loss is the task's + ``sparsity`` · share of the tokens that goes on. The temperature
    falls from ``hot`` to ``cold``, by the same factor from step to step. In the last ``hard`` of
    the steps thresholds are fixed steps, rows are dropped and the weights train on; not with
    ``arm`` "soft to the end" (the other one is "hard phase").

    Source: Kim et al. 2022, section 3.3.
    """
    loaded = checkpoints.load(f"reviews-bert-{seed}")
    model, tokenizer = loaded.model, loaded.tokenizer
    how, steps = THRESHOLDS, THRESHOLDS["steps"]
    hot, cold = how["hot"], how["cold"]
    soft = steps if arm == "soft to the end" else steps - round(how["hard"] * steps)
    threshold = SoftThreshold(model.config.num_hidden_layers - 1, hot)
    done = itertools.count()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        if (step := next(done)) == soft:
            threshold.eval()
        threshold.temperature = hot * (cold / hot) ** min(1.0, step / soft)
        value = model(**batch).loss
        if threshold.training:
            assert drop.last is not None
            value = value + how["sparsity"] * drop.last.soft_share()
        return value

    with dropping(model, threshold) as drop:
        fit_batches(
            model,
            training_batches(tokenizer, steps, seed=200 + seed),
            steps,
            loss=loss,
            groups=[
                {"params": list(model.parameters())},
                {"params": [threshold.theta], "lr": how["lr_theta"], "weight_decay": 0.0},
            ],
            lr=how["lr"],
            betas=(0.9, 0.999),
            rate=(warm_up_then_decay(50, soft if soft < steps else steps - 50), lambda *_: 1.0),
            seed=seed,
            progress=False,
        )
    found: dict[str, Any] = {}
    if arm == "soft to the end":  # as it was trained: every token there, but counting less
        with dropping(model, threshold):
            found["as trained"] = accuracy(model, held_back(tokenizer, MEASURED))
    threshold.eval()
    return found | {p: measure(model, held_back(tokenizer, MEASURED, p), threshold) for p in PARTS}


# -------------------------------------------------------------------- at equal cost
def at_equal_cost(seed: int) -> Any:
    """Test accuracy of a checkpoint, not trained on: ``policies`` of choosing tokens, and a
    ``cascade`` of tokens and heads against each alone. ``drops`` on validation reviews: see
    ``lab10.single_drops``; ``sink``: see :func:`favourite`.

    The cascade drops tokens by the checkpoint's schedule for :data:`FINE_TUNE`. "tokens, equal
    products" has a schedule for as many products, chosen in the same way; "random" drops as many
    tokens and heads as the cascade.
    """
    patients = lab10.load((seed,), MEASURED)
    model, config, test = patients.models[seed], patients.config, patients.test
    chosen_on = held_back(patients.tokenizer, FINE_TUNE["texts"])
    shares = best_schedule(model, chosen_on, FINE_TUNE["target"])
    left = {int(layer): n for layer, n in EQUAL_COST["heads"].items()}
    both = measure(model, test, block=cascading(model, shares, left))
    scales = (0.9, 0.95, 1.0, 1.05, 1.1)
    equal = best_schedule(model, chosen_on, both["fewer"], scales=scales, within=0.02)
    found = {
        "dense": measure(model, test),
        "tokens": measure(model, test, shares),
        "heads": measure(model, test, block=cascading(model, {}, left)),
        "tokens and heads": both,
        "tokens, equal products": measure(model, test, equal),
    }
    generator, count = torch.Generator().manual_seed(seed), config.num_attention_heads
    keep = torch.ones(config.num_hidden_layers, count, dtype=torch.bool)
    order = torch.randperm(count, generator=generator)  # a dropped head never comes back
    for layer in range(1, len(keep)):
        keep[layer] = order < min(n for at, n in left.items() if at < layer)
    with gated(model, keep):
        found["random"] = measure(model, test, shares, score="random", seed=seed)
    found["random"] |= {"macs": both["macs"], "fewer": both["fewer"]}
    policies = lab10.at_equal_cost(
        tokens.progressive, tokens.threshold_policy, patients, EQUAL_COST["budgets"], seed
    )
    sink = [
        {"layer": layer, "share": share}
        for layer, share in enumerate(favourite(model, patients.validation[:5]))
    ]
    drops = lab10.single_drops(tokens.keep_tokens, tokens.attention_received, patients, seed)
    columns = ["layer", "share", "method", "accuracy"]
    return {
        "policies": policies,
        "cascade": [
            {"method": m, "accuracy": one["accuracy"], "fewer": one["fewer"]}
            for m, one in found.items()
        ],
        "sink": sink,
        "drops": drops[columns].query("method != 'dense'").to_dict("records"),
    }


# -------------------------------------------------------------------------------- SST-2
def favourite(model: nn.Module, batches: Iterable[Batch]) -> list[float]:
    """For each layer the largest entry of [CLS]'s attention row (mean over heads), mean
    over texts.
    """
    config: Any = model.config
    everything = dict.fromkeys(range(config.num_hidden_layers), 1.0)
    found = []
    with evaluating(model), torch.inference_mode(), dropping(model, everything) as drop:
        for batch in batches:
            model(**lab10.model_inputs(batch))
            assert drop.last is not None
            found.append(torch.stack([drop.last.scores[layer].amax(1) for layer in everything]))
    return torch.cat(found, 1).mean(1).tolist()


def by_scores(
    model: nn.Module, batches: Sequence[Batch], schedules: Mapping[str, Schedule]
) -> list[dict[str, Any]]:
    """What :func:`measure` finds on these texts: whole ("dense"), and for each of the
    ``schedules`` by the row of [CLS], by attention received, and in random draws.
    """
    columns = ("accuracy", "macs", "dense_macs")
    arms: list[tuple[str, Schedule | None, str, Score, int]] = [("dense", None, "dense", "cls", 0)]
    for name, shares in schedules.items():
        arms += [(name, shares, "[CLS] row", "cls", 0), (name, shares, "received", "received", 0)]
        arms += [(name, shares, "random", "random", draw) for draw in range(SST2["draws"])]
    rows = []
    for name, keep, method, score, draw in arms:
        found = measure(model, batches, keep, score=score, seed=draw)
        about = {"schedule": name, "method": method, "draw": draw}
        rows.append(about | {column: found[column] for column in columns})
    return rows


def on_sst2(seed: int) -> dict[str, Any]:
    """The packaged encoder fine-tuned on SST-2, then measured on GLUE's development set (which
    is test here) with tokens dropped and no further training; ``sink``: see :func:`favourite`.
    """
    model, tokenizer = sst2.load_classifier(seed)
    data = sst2.prepared(SST2["sentences"], tokenizer=tokenizer)
    sst2.fine_tune(model, data, seed=seed, progress=False)
    batches = list(pieces.batches(data["test"], batch_size=64))
    sink = enumerate(favourite(model, batches[len(batches) // 2 :]))
    return {
        "scores": by_scores(model, batches, SST2["schedules"]),
        "sink": [{"layer": layer, "share": share} for layer, share in sink],
    }


def on_reviews(seed: int) -> dict[str, Any]:
    """:func:`by_scores` of a checkpoint on test reviews."""
    loaded = checkpoints.load(f"reviews-bert-{seed}")
    batches = held_back(loaded.tokenizer, MEASURED, "test")
    return {"scores": by_scores(loaded.model, batches, REVIEWS)}


# ------------------------------------------------------------------------------ the results
def on_training(seed: int) -> dict[str, list[dict[str, Any]]]:
    """``measured``: a checkpoint after each training; ``schedules``: the one that suits it,
    chosen on validation texts.
    """
    loaded = checkpoints.load(f"reviews-bert-{seed}")
    some = held_back(loaded.tokenizer, FINE_TUNE["texts"])
    shares = best_schedule(loaded.model, some, FINE_TUNE["target"])
    rows: list[dict[str, Any]] = []
    for part in PARTS:
        texts = held_back(loaded.tokenizer, MEASURED, part)
        for arm, keep in (("dense", {}), ("informed", shares)):
            about = {"training": "as it came", "method": arm, "part": part}
            rows.append({**about, **measure(loaded.model, texts, keep)})
    for training, arms in ARMS.items():
        for arm in arms:
            tuned = training == "fine-tuned"
            found: Any = fine_tuned(seed, arm, shares) if tuned else thresholds(seed, arm)
            about = {"training": training, "method": arm}
            rows += [{**about, "part": part, **found[part]} for part in PARTS]
            if "as trained" in found:
                about |= {"method": f"{arm}, as trained", "part": "validation"}
                rows.append({**about, "accuracy": found["as trained"]})
    plan = [{"layer": layer, "share": share} for layer, share in shares.items()]
    return {"measured": rows, "schedules": plan}


RESULTS = {
    "lab10_reviews": by_seed(
        "Tokens dropped while training goes on, and learned thresholds: half an hour on two cores.",
        {"fine-tuned": FINE_TUNE, "thresholds": THRESHOLDS}, SEEDS, on_training,
    ),
    "lab10_sst2": by_seed(
        "A real encoder on SST-2, fine-tuned three times: ten minutes on two cores.",
        SST2, SEEDS, on_sst2,
    ),
    "lab10_scores_reviews": by_seed(
        "Tokens chosen by two scores and drawn, nothing trained.",
        {"draws": SST2["draws"], "schedules": REVIEWS}, SEEDS, on_reviews,
    ),
    "lab10_equal_cost": by_seed(
        "Policies, and tokens and heads, at equal cost; nothing trained.",
        EQUAL_COST, SEEDS, at_equal_cost,
    ),
}  # fmt: skip
