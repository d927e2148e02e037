"""The command that trains a checkpoint again."""

import runpy
from functools import partial
from pathlib import Path

import digits_checkpoints
import pytest
from typer.testing import CliRunner

from course_lib.models import checkpoints


@pytest.mark.long
def test_a_checkpoint_is_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = runpy.run_path(str(checkpoints.folder() / "make" / "__main__.py"))["app"]
    monkeypatch.setattr(checkpoints, "folder", lambda: tmp_path)
    monkeypatch.setattr(digits_checkpoints, "train", partial(digits_checkpoints.train, epochs=8))
    done = CliRunner().invoke(app, ["digits", "--seed", "3", "--plain"])
    assert done.exit_code == 0, done.output
    found = checkpoints.load("digits-vit-p2-3")
    assert found.record["command"].endswith("digits --seed 3 --patch 2 --plain")
    assert 20 < found.record["accuracy"]["test"] < 99 and "digits-vit-p2-3" in done.output
