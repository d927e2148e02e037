"""An appeal: one question of one student again, with what went in, what came and what
was expected.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_lab import RIGHT, TESTS, Course, claim, contents
from typer.testing import CliRunner

from course_lib.cli import app
from course_lib.grading.batch import appeal
from course_lib.grading.marking.witness import _answer

pytestmark = pytest.mark.usefixtures("warm")
USES = """
@question("1.4", points=1, claim="one threshold over all layers")
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
    """A report on three: all right, 1.1 upside down (on which 1.4 rests), 1.1 that
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


def again(course: Course, id: str, question: str, **where: Path) -> appeal.Explained:
    tests = course.tests.with_name
    return appeal.explain(course.report, id, question, tests=lambda lab: tests(lab), **where)


def test_what_came_stands_beside_what_was_expected(graded: Course) -> None:
    before = contents(graded.report)
    found = again(graded, "bob", "1.1")
    assert (found.before, sum(o.earned for o in found.outcomes)) == (0, 0)
    (run,) = found.runs
    (call,) = run.calls
    name, weight, sparsity = call.asked
    assert name == "magnitude_mask" and sparsity.startswith("0.5")
    assert weight.startswith("a float32 tensor of shape (4, 6)\n[[")
    assert not call.alike
    first = call.came.split("[[")[1].split()[0].strip(",")
    apart = "what came is wrong at 24 of 24 places, first at index (0, 0): "
    assert call.apart == f"{apart}{first} instead of {first != 'True'}"
    flipped = call.expected.replace("True", "?").replace("False", "True").replace("?", "False")
    assert call.came.replace(" ", "") == flipped.replace(" ", "")  # numpy aligns them
    said = "\n".join(appeal.lines(found))
    assert "the tests gave 0 of 2, now 0" in said
    assert "DOES NOT HOLD: exactly the smaller half goes" in said
    assert "given" in said and "came" in said and "expected" in said
    assert contents(graded.report) == before  # nothing in the report changes


def test_another_dtype_is_not_the_same() -> None:
    came = {"values": torch.ones(2), "index": torch.zeros(2)}
    right = {"values": torch.ones(2), "index": torch.zeros(2, dtype=torch.int64)}
    assert _answer(lambda: right, came)[1] == "the numbers agree, the dtypes do not"
    assert _answer(lambda: right, right)[1] == ""


@pytest.mark.long
def test_what_is_shown_of_each_run(graded: Course) -> None:
    right, wrong, raised = (again(graded, id, "1.1") for id in ("ann", "bob", "eve"))
    first, second, third = (found.runs[0].calls[0] for found in (right, wrong, raised))
    assert first.asked == second.asked and first.alike  # the inputs of the marking
    # a claim that holds is one line
    assert "".join(appeal.lines(right)).count("expected") == 0
    assert "AttributeError" in third.came and third.expected
    assert third.apart == "the library returns"
    rests = again(graded, "bob", "1.4")
    assert [run.given for run in rests.runs] == [[], ["magnitude_mask"]]
    assert [run.calls[-1].alike for run in rests.runs] == [False, True]
    said = list(appeal.lines(rests))
    assert any("with the library's magnitude_mask in place of theirs" in line for line in said)
    assert rests.before == 1


@pytest.mark.long
def test_a_refusal_that_was_asked_for_is_none_to_look_at(graded: Course) -> None:
    claim(
        graded.root,
        """
from course_lib.grading import expect_raises, question

@question("1.1", points=1, claim="bad sparsities are refused")
def test_refused(submission, draw):
    expect_raises(ValueError, lambda: submission.magnitude_mask(draw.normal(3), 1.5), "a sparsity of 1.5")
""",
    )
    refusing = "    if sparsity > 1: raise ValueError('no')\n    kept ="
    graded.hand_in("zoe", RIGHT.replace("    kept =", refusing, 1))
    graded.grade()
    (call,) = again(graded, "zoe", "1.1").runs[0].calls
    assert call.alike and call.expected.startswith("ValueError")
    (call,) = again(graded, "ann", "1.1").runs[0].calls
    assert call.apart == "the library raises"


def test_it_is_the_code_that_was_marked_or_nothing(graded: Course, tmp_path: Path) -> None:
    graded.hand_in("bob", RIGHT)
    for id, question, named in (
        ("anne", "1.1", "'anne'.*ann"),
        ("ann", "1.3", "'1.3'.*1.1, 1.2, 1.4"),
        ("bad", "1.1", "no code of bad"),
        ("bob", "1.1", "bob handed in has changed"),
    ):
        with pytest.raises(ValueError, match=named):
            again(graded, id, question)
    graded.submissions.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="--submissions"):
        again(graded, "eve", "1.1")
    claim(graded.root, TESTS + USES + "\n# corrected\n")
    found = again(graded, "eve", "1.1", submissions=tmp_path / "elsewhere")
    assert (found.before, len(found.remarks)) == (0, 1)
    assert "the claims have changed" in found.remarks[0]
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
