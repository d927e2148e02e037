"""How lab 10 measures dropped tokens, and its schedules: on small models of random
weights.
"""

import json
from types import SimpleNamespace

import lab10_results as make
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
    labels = torch.tensor([0, 1, 1])
    return [{"input_ids": ids, "attention_mask": real.long(), "labels": labels}]


def test_whole_texts_cost_and_keep_everything(model, batches) -> None:
    measured = lab10.measure(model, batches)
    logits = model(batches[0]["input_ids"], attention_mask=batches[0]["attention_mask"]).logits
    assert measured["accuracy"] == pytest.approx(
        100 * (logits.argmax(1) == batches[0]["labels"]).float().mean().item()
    )
    assert measured["macs"] == measured["dense_macs"]
    by_hand = [4 * (4 * n * 16 * 16 + 2 * n * n * 16 + 2 * n * 16 * 32) for n in LENGTHS]
    assert measured["dense_macs"] == pytest.approx(sum(by_hand) / 3)


def test_the_plan_is_what_is_measured(model, batches) -> None:
    shares = {1: 0.5}
    planned = lab10.ratio(model.config, torch.tensor(LENGTHS), shares)
    for score in ("cls", "received", "random"):
        assert lab10.measure(model, batches, shares, score=score)["fewer"] == pytest.approx(planned)
    assert planned > 1.3


def test_a_cascade_counts_the_heads_that_work(model, batches) -> None:
    measured = lab10.measure(model, batches, block=cascading(model, {}, {0: 2}))
    # half the width in three layers
    saved = [3 * (4 * n * 16 * 8 + 2 * n * n * 8) for n in LENGTHS]
    assert measured["dense_macs"] - measured["macs"] == pytest.approx(sum(saved) / 3)


def test_schedules_fall_and_cost_what_they_should(model) -> None:
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


def test_thresholds_are_learned_and_used_hard(model, batches, monkeypatch) -> None:
    loaded = SimpleNamespace(model=model, tokenizer=None)
    monkeypatch.setattr(make.checkpoints, "load", lambda name: loaded)
    monkeypatch.setattr(make, "held_back", lambda *_: batches)
    monkeypatch.setattr(make, "training_batches", lambda tokenizer, steps, seed: steps * batches)
    settings = {"steps": 10, "lr": 1e-4, "lr_theta": 0.5, "sparsity": 1.0, "hard": 0.3}
    monkeypatch.setattr(make, "THRESHOLDS", make.THRESHOLDS | settings)
    found = make.thresholds(0, "soft to the end")
    assert found["test"]["fewer"] > 1, "the price of a token has raised the thresholds"
    assert 0 <= found["as trained"] <= 100
    assert "as trained" not in make.thresholds(0, "hard phase")


def test_scores_are_compared_at_equal_products(model, batches) -> None:
    plans = {"one": {1: 0.5}, "two": {0: 0.5, 2: 0.2}}
    found = pd.DataFrame(make.by_scores(model, batches, plans))
    dense = found[found.method == "dense"].macs.item()
    for _, of_one in found[found.method != "dense"].groupby("schedule"):
        assert of_one.method.tolist() == ["[CLS] row", "received", *5 * ["random"]]
        assert of_one.macs.nunique() == 1 and of_one.macs.max() < dense
        assert (of_one.dense_macs == dense).all()


def test_stored_scores_are_of_these_schedules() -> None:
    ours, real = (lab10.points_lost(f"lab10_{name}") for name in ("scores_reviews", "sst2"))
    # about as many products are saved as of real sentences
    for one, other in zip(ours.schedule.unique(), real.schedule.unique(), strict=True):
        one, other = (float(name.split()[1]) for name in (one, other))
        assert one == pytest.approx(other, rel=0.1)


# ----------------------------------------------------------------- what the notebook calls
def test_your_functions_choose_as_the_librarys_do(patients):
    words = lab10.attention_by_word(library.attention_received, patients, 3)
    assert words.shape[0] == 4 and any(name.startswith("• ") for name in words.columns)


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
    dense, dropped = lab10.costs(patients, pd.DataFrame([chosen]))
    assert dense["bits"] == dropped["bits"] and dense["macs"] >= dropped["macs"]


def test_policies_meet_their_budget(patients):
    rows = lab10.at_equal_cost(library.progressive, library.threshold_policy, patients, (1.5,), 0)
    assert [row["method"] for row in rows] == ["progressive", "threshold", "random"]
    assert rows[0]["fewer"] == rows[2]["fewer"] == pytest.approx(1.5, abs=0.1)


def test_soft_gates_are_those_of_the_student(patients):
    assert lab10.soft_and_hard(SoftThreshold, patients).startswith("Soft gates ")


def test_figures_say_what_they_show(patients):
    assert "superb" in alt_of(lab10.sketch())
    assert "the label is" in alt_of(lab10.fading(patients, 3, 0.2))


def test_padding_changes_nothing_where_it_does_not_vote(patients):
    assert lab10.changed_by_padding(library.attention_received, patients, 5) == 0


def test_bars_name_their_cost():
    bars = lab10.trained_bars()
    assert bars.bar.nunique() == 6 and all(name.endswith("×") for name in bars.bar)


# ------------------------------------------------------------------------------- remake
MEASURED = {"accuracy": 90.0, "macs": 1.0, "dense_macs": 2.0, "fewer": 2.0}
PARTS = {"validation": MEASURED, "test": MEASURED}


def test_a_remake_has_the_stored_tables(model, tmp_path, monkeypatch):
    batches = [{"input_ids": torch.full((1, 5), 7), "attention_mask": torch.ones(1, 5).long(),
                "labels": torch.tensor([1])}]  # fmt: skip
    plan = {0: 0.6, 1: 0.5, 2: 0.2, 3: 1e-6}
    soft = {**PARTS, "as trained": 98.0}
    scores = make.by_scores(model, batches, make.REVIEWS)
    fakes = {
        "held_back": lambda *args: batches,
        "best_schedule": lambda *args, **options: plan,
        "fine_tuned": lambda *args: PARTS,
        "thresholds": lambda seed, arm: soft if "soft" in arm else PARTS,
        "by_scores": lambda *args: scores,
        "favourite": lambda *args: [0.5] * 6,
    }
    monkeypatch.setattr(make.sst2, "load_classifier", lambda seed: (None, None))
    monkeypatch.setattr(make.sst2, "prepared", lambda *args, **options: {"test": None})
    monkeypatch.setattr(make.sst2, "fine_tune", lambda *args, **options: None)
    monkeypatch.setattr(make.pieces, "batches", lambda *args, **options: batches)
    for name, fake in fakes.items():
        monkeypatch.setattr(make, name, fake)
    for name in ("lab10_reviews", "lab10_scores_reviews", "lab10_sst2"):
        found = remade(make.RESULTS[name], tmp_path / name)
        assert json.loads(json.dumps(found.settings)) == experiments.settings(name)
        assert_like_stored(name, found.tables)
        for table in found.tables:
            assert len(found.tables[table]) >= 0.5 * len(experiments.read(f"{name}/{table}"))
