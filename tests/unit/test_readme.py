"""The README is short."""

from __future__ import annotations

from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 100
