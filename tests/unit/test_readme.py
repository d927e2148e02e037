"""The README's Python runs as it stands there, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_what_the_readme_shows_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # it saves a model
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert len(BLOCKS) == len(said) == 3
    before, after = names["ours"].model, names["again"]  # type: ignore[attr-defined]
    assert after.num_parameters() < before.num_parameters()  # type: ignore[attr-defined]
    assert (tmp_path / "smaller" / "kept_heads.json").is_file()
    assert float(names["fewer"]) > 1  # type: ignore[arg-type]
