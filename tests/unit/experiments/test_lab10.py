"""How lab 10 measures dropped tokens, and its schedules: on small models of random
weights.
"""

import json
import math
import sys

import pandas as pd
import pytest
import torch
from torch import Tensor

from course_lib import experiments
from course_lib.experiments import lab10
from course_lib.models.bert import small_bert
from course_lib.pruning import tokens as library
from course_lib.pruning.tokens import SoftThreshold, cascading
from course_lib.show.output import alt_of
from unit.experiments.stored import assert_like_stored, remade

LENGTHS = (20, 13, 7)


@pytest.fixture(scope="module")
def make():
    """The module that makes the stored results."""
    return sys.modules[experiments.registered()["lab10_reviews"].__module__]


@pytest.fixture(scope="module")
def patients():
    return lab10.load((0,), 40)


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


def test_recall_is_of_polar_words_and_the_plan_is_what_is_measured(model, batches) -> None:
    shares = {1: 0.5}
    oracle = lab10.measure(model, batches, shares, score=lambda rows, at, real: (at == 3) * 1.0)
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
    measured = lab10.measure(model, batches, block=cascading(model, {}, {0: 2}))
    # half the width in three layers
    saved = [3 * (4 * n * 16 * 8 + 2 * n * n * 8) for n in LENGTHS]
    assert measured["dense_macs"] - measured["macs"] == pytest.approx(sum(saved) / 3)


def test_schedules_fall_and_cost_what_they_should(model, make) -> None:
    found = list(make.schedules(4, 2.0))
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


def test_thresholds_are_learned_and_end_hard(model, batches, make) -> None:
    training = [
        {name: column for name, column in batches[0].items() if name != lab10.EVIDENCE}
    ] * 10
    threshold = SoftThreshold(3, 0.3)
    settings = {"lr": 1e-4, "lr_theta": 0.05, "sparsity": 1.0, "hot": 0.3, "cold": 0.1}
    followed = make.learn_thresholds(model, threshold, training, 10, hard=0.3, **settings)
    assert len(followed) == 10 and not threshold.training
    assert all(theta > 0 for theta in followed[6])  # the price of a token has raised all of them …
    assert followed[6] == followed[-1]  # … and in the hard phase they stand still
    assert threshold.temperature == pytest.approx(0.1)


def test_scores_are_compared_at_equal_products(model, batches, make) -> None:
    plans = {"one": {1: 0.5}, "two": {0: 0.5, 2: 0.2}}
    found = pd.DataFrame(make.by_scores(model, batches, plans, 3))
    dense = found[found.method == "dense"].macs.item()
    for _, of_one in found[found.method != "dense"].groupby("schedule"):
        assert of_one.method.tolist() == ["[CLS] row", "received", *3 * ["random"]]
        assert of_one.macs.nunique() == 1 and of_one.macs.max() < dense
        assert (of_one.dense_macs == dense).all()


def test_stored_scores_are_of_these_schedules(make) -> None:
    ours, real = (lab10.points_lost(f"lab10_{name}") for name in ("scores_reviews", "sst2"))
    # about as many products are saved as of real sentences
    for one, other in zip(ours.schedule.unique(), real.schedule.unique(), strict=True):
        one, other = (float(name.split()[1]) for name in (one, other))
        assert one == pytest.approx(other, rel=0.1)


# ----------------------------------------------------------------- what the notebook calls
def test_your_functions_choose_as_the_librarys_do(patients):
    words = lab10.attention_by_word(library.attention_received, patients, 3)
    assert words.shape[0] == 4 and any(name.startswith("• ") for name in words.columns)
    kept, answer = lab10.kept_pieces(
        library.keep_tokens, library.attention_received, patients, 3, layer=1, share=0.3
    )
    ids = patients.pieces(3)[0]
    block = library.dropping(patients.models[0], {1: 0.3}, score="received")
    with block as drop, torch.inference_mode():
        positive = patients.models[0](ids).logits.softmax(1)[0, 1]
    assert (
        len(kept.split()) == drop.last.alive(1).sum() and answer == f"positive with {positive:.0%}"
    )


@pytest.mark.long
def test_single_drops_and_what_is_chosen_of_them(patients, monkeypatch):
    compare = lab10.latency.compare
    once = lambda passes, **_: compare(passes, repeats=1, threads=1)  # noqa: E731
    monkeypatch.setattr(lab10.latency, "compare", once)
    rows = lab10.single_drops(library.keep_tokens, library.attention_received, patients, 0)
    drops = pd.DataFrame(rows).assign(seed=0)
    assert drops[drops.method != "dense"].groupby("method").size().tolist() == 4 * [12]
    by_library = lab10.measure(patients.models[0], patients.validation, {2: 0.3}, score="received")
    (found,) = drops.query("method == 'informed' and layer == 2 and share == 0.3").accuracy
    assert found == pytest.approx(by_library["accuracy"], abs=100 / 40)
    (chosen,) = lab10.cheapest(drops, patients).to_dict("records")
    assert chosen["fewer"] == lab10.ratio(
        patients.config, patients.lengths, {chosen["layer"]: chosen["share"]}
    )
    tested = pd.DataFrame(lab10.on_test(patients, pd.DataFrame([chosen]), 0)).assign(seed=0)
    assert lab10.by_checkpoint(tested).shape == (1, 9)
    dense, dropped = lab10.costs(patients, pd.DataFrame([chosen]), tested)
    assert dense["bits"] == dropped["bits"] and dense["macs"] >= dropped["macs"]


def test_policies_meet_their_budget(patients):
    rows = lab10.at_equal_cost(library.progressive, library.threshold_policy, patients, (1.5,), 0)
    assert [row["method"] for row in rows[3:]] == ["progressive", "threshold", "random"]
    assert rows[3]["fewer"] == rows[5]["fewer"] == pytest.approx(1.5, abs=0.1)
    lost = lab10.lost_by_length(library.threshold_policy, patients)
    assert lost.iloc[0, 2] > lost.iloc[0, 1] + 20, "θ on s takes more of long texts"


def test_gates_end_as_a_step():
    gates = lab10.gates(SoftThreshold)
    hard = gates[gates.method == "hard"]
    assert set(hard["goes on"]) == {0, 1} and gates.method.nunique() == 3


def test_figures_say_what_they_show(patients):
    assert "superb" in alt_of(lab10.sketch())
    assert "the label is" in alt_of(lab10.fading(patients, 3, 0.2))
    models = lab10.vision_transformers((0,))
    assert "patches are kept" in alt_of(lab10.which_patches(models))


def test_padding_changes_nothing_where_it_does_not_vote(patients):
    assert lab10.changed_by_padding(library.attention_received, patients, 5) == 0


def test_the_goal_is_counted():
    assert lab10.goal(lab10.measured()) == "The goal was reached on **3 of 3** checkpoints."


# ------------------------------------------------------------------------------- remake
MEASURED = {"accuracy": 90.0, "macs": 1.0, "dense_macs": 2.0, "recall": 0.5, "chance": 0.5}


def test_a_remake_has_the_stored_tables(make, tmp_path, monkeypatch):
    parts = {"validation": MEASURED, "test": MEASURED}
    before = {part: {"dense": MEASURED, "informed": MEASURED} for part in parts}
    theta = {step: [0.1, 0.2, 0.3] for step in range(1, 1501, 30)}
    told = {"as trained": 98.0}
    plan = {"0": 0.6, "1": 0.5, "2": 0.2, "3": 1e-6}
    fakes = {
        "before_training": lambda seed: {"schedule": plan, "before": before},
        "fine_tuned": lambda *args, **settings: parts,
        "thresholds": lambda seed, arm, **settings: (
            {**parts, "theta": theta} | (told if arm == "soft to the end" else {})
        ),
        "on_reviews": lambda seed: make.by_scores(*small, make.REVIEWS, 5),
        "on_sst2": lambda seed, **settings: {
            "fine_tuning": {"accuracy": 90.0, "cpu_seconds": 1.0},
            "sink": 6 * [0.5],
            "scores": make.by_scores(*small, make.REVIEWS, 5),
        },
    }
    small = (small_bert(50, layers=4, width=16, heads=4, ffn=32, positions=32, seed=0), [
        {"input_ids": torch.full((1, 5), 7), "attention_mask": torch.ones(1, 5, dtype=torch.int64),
         "labels": torch.tensor([1])}
    ])  # fmt: skip
    for name, fake in fakes.items():
        monkeypatch.setattr(make, name, fake)
    for name in ("lab10_reviews", "lab10_scores_reviews", "lab10_sst2"):
        found = remade(make.RESULTS[name], tmp_path / name)
        assert json.loads(json.dumps(found.settings)) == experiments.settings(name)
        assert_like_stored(name, found.tables)
        for table in found.tables.keys() & {"measured", "thresholds", "scores", "sink"}:
            assert len(found.tables[table]) == len(experiments.read(f"{name}/{table}"))
