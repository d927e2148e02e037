"""The shipped checkpoints do what their records say, and a checkpoint that is not whole
is refused.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import digits_checkpoints as digits
import pytest
import reviews_checkpoints as recipe
import torch
from reviews_checkpoints import ngram_accuracy

from course_lib.data import images, pieces, reviews
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.models.checkpoints import CheckpointMissing
from course_lib.training import accuracy, evaluate

REVIEWS = [recipe.name(seed) for seed in recipe.SEEDS]
DIGITS = [digits.name(seed, dropout) for seed in digits.SEEDS for dropout in (True, False)]


@pytest.fixture(scope="module")
def sample() -> Any:
    return reviews.load(train=0, validation=1000, test=0)["validation"]


@pytest.mark.parametrize("name", [*REVIEWS, *DIGITS])
def test_every_checkpoint_is_there_small_and_says_how_it_was_made(name: str) -> None:
    about = checkpoints.record(name)
    assert name in checkpoints.names()
    assert (checkpoints.folder() / name / "model.safetensors").stat().st_size < 5e6
    assert (
        about["command"].startswith("python -m course_lib.recipes ")
        and f"--seed {about['seed']}" in about["command"]
    )
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
    assert measured == pytest.approx(
        recorded, abs=max(0.5, 300 * math.sqrt(recorded / 100 * (1 - recorded / 100) / 1000))
    )


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


def test_the_text_models_share_one_tokenizer() -> None:
    assert len({checkpoints.record(name)["tokenizer_sha256"] for name in REVIEWS}) == 1


def test_texts_are_as_long_as_promised_and_the_evidence_is_a_small_part() -> None:
    tokenizer = checkpoints.load(REVIEWS[0]).tokenizer
    assert len(tokenizer) == recipe.VOCABULARY
    texts = reviews.load(train=0, validation=1000, test=0)["validation"]
    rows = pieces.encode(texts, tokenizer, aligned=("evidence",))
    lengths = torch.tensor([len(row) for row in rows["input_ids"]], dtype=torch.float)
    evidence = torch.tensor([sum(e > 0 for e in row) for row in rows["piece_evidence"]])
    assert 35 < lengths.mean() < 40
    assert 0.08 < (evidence / lengths).mean() < 0.11
    long = tokenizer(
        list(reviews.load(train=0, validation=500, test=0, kind="long")["validation"]["text"])
    )["input_ids"]
    assert 110 <= max(map(len, long)) <= small_bert().config.max_position_embeddings
    assert sum(map(len, long)) / len(long) > 1.8 * lengths.mean()


@pytest.mark.parametrize("name", DIGITS)
def test_a_vision_model_reaches_its_recorded_accuracy(name: str) -> None:
    found = checkpoints.load(name)
    assert found.tokenizer is None
    measured = evaluate(digits.Logits(found.model), images.load("digits").validation)
    # one image of 300
    assert measured == pytest.approx(found.record["accuracy"]["validation"], abs=0.4)


def test_a_vision_recipe_leaves_patches_out_while_it_trains_and_not_after() -> None:
    plain, dropout = (
        digits.train(0, dropout, epochs=1, progress=False) for dropout in (False, True)
    )
    assert not any(
        torch.equal(a, b)
        for a, b in zip(plain.parameters(), dropout.parameters(), strict=True)
        if a.ndim > 1
    )
    image = images.load("digits").validation.images[:1]
    assert torch.equal(dropout.train()(image).logits, dropout(image).logits), (
        "patches are still left out"
    )


def test_loading_prints_no_bars_and_leaves_them_as_they_were(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from transformers.utils import logging

    checkpoints.load("reviews-bert-0")
    assert logging.is_progress_bar_enabled() and capfd.readouterr() == ("", "")


def test_attention_can_be_had_eagerly() -> None:
    found = checkpoints.load(REVIEWS[0], attention="eager")
    inputs = found.tokenizer(["the food was superb."], return_tensors="pt")
    inputs.pop("token_type_ids", None)
    out = found.model(**inputs, output_attentions=True)
    assert len(out.attentions) == 4 and out.attentions[0].shape[1] == 8
    fast = checkpoints.load(REVIEWS[0]).model(**inputs).logits
    torch.testing.assert_close(out.logits, fast, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match='"sdpa" or "eager"'):
        checkpoints.load(REVIEWS[0], attention="flash")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for checkpoints with one in it; returns that one's folder."""
    monkeypatch.setattr(checkpoints.paths, "data_dir", lambda: tmp_path)
    tokenizer = pieces.train_tokenizer(["the food was good.", "a film"], 60)
    model = small_bert(60, 2, layers=1, width=16, heads=2, ffn=16, positions=20, seed=4)
    return checkpoints.save("tiny", model, tokenizer, {"seed": 4, "command": "make tiny"})


def test_what_is_saved_comes_back(own: Path) -> None:
    assert own == checkpoints.folder() / "tiny" and checkpoints.names() == ["tiny"]
    found = checkpoints.load("tiny")
    want = small_bert(60, 2, layers=1, width=16, heads=2, ffn=16, positions=20, seed=4)
    assert not found.model.training
    assert all(
        torch.equal(a, b)
        for a, b in zip(found.model.state_dict().values(), want.state_dict().values(), strict=True)
    )
    again = pieces.train_tokenizer(["the food was good.", "a film"], 60)
    assert set(found.tokenizer.get_vocab()) == set(again.get_vocab())
    assert found.record["seed"] == 4


def test_a_checkpoint_that_is_not_there(own: Path) -> None:
    with pytest.raises(CheckpointMissing, match="here are tiny"):
        checkpoints.load("huge")


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_another_tokenizer_or_other_weights_are_refused(own: Path, file: str) -> None:
    (own / file).write_bytes((own / file).read_bytes() + b" ")
    with pytest.raises(CheckpointMissing, match=f"{file} is not the one .* make tiny"):
        checkpoints.load("tiny")
    (own / file).unlink()
    with pytest.raises(CheckpointMissing, match=f"{file} is missing: .* make tiny"):
        checkpoints.load("tiny")


def test_a_damaged_record_is_named(own: Path) -> None:
    (own / checkpoints.RECORD).write_text("{")
    with pytest.raises(CheckpointMissing, match="record.json cannot be read"):
        checkpoints.load("tiny")


def test_a_checkpoint_can_be_moved(own: Path, tmp_path: Path) -> None:
    """Nothing in it names the folder it was made in."""
    for file in own.iterdir():
        if file.suffix == ".json":
            assert str(tmp_path) not in json.dumps(json.loads(file.read_text()))
    shutil.move(str(own), str(own.with_name("moved")))
    assert checkpoints.load("moved").record["seed"] == 4
