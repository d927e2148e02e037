"""A translator on small files in Multi30k's format."""

import gzip

import multi30k_translator as multi30k

from course_lib.data import multi30k as files

WORDS = ("Mann", "Frau", "Hund", "Kind", "läuft", "steht", "spielt", "sieht")


def test_trained_and_scored_from_the_files(tmp_path, monkeypatch):
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for stem in files.SPLITS.values():
        for language in ("de", "en"):
            lines = [" ".join(WORDS[(i * k) % 8] for k in range(1, 3 + i % 5)) for i in range(40)]
            (folder / f"{stem}.{language}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    multi30k.data.cache_clear()
    multi30k.tokenizer.cache_clear()
    try:
        batch = next(multi30k.batches(multi30k.data()["train"], 8, seed=0))
        assert (
            batch["input_ids"].shape == batch["attention_mask"].shape
            and batch["labels"].shape[0] == 8
        )
        assert int(batch["attention_mask"].sum(1).max()) == batch["input_ids"].shape[1]
        assert (batch["labels"] == -100).sum() > 0 or len(
            {int(n) for n in batch["attention_mask"].sum(1)}
        ) == 1
        model = multi30k.train(steps=3, progress=False)
        assert not model.training and 0 <= multi30k.bleu(model, multi30k.data()["test"]) <= 100
    finally:
        multi30k.data.cache_clear()
        multi30k.tokenizer.cache_clear()
