"""Make lab 10's stored results: schedules chosen and fine-tuned, learned thresholds, and
scores compared on reviews and on SST-2.

Source: Goyal et al. 2020, "PoWER-BERT"; Kim et al. 2022, "Learned Token Pruning for
Transformers".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import glue_classifier as sst2
import pandas as pd
import torch
from torch import Tensor, nn

from course_lib.data import pieces, reviews
from course_lib.experiments import Result
from course_lib.experiments.lab10 import EVIDENCE, Schedule, favourite, measure, ratio
from course_lib.experiments.once import once
from course_lib.models import checkpoints
from course_lib.pruning.tokens import SoftThreshold, dropping
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
SEEDS = (0, 1, 2)
# the same for four layers: as many products are left
REVIEWS: dict[str, Schedule] = {
    "gentle": {1: 0.7, 2: 0.5},
    "steep": {0: 0.7, 1: 0.5, 2: 0.3},
}
ARMS = ("dense", "informed", "random")
THRESHOLD_ARMS = ("hard phase", "soft to the end")


# ------------------------------------------------------------------ reviews, fine-tuned
def validation_batches(
    tokenizer: Any, texts: int, part: str = "validation", kind: str = "full"
) -> list[Batch]:
    """Reviews of a held-back part in batches of 100, from short to long, with their
    evidence.
    """
    data = pieces.encode(_held_back(kind, part, texts), tokenizer, aligned=("evidence",))
    return list(pieces.batches(data, "sentiment", 100, extra=(EVIDENCE,)))


@lru_cache
def _held_back(kind: str, part: str, texts: int) -> Any:
    return reviews.load(**{"train": 0, "validation": 0, "test": 0, part: texts}, kind=kind)[part]


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


def best_schedule(model: nn.Module, batches: Sequence[Batch], target: float) -> Schedule:
    """The schedule of that cost that does best on these validation texts before any
    fine-tuning; of equal ones the first.
    """
    config: Any = model.config
    lengths = torch.cat([batch["attention_mask"].sum(1) for batch in batches])
    fitting = [
        shares
        for shares in schedules(config.num_hidden_layers, target)
        if abs(ratio(config, lengths, shares) / target - 1) < 0.1
    ]
    return max(fitting, key=lambda shares: measure(model, batches, shares)["accuracy"])


def fine_tuned(
    seed: int, arm: str, shares: Schedule, *, steps: int, lr: float, **_: Any
) -> dict[str, Any]:
    """A checkpoint trained on for some steps with its tokens dropped, and measured on
    validation and test reviews.

    Args:
        arm: "informed", by the attention of [CLS]; "random"; or "dense", trained as
            long with all tokens: the fair comparison, since more training may help by
            itself.
        shares: the schedule.
    """
    loaded = checkpoints.load(f"reviews-bert-{seed}")
    model, tokenizer = loaded.model, loaded.tokenizer
    generator = torch.Generator().manual_seed(seed)
    options: dict[str, Any] = (
        {"score": "random", "generator": generator} if arm == "random" else {"score": "cls"}
    )
    block = nullcontext() if arm == "dense" else dropping(model, shares, **options)
    with block:
        fit_batches(
            model,
            training_batches(tokenizer, steps, seed=100 + seed),
            steps,
            lr=lr,
            rate=warm_up_then_decay(50, steps // 4),
            seed=seed,
            progress=False,
        )
    keep = None if arm == "dense" else shares
    score: Score = "random" if arm == "random" else "cls"
    return {
        part: measure(model, validation_batches(tokenizer, MEASURED, part), keep, score=score)
        for part in ("validation", "test")
    }


# ------------------------------------------------------------------- learned thresholds
def learn_thresholds(
    model: nn.Module,
    threshold: SoftThreshold,
    batches: Iterable[Batch],
    steps: int,
    *,
    lr: float,
    lr_theta: float,
    sparsity: float,
    hot: float,
    cold: float,
    hard: float,
    seed: int = 0,
) -> list[list[float]]:
    """Train model and thresholds together, in place: loss + ``sparsity`` · share of the
    tokens that goes on.

    Args:
        threshold: ends in evaluation mode, that is as a step.
        lr, lr_theta: learning rates of AdamW for the weights and for the thresholds,
            which are of size 1.
        hot, cold: the temperature falls from the one to the other, by the same factor
            from step to step.
        hard: share of the steps at the end in which thresholds are fixed steps, rows
            are dropped and the weights train on.

    Returns:
        The thresholds after each step, (steps, layers).

    Source: Kim et al. 2022, section 3.3.
    """
    theta = threshold.theta
    groups: list[dict[str, Any]] = [
        {"params": list(model.parameters())},
        {"params": [theta], "lr": lr_theta, "weight_decay": 0.0},
    ]
    soft = steps - round(hard * steps)
    followed: list[list[float]] = []

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        if (step := len(followed)) == soft:
            threshold.eval()
        threshold.temperature = hot * (cold / hot) ** min(1.0, step / soft)
        value = model(**batch).loss
        if threshold.training:
            assert drop.last is not None
            value = value + sparsity * drop.last.soft_share()
        return value

    threshold.train()
    with dropping(model, threshold) as drop:
        fit_batches(
            model,
            batches,
            steps,
            loss=loss,
            groups=groups,
            lr=lr,
            betas=(0.9, 0.999),
            rate=(warm_up_then_decay(50, soft if soft < steps else steps - 50), lambda *_: 1.0),
            seed=seed,
            post_step=lambda: followed.append(theta.detach().tolist()),
            progress=False,
        )
    model.eval()
    threshold.eval()
    return followed


def thresholds(seed: int, arm: str, **settings: Any) -> dict[str, Any]:
    """A checkpoint with learned thresholds, measured with hard ones; ``arm``: "hard
    phase", or "soft to the end".
    """
    loaded = checkpoints.load(f"reviews-bert-{seed}")
    model, tokenizer = loaded.model, loaded.tokenizer
    steps = settings.pop("steps")
    if arm == "soft to the end":
        settings["hard"] = 0.0
    threshold = SoftThreshold(model.config.num_hidden_layers - 1, settings["hot"])
    followed = learn_thresholds(
        model,
        threshold,
        training_batches(tokenizer, steps, seed=200 + seed),
        steps,
        seed=seed,
        **settings,
    )
    measured: dict[str, Any] = {
        part: measure(model, validation_batches(tokenizer, MEASURED, part), threshold)
        for part in ("validation", "test")
    }
    if arm == "soft to the end":  # as it was trained: every token there, but counting less
        batches = validation_batches(tokenizer, MEASURED)
        measured["as trained"] = soft_accuracy(model, threshold, batches)
    return {
        **measured,
        "theta": {
            step + 1: [round(t, 3) for t in followed[step]]
            for step in range(0, steps, max(1, steps // 50))
        },
    }


def soft_accuracy(model: nn.Module, threshold: SoftThreshold, batches: Iterable[Batch]) -> float:
    """Accuracy in % while tokens only count less, as in soft training: nothing is
    dropped.
    """
    threshold.train()
    with dropping(model, threshold):
        inputs = [
            {name: column for name, column in batch.items() if name != EVIDENCE}
            for batch in batches
        ]
        right = accuracy(model, inputs)
    threshold.eval()
    return right


# -------------------------------------------------------------------------------- SST-2
def by_scores(
    model: nn.Module, batches: Sequence[Batch], schedules: Mapping[str, Schedule], draws: int
) -> list[dict[str, Any]]:
    """What :func:`measure` finds on these texts: whole ("dense"), and for each of the
    ``schedules`` by the row of [CLS], by attention received, and in random ``draws``.
    """
    # real words have no known evidence
    columns = ("accuracy", "macs", "dense_macs")
    arms: list[tuple[str, Schedule | None, str, Score, int]] = [("dense", None, "dense", "cls", 0)]
    for name, shares in schedules.items():
        arms += [(name, shares, "[CLS] row", "cls", 0), (name, shares, "received", "received", 0)]
        arms += [(name, shares, "random", "random", draw) for draw in range(draws)]
    rows = []
    for name, keep, method, score, draw in arms:
        found = measure(model, batches, keep, score=score, seed=draw)
        about = {"schedule": name, "method": method, "draw": draw}
        rows.append(about | {column: found[column] for column in columns})
    return rows


def on_sst2(
    seed: int, *, sentences: int, draws: int, schedules: Mapping[str, Schedule]
) -> dict[str, Any]:
    """The packaged encoder fine-tuned on SST-2, and then measured with tokens dropped
    and no further training.

    Returns:
        ``scores``: rows of :func:`by_scores` on GLUE's development set, which is test
        here; ``fine_tuning``: ``accuracy`` on validation sentences, and what training
        took; ``sink``: for each layer how much of [CLS]'s attention its favourite token
        gets, mean over sentences.
    """
    model, tokenizer = sst2.load_classifier(seed)
    data = sst2.prepared(sentences, tokenizer=tokenizer)
    history = sst2.fine_tune(model, data, seed=seed, progress=False)
    batches = list(pieces.batches(data["test"], batch_size=64))
    return {
        "fine_tuning": {
            "accuracy": accuracy(model, pieces.batches(data["validation"], batch_size=64)),
            "cpu_seconds": history.cpu_seconds,
        },
        "sink": favourite(model, batches[len(batches) // 2 :]),
        "scores": by_scores(model, batches, schedules, draws),
    }


def on_reviews(seed: int) -> list[dict[str, Any]]:
    """:func:`by_scores` of a checkpoint on test reviews, at :data:`REVIEWS`."""
    loaded = checkpoints.load(f"reviews-bert-{seed}")
    batches = validation_batches(loaded.tokenizer, MEASURED, "test")
    return by_scores(loaded.model, batches, REVIEWS, SST2["draws"])


# ------------------------------------------------------------------------------ the results
def before_training(seed: int) -> dict[str, Any]:
    """The schedule that suits a checkpoint, chosen on validation texts, and what it
    costs before any fine-tuning.
    """
    loaded = checkpoints.load(f"reviews-bert-{seed}")
    shares = best_schedule(
        loaded.model, validation_batches(loaded.tokenizer, FINE_TUNE["texts"]), FINE_TUNE["target"]
    )
    measured = {}
    for part in ("validation", "test"):
        batches = validation_batches(loaded.tokenizer, MEASURED, part)
        measured[part] = {
            "dense": measure(loaded.model, batches),
            "informed": measure(loaded.model, batches, shares),
        }
    return {"schedule": {str(layer): share for layer, share in shares.items()}, "before": measured}


def remake_reviews(executor: Executor, folder: Path) -> Result:
    """Fine-tuning with tokens dropped, and learned thresholds, for the three
    checkpoints: about half an hour on two cores.
    """
    started = [executor.submit(once, folder, before_training, seed) for seed in SEEDS]
    before = [future.result() for future in started]
    plans = [{int(layer): share for layer, share in one["schedule"].items()} for one in before]
    # all of them wait for a free process at once
    jobs: dict[tuple[str, str, int], Any] = {}
    for arm, seed in itertools.product(ARMS, SEEDS):
        job = executor.submit(once, folder, fine_tuned, seed, arm, plans[seed], **FINE_TUNE)
        jobs["fine-tuned", arm, seed] = job
    for arm, seed in itertools.product(THRESHOLD_ARMS, SEEDS):
        jobs["thresholds", arm, seed] = executor.submit(
            once, folder, thresholds, seed, arm, **THRESHOLDS
        )
    found = {key: job.result() for key, job in jobs.items()}
    measured, learned = [], []
    for seed in SEEDS:
        about = {"seed": seed, "training": "as it came"}
        for part, methods in before[seed]["before"].items():
            measured += [{**about, "method": m, "part": part, **x} for m, x in methods.items()]
        for (training, arm, of), one in found.items():
            if of != seed:
                continue
            about = {"seed": seed, "training": training, "method": arm}
            measured += [{**about, "part": p, **one[p]} for p in ("validation", "test")]
            if "as trained" in one:
                about["method"] = f"{arm}, as trained"
                measured.append({**about, "part": "validation", "accuracy": one["as trained"]})
            learned += [
                {"seed": seed, "method": arm, "step": int(step), "layer": layer, "theta": theta}
                for step, row in one.get("theta", {}).items()
                for layer, theta in enumerate(row)
            ]
    schedules = [
        {"seed": seed, "layer": layer, "share": share}
        for seed, plan in enumerate(plans)
        for layer, share in plan.items()
    ]
    tables = {"measured": measured, "schedules": schedules, "thresholds": learned}
    return Result(
        {name: pd.DataFrame(rows) for name, rows in tables.items()},
        {"fine-tuned": FINE_TUNE, "thresholds": THRESHOLDS},
    )


def remake_sst2(executor: Executor, folder: Path) -> Result:
    """Tokens dropped from a real encoder on SST-2, fine-tuned three times: about ten
    minutes on two cores.
    """
    running = [executor.submit(once, folder, on_sst2, seed, **SST2) for seed in SEEDS]
    found = [future.result() for future in running]
    scores = [{"seed": s, **row} for s, one in enumerate(found) for row in one["scores"]]
    tunings = [{"seed": s, **one["fine_tuning"]} for s, one in enumerate(found)]
    sink = [
        {"seed": s, "layer": layer, "share": share}
        for s, one in enumerate(found)
        for layer, share in enumerate(one["sink"])
    ]
    tables = {"scores": scores, "fine_tunings": tunings, "sink": sink}
    return Result(
        {name: pd.DataFrame(rows) for name, rows in tables.items()},
        {**SST2, "schedules": _in_json(SST2["schedules"])},
    )


def remake_scores(executor: Executor, folder: Path) -> Result:
    """Tokens chosen by two scores and drawn, three checkpoints on reviews, nothing
    trained.
    """
    running = [executor.submit(once, folder, on_reviews, seed) for seed in SEEDS]
    scores = [{"seed": seed, **row} for seed, job in enumerate(running) for row in job.result()]
    settings = {"draws": SST2["draws"], "schedules": _in_json(REVIEWS)}
    return Result({"scores": pd.DataFrame(scores)}, settings)


def _in_json(schedules: Mapping[str, Schedule]) -> dict[str, dict[str, float]]:
    """Layers as JSON keeps them."""
    return {
        name: {str(layer): share for layer, share in shares.items()}
        for name, shares in schedules.items()
    }


RESULTS = {
    "lab10_reviews": remake_reviews,
    "lab10_sst2": remake_sst2,
    "lab10_scores_reviews": remake_scores,
}
