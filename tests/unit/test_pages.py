"""The Python of the pages on a new method and a new model family runs as it stands
there, tests and figures too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from course_lib.models import attention, builders
from course_lib.pruning.heads import find_attention

ROOT = Path(__file__).parents[2]


def blocks(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run(some: list[str], names: dict[str, Any]) -> dict[str, Any]:
    for block in some:
        exec(compile(block, "page", "exec"), names)
    return names


def test_a_new_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it saves a figure
    names = run(blocks("new_method.md"), {})
    tests = [value for name, value in names.items() if name.startswith("test_")]
    for test in tests:
        test()
    assert len(tests) == 4
    assert (tmp_path / "lamp.png").is_file()
    assert names["results"].keys() == {"magnitude", "LAMP", "random"}


def test_a_new_model_family(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attention, "_REGISTRY", dict(attention._REGISTRY))
    monkeypatch.setattr(builders, "_BUILDERS", dict(builders._BUILDERS))
    first, *others = blocks("new_model.md")
    names = run([first], {"__name__": "page"})
    with pytest.raises(ValueError, match="which is not registered"):
        find_attention(names["model"])
    torch.manual_seed(0)
    run(others, names)
    assert capsys.readouterr().out.splitlines()[0] == "[('0', 4, 6), ('2', 6, 4)]"
    assert [a.heads for a in find_attention(names["smaller"])] == [2, 4]
    x = torch.randn(2, 5, 24)
    assert torch.equal(names["again"](x), names["model"][0](x))
