"""Tables of a page, each one call on a long table of results.

The last line of a cell shows the table; :func:`show` shows it anywhere else. On a page
means and differences are folded, below the figure and the sentence that they support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from course_lib import intervals
from course_lib.show.style import (
    SHARES,
    count_of,
    for_slides,
    formula,
    label,
    minus_sign,
    title_of,
)  # fmt: skip
from course_lib.show.words import pm_cell, pm_text, say


class Table:
    """A table of texts that IPython displays as Markdown.

    Attributes:
        header: one text per column.
        rows: one list of texts per row.
        note: a sentence below the table, or "".
        folded: what stands above the folded table; "" leaves it open.
    """

    def __init__(
        self, header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "", folded: str = ""
    ) -> None:
        self.header, self.rows = list(header), [list(row) for row in rows]
        self.note, self.folded = note, folded

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        text = "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        )
        text = f"{text}\n\n{self.note}" if self.note else text
        if not self.folded or for_slides():
            return text
        return f"<details><summary>Table: {self.folded}</summary>\n\n{text}\n\n</details>"

    def _ipython_display_(self) -> None:
        say(self.markdown())


def show(table: Table) -> None:
    """Display a table that is not the last line of its cell."""
    say(table.markdown())


def means(
    table: pd.DataFrame,
    values: str | Sequence[str] | Mapping[str, str],
    *,
    rows: str | Sequence[str] = "method",
    columns: str | None = None,
    digits: int = 1,
) -> Table:
    """Mean ± half of the 95 % interval over seeds; of what was measured once, the number.

    Args:
        table: a long table with a column ``seed``.
        values: a column of measurements, several, or {column: its heading}.
        rows: the column, or columns, that name a row.
        columns: the column whose entries become columns of the page; with one value only.
        digits: after the decimal point.

    Raises:
        ValueError: if a column is missing, or ``columns`` is given with several values.
    """
    rows = [rows] if isinstance(rows, str) else list(rows)

    def found(value: str) -> Iterable[tuple[dict[str, Any], list[str], str]]:
        by = [*rows, *([columns] if columns is not None else [])]
        for entry in intervals.summarise(table, value, by).to_dict("records"):
            text = pm_text(entry["mean"], entry["half"], digits)
            missing = np.isnan(entry["mean"])
            yield entry, [label(r, entry[r]) for r in rows], "" if missing else text

    first = ["" if name == "method" else title_of(name) for name in rows]
    note = "" if for_slides() else "Mean ± half of the 95 % interval"
    return _lay_out(first, values, columns, table, found, note, "")


def compare(
    table: pd.DataFrame,
    values: str | Sequence[str] | Mapping[str, str],
    *,
    by: str = "method",
    against: str = "random",
    columns: str | None = None,
    digits: int = 1,
) -> Table:
    """Each method minus a baseline, paired by seed, as mean ± half of the 95 % interval;
    bold where the interval excludes 0.

    Args:
        table: a long table with a column ``seed``.
        values: a column of measurements, several, or {column: its heading}.
        by: the column of methods. against: the baseline among them.
        columns: the setting whose entries become columns; with one value only.
        digits: after the decimal point.

    Raises:
        ValueError: as :func:`course_lib.intervals.compare`, and as :func:`means`.
    """

    def found(value: str) -> Iterable[tuple[dict[str, Any], list[str], str]]:
        within = [columns] if columns is not None else []
        pairs = intervals.compare(table, value, by, against, within)
        for entry in pairs.rename(columns={"pairs": "seeds"}).to_dict("records"):
            cell = pm_cell(entry["difference"], entry["half"], digits)
            yield entry, [formula(str(entry[by]))], "" if np.isnan(entry["difference"]) else cell

    first = [f"minus {formula(against)}"]
    note = "Bold: statistically distinguishable"
    return _lay_out(first, values, columns, table, found, note, f", {first[0]}")


def plain(frame: pd.DataFrame, digits: int | str | Mapping[str, int | str] = 1) -> Table:
    """A table as it is: texts unchanged, shares in per cent, other numbers with ``digits``
    after the decimal point (whole numbers with a separator of thousands).

    Args:
        digits: for all columns, or {column: digits} (1 for the others). A text is a
            format: ".0e" writes 0.00002 as 2e-05.
    """

    def text(name: str, value: Any) -> str:
        if value is None or (isinstance(value, float) and np.isnan(value)):
            return ""
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return minus_sign(f"{value:,}")
        if not isinstance(value, (float, np.floating)) or name in shares:
            return label(name, value)
        places = digits.get(name, 1) if isinstance(digits, Mapping) else digits
        return minus_sign(
            f"{value:{places}}" if isinstance(places, str) else f"{value:,.{places}f}"
        )

    records = frame.to_dict("records")
    numbers = frame.select_dtypes(float)
    shares = {name for name in SHARES if name in numbers and numbers[name].between(0, 1).all()}
    names = [str(name) for name in frame.columns]
    return Table(
        [title_of(name) if name != "method" else "" for name in names],
        ([text(str(name), record[name]) for name in frame.columns] for record in records),
    )


def _lay_out(
    first: list[str],
    values: str | Sequence[str] | Mapping[str, str],
    columns: str | None,
    table: pd.DataFrame,
    found: Callable[[str], Iterable[tuple[dict[str, Any], list[str], str]]],
    note: str,
    against: str,
) -> Table:
    """Each value, or each entry of ``columns``, as a column of texts; below, how many seeds
    a column has.
    """
    if not isinstance(values, Mapping):
        values = {
            name: title_of(name) for name in ([values] if isinstance(values, str) else values)
        }
    if columns is not None and len(values) != 1:
        raise ValueError("columns needs a single value: one table per measurement")
    entries = table[columns].unique() if columns is not None else []
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    seeds: dict[str, set[int]] = {label(columns, entry): set() for entry in entries}
    for value, heading in values.items():
        for entry, row, text in found(value):
            column = label(columns, entry[columns]) if columns is not None else heading
            seeds.setdefault(column, set()).add(int(entry["seeds"]))
            cells.setdefault(tuple(row), {})[column] = text
    runs = {column: count_of(n, "seeds") for column, n in seeds.items() if n}
    said = "; ".join(f"{column}: {n}" for column, n in runs.items())
    said = said if len(set(runs.values())) > 1 else next(iter(runs.values()), "")
    rows = ([*row, *(of.get(column, "") for column in seeds)] for row, of in cells.items())
    told = note if set(runs.values()) - {"one run"} else "No interval"
    note = f"({told}, {said}.)" if said and note else ""
    return Table([*first, *seeds], rows, note, ", ".join(values.values()) + against)
