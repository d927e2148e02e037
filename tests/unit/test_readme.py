"""The Python of README and of the page on own models runs as it stands there, from top
to bottom.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/own_models.md")]
BLOCKS = re.findall(r"^```python\n(.*?)^```", "\n".join(PAGES), re.DOTALL | re.MULTILINE)


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len(PAGES[0].splitlines()) <= 100


def test_what_the_readme_shows_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # it saves a model
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert len(BLOCKS) == len(said) == 8
    assert said[1].startswith("80% of the weights are 0") and float(said[1].split()[-2]) > 50
    assert (
        float(said[2].split()[0]) > 50
        and said[2].endswith("conv3 in 53% of its bits")
        and said[5].startswith("50% of")
    )
    assert (
        said[4].startswith("without half of the encoder") and 3 < float(said[4].split()[-1]) < 100
    )
    assert "parameters at half the depth" in said[6]
    before, after = names["ours"].model, names["again"]  # type: ignore[attr-defined]
    assert after.num_parameters() < before.num_parameters()  # type: ignore[attr-defined]
    assert (tmp_path / "smaller" / "kept_heads.json").is_file()
    assert float(names["fewer"]) > 1  # type: ignore[arg-type]
