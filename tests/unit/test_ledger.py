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


def test_a_row_comes_back_as_it_went_in(here: Path) -> None:
    ledger.add("convnet", "dense", **DENSE)
    assert ledger.rows() == [{"model": "convnet", "method": "dense", **DENSE}]
    assert [file.name for file in here.iterdir()] == ["ledger.json"]


def test_a_lab_that_runs_again_replaces_its_row_in_place() -> None:
    for method in ("dense", "magnitude", "random"):
        ledger.add("convnet", method, **DENSE)
    ledger.add("convnet", "magnitude", **{**DENSE, "accuracy": [90, 91, 92]})
    assert [row["method"] for row in ledger.rows()] == ["dense", "magnitude", "random"]
    assert ledger.rows()[1]["accuracy"] == [90, 91, 92]


def test_lab_model_and_method_tell_rows_apart() -> None:
    ledger.add("convnet", "dense", **DENSE)
    ledger.add("bert", "dense", **DENSE)
    ledger.add("convnet", "dense", **{**DENSE, "lab": "01"})
    assert len(ledger.rows()) == 3


def test_numbers_may_come_from_torch_and_numpy() -> None:
    ledger.add(
        "m",
        "x",
        lab="01",
        bits=np.int64(8),
        macs=torch.tensor(7),
        ms=np.float32(0.5),
        accuracy=torch.tensor([50.0, 51.0]),
    )
    assert json.loads(Path("ledger.json").read_text())[0] == {
        "model": "m",
        "method": "x",
        "lab": "01",
        "bits": 8,
        "macs": 7,
        "ms": 0.5,
        "accuracy": [50.0, 51.0],
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"accuracy": []}, "one number in % per seed"),
        ({"accuracy": [99, math.nan]}, "one number in % per seed"),
        ({"accuracy": [101]}, "one number in % per seed"),
        ({"accuracy": [0.99, 0.98]}, "multiply them by 100"),
        ({"accuracy": 97.5}, r"write \[97.5\]"),
        ({"bits": -1}, "bits is a number from 0 up"),
        ({"macs": math.inf}, "macs is a number from 0 up"),
        ({"ms": math.nan}, "ms is a number from 0 up"),
        ({"lab": " "}, "lab is empty"),
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


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (12, "12"),
        (999, "999"),
        (1000, "1.00 k"),
        (31_415, "31.4 k"),
        (999_600, "1.00 M"),
        (25_557_032, "25.6 M"),
    ],
)
def test_amounts_have_three_digits(value: float, shown: str) -> None:
    assert ledger._amount(value, ("", "k", "M")) == shown


@pytest.mark.parametrize(
    "text",
    [b'[{"model": "m"', b"not json", b"\xff\xfe\x00", b"{}", b"null", b"[1]", b'[{"model": "m"}]'],
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
