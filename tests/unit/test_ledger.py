import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from course_lib import ledger

DENSE: dict[str, Any] = {
    "lab": "00",
    "bits": 2_083_840,
    "macs": 1_530_240,
    "ms": 0.4123,
    "accuracy": [99.25, 99.5, 99.0],
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_no_file_no_rows_and_a_hint(here: Path) -> None:
    assert ledger.rows() == []
    assert "ledger.add" in str(ledger.table()) and "ledger.add" in ledger.table()._repr_html_()
    assert list(here.iterdir()) == []


def test_rows_are_told_apart_by_lab_model_and_method_and_replaced_in_place(here: Path) -> None:
    names = [("convnet", "dense"), ("convnet", "magnitude"), ("bert", "dense")]
    for model, method in names:
        ledger.add(model, method, **DENSE)
    ledger.add("convnet", "dense", **{**DENSE, "lab": "01"})
    ledger.add("convnet", "magnitude", **{**DENSE, "accuracy": [90, 91, 92]})
    first, second, _, last = ledger.rows()
    assert first == {"model": "convnet", "method": "dense", **DENSE}
    assert [(row["model"], row["method"]) for row in ledger.rows()] == [*names, names[0]]
    assert second["accuracy"] == [90, 91, 92] and last["lab"] == "01"
    assert [file.name for file in here.iterdir()] == ["ledger.json"]


def test_a_model_has_one_dense_row_where_it_is_shown() -> None:
    for lab in ("00", "04", "05"):
        ledger.add("convnet", "dense", **{**DENSE, "lab": lab})
        ledger.add("bert", f"pruned in {lab}", **{**DENSE, "lab": lab})
    ledger.add("bert", "dense", **{**DENSE, "lab": "07"})
    assert len(ledger.rows()) == 7, "each lab's row is kept, to compare its own methods with"
    shown = [(row["model"], row["method"], row["lab"]) for row in ledger.table().rows]
    assert [row for row in shown if row[1] == "dense"] == [
        ("convnet", "dense", "05"),
        ("bert", "dense", "07"),
    ]
    assert len(shown) == 5


def test_numbers_may_come_from_torch_and_numpy() -> None:
    numbers = {"bits": np.int64(8), "macs": torch.tensor(7), "ms": np.float32(0.5)}
    ledger.add("m", "x", lab="01", **numbers, accuracy=torch.tensor([50.0, 51.0]))
    texts = {"model": "m", "method": "x", "lab": "01"}
    plain = {"bits": 8, "macs": 7, "ms": 0.5, "accuracy": [50.0, 51.0]}
    assert json.loads(Path("ledger.json").read_text()) == [texts | plain]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"accuracy": []}, "accuracy"),
        ({"accuracy": [99, math.nan]}, "accuracy"),
        ({"accuracy": [101]}, "accuracy"),
        ({"accuracy": [0.99, 0.98]}, "accuracy"),
        ({"accuracy": 97.5}, r"accuracy .*\[97.5\]"),
        ({"bits": -1}, "bits"),
        ({"macs": math.inf}, "macs"),
        ({"ms": math.nan}, "ms"),
        ({"lab": " "}, "lab"),
    ],
)
def test_a_bad_row_is_refused_and_nothing_written(
    here: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        ledger.add("convnet", "dense", **{**DENSE, **change})
    assert list(here.iterdir()) == []


def test_the_table_says_everything_in_readable_units() -> None:
    ledger.add("convnet", "dense", **DENSE)
    ledger.add("convnet", "one <seed>", lab="01", bits=12, macs=None, ms=None, accuracy=[97])
    text, page = str(ledger.table()), ledger.table()._repr_html_()
    for said in ("convnet", "dense", "260 kB", "1.53 M", "0.412", "99.2 ± 0.6", "1.50 B", "–"):
        assert said in text and said in page
    assert "one <seed>" in text and "one &lt;seed&gt;" in page and "<seed>" not in page
    assert page.count('scope="col"') == 8 and page.count("<tr>") == 3
    assert len({len(line) for line in text.splitlines()}) == 1  # aligned


def test_amounts_have_three_digits() -> None:
    shown = {0: "0", 12: "12", 999: "999", 1000: "1.00 k", 31_415: "31.4 k", 999_600: "1.00 M"}
    assert {value: ledger._amount(value, ("", "k", "M")) for value in shown} == shown


@pytest.mark.parametrize(
    "text",
    [b'[{"model": "m"', b"\xff\xfe\x00", b"null", b"[1]", b'[{"model": "m"}]'],
)
def test_a_damaged_file_is_named_and_left_as_it_is(here: Path, text: bytes) -> None:
    Path("ledger.json").write_bytes(text)
    for call in (ledger.rows, lambda: ledger.add("convnet", "dense", **DENSE)):
        with pytest.raises(ValueError, match="ledger.json"):
            call()
    assert {file.name: file.read_bytes() for file in here.iterdir()} == {"ledger.json": text}


def test_an_empty_file_holds_no_rows_and_nothing_to_lose(here: Path) -> None:
    Path("ledger.json").touch()
    assert ledger.rows() == []
    assert [file.name for file in here.iterdir()] == ["ledger.json"]


def test_a_crash_while_writing_leaves_the_old_ledger(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.add("convnet", "dense", **DENSE)

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger.os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        ledger.add("convnet", "magnitude", **DENSE)
    assert [row["method"] for row in ledger.rows()] == ["dense"]
    assert [file.name for file in here.iterdir()] == ["ledger.json"]


def test_rows_written_at_the_same_time_are_all_there() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: ledger.add("convnet", f"method {i}", **DENSE), range(24)))
    assert sorted(row["method"] for row in ledger.rows()) == sorted(
        f"method {i}" for i in range(24)
    )
