"""The skeletons that `course new` writes: whole, in their place, and nothing of what is
there is lost.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course_lib.authoring import build, contract, new, source
from course_lib.authoring.errors import AuthoringError
from course_lib.cli import app
from course_lib.grading import Draw
from course_lib.grading.claims import question as claims

ROOT = Path(__file__).parents[3]
FILES = ("course_lib/labs/lab01.py", "tests/labs/lab01/visible.py", "tests/labs/lab01/hidden.py")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of lab 01 alone, without its notebooks."""
    for name in (*FILES, "pyproject.toml", "solutions/lab01_magnitude_pruning.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "tests/labs/lab01/answers", tmp_path / "tests/labs/lab01/answers")
    (tmp_path / "labs").mkdir()
    return tmp_path


def text(root: Path) -> dict[str, list[str]]:
    files = [path for path in root.rglob("*") if path.suffix in (".py", ".txt")]
    return {str(path.relative_to(root)): path.read_text().splitlines() for path in files}


def without(lines: list[str], others: list[str]) -> list[str]:
    """What is left of ``lines`` when ``others`` go, in order: all of them must be
    there.
    """
    left, waiting = [], list(others)
    for line in lines:
        if waiting and line == waiting[0]:
            waiting.pop(0)
        else:
            left.append(line)
    assert not waiting
    return left


def test_an_exercise_is_added_and_a_build_takes_it(course: Path) -> None:
    before = text(course)
    written = new.exercise(course, "lab01", "1.10", "share_pruned")
    after = text(course)
    assert {str(path.relative_to(course)) for path in written} == {
        *FILES, "solutions/lab01_magnitude_pruning.py", "tests/labs/lab01/answers/1.10.txt"
    }  # fmt: skip
    for name, lines in before.items():
        added = without(after[name], lines)
        assert bool(added) == (course / name in written)
    lab = source.read(course / "solutions/lab01_magnitude_pruning.py", course)
    assert [q.id for q in lab.questions[-2:]] == ["1.9", "1.10"]
    lines = lab.text.splitlines()
    assert lines.index("# ### 1.10 TODO: a title") < lines.index(
        "# ## Play"
    )  # its cells end where the next part begins
    with pytest.raises(
        AuthoringError, match="announces 20 points, its questions 21 together"
    ) as caught:
        build.load(lab.path, course)
    assert len(str(caught.value).splitlines()) == 1
    lab.path.write_text(lab.text.replace("20 points;", "21 points;"))
    _, cells = build.load(lab.path, course)
    assert any('raise NotImplementedError("1.10 share_pruned' in cell.source for cell in cells)
    assert contract.read("lab01", course).asked.questions["1.10"].names == ("share_pruned",)
    kinds = [kind for id, kind, _, _ in contract.answers("lab01", course) if id == "1.10"]
    assert kinds == ["wrong", "right", "right"]


@pytest.mark.long
def test_the_claims_can_be_imported_and_fail_until_they_are_written(course: Path) -> None:
    new.exercise(course, "1", "1.10", "share_pruned")
    new.exercise(course, "lab01", "1.11", "share_kept")
    folder = course / "tests/labs/lab01"
    tests = claims.tests_in(claims.texts_in(folder), str(folder))
    added = [t for t in tests if t.question in ("1.10", "1.11")]
    assert [(t.points, t.visible) for t in added] == [(0.5, True), (0.5, False)] * 2
    table = sys.modules["course_claims_lab01.visible"].WRONG
    assert len(table["share_pruned"]) == len(table["share_kept"]) == 1 < len(table)
    # the contract of the course that runs these tests knows nothing of it
    with pytest.raises(AttributeError, match="share_pruned"):
        added[0].run(None, Draw(1))  # type: ignore[arg-type]


def test_an_exercise_between_others_stands_between_them(course: Path) -> None:
    path = course / "solutions/lab01_magnitude_pruning.py"
    path.write_text(path.read_text().replace("### 1.9 Bug hunt", "### 1.12 Bug hunt"))
    new.exercise(course, "lab01", "1.10", "share_pruned")
    assert [q.id for q in source.read(path, course).questions][-3:] == ["1.8", "1.10", "1.12"]


@pytest.mark.parametrize(
    ("write", "arguments", "kind", "names"),
    [
        (new.exercise, ("lab99", "99.1", "half"), AuthoringError, "lab99"),
        (new.exercise, ("lab01", "1.9", "half"), ValueError, "question"),
        (new.exercise, ("lab01", "2.1", "half"), ValueError, "question"),
        (new.exercise, ("lab01", "1.x", "half"), ValueError, "question"),
        (new.exercise, ("lab01", "1.10", "magnitude_mask"), ValueError, "magnitude_mask"),
        (new.exercise, ("lab01", "1.10", "Half"), ValueError, "name"),
        (new.exercise, ("lab01", "1.10", "lambda"), ValueError, "name"),
        (new.exercise, ("lab01", "1.12", "half"), FileExistsError, "answers/1.12.txt"),
        (new.lab, (1, "Again", "half"), FileExistsError, "lab01_magnitude_pruning.py"),
        (new.lab, (12, "…", "half"), ValueError, "title"),
        (new.lab, (100, "Hundred", "half"), ValueError, "number"),
    ],
)
def test_what_cannot_be_had_is_refused_and_nothing_written(
    course: Path, write, arguments, kind, names: str
) -> None:
    (course / "tests/labs/lab01/answers/1.12.txt").write_text("keeps mine\n")
    before = text(course)
    with pytest.raises(kind) as caught:
        write(course, *arguments)
    assert names in str(caught.value)
    assert text(course) == before


def test_a_lab_is_whole(course: Path) -> None:
    written = new.lab(course, 12, "Merging tokens: one or two?", "merge_tokens")
    assert {str(path.relative_to(course)) for path in written} == {
        "solutions/lab12_merging_tokens_one_or_two.py", "course_lib/labs/lab12.py", "tests/labs/lab12/visible.py",
        "tests/labs/lab12/hidden.py", "tests/labs/lab12/answers/12.1.txt",
    }  # fmt: skip
    lab, cells = build.load(course / "solutions/lab12_merging_tokens_one_or_two.py", course)
    assert (lab.title, [q.id for q in lab.questions]) == (
        "Lab 12 · Merging tokens: one or two?",
        ["12.1"],
    )
    assert any('raise NotImplementedError("12.1 merge_tokens' in cell.source for cell in cells)
    new.exercise(course, "lab12", "12.2", "count_tokens")
    lab.path.write_text(lab.path.read_text().replace("# 1 point;", "# 2 points;"))
    assert len(build.load(lab.path, course)[0].questions) == 2


def test_the_command_says_what_is_left_to_do(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_ROOT", str(course))
    said = CliRunner().invoke(app, ["new", "exercise", "lab01", "1.10", "half"])
    assert said.exit_code == 0 and said.output.count("fill in what says TODO") == 5
    said = CliRunner().invoke(app, ["new", "lab", "12"])
    assert said.exit_code == 0 and (course / "solutions/lab12_a_new_lab.py").is_file()


def run_ruff(course: Path, paths: list[Path], *words: str) -> None:
    python = [str(path) for path in paths if path.suffix == ".py"]
    subprocess.run([sys.executable, "-m", "ruff", *words, "-q", *python], cwd=course, check=True)


def test_what_is_written_is_in_style(course: Path) -> None:
    written = [
        *new.exercise(course, "lab01", "1.10", "half"),
        *new.lab(course, 12, "Merging", "merge"),
    ]
    run_ruff(course, written, "check", "--fix")
    run_ruff(course, written, "format", "--check")


def test_an_exercise_brings_the_names_that_its_file_lacks(course: Path) -> None:
    for name in FILES[1:]:
        (course / name).write_text('"""No claims yet."""\n\nfrom __future__ import annotations\n')
    written = new.exercise(course, "lab01", "1.10", "half")
    run_ruff(course, written, "check", "--select", "F821")
