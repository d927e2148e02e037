"""GLUE as pieces: tasks with a training part, and one whose development set is cut."""

from typing import Any

import glue_classifier as sst2
import pytest
from datasets import Dataset, DatasetDict

from course_lib.data import glue


def split(rows: int, start: int = 0) -> Dataset:
    texts = [f"{i}" for i in range(start, start + rows)]
    return Dataset.from_dict(
        {"text": texts, "text_pair": texts, "label": [i % 2 for i in range(rows)]}
    )


def tokenizer(texts: list[str], pairs: list[str] | None, **_: Any) -> dict[str, list[list[int]]]:
    return {"input_ids": [[1, int(text)] for text in texts]}


def test_the_first_rows_train(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DatasetDict(train=split(9), validation=split(4, 20), test=split(5, 40))
    monkeypatch.setattr(glue, "load", lambda name: DatasetDict(whole))
    data = sst2.prepared(6, tokenizer=tokenizer)
    assert [ids[1] for ids in data["train"]["input_ids"]] == list(range(6))
    assert (len(data["validation"]), len(data["test"])) == (4, 5)


def test_a_development_set_is_cut_the_same_way_for_everyone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sst2, "CUT", {"validation": 3, "test": 4})
    monkeypatch.setattr(glue, "load", lambda name: DatasetDict(test=split(20)))
    few, many = (sst2.prepared(n, tokenizer=tokenizer, name="qnli") for n in (5, 100))
    texts = {part: list(many[part]["text"]) for part in many}
    assert {part: len(rows) for part, rows in texts.items()} == {
        "test": 4,
        "validation": 3,
        "train": 13,
    }
    assert len({text for rows in texts.values() for text in rows}) == 20, "no row in two parts"
    assert list(few["train"]["text"]) == texts["train"][:5]
    assert list(few["test"]["text"]) == texts["test"] != [str(i) for i in range(4)]
