"""What the instructors' page says of options is so, and its tables are read."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from course_lib import cli
from course_lib.grading.batch import manual_marks

PAGE = (Path(__file__).parents[2] / "docs" / "instructors.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\w*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_options_in_the_text_are_some_commands() -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    known = {option for command in commands.values() for p in command.params for option in p.opts}
    said = set(re.findall(r"`(--[a-z-]+)", PAGE))
    assert said and not said - known


def test_the_marks_are_read(tmp_path: Path) -> None:
    table = next(block for block in BLOCKS if block.startswith("id,question"))
    (tmp_path / "marks.csv").write_text(table)
    marks = manual_marks.read(tmp_path / "marks.csv")
    assert [(m.points, m.adds) for m in marks] == [(0.5, True), (2.0, False), (None, False)]
