"""A paper's figure that labs and decks quote stands once in ``data/papers.csv``, with
its source; every text that quotes it gives that number.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = list(csv.DictReader((ROOT / "data" / "papers.csv").open(encoding="utf-8", newline="")))
NUMBER = r"(\d+(?:\.\d+)?)"


def texts() -> dict[str, str]:
    """The text of every lab, deck and page: a line, without the marks of comments."""
    found = {}
    for pattern in ("README.md", "docs/*.md", "slides/*.md", "slides/lab*.py", "solutions/lab*.py"):
        for path in sorted(ROOT.glob(pattern)):
            lines = path.read_text(encoding="utf-8").splitlines()
            name = path.relative_to(ROOT).as_posix()
            found[name] = " ".join(re.sub(r"^\s*#\s|\s+", " ", line).strip() for line in lines)
    return found


TEXTS = texts()


def wording_of(row: dict[str, str]) -> re.Pattern[str]:
    """The words in which texts quote the figure, with a group for each number."""
    return re.compile(row["wording"].format(*[NUMBER] * row["wording"].count("{}")))


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: f"{row['paper']}: {row['figure']}")
def test_a_figure_is_the_same_wherever_it_is_quoted(row: dict[str, str]) -> None:
    assert all(row.values()) and row["link"].startswith("https://")
    quoted = {
        (name, number)
        for name, text in TEXTS.items()
        for found in wording_of(row).finditer(text)
        for number in found.groups()
        if number is not None
    }
    assert quoted, "no text quotes this figure in these words: change the words or remove the row"
    wrong = sorted((name, number) for name, number in quoted if number != row["value"])
    assert not wrong, f"the table says {row['value']} ({row['paper']}, {row['section']})"


def test_another_number_would_be_found() -> None:
    row = next(row for row in FIGURES if row["value"] == "32.54")
    changed = " ".join(TEXTS.values()).replace("32.54", "32.45")
    assert any("32.45" in found.groups() for found in wording_of(row).finditer(changed))
