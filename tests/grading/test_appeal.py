"""An appeal: one question of one student again, with what went in, what came and what
was expected.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from small_lab import RIGHT, TESTS, Course, claim, contents
from typer.testing import CliRunner

from course_lib.cli import app
from course_lib.grading.batch import appeal
from course_lib.grading.marking.marker import Outcome

pytestmark = pytest.mark.usefixtures("warm")
USES = """
@question("1.3", points=1, claim="one threshold over all layers")
def test_global(submission, draw):
    layers = {"a": draw.normal(3, 4), "b": 10 * draw.normal(5, 2)}
    masks = submission.global_masks(layers, 0.5)
    from course_lib.labs import lab01 as reference
    expect_equal(masks, reference.global_masks(layers, 0.5))
"""
GLOBAL = """
def global_masks(weights, sparsity):
    flat = magnitude_mask(torch.cat([w.flatten() for w in weights.values()]), sparsity)
    return {k: m.view_as(w) for (k, w), m in zip(weights.items(), flat.split([w.numel() for w in weights.values()]))}
"""


@pytest.fixture
def graded(course: Course) -> Course:
    """A report on three: all right, 1.1 upside down (on which 1.3 rests), 1.1 that
    raises.
    """
    claim(course.root, TESTS + USES)
    course.hand_in("ann", RIGHT, GLOBAL)
    upside_down = RIGHT.replace("False", "True").replace("torch.ones", "torch.zeros")
    course.hand_in("bob", upside_down, GLOBAL)
    course.hand_in("eve", RIGHT.replace("kept = torch.ones", "kept = torch.oness"), GLOBAL)
    course.put("bad.ipynb", "{")
    course.grade(seed=5)
    return course


def again(course: Course, id: str, question: str, where: Path | None = None) -> str:
    return "\n".join(appeal.explain(course.report, id, question, course.tests.with_name, where))


def test_what_came_stands_beside_what_was_expected(graded: Course) -> None:
    before = contents(graded.report)
    said = again(graded, "bob", "1.1")
    assert "1.1 of bob, lab01: 0 of 2 points before, 0 now" in said
    assert "DOES NOT HOLD: exactly the smaller half goes" in said
    asked, came = said.partition("  asked: magnitude_mask\n    torch.float32 of shape (4, 6)")[::2]
    came, expected = came.partition("  came: torch.bool of shape (4, 6)\n")[2].split("  expected: ")
    kept, right = (
        re.findall("True|False", text) for text in (came, expected.partition("asked:")[0])
    )
    assert kept and kept == ["False" if r == "True" else "True" for r in right]  # the other half
    assert contents(graded.report) == before  # nothing in the report changes


def test_a_claim_that_holds_is_one_line_and_an_open_answer_too(graded: Course) -> None:
    assert len(again(graded, "ann", "1.1").splitlines()) == 2
    graded.hand_in(
        "zoe",
        RIGHT.replace(
            "\n    kept = ", '\n    raise NotImplementedError("1.1: write this")\n    kept = '
        ),
    )
    graded.grade()
    said = again(graded, "zoe", "1.1").splitlines()
    assert len(said) == 3 and said[-1] == "  told: not written yet"


def test_values_in_a_tuple_are_shown() -> None:
    shown = appeal.value((torch.tensor([1, 2]), 3))
    assert shown == "a tuple\n0: torch.int64 of shape (2,)\n[1, 2]\n1: 3 (int)"


def test_of_an_answer_that_is_left_open_nothing_is_shown() -> None:
    open_one = Outcome("1.7", "a letter", 1, False, "not answered yet", True, "test_letter")
    calls = [appeal.Call("test_letter", ["answer_1_7a"], "a dict")]
    assert list(appeal._of_failed(open_one, calls)) == ["  told: not answered yet"]


def test_a_forbidden_call_is_said_of_the_question(course: Course) -> None:
    called = "from course_lib.pruning import weights\n"
    course.hand_in("bo", called + "def magnitude_mask(w, s): return weights.smallest(w.abs(), s)")
    course.grade()
    assert "  came: the question asks you to write this yourself" in again(course, "bo", "1.1")


@pytest.mark.long
def test_what_is_raised_is_shown(graded: Course) -> None:
    said = again(graded, "eve", "1.1")
    assert "AttributeError" in said.partition("  came: ")[2] and "  expected: torch.bool" in said
    assert "1 of 1 points before, 1 now" in again(graded, "bob", "1.3")


def test_it_is_the_code_that_was_marked_or_nothing(graded: Course, tmp_path: Path) -> None:
    graded.hand_in("bob", RIGHT)
    for id, question, named in (
        ("anne", "1.1", "'anne'.*ann"),
        ("ann", "1.4", "'1.4'.*1.1, 1.2, 1.3"),
        ("bad", "1.1", "bad cannot be run again: the file is no readable notebook"),
        ("bob", "1.1", "changed since"),
    ):
        with pytest.raises(ValueError, match=named):
            again(graded, id, question)
    graded.submissions.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="--submissions"):
        again(graded, "eve", "1.1")
    claim(graded.root, TESTS + USES + "\n# corrected\n")
    assert "the claims have changed" in again(graded, "eve", "1.1", tmp_path / "elsewhere")
    (graded.report / "batch.json").unlink()
    with pytest.raises(FileNotFoundError, match="holds no report"):
        again(graded, "eve", "1.1")


def test_the_command_prints_it(
    graded: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests" / "labs").mkdir(parents=True)
    graded.tests.rename(tmp_path / "tests" / "labs" / "lab01")
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))
    said = CliRunner().invoke(app, ["explain", str(graded.report), "bob", "1.1"])
    assert said.exit_code == 0
    assert "DOES NOT HOLD" in said.output and "magnitude_mask" in said.output
