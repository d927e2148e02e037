"""Everything has its place on the web site: each lab, each page, each public name."""

from __future__ import annotations

import importlib
import json
import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from pkgutil import walk_packages
from types import SimpleNamespace
from typing import Any

import jupytext
import pytest

import course_lib
from course_lib.authoring import site

ROOT = Path(__file__).parents[2]
OWN = ROOT / site.OWN
# what the library is made and handed out with, not what one calls: the grader and
# its sandbox, how labs are made, what labs run for longer and train once, the command
LEFT_OUT = {
    *("authoring", "checks", "cli", "demo", "doctor", "environment"),
    *("experiments", "files"),
    *("grading", "install", "labs", "modes", "paths", "pruning", "sandbox_child", "student_code"),
    *("labs_folder", "progress", "ranking", "seeding", "torchvision_operators", "wrapped"),
}
MODULES = [found.name for found in walk_packages(course_lib.__path__, "course_lib.")]
ROOMS = re.findall(
    r"^   (course_lib\S+)$", (OWN / "reference.md").read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.fixture(scope="module")
def parts() -> Any:
    """The site's own extensions."""
    pytest.importorskip("sphinx", reason="Sphinx is not here: course_lib/install.py test site")
    sys.path.insert(0, str(OWN))
    try:
        yield importlib.import_module("links"), importlib.import_module("rooms")
    finally:
        sys.path.remove(str(OWN))


def test_every_page_is_led_to(parts: Any, tmp_path: Path) -> None:
    links, _ = parts
    site.lay(ROOT, tmp_path)
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    named = re.findall(r"^(?:.+<)?([\w/]+)>?$", index.split("```{toctree}")[1], re.MULTILINE)
    for page in list(named):
        folder = Path(page).parent
        named += [(folder / child).as_posix() for child in links.SECTIONS.get(page, ())]
    led = [re.sub(r"[^/]+/\.\./", "", name) for name in named]
    pages = [
        *("reference", "CHANGELOG", "slides/cheat_sheet", "solutions/index"),
        *(f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")),
        *(f"solutions/{path.stem}" for path in (ROOT / "solutions").glob("lab*.py")),
    ]
    for page in pages:
        assert [name for name in led if fnmatch(page, name)], f"nothing leads to {page}"
        assert list(tmp_path.glob(f"{page}.*")), page
    assert len(pages) >= 5 + 8 + 12


def test_every_module_is_in_the_reference_or_has_a_reason_not_to_be(parts: Any) -> None:
    _, rooms = parts
    inside = {file.module for room in ROOMS for file in rooms.files(room)}
    for module in MODULES:
        if module.split(".")[1] not in LEFT_OUT or module.startswith("course_lib.pruning."):
            assert module in inside | {*ROOMS}, module
        else:
            assert module not in inside, module


def test_every_public_name_is_there_once(parts: Any) -> None:
    _, rooms = parts
    described = [
        (file.module, name) for room in ROOMS for file in rooms.files(room) for name in file.names
    ]
    assert len(described) == len({*described}) > 250
    full = {f"{module}.{name}" for module, name in described}
    for room in ROOMS:
        files = rooms.files(room)
        here = {name for file in files for name in file.names}
        elsewhere = rooms.elsewhere(room)
        assert {*elsewhere} <= full, room
        exports = {*getattr(importlib.import_module(room), "__all__", ())}
        assert exports <= here | {name.rpartition(".")[2] for name in elsewhere}, room


def test_what_is_said_of_single_files_is_said_of_files_that_there_are(parts: Any) -> None:
    _, rooms = parts
    assert {*MODULES} >= rooms.INSIDE | rooms.ALSO.keys()
    for module, names in rooms.ALSO.items():
        assert all(hasattr(importlib.import_module(module), name) for name in names), module


def test_a_link_to_a_folder_leads_to_one_that_is_packed(tmp_path: Path) -> None:
    site.lay(ROOT, tmp_path)
    packed = {path.name for path in (tmp_path / "folders").iterdir()}
    assert packed == {f"{folder.replace('/', '-')}.zip" for folder in site.FOLDERS}


def test_it_is_not_what_students_get(tmp_path: Path) -> None:
    with pytest.raises(site.AuthoringError, match="the course's own folder"):
        site.build(tmp_path)


def test_without_a_part_of_sphinx_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "myst_nb", None)
    with pytest.raises(site.AuthoringError, match="myst_nb not installed: pip install"):
        site.build(ROOT)


@pytest.mark.parametrize("path", sorted((ROOT / "solutions").glob("lab*.ipynb")), ids=str)
def test_a_walkthrough_says_nothing_that_only_a_notebook_has(path: Path, parts: Any) -> None:
    links, _ = parts
    page = [path.read_text(encoding="utf-8")]
    assert "### BEGIN SOLUTION" in page[0]
    before = json.loads(page[0])["cells"]
    app = SimpleNamespace(srcdir=ROOT)
    links.read(app, f"solutions/{path.stem}", page)
    assert "## BEGIN SOLUTION" not in page[0] and "## END SOLUTION" not in page[0]
    cells = json.loads(page[0])["cells"]
    keys = re.compile(r"arrow\s+keys")
    for was, now in zip(before, cells, strict=True):
        old, new = "".join(was["source"]), "".join(now["source"])
        assert not keys.search(new)
        if keys.search(old):
            assert links.PICTURE in new and len(new) > len(old) / 2
            assert new.count("(") == new.count(")") and new.count("\n## ") == old.count("\n## ")


def test_every_formula_of_the_pages_can_be_set(parts: Any) -> None:
    formulas = importlib.import_module("formulas")
    found = []
    for path in [
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("solutions/*.md"),
        *ROOT.glob("solutions/*.py"),
    ]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            cells = jupytext.reads(text, fmt="py:percent").cells
            text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
        found += re.findall(r"\$\$(.+?)\$\$|(?<![\\$\w])\$(?! )([^$]+?)\$", text, re.DOTALL)
    for block, inline in found:
        assert formulas.of(block or inline, bool(block)).startswith("<math")
    assert len(found) > 500
