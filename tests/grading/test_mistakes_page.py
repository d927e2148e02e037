"""The instructors' page of common mistakes has those of the claims, and students cannot write
it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from course_lib.authoring import site
from course_lib.authoring.errors import AuthoringError
from course_lib.grading.batch import mistakes_page
from course_lib.grading.claims import question

ROOT = Path(__file__).parents[2]
LAB = "lab05"
CUT = ("group_columns", "the sparsest columns were taken first: start with the densest column")
CLAIMS = Path("tests") / "labs" / LAB


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of this one lab."""
    (source,) = (ROOT / "solutions").glob(f"{LAB}_*.py")
    (tmp_path / "solutions").mkdir()
    shutil.copy(source, tmp_path / "solutions")
    shutil.copytree(ROOT / CLAIMS, tmp_path / CLAIMS)
    return tmp_path


@pytest.mark.long
def test_every_mistake_of_the_claims_is_there_once_with_its_points(course: Path) -> None:
    visible = course / CLAIMS / "visible.py"
    was = visible.read_text(encoding="utf-8")
    visible.write_text(f"{was}\ndel WRONG['{CUT[0]}']['{CUT[1]}']\n", encoding="utf-8")
    (path,) = mistakes_page.write(course, [LAB])
    assert path == course / "build" / "mistakes" / f"{LAB}.md"
    text = path.read_text(encoding="utf-8")
    form = r"^- \*\*([\d.]+)\*\*(?:, \*hidden\*)? · `(?!answer)(\w+)`: (.*)$"
    lines = re.findall(form, text, re.MULTILINE)

    question.tests_in(question.texts_in(ROOT / CLAIMS), str(ROOT / CLAIMS))
    known = [(name, sentence) for _, name, sentence, _ in question.wrong_functions(LAB)]
    known.remove(CUT)
    assert len(known) > 70 and sorted(line[1:] for line in lines) == sorted(known)
    assert all(float(points) > 0 for points, *_ in lines)
    section = text.partition("## 5.5 ")[2].partition("## ")[0]
    # lost by both claims; by the hidden one alone
    assert "(points: 2)\n\n- **2** · `combine_columns`: weights in the same row" in section
    assert "- **1**, *hidden* · `combine_columns`: among equal |w|, the lower column" in section
    # what a claim compares with by itself, and options
    assert text.count("- **≥ 1** · the gate is soft: ") == 1
    assert text.count("- **0.5**, *hidden* · `answer_5_9a`: the experiment did not measure") == 1


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
