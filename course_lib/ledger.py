"""One table through the whole course: what each method cost and kept, for the same
models in every lab.

The rows live in ``ledger.json`` beside the notebook (in the working folder), so that
lab 05 finds what lab 01 wrote.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import os
import tempfile
import warnings
from collections.abc import Iterable
from contextlib import suppress
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
        ValueError: if a number is not finite or negative, or an accuracy is no
            percentage.
        OSError: if the working folder cannot be written.
    """
    row = _checked(
        {
            "model": model,
            "method": method,
            "lab": lab,
            "bits": bits,
            "macs": macs,
            "ms": ms,
            "accuracy": accuracy,
        }
    )
    path = Path.cwd() / FILE
    with _lock(path):
        kept = _read(path)
        same = (i for i, old in enumerate(kept) if all(old[key] == row[key] for key in _TEXTS))
        at = next(same, len(kept))
        kept[at : at + 1] = [row]
        _write(path, kept)


def rows() -> list[Row]:
    """The rows so far, in the order in which they were first added. No file: no
    rows.
    """
    path = Path.cwd() / FILE
    with _lock(path):
        return _read(path)


def table() -> Table:
    """The ledger to look at: as the last expression of a notebook cell, or printed."""
    return Table(rows())


def interval(values: Iterable[float]) -> tuple[float, float | None]:
    """Mean of the values and half the width of its 95 % t-interval, which is None for a
    single value.

    With three seeds the half-width is 4.30 standard errors: few runs claim little.
    """
    from course_lib import intervals  # here: a row is written without loading scipy

    values = list(values)
    mean, half = intervals.interval(values)
    return float(mean), float(half) if len(values) > 1 else None


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
    mean, half = interval(row["accuracy"])
    return (
        *(row[key] for key in _TEXTS),
        _amount(row["bits"] and row["bits"] / 8, ("B", "kB", "MB", "GB")),
        _amount(row["macs"], ("", "k", "M", "G", "T")),
        "–" if row["ms"] is None else f"{row['ms']:.3g}",
        f"{mean:.1f}" if half is None else f"{mean:.1f} ± {half:.1f}",
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


def _is_row(row: Any) -> bool:
    try:
        return all(row[key] == value for key, value in _checked(row).items())
    except (KeyError, TypeError, ValueError):
        return False


def _read(path: Path) -> list[Row]:
    """The rows in the file. A damaged file is put aside, never overwritten, and the
    rows that can be read go on.
    """
    try:
        text = path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return []
    whole, found = True, list[Any]()
    try:
        found = json.loads(text) if text.strip() else []
    except ValueError:
        whole = False
        for line in text.splitlines():  # every row has a line of its own
            with suppress(ValueError):
                found.append(json.loads(line.strip().rstrip(",")))
    good = [row for row in found if _is_row(row)] if isinstance(found, list) else []
    if whole and good == found:
        return good
    number = 1
    while (aside := path.with_name(f"{path.stem}.broken-{number}.json")).exists():
        number += 1
    os.replace(path, aside)
    if good:
        _write(path, good)
    warnings.warn(
        f"{path} was damaged (cut off, or edited by hand?). It is kept as {aside.name}, and the"
        f" ledger goes on with what could be read: {len(good)} row{'s' * (len(good) != 1)}.",
        stacklevel=3,
    )
    return good


def _write(path: Path, rows: list[Row]) -> None:
    """All or nothing: a notebook that is stopped here leaves the old ledger or the new
    one, never half of one.
    """
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    try:
        files.put(path, f"[\n{lines}\n]\n".encode(), sync=True)
    except OSError as error:
        raise OSError(
            error.errno,
            f"the ledger is kept in the working folder, which cannot be written ({error.strerror})",
            str(path),
        ) from None


def _lock(path: Path) -> FileLock:
    """Two notebooks may add a row at the same time. The lock file lies elsewhere, to
    keep the learner's folder clean.
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = hashlib.sha256(f"{user} {path}".encode()).hexdigest()[:16]
    return FileLock(Path(tempfile.gettempdir()) / f"course-ledger-{name}.lock")
