"""The README is short."""

from __future__ import annotations

from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 100


def test_what_it_promises_of_a_python_is_listed_as_measured() -> None:
    text = README.read_text(encoding="utf-8")
    measured = (README.parent / "docs" / "own_models.md").read_text(encoding="utf-8")
    assert "(docs/own_models.md#versions)" in text and "| 3.14." in measured
    assert ("macOS is untried" in text) == ("Not tested here: Windows, macOS" in measured)
