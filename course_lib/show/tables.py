"""Tables of a page, each one call on a long table of results.

The last line of a cell shows the table; :func:`show` shows it anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from course_lib import intervals
from course_lib.show.style import label, title_of
from course_lib.show.words import pm_cell, pm_text, say


class Table:
    """A table of texts that IPython displays as Markdown.

    Attributes:
        header: one text per column.
        rows: one list of texts per row.
        note: a sentence below the table, or "".
    """

    def __init__(self, header: Sequence[str], rows: Iterable[Sequence[str]], note: str = ""):
        self.header, self.rows, self.note = list(header), [list(row) for row in rows], note

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        text = "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        )
        return f"{text}\n\n{self.note}" if self.note else text

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
    """Mean ± half of the 95 % interval over seeds.

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
    found: dict[tuple[Any, ...], dict[str, str]] = {}
    entries = table[columns].unique() if columns is not None else []
    header: dict[str, None] = {label(columns, entry): None for entry in entries}
    for value, heading in _headings(values, columns).items():
        by = [*rows, *([columns] if columns is not None else [])]
        for entry in intervals.summarise(table, value, by).to_dict("records"):
            column = label(columns, entry[columns]) if columns is not None else heading
            header[column] = None
            cells = found.setdefault(tuple(entry[name] for name in rows), {})
            cells[column] = pm_text(entry["mean"], entry["half"], digits)
    return Table(
        [*("" if name == "method" else title_of(name) for name in rows), *header],
        (
            [
                *(label(n, k) for n, k in zip(rows, key, strict=True)),
                *(c.get(h, "") for h in header),
            ]
            for key, c in found.items()
        ),
    )


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
    found: dict[Any, dict[str, str]] = {}
    header: dict[str, None] = {}
    pairs = 0
    for value, heading in _headings(values, columns).items():
        within = [columns] if columns is not None else []
        for entry in intervals.compare(table, value, by, against, within).to_dict("records"):
            column = label(columns, entry[columns]) if columns is not None else heading
            header[column] = None
            cell = pm_cell(entry["difference"], entry["half"], digits)
            found.setdefault(entry[by], {})[column] = "" if np.isnan(entry["difference"]) else cell
            pairs = max(pairs, int(entry["pairs"]))
    note = (
        f"(Bold: statistically distinguishable, {pairs} seeds.)"
        if pairs > 1
        else "(One run: no interval.)"
    )
    return Table(
        [f"minus {against}", *header],
        ([str(name), *(cells.get(h, "") for h in header)] for name, cells in found.items()),
        note,
    )


def plain(frame: pd.DataFrame, digits: int | str | Mapping[str, int | str] = 1) -> Table:
    """A table as it is: texts unchanged, numbers with ``digits`` after the decimal point
    (whole numbers with a separator of thousands).

    Args:
        digits: for all columns, or {column: digits} (1 for the others). A text is a
            format: ".0e" writes 0.00002 as 2e-05.
    """

    def text(name: str, value: Any) -> str:
        if isinstance(value, str):
            return value
        if value is None or (isinstance(value, float) and np.isnan(value)):
            return ""
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return f"{value:,}"
        if isinstance(value, (float, np.floating)):
            places = digits.get(name, 1) if isinstance(digits, Mapping) else digits
            return f"{value:{places}}" if isinstance(places, str) else f"{value:z,.{places}f}"
        return str(value)

    records = frame.to_dict("records")
    names = [str(name) for name in frame.columns]
    return Table(
        [title_of(name) if name != "method" else "" for name in names],
        ([text(str(name), record[name]) for name in frame.columns] for record in records),
    )


def _headings(
    values: str | Sequence[str] | Mapping[str, str], columns: str | None
) -> dict[str, str]:
    """Column -> heading; by default, the axis label of the column.

    Raises:
        ValueError: if there are several values, and ``columns``.
    """
    if not isinstance(values, Mapping):
        names = [values] if isinstance(values, str) else values
        values = {name: title_of(name) for name in names}
    if columns is not None and len(values) != 1:
        raise ValueError("columns needs a single value: one table per measurement")
    return dict(values)
