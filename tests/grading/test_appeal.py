"""An appeal: one question of one student again, with what went in, what came and what
was expected.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from small_lab import RIGHT, TESTS, claim, contents, hand_in, notebook
from typer.testing import CliRunner

from course_lib.cli import app
from course_lib.grading.batch import appeal
from course_lib.grading.batch import run as batch

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
def graded(tmp_path: Path) -> Path:
    """A report on three: all right, 1.1 upside down (on which 1.4 rests), 1.1 that
    raises.
    """
    folder = tmp_path / "submissions"
    folder.mkdir()
    hand_in(folder, "ann", RIGHT, GLOBAL)
    hand_in(
        folder, "bob", RIGHT.replace("False", "True").replace("torch.ones", "torch.zeros"), GLOBAL
    )
    hand_in(folder, "eve", RIGHT.replace("kept = torch.ones", "kept = torch.oness"), GLOBAL)
    (folder / "bad.ipynb").write_text("{")
    batch.grade("lab01", folder, tmp_path / "report", tests=claim(tmp_path, TESTS + USES), seed=5)
    return tmp_path / "report"


def again(report: Path, id: str, question: str, **where: Path) -> appeal.Explained:
    return appeal.explain(report, id, question, tests=lambda lab: report.parent / lab, **where)


def test_what_came_stands_beside_what_was_expected(graded: Path) -> None:
    before = contents(graded)
    found = again(graded, "bob", "1.1")
    assert (found.before, sum(o.earned for o in found.outcomes)) == (0, 0)
    (run,) = found.runs
    (call,) = run.calls
    assert call.asked[0] == "magnitude_mask" and call.asked[1].startswith(
        "a float32 tensor of shape (4, 6)\n[["
    )
    assert call.asked[2].startswith("0.5")
    assert (
        not call.alike
        and call.apart
        == "what came is wrong at 24 of 24 places, first at index (0, 0): "
        + (
            "True instead of False"
            if call.came.split("[[")[1].strip().startswith("T")
            else "False instead of True"
        )
    )
    flipped = call.expected.replace("True", "?").replace("False", "True").replace("?", "False")
    assert call.came.replace(" ", "") == flipped.replace(" ", "")  # numpy aligns them
    said = "\n".join(appeal.lines(found))
    assert (
        "the tests gave 0 of 2, now 0" in said
        and "DOES NOT HOLD: exactly the smaller half goes" in said
    )
    assert "given" in said and "came" in said and "expected" in said
    assert contents(graded) == before  # nothing in the report changes


@pytest.mark.long
def test_the_inputs_are_those_of_the_marking(graded: Path) -> None:
    first, second = (again(graded, id, "1.1").runs[0].calls[0] for id in ("ann", "bob"))
    assert first.asked == second.asked and first.alike
    # a claim that holds is one line
    assert "".join(appeal.lines(again(graded, "ann", "1.1"))).count("expected") == 0


@pytest.mark.long
def test_an_answer_that_rests_on_a_wrong_one_is_shown_with_the_librarys(graded: Path) -> None:
    found = again(graded, "bob", "1.4")
    assert [run.given for run in found.runs] == [[], ["magnitude_mask"]]
    assert [run.calls[-1].alike for run in found.runs] == [False, True]
    said = list(appeal.lines(found))
    assert any("with the library's magnitude_mask in place of theirs" in line for line in said)
    assert found.before == 1


@pytest.mark.long
def test_a_refusal_that_was_asked_for_is_none_to_look_at(graded: Path) -> None:
    claim(
        graded.parent,
        """
from course_lib.grading import expect_raises, question

@question("1.1", points=1, claim="bad sparsities are refused")
def test_refused(submission, draw):
    expect_raises(ValueError, lambda: submission.magnitude_mask(draw.normal(3), 1.5), "a sparsity of 1.5")
""",
    )
    (graded.parent / "submissions" / "zoe.ipynb").write_text(
        notebook(
            RIGHT.replace(
                "    kept =", "    if sparsity > 1: raise ValueError('no')\n    kept =", 1
            )
        )
    )
    batch.grade("lab01", graded.parent / "submissions", graded, tests=graded.parent / "lab01")
    (call,) = again(graded, "zoe", "1.1").runs[0].calls
    assert call.alike and call.expected.startswith("ValueError")
    (call,) = again(graded, "ann", "1.1").runs[0].calls
    assert call.apart == "the library raises"


@pytest.mark.long
def test_what_was_raised_is_shown(graded: Path) -> None:
    (call,) = again(graded, "eve", "1.1").runs[0].calls
    assert "AttributeError" in call.came and call.expected and call.apart == "the library returns"


@pytest.mark.parametrize(
    ("id", "question", "says"),
    [
        ("anne", "1.1", "no submission 'anne': there are ann"),
        ("ann", "1.3", "no claims about '1.3': there are 1.1, 1.2, 1.4"),
        ("bad", "1.1", "there is no code of bad to run"),
    ],
)
def test_what_cannot_be_explained_is_said(graded: Path, id: str, question: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        again(graded, id, question)


def test_it_is_the_code_that_was_marked_or_nothing(graded: Path, tmp_path: Path) -> None:
    (tmp_path / "submissions" / "bob.ipynb").write_text(notebook(RIGHT))
    with pytest.raises(ValueError, match="bob handed in has changed since"):
        again(graded, "bob", "1.1")
    (tmp_path / "submissions").rename(tmp_path / "elsewhere")
    with pytest.raises(
        FileNotFoundError, match="was at the last grading: name it with --submissions"
    ):
        again(graded, "eve", "1.1")
    assert again(graded, "eve", "1.1", submissions=tmp_path / "elsewhere").before == 0
    with pytest.raises(FileNotFoundError, match="holds no report"):
        again(tmp_path, "eve", "1.1")


def test_claims_that_have_changed_are_named(graded: Path, tmp_path: Path) -> None:
    claim(tmp_path, TESTS + USES + "\n# mended\n")
    assert again(graded, "ann", "1.1").remarks == [
        "the claims have changed since this was graded: this is what those of today say"
    ]


def test_the_command_prints_it(
    graded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests" / "labs").mkdir(parents=True)
    (tmp_path / "lab01").rename(tmp_path / "tests" / "labs" / "lab01")
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))
    said = CliRunner().invoke(app, ["explain", str(graded), "bob", "1.1"])
    assert (
        said.exit_code == 0 and "DOES NOT HOLD" in said.output and "magnitude_mask" in said.output
    )
