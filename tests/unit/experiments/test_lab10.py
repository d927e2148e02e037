"""How lab 10 measures dropped tokens, and its schedules: on small models of random
weights.
"""

import json
import math

import pytest
import torch
from torch import Tensor

from course_lib import experiments
from course_lib.experiments import lab10
from course_lib.models.bert import small_bert
from course_lib.pruning.tokens import SoftThreshold, cascading

LENGTHS = (20, 13, 7)


@pytest.fixture
def model():
    return small_bert(50, layers=4, width=16, heads=4, ffn=32, positions=32, seed=0)


@pytest.fixture
def batches() -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(5, 50, real.shape, generator=generator) * real
    evidence = torch.zeros_like(ids)
    evidence[:, 3] = 1  # polar
    evidence[:, 5] = 2  # negator
    labels = torch.tensor([0, 1, 1])
    return [
        {
            "input_ids": ids,
            "attention_mask": real.long(),
            "labels": labels,
            lab10.EVIDENCE: evidence,
        }
    ]


def test_whole_texts_cost_and_keep_everything(model, batches) -> None:
    measured = lab10.measure(model, batches)
    logits = model(batches[0]["input_ids"], attention_mask=batches[0]["attention_mask"]).logits
    assert measured["accuracy"] == pytest.approx(
        100 * (logits.argmax(1) == batches[0]["labels"]).float().mean().item()
    )
    assert measured["macs"] == measured["dense_macs"]
    assert measured["recall"] == measured["chance"] == 1
    by_hand = [4 * (4 * n * 16 * 16 + 2 * n * n * 16 + 2 * n * 16 * 32) for n in LENGTHS]
    assert measured["dense_macs"] == pytest.approx(sum(by_hand) / 3)


def test_the_oracle_keeps_evidence_and_the_plan_is_what_is_measured(model, batches) -> None:
    shares = {1: 0.5}
    oracle = lab10.measure(model, batches, shares, score="evidence")
    assert oracle["recall"] == 1
    kept = [math.ceil(0.5 * n) for n in LENGTHS]
    assert oracle["chance"] == pytest.approx(
        sum((k - 1) / (n - 1) for k, n in zip(kept, LENGTHS, strict=True)) / 3
    )
    planned = lab10.ratio(model.config, torch.tensor(LENGTHS), shares)
    for score in ("cls", "received", "random"):
        measured = lab10.measure(model, batches, shares, score=score)
        assert measured["dense_macs"] / measured["macs"] == pytest.approx(planned)
    assert planned > 1.3


def test_a_cascade_counts_the_heads_that_work(model, batches) -> None:
    measured = lab10.measure(model, batches, open_block=lambda: cascading(model, {}, {0: 2}))
    # half the width in three layers
    saved = [3 * (4 * n * 16 * 8 + 2 * n * n * 8) for n in LENGTHS]
    assert measured["dense_macs"] - measured["macs"] == pytest.approx(sum(saved) / 3)


def test_schedules_fall_and_cost_what_they_should(model) -> None:
    found = list(lab10.schedules(4, 2.0))
    lengths = torch.full((3,), 1000)
    assert len(found) > 5
    for shares in found:
        falls = [shares.get(layer, 1.0) for layer in range(4)]
        assert falls == sorted(falls, reverse=True)
        config = model.config.__class__(
            hidden_size=1024, intermediate_size=2048, num_hidden_layers=4
        )
        # l² makes it more than on paper
        assert lab10.ratio(config, lengths, shares) == pytest.approx(2.0, rel=0.35)


def test_thresholds_are_learned_and_end_hard(model, batches) -> None:
    training = [
        {name: column for name, column in batches[0].items() if name != lab10.EVIDENCE}
    ] * 10
    threshold = SoftThreshold(3, 0.3)
    settings = {"lr": 1e-4, "lr_theta": 0.05, "sparsity": 1.0, "hot": 0.3, "cold": 0.1}
    followed = lab10.learn_thresholds(model, threshold, training, 10, hard=0.3, **settings)
    assert len(followed) == 10 and not threshold.training
    assert all(theta > 0 for theta in followed[6])  # the price of a token has raised all of them …
    assert followed[6] == followed[-1]  # … and in the hard phase they stand still
    assert threshold.temperature == pytest.approx(0.1)


def test_scores_are_compared_at_equal_products(model, batches) -> None:
    found = lab10.by_scores(model, batches, {"one": {1: 0.5}, "two": {0: 0.5, 2: 0.2}}, 3)
    assert found["schedules"].keys() == {"one", "two"}
    for schedule in found["schedules"].values():
        runs = [schedule["cls"], schedule["received"], *schedule["random"]]
        assert len(runs) == 5 and len({run["macs"] for run in runs}) == 1
        assert runs[0]["macs"] < found["dense"]["macs"] == runs[0]["dense_macs"]


def test_the_shipped_scores_are_of_these_schedules() -> None:
    found = experiments.read("lab10_scores_reviews")
    assert found["settings"]["schedules"] == json.loads(json.dumps(lab10.REVIEWS))
    real = experiments.read("lab10_sst2")
    for name in lab10.REVIEWS:  # about as many products are saved as of real sentences
        fewer, of_real = (
            run["dense"]["macs"] / run["schedules"][name]["cls"]["macs"]
            for run in (found["seeds"][0], real["seeds"][0])
        )
        assert fewer == pytest.approx(of_real, rel=0.1)
    assert len(found["seeds"]) == 3 and experiments.took("lab10_scores_reviews")
