"""A small Marian on Multi30k, German into English, for ``lab08_multi30k``: trained from
scratch, like the checkpoints on generated sentences.

Multi30k are descriptions of photographs, 29,000 pairs to train on (Elliott et al. 2016).
The files of its repository, gzipped lines, are read from ``multi30k`` in
``$COURSE_DATA``, the course's ``data/`` or the cache.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import torch
from datasets import Dataset, DatasetDict
from torch import nn
from translation_checkpoints import small_marian

from course_lib import paths
from course_lib.data import pieces
from course_lib.data.images import DataMissing
from course_lib.training import Batch, endless, fit_batches, warm_up_then_decay

SHAPE: dict[str, Any] = {
    "encoder_layers": 3,
    "decoder_layers": 1,
    "d_model": 144,
    "heads": 6,
    "ffn": 384,
    "max_position_embeddings": 96,
    "init_std": 0.06,
    "dropout": 0.15,
}
SETTINGS: dict[str, Any] = {
    "vocabulary": 4000,
    "steps": 5000,
    "batch": 64,
    "lr": 1.5e-3,
    "longest": 60,
}
SPLITS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
SOURCE = "https://github.com/multi30k/dataset (data/task1/raw)"


@cache
def data() -> DatasetDict:
    """train, validation and test, columns ``source`` (German) and ``target``.

    Raises:
        DataMissing: if the files are not here.
    """
    wanted = [f"{stem}.{language}.gz" for stem in SPLITS.values() for language in ("de", "en")]
    place, looked = paths.data_folder("multi30k", wanted)
    if place is None:
        raise DataMissing(
            f"Multi30k is not on this machine. Put its files *.de.gz and *.en.gz from {SOURCE} into"
            " one of these folders:\n" + "\n".join(looked)
        )

    def lines(stem: str, language: str) -> list[str]:
        with gzip.open(place / f"{stem}.{language}.gz", "rt", encoding="utf-8") as file:
            return [line.strip() for line in file]

    columns = {"source": "de", "target": "en"}
    return DatasetDict(
        (split, Dataset.from_dict({name: lines(stem, of) for name, of in columns.items()}))
        for split, stem in SPLITS.items()
    )


@cache
def tokenizer() -> Any:
    """WordPiece of both languages, lower-case. Its training is not deterministic."""
    train = data()["train"]
    return pieces.train_tokenizer([*train["source"], *train["target"]], SETTINGS["vocabulary"])


def numbers(sentences: Iterable[str]) -> list[list[int]]:
    """The pieces of each sentence, without the mark in front; of long ones the
    first.
    """
    return [row[1:][: SETTINGS["longest"]] for row in tokenizer()(list(sentences))["input_ids"]]


def batches(split: Any, size: int = 64, seed: int | None = None) -> Iterator[Batch]:
    """Pairs of about the same length, as ``model(**batch)`` takes them."""
    sources, targets = numbers(split["source"]), numbers(split["target"])
    for index in pieces.by_length([*map(len, sources)], size, seed):
        labels = pieces.pad([targets[i] for i in index], value=-100)
        yield {**pieces.pad_inputs([sources[i] for i in index]), "labels": labels}


def train(seed: int = 0, steps: int | None = None, progress: bool = True) -> nn.Module:
    """A trained model, in evaluation mode; some ten minutes on one core."""
    model = small_marian(len(tokenizer()), **SHAPE, seed=seed)
    fit_batches(
        model,
        endless(lambda order: batches(data()["train"], SETTINGS["batch"], order), seed),
        steps or SETTINGS["steps"],
        lr=SETTINGS["lr"],
        rate=warm_up_then_decay(400, decay_from=400),
        seed=seed,
        progress=progress,
    )
    return model.eval()


@torch.no_grad()
def bleu(model: nn.Module, split: Any) -> float:
    """Of greedy translations, lower-case, with sacrebleu's own tokenization."""
    import sacrebleu

    ours, how = tokenizer(), {"max_length": SETTINGS["longest"], "num_beams": 1, "do_sample": False}
    found: list[str] = []
    rows = sorted(split, key=lambda row: len(row["source"]))
    for start in range(0, len(rows), 50):
        ids = numbers(row["source"] for row in rows[start : start + 50])
        out = model.generate(**pieces.pad_inputs(ids), **how)  # type: ignore[operator]
        found += ours.batch_decode(out, skip_special_tokens=True)
    right = [
        ours.decode(ours(row["target"])["input_ids"], skip_special_tokens=True) for row in rows
    ]
    return float(sacrebleu.corpus_bleu(found, [right]).score)
