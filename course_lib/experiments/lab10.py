"""Lab 10: tokens dropped from small BERTs on reviews and from a real encoder on SST-2:
how it is measured, and the longer runs of lab 10.

``course remake lab10_reviews`` (fine-tuning with tokens dropped, and learned
thresholds) and ``course remake lab10_sst2`` make the shipped results again.

Source: Goyal et al. 2020, "PoWER-BERT"; Kim et al. 2022, "Learned Token Pruning for
Transformers".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from course_lib.cost import texts_macs
from course_lib.data import pieces, reviews
from course_lib.data.review_grammar import POLAR
from course_lib.experiments.once import once
from course_lib.models import checkpoints
from course_lib.models.pretrained import load_classifier
from course_lib.modes import evaluating
from course_lib.pruning.tokens import (
    Cascading,
    Dropping,
    Moment,
    SoftThreshold,
    dropping,
    kept_count,
)
from course_lib.pruning.tokens.dropping import Score
from course_lib.recipes import sst2
from course_lib.recipes.reviews import BATCH, SEEDS, batches_of
from course_lib.recipes.reviews import name as checkpoint_name
from course_lib.training import Batch, accuracy, fit_batches, optimise, warm_up_then_decay

MEASURED = 1000  # reviews of validation and of test
EVIDENCE = "piece_evidence"  # the column of a batch that says which pieces decide
Schedule = dict[int, float]  # layer -> share of the text that goes on from it

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
SST2_SEEDS = (0, 1, 2)
# the same for four layers: as many products are left
REVIEWS: dict[str, Schedule] = {
    "gentle": {1: 0.7, 2: 0.5},
    "steep": {0: 0.7, 1: 0.5, 2: 0.3},
}
ARMS = ("dense", "informed", "random")
THRESHOLD_ARMS = ("hard phase", "soft to the end")


# ---------------------------------------------------------------------------- measuring
def measure(
    model: nn.Module,
    batches: Iterable[Batch],
    keep: Any = None,
    *,
    score: Score | Literal["evidence"] = "cls",
    seed: int = 0,
    open_block: Callable[[], Any] | None = None,
    **options: Any,
) -> dict[str, float]:
    """A classifier measured while tokens are dropped: how often it is right, what that
    costs, and which words it kept.

    Args:
        model: a BERT-type classifier of transformers.
        batches: of ``pieces.batches``, with labels; where they have the column
            ``piece_evidence``, recall is measured.
        keep: what stays after which layer, see ``dropping``; None: everything.
        score: as in ``dropping``, or "evidence": all words that decide stay, and of the
            others random ones.
        seed: of random scores.
        open_block: a function that opens another block to measure in, in place of
            ``dropping``: a ``cascading``.
        options: of ``dropping``.

    Returns:
        ``accuracy`` in %; ``macs`` of the encoder for one text, mean over texts, and
        ``dense_macs``, those of whole texts; ``recall``, the share of the polar words'
        pieces that are there at the end, and ``chance``, what it would be if as many
        tokens had been kept at random. The last two are NaN without evidence.
    """
    generator = torch.Generator().manual_seed(seed)
    now: Batch = {}

    def by_evidence(moment: Moment) -> Tensor:
        decides = now[EVIDENCE].gather(1, moment.places) > 0
        return decides + 0.5 * torch.rand(decides.shape, generator=generator)

    if open_block is not None:
        block = open_block()
    elif keep is None:
        block = dropping(model, {})
    else:
        chosen = by_evidence if score == "evidence" else score
        block = dropping(model, keep, score=chosen, generator=generator, **options)
    config: Any = model.config
    right = texts = polar_kept = polar = expected = 0.0
    macs: list[Tensor] = []
    whole: list[Tensor] = []
    with evaluating(model), torch.inference_mode(), block as opened:
        for batch in batches:
            now = batch
            inputs = {
                name: column for name, column in batch.items() if name not in ("labels", EVIDENCE)
            }
            right += (model(**inputs).logits.argmax(1) == batch["labels"]).sum().item()
            texts += len(batch["labels"])
            drop: Dropping = opened.tokens if isinstance(opened, Cascading) else opened
            assert drop.last is not None
            width: Any = None
            if isinstance(opened, Cascading):
                size = config.hidden_size // config.num_attention_heads
                width = torch.stack([alive.sum(1) for alive in opened.heads]) * size  # (layers, B)
            macs.append(
                texts_macs(
                    drop.last.attention,
                    drop.last.ffn,
                    config.hidden_size,
                    ffn_width=config.intermediate_size,
                    attention_width=width,
                )
            )
            whole.append(batch_macs(config, drop.last.lengths))
            if EVIDENCE in batch:
                words = batch[EVIDENCE] == POLAR  # (B, L)
                alive = drop.last.alive(-1)
                by_luck = (alive.sum(1) - 1) / (drop.last.lengths - 1)  # [CLS] stays in any case
                polar_kept += (words & alive).sum().item()
                polar += words.sum().item()
                expected += (words.sum(1) * by_luck).sum().item()
    return {
        "accuracy": 100 * right / texts,
        "macs": torch.cat(macs).double().mean().item(),
        "dense_macs": torch.cat(whole).double().mean().item(),
        "recall": polar_kept / polar if polar else float("nan"),
        "chance": expected / polar if polar else float("nan"),
    }


def batch_macs(config: Any, lengths: Tensor, shares: Mapping[int, float] | None = None) -> Tensor:
    """MACs of the whole encoder for texts of these lengths (B,), where the shares of a
    schedule go on: int64 (B,).
    """
    attention, ffn, left = [], [], lengths
    for layer in range(config.num_hidden_layers):
        attention.append(left)
        if shares and layer in shares:
            left = torch.minimum(left, kept_count(lengths, shares[layer]))
        ffn.append(left)
    return texts_macs(
        torch.stack(attention),
        torch.stack(ffn),
        config.hidden_size,
        ffn_width=config.intermediate_size,
    )


def ratio(config: Any, lengths: Tensor, shares: Mapping[int, float]) -> float:
    """How many times fewer MACs a schedule needs: mean over texts of the whole ones
    over mean of the shortened ones.
    """
    whole, shortened = batch_macs(config, lengths), batch_macs(config, lengths, shares)
    return whole.double().mean().item() / shortened.double().mean().item()


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
    return batches_of(reviews.texts("full", BATCH * steps), tokenizer, seed)


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
    loaded = checkpoints.load(checkpoint_name(seed))
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
        optimise(
            model,
            batches,
            loss,
            torch.optim.AdamW(groups, lr=lr, fused=True),
            steps=steps,
            rate=(warm_up_then_decay(50, soft if soft < steps else steps - 50), lambda *_: 1.0),
            clip=1.0,
            seed=seed,
            after=lambda *_: followed.append(theta.detach().tolist()),
            progress=False,
        )
    model.eval()
    threshold.eval()
    return followed


def thresholds(seed: int, arm: str, **settings: Any) -> dict[str, Any]:
    """A checkpoint with learned thresholds, measured with hard ones; ``arm``: "hard
    phase", or "soft to the end".
    """
    loaded = checkpoints.load(checkpoint_name(seed))
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
        "theta": [[round(t, 3) for t in row] for row in followed[:: max(1, steps // 50)]],
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
) -> dict[str, Any]:
    """``dense`` and, for each of the ``schedules``, ``cls``, ``received`` and
    ``random`` (a list of draws): what :func:`measure` says of these texts.
    """

    def told(keep: Schedule | None = None, score: Score = "cls", draw: int = 0) -> dict[str, float]:
        found = measure(model, batches, keep, score=score, seed=draw)
        # real words have no known evidence
        return {name: found[name] for name in ("accuracy", "macs", "dense_macs")}

    return {
        "dense": told(),
        "schedules": {
            name: {
                "cls": told(shares),
                "received": told(shares, "received"),
                "random": [told(shares, "random", draw) for draw in range(draws)],
            }
            for name, shares in schedules.items()
        },
    }


def on_sst2(
    seed: int, *, sentences: int, draws: int, schedules: Mapping[str, Schedule]
) -> dict[str, Any]:
    """The packaged encoder fine-tuned on SST-2, and then measured with tokens dropped
    and no further training.

    Returns:
        What :func:`by_scores` says of GLUE's development set, which is test here; and
        ``sink``, for each layer how much of [CLS]'s attention its favourite token gets,
        mean over sentences.
    """
    model, tokenizer = load_classifier(seed=seed)
    data = sst2.prepared(sentences, tokenizer=tokenizer)
    history = sst2.fine_tune(model, data, seed=seed, progress=False)
    batches = list(pieces.batches(data["test"], batch_size=64))
    return {
        "validation": accuracy(model, pieces.batches(data["validation"], batch_size=64)),
        "cpu_seconds": history.cpu_seconds,
        "sink": favourite(model, batches[len(batches) // 2 :]),
        **by_scores(model, batches, schedules, draws),
    }


def on_reviews(seed: int) -> dict[str, Any]:
    """:func:`by_scores` of a checkpoint on test reviews, at :data:`REVIEWS`."""
    loaded = checkpoints.load(checkpoint_name(seed))
    batches = validation_batches(loaded.tokenizer, MEASURED, "test")
    return by_scores(loaded.model, batches, REVIEWS, SST2["draws"])


def favourite(model: nn.Module, batches: Iterable[Batch]) -> list[float]:
    """For each layer the largest entry of [CLS]'s attention row (mean over heads), mean
    over texts.
    """
    config: Any = model.config
    layers = config.num_hidden_layers
    found = []
    with (
        evaluating(model),
        torch.inference_mode(),
        dropping(model, dict.fromkeys(range(layers), 1.0)) as drop,
    ):
        for batch in batches:
            model(
                **{
                    name: column
                    for name, column in batch.items()
                    if name not in ("labels", EVIDENCE)
                }
            )
            assert drop.last is not None
            found.append(torch.stack([drop.last.scores[layer].amax(1) for layer in range(layers)]))
    return torch.cat(found, 1).mean(1).tolist()


# ------------------------------------------------------------------------------ shipped
def before_training(seed: int) -> dict[str, Any]:
    """The schedule that suits a checkpoint, chosen on validation texts, and what it
    costs before any fine-tuning.
    """
    loaded = checkpoints.load(checkpoint_name(seed))
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


def remake_reviews(executor: Executor, folder: Path) -> dict[str, Any]:
    """Fine-tuning with tokens dropped, and learned thresholds, for the three
    checkpoints: about half an hour on two cores.
    """
    started = [
        executor.submit(once, folder / f"before{seed}.json", before_training, seed)
        for seed in SEEDS
    ]
    seeds = [future.result() for future in started]
    # arm -> one future a seed; all of them wait for a free process at once
    trained: dict[str, list[Any]] = {}
    for arm in ARMS:
        trained[arm] = [
            executor.submit(
                once,
                folder / f"{arm}{seed}.json",
                fine_tuned,
                seed,
                arm,
                {int(layer): share for layer, share in seeds[seed]["schedule"].items()},
                **FINE_TUNE,
            )
            for seed in SEEDS
        ]
    learned = {
        arm: [
            executor.submit(
                once,
                folder / f"{arm.replace(' ', '_')}{seed}.json",
                thresholds,
                seed,
                arm,
                **THRESHOLDS,
            )
            for seed in SEEDS
        ]
        for arm in THRESHOLD_ARMS
    }
    for kind, arms in {"fine-tuned": trained, "thresholds": learned}.items():
        for seed in SEEDS:
            seeds[seed][kind] = {arm: futures[seed].result() for arm, futures in arms.items()}
    return {"settings": {"fine-tuned": FINE_TUNE, "thresholds": THRESHOLDS}, "seeds": seeds}


def remake_sst2(executor: Executor, folder: Path) -> dict[str, Any]:
    """Lab 10: tokens dropped from a real encoder on SST-2, fine-tuned three times:
    about ten minutes on two cores.
    """
    running = [
        executor.submit(once, folder / f"seed{seed}.json", on_sst2, seed, **SST2)
        for seed in SST2_SEEDS
    ]
    seeds = [future.result() for future in running]
    return {
        "settings": {**SST2, "schedules": _in_json(SST2["schedules"])},
        "seeds": seeds,
    }


def remake_scores(executor: Executor, folder: Path) -> dict[str, Any]:
    """Tokens chosen by two scores and drawn, three checkpoints on reviews, nothing
    trained: ``seeds``, one of :func:`on_reviews` each.
    """
    running = [
        executor.submit(once, folder / f"seed{seed}.json", on_reviews, seed) for seed in SEEDS
    ]
    return {
        "settings": {"draws": SST2["draws"], "schedules": _in_json(REVIEWS)},
        "seeds": [future.result() for future in running],
    }


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
