"""The command that trains a checkpoint again."""

import json
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
    file = tmp_path / "net" / "model.safetensors"
    monkeypatch.setattr(digits_checkpoints, "given_file", lambda seed: file)
    train = partial(digits_checkpoints.train_convnet, epochs=1)
    monkeypatch.setattr(digits_checkpoints, "train_convnet", train)
    done = CliRunner().invoke(app, ["convnet", "--seed", "3"])
    assert done.exit_code == 0, done.output
    about = json.loads((file.parent / "about.json").read_text())
    assert about["command"].endswith("convnet --seed 3")
    assert 20 < about["accuracy"]["test"] <= 100 and file.exists()
