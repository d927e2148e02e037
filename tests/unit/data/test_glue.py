"""Real tasks where $COURSE_DATA has them; else small files of the same format."""

import json
import os
from pathlib import Path
from typing import Any

import datasets
import pytest

from course_lib.data import glue
from course_lib.data.images import DataMissing

REAL = os.environ.get("COURSE_DATA", "")
# rows of the training and of the development part, as GLUE publishes them
PUBLISHED = {
    "sst2": (67349, 872),
    "cola": (8551, 1043),
    "mrpc": (3668, 408),
    "rte": (2490, 277),
    "stsb": (5749, 1500),
    "wnli": (635, 71),
    "mnli": (0, 9815),
    "qnli": (0, 5463),
}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no data at all, COURSE_DATA being an empty folder, and no network.
    Returns that folder.
    """
    sets = tmp_path / "sets"
    sets.mkdir()
    monkeypatch.setenv("COURSE_DATA", str(sets))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("COURSE_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)

    def no_network(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", no_network)
    return sets


def write(root: Path, folder: str, files: dict[str, list[str]]) -> Path:
    place = root / "glue" / folder
    place.mkdir(parents=True)
    for name, lines in files.items():
        (place / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def write_sst2(root: Path, train: int = 40, test: int = 6) -> Path:
    return write(
        root,
        "SST-2",
        {
            "train.tsv": [
                "sentence\tlabel",
                *(f'a "film number {i} \t{i % 2}' for i in range(train)),
            ],
            "dev.tsv": [
                "sentence\tlabel",
                *(f"the film number {i} \t{i % 2}" for i in range(test)),
            ],
        },
    )


def test_single_sentences(places: Path) -> None:
    write_sst2(places)
    data = glue.load("SST-2")
    assert data["validation"].to_dict() == glue.load("sst_2")["validation"].to_dict()
    assert data.num_rows == {"train": 36, "validation": 4, "test": 6}
    assert data["test"][1] == {"text": "the film number 1", "label": 1}
    assert data["train"].features["label"].names == ["negative", "positive"]
    texts = sorted([*data["train"]["text"], *data["validation"]["text"]])
    # an unbalanced quotation mark swallows no rows
    assert texts == sorted(f'a "film number {i}' for i in range(40))
    assert all(
        int(row["text"].split()[-1]) % 2 == row["label"] for part in data.values() for row in part
    )


def test_training_rows_that_are_held_back_are_left_out(places: Path) -> None:
    lines = ["sentence\tlabel", *(f"film {i % 30}\t1" for i in range(60))]
    write(places, "SST-2", {"train.tsv": lines, "dev.tsv": ["sentence\tlabel", "film 3\t1"]})
    data = glue.load("sst2")
    held_back = {*data["validation"]["text"], *data["test"]["text"]}
    assert len(data["validation"]) == 6 and "film 3" in held_back
    assert not held_back & set(data["train"]["text"])


def test_no_header_line(places: Path) -> None:
    rows = [f"gj04\t{i % 2}\t{'' if i % 2 else '*'}\tSentence {i}." for i in range(20)]
    write(places, "CoLA", {"train.tsv": rows, "dev.tsv": rows[:3]})
    data = glue.load("cola")
    assert data["test"][0] == {"text": "Sentence 0.", "label": 0}
    assert len(data["train"]) + len(data["validation"]) == 20 - len(
        {*data["test"]["text"]} - {*data["validation"]["text"]}
    )


def test_labels_that_are_words_pairs_and_a_regression(places: Path) -> None:
    words = ("entailment", "not_entailment")
    rte = [
        "index\tsentence1\tsentence2\tlabel",
        *(f"{i}\tA {i}.\tB {i}.\t{words[i % 2]}" for i in range(20)),
    ]
    write(places, "RTE", {"train.tsv": rte, "dev.tsv": rte[:3]})
    assert glue.load("rte")["test"][1] == {"text": "A 1.", "text_pair": "B 1.", "label": 1}
    header = (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
    )
    stsb = [header, *(f"{i}\tg\tf\ty\to\ts\ts\tA {i}.\tB {i}.\t{i / 4}" for i in range(20))]
    write(places, "STS-B", {"train.tsv": stsb, "dev.tsv": stsb[:4]})
    assert glue.load("stsb")["test"][2] == {"text": "A 2.", "text_pair": "B 2.", "label": 0.5}


def test_of_mnli_and_qnli_only_a_test_set_is_read(places: Path) -> None:
    row = {"premise": "All dogs bark", "hypothesis": "Some do ", "label": "neutral"}
    write(places, "MNLI", {"dev_matched.jsonl": [json.dumps(row)]})
    header = "index\tquestion\tsentence\tlabel"
    write(places, "QNLI", {"dev.tsv": [header, '0\tWho "won?\tNobody did.\tnot_entailment']})
    mnli, qnli = glue.load("mnli"), glue.load("QNLI")
    assert list(mnli) == list(qnli) == ["test"]
    assert mnli["test"][0] == {"text": "All dogs bark", "text_pair": "Some do", "label": 1}
    assert qnli["test"][0] == {"text": 'Who "won?', "text_pair": "Nobody did.", "label": 1}


def test_missing_data_tell_where_it_was_looked_for_and_what_to_do(places: Path) -> None:
    with pytest.raises(DataMissing) as error:
        glue.load("mrpc")
    message = str(error.value)
    assert str(places / "glue" / "MRPC") in message and "no route to the hub" in message
    assert "set COURSE_DATA" in message and "course_lib.data.reviews" in message
    with pytest.raises(DataMissing, match="download=False"):
        glue.load("mrpc", download=False)


def test_half_a_task_is_missing_too(places: Path) -> None:
    (write_sst2(places) / "dev.tsv").unlink()
    with pytest.raises(DataMissing, match="dev.tsv is missing"):
        glue.load("sst2")


@pytest.mark.parametrize(
    "lines",
    [
        ["text\tlabel", "a film\t1"],
        ["sentence\tlabel", "a film\tgood"],
        ["sentence\tlabel", "a film\t7"],
        ["sentence\tlabel"],
    ],
)
def test_damaged_files_are_named(places: Path, lines: list[str]) -> None:
    place = write_sst2(places)
    (place / "train.tsv").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataMissing, match=r"train\.tsv is (damaged|empty)"):
        glue.load("sst2")


@pytest.mark.parametrize("key", ["sst2", "mrpc", "stsb", "mnli", "qnli"])
def test_downloaded_sets_come_out_the_same_way(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task, asked = glue.TASKS[key], []

    def load_dataset(hub: str, name: str, split: str) -> datasets.Dataset:
        asked.append((hub, name, split))
        columns = {
            column: [f"{column} {split} {i}" for i in range(20)] for column in task.hub_texts
        }
        return datasets.Dataset.from_dict(
            {**columns, "label": [i % 2 for i in range(20)], "idx": list(range(20))}
        )

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    data = glue.load(key)
    last = "validation_matched" if key == "mnli" else "validation"
    splits = (last,) if key in ("mnli", "qnli") else ("train", last)
    assert asked == [(glue.HUB, key, split) for split in splits]
    assert data["test"][1]["text"] == f"{task.hub_texts[0]} {last} 1"
    assert data["test"][1]["label"] == 1
    assert ("text_pair" in data["test"].column_names) == (len(task.columns) == 2)


@pytest.mark.parametrize("key", glue.TASKS)
def test_the_published_files(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(REAL) / "glue" / glue.TASKS[key].folder
    if not REAL or not folder.is_dir():
        pytest.skip(f"COURSE_DATA has no glue/{glue.TASKS[key].folder}")
    monkeypatch.setenv("COURSE_DATA", REAL)
    data = glue.load(key)
    train, test = PUBLISHED[key]
    assert len(data["test"]) == test
    if train:
        validation = min(glue.VALIDATION, train // 10)
        assert len(data["validation"]) == validation
        assert 0.97 * (train - validation) < len(data["train"]) <= train - validation
    labels = list(data["test"]["label"])
    wanted = range(len(glue.TASKS[key].labels))
    assert set(labels) == set(wanted) if wanted else 0 <= min(labels) < max(labels) <= 5
