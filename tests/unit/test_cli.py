"""What the ``course`` command says of itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from course_lib.cli import app

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_packages() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    said = CliRunner().invoke(app, ["--version"])
    assert (said.exit_code, said.output) == (0, f"course {declared}\n")


def test_lab_and_folder_stand_in_one_order() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for command in ("grade", "similarity"):
        assert [p.name for p in commands[command].params if p.param_type_name == "argument"] == [
            "lab",
            "submissions",
        ]
