"""One table through the whole course: what each method cost and kept, for the same
models in every lab.

The rows live in ``ledger.json`` beside the notebook (in the working folder), so that
lab 05 finds what lab 01 wrote.
"""

from __future__ import annotations

import html
import json
import math
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from course_lib import files

FILE = "ledger.json"
Row = dict[
    str,
    Any,
    # model, method, lab: str; bits: int; macs, ms: a number or None; accuracy: list of
    # %, one per seed
]
_TEXTS, _NUMBERS = ("model", "method", "lab"), ("bits", "macs", "ms")
_COLUMNS = ("model", "method", "lab", "size", "MACs", "ms", "accuracy in %", "seeds")


def add(
    model: str,
    method: str,
    *,
    lab: str,
    bits: float | None,
    macs: float | None,
    ms: float | None,
    accuracy: Iterable[float],
) -> None:
    """Write a row. A row with the same lab, model and method is replaced in its place:
    a lab can be run again.

    Args:
        model: the model's name, for example "convnet".
        method: what was done to it, for example "magnitude 90 %".
        lab: the lab that measured it, for example "01".
        bits: size of the weights as stored, in bits.
        macs: multiply-accumulates for one input.
        ms: measured time for one forward pass, in milliseconds of the processor. None
            stands for "not measured", here as in the two above.
        accuracy: test accuracy in %, one number per seed.

    Raises:
        ValueError: if a number is not finite or negative, an accuracy is no percentage,
            or the file is damaged, which is left as it is then.
        OSError: if the working folder cannot be written.
    """
    row = _checked(
        {"model": model, "method": method, "lab": lab}
        | {"bits": bits, "macs": macs, "ms": ms, "accuracy": accuracy}
    )
    path = Path.cwd() / FILE
    # Two notebooks may add a row at the same time. The lock file lies elsewhere, to keep
    # the learner's folder clean.
    user = os.getuid() if hasattr(os, "getuid") else 0
    with FileLock(Path(tempfile.gettempdir()) / f"course-ledger-{user}.lock"):
        kept = _read(path)
        same = (i for i, old in enumerate(kept) if all(old[key] == row[key] for key in _TEXTS))
        at = next(same, len(kept))
        kept[at : at + 1] = [row]
        files.write_atomic(path, as_bytes(kept), sync=True)


def as_bytes(kept: Iterable[Row]) -> bytes:
    """Rows as the file holds them."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in kept)
    return f"[\n{lines}\n]\n".encode()


def rows() -> list[Row]:
    """The rows so far, in the order in which they were first added. No file: no rows.

    Raises:
        ValueError: if the file is damaged, saying what to do.
    """
    return _read(Path.cwd() / FILE)


def table() -> Table:
    """The ledger to look at: as the last expression of a notebook cell, or printed."""
    return Table(with_one_dense(rows()))


def with_one_dense(found: list[Row]) -> list[Row]:
    """The rows, of each model only the last one that is dense: each lab measures its own."""
    last = {row["model"]: at for at, row in enumerate(found) if row["method"] == "dense"}
    kept = [row["method"] != "dense" or last[row["model"]] == at for at, row in enumerate(found)]
    return [row for row, is_kept in zip(found, kept, strict=True) if is_kept]


@dataclass(frozen=True)
class Table:
    """Rows made readable, as HTML in a notebook and as aligned text elsewhere."""

    rows: list[Row]

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{html.escape(str(self))}</p>"
        # the first three columns are words, the others numbers, which compare best when
        # they end at the same place
        align = ["left" if i < 3 else "right" for i in range(len(_COLUMNS))]
        head = "".join(
            f'<th scope="col" style="text-align:{a}">{c}</th>'
            for a, c in zip(align, _COLUMNS, strict=True)
        )
        body = "\n".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:{a}">{html.escape(cell)}</td>'
                for a, cell in zip(align, _cells(row), strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        caption = "Ledger: accuracy is the mean over seeds, ± half of its 95 % t-interval"
        return (
            f'<table class="course-ledger"><caption>{caption}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
        )

    def __str__(self) -> str:
        if not self.rows:
            return "The ledger is empty here: ledger.add(...) writes the first row."
        lines = [_COLUMNS, *(_cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                c.ljust(w) if i < 3 else c.rjust(w)
                for i, (c, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )


def _cells(row: Row) -> tuple[str, ...]:
    from course_lib.intervals import interval  # here: a row is written without loading scipy

    mean, half = interval(row["accuracy"])
    return (
        *(row[key] for key in _TEXTS),
        _amount(row["bits"] and row["bits"] / 8, ("B", "kB", "MB", "GB")),
        _amount(row["macs"], ("", "k", "M", "G", "T")),
        "–" if row["ms"] is None else f"{row['ms']:.3g}",
        f"{mean:.1f}" if len(row["accuracy"]) == 1 else f"{mean:.1f} ± {half:.1f}",
        str(len(row["accuracy"])),
    )


def _amount(value: float | None, units: tuple[str, ...]) -> str:
    """Three significant digits and a decimal unit: 260480 -> "260 kB"."""
    if value is None:
        return "–"
    step = 0
    while step < len(units) - 1 and value >= 999.5:
        value, step = value / 1000, step + 1
    digits = (
        max(0, 2 - math.floor(math.log10(value)))
        if value >= 1 and step
        else 0
        if value == int(value)
        else 2
    )
    return f"{value:.{digits}f} {units[step]}".strip()


def _checked(row: Row) -> Row:
    """The row with every entry checked, in plain Python types (numbers may come as
    tensors or numpy scalars).
    """
    result: Row = {key: str(row[key]) for key in _TEXTS}
    if empty := [key for key, text in result.items() if not text.strip()]:
        raise ValueError(
            f"a ledger row is known by its lab, model and method, but {empty[0]} is empty"
        )
    for key in _NUMBERS:
        number = None if row[key] is None else float(row[key])
        if number is not None and (not math.isfinite(number) or number < 0):
            raise ValueError(
                f"{key} is a number from 0 up, or None where it was not measured; got {row[key]}"
            )
        result[key] = (
            int(number) if number is not None and key != "ms" and number == int(number) else number
        )
    if isinstance(row["accuracy"], int | float):
        raise ValueError(
            "accuracy is a list with one number per seed; for a single run write"
            f" [{row['accuracy']}]"
        )
    seeds = [float(accuracy) for accuracy in row["accuracy"]]
    if not seeds or not all(0 <= accuracy <= 100 for accuracy in seeds):
        raise ValueError(
            f"accuracy holds one number in % per seed, each from 0 to 100; got {seeds}"
        )
    if 0 < max(seeds) <= 1:
        raise ValueError(f"accuracy is in %, but {seeds} look like fractions: multiply them by 100")
    return {**result, "accuracy": seeds}


def _read(path: Path) -> list[Row]:
    try:
        found = json.loads(path.read_bytes() or b"[]")
        if not isinstance(found, list):
            raise TypeError("it holds no list of rows")
        return [_checked(row) for row in found]
    except FileNotFoundError:
        return []
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}): rename it, and a new one is made") from None
