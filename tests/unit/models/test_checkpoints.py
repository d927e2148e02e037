"""The shipped checkpoints do what their records say, and a checkpoint that is not whole
is refused.
"""

import math
from pathlib import Path
from typing import Any

import pytest
import reviews_checkpoints as recipe
import torch
from reviews_checkpoints import ngram_accuracy

from course_lib.data import pieces, reviews
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.models.checkpoints import CheckpointMissing
from course_lib.training import accuracy

REVIEWS = [recipe.name(seed) for seed in recipe.SEEDS]


@pytest.fixture(scope="module")
def sample() -> Any:
    return reviews.load(train=0, validation=1000, test=0)["validation"]


@pytest.mark.parametrize("name", REVIEWS)
def test_every_checkpoint_is_there_small_and_says_how_it_was_made(name: str) -> None:
    about = checkpoints.record(name)
    assert name in checkpoints.names()
    assert (checkpoints.folder() / name / "model.safetensors").stat().st_size < 5e6
    assert about["command"].startswith("python data/checkpoints/make ")
    assert f"--seed {about['seed']}" in about["command"]
    assert {"validation", "test"} <= set(about["accuracy"])


@pytest.mark.parametrize(
    "name", [REVIEWS[0], *(pytest.param(name, marks=pytest.mark.long) for name in REVIEWS[1:])]
)
def test_a_text_model_reaches_its_recorded_accuracy(name: str, sample: Any) -> None:
    """On the first half of the validation texts: within three standard errors of the
    record of them all.
    """
    found = checkpoints.load(name)
    recorded = found.record["accuracy"]["validation"]
    rows = pieces.encode(sample, found.tokenizer)
    measured = accuracy(found.model, pieces.batches(rows, "sentiment", 100))
    error = 100 * math.sqrt(recorded / 100 * (1 - recorded / 100) / 1000)
    assert measured == pytest.approx(recorded, abs=max(0.5, 3 * error))


@pytest.mark.long
def test_no_counting_of_words_or_runs_of_words_comes_within_ten_points() -> None:
    data = reviews.load(train=12_000)
    parts = [
        (list(data[split]["text"]), list(data[split]["sentiment"]))
        for split in ("train", "validation", "test")
    ]
    counted = [ngram_accuracy(n, *parts) for n in (1, 2, 3)]
    assert min(counted) > 52
    best = max(counted)
    assert best < 80
    assert all(best + 10 <= checkpoints.record(name)["accuracy"]["test"] for name in REVIEWS)


def test_texts_are_as_long_as_promised_and_the_evidence_is_a_small_part(sample: Any) -> None:
    assert len({checkpoints.record(name)["tokenizer_sha256"] for name in REVIEWS}) == 1
    tokenizer = checkpoints.load(REVIEWS[0]).tokenizer
    assert len(tokenizer) == recipe.VOCABULARY
    rows = pieces.encode(sample, tokenizer, aligned=("evidence",))
    lengths = torch.tensor([len(row) for row in rows["input_ids"]], dtype=torch.float)
    evidence = torch.tensor([sum(e > 0 for e in row) for row in rows["piece_evidence"]])
    assert 35 < lengths.mean() < 40
    assert 0.08 < (evidence / lengths).mean() < 0.11
    long = tokenizer(
        list(reviews.load(train=0, validation=500, test=0, kind="long")["validation"]["text"])
    )["input_ids"]
    assert 110 <= max(map(len, long)) <= small_bert().config.max_position_embeddings
    assert sum(map(len, long)) / len(long) > 1.8 * lengths.mean()


def test_attention_can_be_had_eagerly_and_loading_prints_no_bars(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from transformers.utils import logging

    found = checkpoints.load(REVIEWS[0], attention="eager")
    assert logging.is_progress_bar_enabled() and capfd.readouterr() == ("", "")
    inputs = found.tokenizer(["the food was superb."], return_tensors="pt")
    inputs.pop("token_type_ids", None)
    out = found.model(**inputs, output_attentions=True)
    assert len(out.attentions) == 4 and out.attentions[0].shape[1] == 8
    fast = checkpoints.load(REVIEWS[0]).model(**inputs).logits
    torch.testing.assert_close(out.logits, fast, rtol=1e-4, atol=1e-4)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for checkpoints with one in it; returns that one's folder."""
    monkeypatch.setattr(checkpoints.paths, "data_dir", lambda: tmp_path)
    tokenizer = pieces.train_tokenizer(["the food was good.", "a film"], 60)
    return checkpoints.save("tiny", tiny(), tokenizer, {"seed": 4, "command": "make tiny"})


def tiny() -> Any:
    return small_bert(60, 2, layers=1, width=16, heads=2, ffn=16, positions=20, seed=4)


def test_what_is_saved_comes_back_from_another_folder_too(own: Path, tmp_path: Path) -> None:
    assert own == checkpoints.folder() / "tiny" and checkpoints.names() == ["tiny"]
    assert not any(str(tmp_path) in file.read_text() for file in own.glob("*.json"))
    found = checkpoints.load(own.rename(own.with_name("moved")).name)
    assert not found.model.training and found.record["seed"] == 4
    states = zip(found.model.state_dict().values(), tiny().state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in states)
    again = pieces.train_tokenizer(["the food was good.", "a film"], 60)
    assert set(found.tokenizer.get_vocab()) == set(again.get_vocab())


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", checkpoints.RECORD])
@pytest.mark.parametrize("damage", [lambda file: file.write_text("{"), Path.unlink])
def test_another_tokenizer_other_weights_or_a_damaged_record_are_refused(own, file, damage) -> None:
    damage(own / file)
    remedy = "here are" if file == checkpoints.RECORD else "retrain it: make tiny"
    with pytest.raises(CheckpointMissing, match=f"{file} .*{remedy}"):
        checkpoints.load("tiny")
