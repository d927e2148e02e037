"""Tasks of the GLUE benchmark by name, as train, validation and test.

They are read from ``$COURSE_DATA``, the course's ``data/`` or the cache (a folder
``glue`` with the published files), and downloaded by ``datasets`` when they are in none
of them. GLUE keeps the labels of its test files back, so its development set is *test*
here: it is touched once, at the end. *validation* is cut from the training part by a
fixed seed.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib import paths
from course_lib.checks import check_names
from course_lib.data.images import DataMissing

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

HUB = "nyu-mll/glue"  # where `datasets` downloads from
VALIDATION = 2000  # rows cut from the training part (a tenth of it, where that is less)
SPLIT_SEED = 0  # one split for everyone, so that results can be compared


@dataclass(frozen=True)
class Task:
    """Where the files of a task keep text and label."""

    folder: str
    labels: tuple[str, ...]  # names of the classes; none for a regression
    hub_texts: tuple[str, ...] = ("sentence1", "sentence2")  # columns of the downloaded set
    texts: tuple[str, ...] = ()  # and of the files, where they have other names
    label: str = "label"
    words: bool = False  # the files hold the label as a word
    header: tuple[str, ...] = ()  # of files without a header line
    development: tuple[str, str] = ("dev.tsv", "validation")  # its file, its downloaded split
    trains: bool = True  # the training part is read, too

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the files that hold the texts."""
        return self.texts or self.hub_texts


_ENTAILS = ("entailment", "not_entailment")
TASKS = {
    # is the sentence of a film review good?
    "sst2": Task("SST-2", ("negative", "positive"), ("sentence",)),
    # is it an English sentence?
    "cola": Task(
        "CoLA",
        ("unacceptable", "acceptable"),
        ("sentence",),
        header=("source", "label", "mark", "sentence"),
    ),
    # do two sentences say the same?
    "mrpc": Task(
        "MRPC",
        ("different", "equivalent"),
        texts=("#1 String", "#2 String"),
        label="Quality",
    ),
    # does the second text follow from the first?
    "rte": Task("RTE", _ENTAILS, words=True),
    # how similar are two sentences, from 0 to 5?
    "stsb": Task("STS-B", (), label="score"),
    # does the pronoun mean that?
    "wnli": Task("WNLI", ("not_entailment", "entailment")),
    # does the second text follow from the first?
    "mnli": Task(
        "MNLI",
        ("entailment", "neutral", "contradiction"),
        ("premise", "hypothesis"),
        words=True,
        development=("dev_matched.jsonl", "validation_matched"),
        trains=False,
    ),
    # does the sentence answer the question?
    "qnli": Task("QNLI", _ENTAILS, ("question", "sentence"), words=True, trains=False),
}


def load(name: str, *, download: bool = True) -> DatasetDict:
    """A task by name as a ``datasets.DatasetDict`` with train, validation and test, the
    same split for everyone.

    Columns: ``text``, for pairs ``text_pair``, and ``label`` (an index into
    ``TASKS[name].labels``; for "stsb" a number from 0 to 5). Texts of the training part
    that are in validation or test too, word for word, are left out of train. Of MNLI
    (matched) and QNLI only the development set is read, as test. Many training rows of
    SST-2 are phrases of the same sentences, so its validation accuracy is higher than
    its test accuracy; it ranks models all the same.

    Args:
        name: one of ``TASKS``; case, "-" and "_" do not matter ("SST-2").
        download: whether a task that is not on this machine may be downloaded.

    Raises:
        DataMissing: if it is not there, is damaged, or could not be downloaded.
        ValueError: if there is no such task.
    """
    key = name.lower().replace("-", "").replace("_", "")
    check_names([key], TASKS, "the GLUE benchmark")
    task, files = TASKS[key], _files(key)
    folder, looked = paths.data_folder(f"glue/{task.folder}", files.values())
    if folder is not None:
        return _split(key, {part: _read(folder / file, task) for part, file in files.items()})
    if not download:
        why = "It was not downloaded, because download=False was asked for."
        raise DataMissing(_message(key, looked, why))
    return _split(key, _download(key, looked))


def _files(key: str) -> dict[str, str]:
    train = {"train": "train.tsv"} if TASKS[key].trains else {}
    return {**train, "test": TASKS[key].development[0]}


def _read(file: Path, task: Task) -> list[tuple[Any, ...]]:
    """The rows of a file as (text, …, label)."""
    try:
        rows = [
            (*(row[name].strip() for name in task.columns), _label(row[task.label], task))
            for row in _rows(file, task)
        ]
    except (OSError, KeyError, ValueError, TypeError, AttributeError, csv.Error) as error:
        raise DataMissing(
            f"{file} is damaged or not the published file ({type(error).__name__}: {error}).\n"
            "What to do: delete that folder and load it again, or copy a whole one there."
        ) from None
    if not rows:
        raise DataMissing(
            f"{file} is empty: delete it and load {task.folder} again, or copy a whole one there."
        )
    return rows


def _rows(file: Path, task: Task) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8", newline="") as lines:
        if file.suffix == ".jsonl":
            yield from map(json.loads, lines)
        else:  # several files hold unbalanced quotation marks
            names = list(task.header) or None
            yield from csv.DictReader(
                lines, fieldnames=names, delimiter="\t", quoting=csv.QUOTE_NONE
            )


def _label(value: Any, task: Task) -> float:
    if not task.labels:
        return float(value)
    label = task.labels.index(value) if task.words else int(value)
    if not 0 <= label < len(task.labels):
        raise ValueError(f"label {label}, expected one of {task.labels}")
    return label


def _download(key: str, looked: list[str]) -> dict[str, list[tuple[Any, ...]]]:
    from datasets import load_dataset

    task = TASKS[key]
    parts = {**({"train": "train"} if task.trains else {}), "test": task.development[1]}
    try:
        raw = {part: load_dataset(HUB, key, split=split) for part, split in parts.items()}
    except Exception as error:  # whatever the network, the proxy or the hub make of it
        cause = " ".join(str(error).split())[:200]
        raise DataMissing(
            _message(key, looked, f"The download of {HUB} failed: {type(error).__name__}: {cause}.")
        ) from None
    return {
        part: list(zip(*(rows[name] for name in task.hub_texts), rows["label"], strict=True))
        for part, rows in raw.items()
    }


def _split(key: str, parts: dict[str, list[tuple[Any, ...]]]) -> DatasetDict:
    from datasets import DatasetDict

    task = TASKS[key]
    if "train" not in parts:
        return DatasetDict(test=_dataset(parts["test"], task))
    rows = parts["train"]
    # its stream is promised never to change
    order = np.random.RandomState(SPLIT_SEED).permutation(len(rows))
    cut = len(rows) - min(VALIDATION, max(1, len(rows) // 10))
    validation = [rows[i] for i in order[cut:]]
    held_back = {row[:-1] for row in (*validation, *parts["test"])}
    train = [rows[i] for i in order[:cut] if rows[i][:-1] not in held_back]
    parts = {"train": train, "validation": validation, "test": parts["test"]}
    return DatasetDict({name: _dataset(part, task) for name, part in parts.items()})


def _dataset(rows: list[tuple[Any, ...]], task: Task) -> Dataset:
    from datasets import ClassLabel, Dataset, Features, Value

    names = ("text", "text_pair")[: len(task.columns)]
    features = Features({name: Value("string") for name in names})
    features["label"] = ClassLabel(names=list(task.labels)) if task.labels else Value("float32")
    columns = zip(*rows, strict=True)
    return Dataset.from_dict(
        {name: list(column) for name, column in zip((*names, "label"), columns, strict=True)},
        features=features,
    )


def _message(key: str, looked: list[str], why: str) -> str:
    task, listed = TASKS[key], "\n".join(looked)
    files = " and ".join(_files(key).values())
    return (
        f"The GLUE task {task.folder} is not on this machine. {why}\n"
        f"Looked in:\n{listed}\n"
        "What to do, one of:\n"
        "  - run this once with a network: `datasets` downloads it;\n"
        f"  - set COURSE_DATA to a folder that holds glue/{task.folder} with {files};\n"
        "  - work with the generated reviews (course_lib.data.reviews), which need no download."
    )
