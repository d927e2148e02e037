"""The instructors' page of common mistakes has those of the claims, and students cannot write
it.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from course_lib.authoring import site
from course_lib.authoring.errors import AuthoringError
from course_lib.grading.batch import mistakes_page
from course_lib.grading.claims.question import wrong_functions

ROOT = Path(__file__).parents[2]
LAB = "lab05"
GONE = "the sparsest columns were taken first: take the densest first"
CLAIMS = Path("tests") / "labs" / LAB


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of this one lab."""
    (source,) = (ROOT / "solutions").glob(f"{LAB}_*.py")
    (tmp_path / "solutions").mkdir()
    shutil.copy(source, tmp_path / "solutions")
    shutil.copytree(ROOT / CLAIMS, tmp_path / CLAIMS)
    return tmp_path


def page(course: Path) -> str:
    (path,) = mistakes_page.write(course, [LAB])
    assert path == course / "build" / "mistakes" / f"{LAB}.md"
    return path.read_text(encoding="utf-8")


def test_every_mistake_of_the_claims_is_there_once_with_its_points(course: Path) -> None:
    text = page(course)
    known = Counter(f"`{name}`: {said}" for _, name, said, _ in wrong_functions(LAB))
    lines = re.findall(
        r"^- \*\*([\d.]+)\*\*(?:, \*hidden\*)? · (`(?!answer).*)$", text, re.MULTILINE
    )
    assert len(known) > 70 and Counter(line for _, line in lines) == known
    assert all(float(points) > 0 for points, _ in lines)
    section = text.partition("## 5.5 ")[2].partition("## ")[0]
    # of both claims; of the hidden one alone
    assert "(points: 2)\n\n- **2** · `combine_columns`: weights that meet" in section
    assert "- **1**, *hidden* · `combine_columns`: of equal sizes the lower column" in section
    # what a claim compares with by itself, and options
    assert text.count("- **≥ 1** · the gate is soft: ") == 1
    assert text.count("- **0.5**, *hidden* · `answer_5_9a`: that was not measured") == 1

    # without it in the claims it is gone, and all others are as they were
    visible = course / CLAIMS / "visible.py"
    was = visible.read_text(encoding="utf-8")
    visible.write_text(f"{was}\ndel WRONG['group_columns']['{GONE}']\n", encoding="utf-8")
    assert page(course) == text.replace(f"- **2** · `group_columns`: {GONE}\n", "") != text


def test_a_solution_that_fails_its_claims_is_named(course: Path) -> None:
    hidden = course / CLAIMS / "hidden.py"
    hidden.write_text(
        f"{hidden.read_text(encoding='utf-8')}\nSHARE = (0.0, 0.1)\n", encoding="utf-8"
    )
    with pytest.raises(RuntimeError, match="test_share: the solution fails it"):
        list(mistakes_page.write(course, [LAB]))


def test_it_is_in_no_web_site_and_no_release_can_write_it(tmp_path: Path) -> None:
    path = tmp_path / mistakes_page.FOLDER / f"{LAB}.md"
    path.parent.mkdir(parents=True)
    path.touch()
    assert [
        pattern for pattern in site.LAID if any(map(Path.is_file, tmp_path.glob(pattern)))
    ] == []
    shutil.copytree(ROOT / CLAIMS, tmp_path / CLAIMS)  # without solutions, as in a release
    with pytest.raises(AuthoringError, match="no lab source here"):
        list(mistakes_page.write(tmp_path, [LAB]))
