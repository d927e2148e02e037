"""A translator on small files in Multi30k's format."""

import gzip
import os
from pathlib import Path

import multi30k_translator as multi30k
import pytest

from course_lib.data.images import DataMissing

WORDS = ("Mann", "Frau", "Hund", "Kind", "läuft", "steht", "spielt", "sieht")

REAL = os.environ.get("COURSE_DATA", "")


@pytest.fixture(autouse=True)
def fresh():
    yield
    multi30k.data.cache_clear()
    multi30k.tokenizer.cache_clear()


@pytest.mark.skipif(
    not (Path(REAL) / "multi30k").is_dir(), reason="Multi30k is not on this machine"
)
def test_the_real_one_has_the_published_numbers():
    data = multi30k.data()
    assert data.num_rows == {"train": 29000, "validation": 1014, "test": 1000}
    assert data["train"][0]["target"] == "Two young, White males are outside near many bushes."


def test_without_the_files_the_message_says_where_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataMissing, match=f"(?s)github.com/multi30k.*{tmp_path}"):
        multi30k.data()


def test_trained_and_scored_from_the_files(tmp_path, monkeypatch):
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for stem in multi30k.SPLITS.values():
        for language in ("de", "en"):
            lines = [" ".join(WORDS[(i * k) % 8] for k in range(1, 3 + i % 5)) for i in range(40)]
            (folder / f"{stem}.{language}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    batch = next(multi30k.batches(multi30k.data()["train"], 8, seed=0))
    assert batch["input_ids"].shape == batch["attention_mask"].shape
    lengths = batch["attention_mask"].sum(1)
    assert batch["labels"].shape[0] == 8 and int(lengths.max()) == batch["input_ids"].shape[1]
    assert (batch["labels"] == -100).any() or len(lengths.unique()) == 1
    model = multi30k.train(steps=3, progress=False)
    assert not model.training and 0 <= multi30k.bleu(model, multi30k.data()["test"]) <= 100
