"""``course doctor``: what is missing, and every path whole."""

from __future__ import annotations

import io
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from rich.console import Console

from course_lib import doctor

LABS_ALONE = ("ipywidgets", "jupyterlab", "psutil")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_isolation", list)
    monkeypatch.setattr(doctor, "_machine", list)


def said(width: int = 80) -> tuple[bool, str]:
    out = io.StringIO()
    return doctor.run(Console(file=out, width=width)), out.getvalue()


@pytest.mark.parametrize("missing", [LABS_ALONE, ("tqdm",)])
def test_what_labs_need_is_listed_outside_a_course_folder_too(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With only the library installed, or with less."""

    def installed(name: str) -> str:
        if name in missing:
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", installed)
    monkeypatch.setattr(doctor, "course_root", lambda: None)
    monkeypatch.setattr(doctor, "_course", lambda: [("course folder", "none", "")])
    ready, text = said()
    library = missing == LABS_ALONE
    assert not ready and "Every lab can run here" not in text
    remedy = '"pruning-course[course]" (' if library else '"tqdm>='
    assert ("The library alone can run here." in text) == library
    (line,) = [line for line in text.splitlines() if line.startswith("Not ready")]
    assert f"pip install {remedy}" in line and all(name in line for name in missing)


def test_no_path_is_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / "a-folder-with-a-long-name" / "and-one-more-in-it" / "of-the-downloads"
    monkeypatch.setenv("XDG_CACHE_HOME", str(long))
    monkeypatch.setenv("COURSE_DATA", str(long / "data"))
    _, text = said(width=80)
    assert "…" not in text
    places = f"{long / 'data'}, "
    assert places in text and f"{long / 'pruning-course'}\n" in text
