"""Make lab 10's stored results: models fine-tuned with tokens dropped, learned thresholds, policies
and cascades at equal cost, and scores compared on reviews and on SST-2.

Source: Goyal et al. 2020, "PoWER-BERT"; Kim et al. 2022, "Learned Token Pruning for
Transformers"; Wang et al. 2021, "SpAtten".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import glue_classifier as sst2
import torch
from torch import Tensor, nn

from course_lib.data import pieces, reviews
from course_lib.experiments import by_seed, lab10
from course_lib.experiments.lab10 import Schedule, measure, ratio
from course_lib.modes import evaluating
from course_lib.pruning import tokens
from course_lib.pruning.heads import gated
from course_lib.pruning.tokens import SoftThreshold, cascading, dropping
from course_lib.pruning.tokens.dropping import Score
from course_lib.training import Batch, fit_batches, warm_up_then_decay

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
EQUAL_COST: dict[str, Any] = {
    "budgets": (1.5, 2.0, 2.5),
    "heads": {0: 6, 1: 4},
    "schedules": {"steep": {0: 0.7, 1: 0.5, 2: 0.3}},  # SST-2's for four layers: as many products
    "draws": SST2["draws"],
}


# ------------------------------------------------------------------ reviews, fine-tuned
def schedules(layers: int, target: float) -> Iterator[Schedule]:
    """Schedules whose MACs are about ``target`` times fewer on paper: shares that fall, from a
    coarse grid, solved for the last; layers are counted from 0. From the last layer's attention
    only [CLS] goes on (a share so small that one token is left), which is exact.
    """
    # shares of all drops but the last, added up: a layer costs half before its drop, half after
    budget = layers / target - 0.5
    grid = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
    for head in itertools.product(grid, repeat=layers - 2):
        last = budget - sum(head)
        falls = [*head, last]
        if last >= 0.04 and all(a >= b for a, b in itertools.pairwise(falls)):
            shares = {layer: round(share, 3) for layer, share in enumerate(falls) if share < 1}
            yield {**shares, layers - 1: 1e-6}


def best_schedule(
    model: nn.Module, batches: Sequence[Batch], target: float, *, cascade: bool = False
) -> Schedule:
    """The schedule of about that cost that does best on these validation texts, not trained; of
    equal ones the first. For a ``cascade``, tokens are chosen as it does, by the mean of their
    scores so far, and the cost is met within 2 % and not 10.
    """
    config: Any = model.config
    lengths = torch.cat([batch["attention_mask"].sum(1) for batch in batches])

    def right(shares: Schedule) -> float:
        block = cascading(model, shares, {}) if cascade else None
        return measure(model, batches, shares, block=block)["accuracy"]

    fitting = [
        shares
        for scale in ((0.9, 0.95, 1.0, 1.05, 1.1) if cascade else (1.0,))
        for shares in schedules(config.num_hidden_layers, scale * target)
        if abs(ratio(config, lengths, shares) / target - 1) < (0.02 if cascade else 0.1)
    ]
    return max(fitting, key=right)


def fine_tuned(seed: int, arm: str, shares: Schedule) -> dict[str, float]:
    """A checkpoint trained on with tokens dropped ("informed", by the row of [CLS], or "random")
    or all of them ("dense"), and measured on test reviews.
    """
    patients, steps = lab10.load((seed,), MEASURED), FINE_TUNE["steps"]
    model = patients.models[seed]
    score: Score = "random" if arm == "random" else "cls"
    keep = {} if arm == "dense" else shares
    with dropping(model, keep, score=score, generator=torch.Generator().manual_seed(seed)):
        texts = reviews.batches(reviews.texts("full", 32 * steps), patients.tokenizer, 100 + seed)
        rate = warm_up_then_decay(50, steps // 4)
        fit_batches(model, texts, steps, lr=FINE_TUNE["lr"], rate=rate, seed=seed, progress=False)
    return measure(model, patients.test, keep, score=score)


# ------------------------------------------------------------------- learned thresholds
def thresholds(seed: int, arm: str) -> dict[str, dict[str, float]]:
    """A checkpoint trained with learned thresholds by :data:`THRESHOLDS`, measured on test reviews
    with hard ones; if ``arm`` is "soft to the end", "…, as trained" on validation reviews, too.

    The loss is the task's + ``sparsity`` · share of the tokens that goes on; the temperature falls
    from ``hot`` to ``cold``. In the last ``hard`` of the steps ("hard phase") thresholds are fixed
    steps, rows are dropped and the weights train on.

    Source: Kim et al. 2022, section 3.3.
    """
    patients = lab10.load((seed,), MEASURED)
    model = patients.models[seed]
    how, steps, hot = THRESHOLDS, THRESHOLDS["steps"], THRESHOLDS["hot"]
    soft = steps if arm == "soft to the end" else steps - round(how["hard"] * steps)
    threshold = SoftThreshold(model.config.num_hidden_layers - 1, hot)
    done = itertools.count()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        if (step := next(done)) == soft:
            threshold.eval()
        threshold.temperature = hot * (how["cold"] / hot) ** min(1.0, step / soft)
        value = model(**batch).loss
        if threshold.training:
            assert drop.last is not None
            value = value + how["sparsity"] * drop.last.soft_share()
        return value

    with dropping(model, threshold) as drop:
        fit_batches(
            model,
            reviews.batches(reviews.texts("full", 32 * steps), patients.tokenizer, 200 + seed),
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
    # all tokens, but some count less
    soft_now = {"accuracy": measure(model, patients.validation, threshold)["accuracy"]}
    found = {arm: measure(model, patients.test, threshold.eval())}
    return found | ({f"{arm}, as trained": soft_now} if soft == steps else {})


def on_training(seed: int) -> dict[str, list[dict[str, Any]]]:
    """``measured``: a checkpoint after each training."""
    some = lab10.load((seed,), FINE_TUNE["texts"])
    shares = best_schedule(some.models[seed], some.validation, FINE_TUNE["target"])
    found = {arm: fine_tuned(seed, arm, shares) for arm in ("dense", "informed", "random")}
    found |= thresholds(seed, "hard phase") | thresholds(seed, "soft to the end")
    return {"measured": listed(found)}


# -------------------------------------------------------------------- at equal cost
def at_equal_cost(seed: int) -> dict[str, Any]:
    """A checkpoint, not trained on: ``policies`` of choosing tokens, a ``cascade`` of tokens and
    heads, and ``scores``, on test reviews; ``drops`` on validation reviews.

    "tokens" has the cascade's schedule, "tokens, equal products" the best one for as many products;
    both score tokens as the cascade does. "random" drops as many tokens and heads.
    """
    patients = lab10.load((seed,), MEASURED)
    model, config, test = patients.models[seed], patients.config, patients.test
    some = lab10.load((seed,), FINE_TUNE["texts"]).validation
    shares = best_schedule(model, some, FINE_TUNE["target"])
    left = EQUAL_COST["heads"]

    def run(tokens_left: Schedule, heads_left: dict[int, int]) -> dict[str, float]:
        return measure(model, test, block=cascading(model, tokens_left, heads_left))

    both = run(shares, left)
    equal = best_schedule(model, some, both["fewer"], cascade=True)
    generator, count = torch.Generator().manual_seed(seed), config.num_attention_heads
    order = torch.randperm(count, generator=generator)  # a dropped head never comes back
    before = range(-1, config.num_hidden_layers - 1)
    still = itertools.accumulate((left.get(layer, count) for layer in before), min)
    keep = torch.stack([order < n for n in still])
    with gated(model, keep):
        drawn = measure(model, test, shares, score="random", seed=seed)
    found = {
        "dense": measure(model, test),
        "tokens": run(shares, {}),
        "heads": run({}, left),
        "tokens and heads": both,
        "tokens, equal products": run(equal, {}),
        "random": drawn | {"fewer": both["fewer"]},
    }
    policies = lab10.at_equal_cost(
        tokens.progressive, tokens.threshold_policy, patients, EQUAL_COST["budgets"], seed
    )
    drops = lab10.single_drops(tokens.keep_tokens, tokens.attention_received, patients, seed)
    columns = ["layer", "share", "method", "accuracy"]
    return {
        "policies": policies,
        "cascade": listed(found),
        "sink": favourite(model, patients.validation[:5]),
        "drops": drops[columns].query("method not in ('dense', 'polar words')").to_dict("records"),
        "scores": by_scores(model, test, EQUAL_COST["schedules"]),
    }


def listed(found: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """A row for each method."""
    return [
        {"method": m, "accuracy": one["accuracy"], "fewer": one.get("fewer")}
        for m, one in found.items()
    ]


# -------------------------------------------------------------------------------- SST-2
def favourite(model: nn.Module, batches: Iterable[Batch]) -> list[dict[str, float]]:
    """By ``layer`` the largest entry of [CLS]'s row (mean over heads), mean over texts."""
    config: Any = model.config
    everything = dict.fromkeys(range(config.num_hidden_layers), 1.0)
    found = []
    with evaluating(model), torch.inference_mode(), dropping(model, everything) as drop:
        for batch in batches:
            model(**batch)
            assert drop.last is not None
            found.append(torch.stack([drop.last.scores[layer].amax(1) for layer in everything]))
    shares = torch.cat(found, 1).mean(1).tolist()
    return [{"layer": layer, "share": share} for layer, share in enumerate(shares)]


def by_scores(
    model: nn.Module, batches: Sequence[Batch], schedules: Mapping[str, Schedule]
) -> list[dict[str, Any]]:
    """Accuracy and MACs of whole texts, and by schedule, of each score and of random draws."""
    ways: list[tuple[str, Score, int]] = [("[CLS] row", "cls", 0), ("received", "received", 0)]
    ways += [("random", "random", draw) for draw in range(SST2["draws"])]
    arms: list[Any] = [(("dense", None), ("dense", "cls", 0))]
    arms += itertools.product(schedules.items(), ways)
    rows = []
    for (name, keep), (method, score, draw) in arms:
        found = measure(model, batches, keep, score=score, seed=draw)
        about = {"schedule": name, "method": method, "draw": draw}
        rows.append({**about, "accuracy": found["accuracy"], "macs": found["macs"]})
    return rows


def on_sst2(seed: int) -> dict[str, Any]:
    """The packaged encoder fine-tuned on SST-2, then measured on GLUE's development set (which
    is test here) with tokens dropped and no further training; ``sink``: see :func:`favourite`.
    """
    model, tokenizer = sst2.load_classifier(seed)
    data = sst2.prepared(SST2["sentences"], tokenizer=tokenizer)
    sst2.fine_tune(model, data, seed=seed, progress=False)
    batches = list(pieces.batches(data["test"], batch_size=64))
    sink = favourite(model, batches[len(batches) // 2 :])
    return {"scores": by_scores(model, batches, SST2["schedules"]), "sink": sink}


RESULTS = {
    "lab10_reviews": by_seed(
        "Tokens dropped while training goes on, and learned thresholds: half an hour on two cores.",
        {"fine-tuned": FINE_TUNE, "thresholds": THRESHOLDS}, SEEDS, on_training,
    ),
    "lab10_sst2": by_seed(
        "A real encoder on SST-2, fine-tuned three times: ten minutes on two cores.",
        SST2, SEEDS, on_sst2,
    ),
    "lab10_equal_cost": by_seed(
        "Policies, tokens and heads, and scores, at equal cost; nothing trained.",
        EQUAL_COST, SEEDS, at_equal_cost,
    ),
}  # fmt: skip
