"""A batch: found, marked, on disk at once, resumed; nobody's submission costs anyone
else.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_lab import RIGHT, TESTS, Course, claim, contents, notebook, put, zipped

from course_lib import files
from course_lib.grading import sandbox
from course_lib.grading.batch import report, summary
from course_lib.grading.batch import run as batch
from course_lib.grading.batch.collect import collect
from course_lib.grading.batch.result import ClaimResult, Result
from course_lib.grading.marking.judge import Limits
from course_lib.grading.sandbox import Seconds

pytestmark = pytest.mark.usefixtures("warm")
HASTY = Limits(Seconds(reply=2.0))
PLAIN = sandbox.Isolation("plain")


def test_a_mixed_batch(course: Course) -> None:
    equal = "class Equal(torch.Tensor):\n    def __eq__(self, o): return True\n    def __torch_function__(self, *a, **k): return self"
    always = f"{equal}\ndef magnitude_mask(w, s): return torch.zeros(4, 6, dtype=torch.bool).as_subclass(Equal)"
    leave = "def magnitude_mask(w, s): sys.exit(0)"
    for id, cells in {
        "right": [RIGHT],
        "empty": [],
        "loop": [RIGHT, "def magnitude_mask(w, s):\n    while True: pass"],
        "exit": [RIGHT, f"import sys\nsys.exit(0)\n{leave}", leave],
        "hard exit": ["import os\nclass A(os._exit(0)): pass", RIGHT],
        "equal": [RIGHT, always],
        "gigabyte": [RIGHT, "def grouped_mask(w, a):\n    while True: print('x' * 10**7)"],
        "skipped": ["from course_lib.grading import skip", RIGHT, 'skip("1.1")'],
        "=cmd()\n": [RIGHT],
        "in a folder/deep/lab01 final (2)": [RIGHT],
        "in a folder/a lab00": [],
    }.items():
        course.hand_in(id, *cells)
    course.put("truncated.ipynb", notebook(RIGHT)[:200])
    course.put("no notebook.ipynb", "[1, 2]")
    course.put("zipped.zip", zipped({"../../lab01.ipynb": notebook(RIGHT)}))
    course.put("bad.zip", b"PK no zip")
    course.grade(seed=1, limits=HASTY, jobs=2)
    table = course.table()
    want = {
        "right": "3", "truncated": "", "no notebook": "", "empty": "", "loop": "1", "exit": "1", "hard exit": "", "equal": "1",
        "gigabyte": "2", "skipped": "1", "'=cmd()\n": "3", "in a folder": "3", "zipped": "3", "bad": "",
    }  # fmt: skip
    assert course.column("total") == want
    assert {row["maximum"] for row in table.values()} == {"3"}
    assert table["truncated"]["status"] == "pending"
    assert table["hard exit"]["status"] == "stopped"
    assert not (course.root / "lab01.ipynb").exists()
    result = course.result("loop")
    assert result["score"] == 1
    assert {t["status"] for t in result["tests"]} == {"passed", "failed"}
    assert "endless loop" in result["tests"][0]["output"]
    page = course.page("loop")
    assert "exactly the smaller half goes" in page and "endless loop" in page
    assert len(list((course.report / "feedback").glob("*.html"))) == len(want)


def test_what_is_no_submission_is_said_before_and_after(course: Course) -> None:
    course.hand_in("amy", RIGHT)
    for name in ("bob.html", "cy <b>.pdf", *(f"{i}.html" for i in range(110))):
        course.put(name, "x")
    said: list[str] = []
    assert course.grade(say=said.append).graded == ["amy"]
    assert said[0].startswith("0.html is not taken for a submission:") and len(said) == 112
    page = summary.write(course.report).read_text(encoding="utf-8")
    assert "Not taken for submissions" in page and "cy &lt;b&gt;.pdf" in page
    assert all(f"{i}.html" in page for i in range(110))


def of_a_lab(lab: str, cells: list[str], release: str = "") -> str:
    book = json.loads(notebook(*cells))
    book["metadata"]["course"] = {"lab": lab, "version": release}
    return json.dumps(book)


def test_another_lab_or_release_is_named(course: Course) -> None:
    other = ["def find_ticket(build): ...", "class Rewound:\n    pass"]
    old = RIGHT.replace("def grouped_mask", "def my_grouped_mask")
    hostile = of_a_lab("<b>", [RIGHT]).replace('"version": ""', '"version": {"a": [1]}')
    for id, text, row, said in (
        ("wrong lab", of_a_lab("lab03", other, "a" * 12), ("", "pending"), "a notebook of lab03"),
        ("carried over", of_a_lab("lab03", [RIGHT]), ("3", "graded"), ""),
        ("old", of_a_lab("lab01", [old], "0123456789ab"), ("2", "graded"), "an earlier release"),
        ("new", notebook("import pandas_of_mine\n" + RIGHT, RIGHT), ("3", "graded"), ""),
        ("hostile", hostile, ("3", "graded"), ""),
    ):
        course.put(f"{id}.ipynb", text)
        course.grade()
        assert (course.table()[id]["total"], course.table()[id]["status"]) == row
        assert said in course.page(id)
    text = summary.write(course.report).read_text(encoding="utf-8")
    text = text[text.index("Forbidden calls, code") : text.index("All submissions</h2>")]
    assert "not defined: grouped_mask" in text and "earlier release" in text
    assert "neither installed nor handed in: pandas_of_mine" in text


def test_an_interrupted_batch_keeps_what_was_finished(course: Course) -> None:
    for name in "abcd":
        course.hand_in(name, RIGHT)

    def stop(id: str, number: int, all: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        course.grade(progress=stop)
    finished = list((course.report / "results").glob("*.json"))
    assert len(finished) >= 2
    times = {path: path.stat().st_mtime_ns for path in finished}
    course.grade()
    assert len(course.table()) == 4
    assert {path: path.stat().st_mtime_ns for path in finished} == times


def test_the_seed_decides_the_inputs(course: Course) -> None:
    claim(
        course.root,
        TESTS.replace("expect_equal(", "fail(str(w.sum().item())) if 1 else expect_equal("),
    )
    course.hand_in("a", RIGHT)

    def said(seed: int) -> str:
        course.grade(seed=seed)
        return course.result("a")["tests"][0]["output"]

    one, two = said(1), said(2)
    assert said(1) == one != two


def test_a_question_that_rests_on_a_wrong_earlier_one_is_tried_with_a_right_one(
    course: Course,
) -> None:
    uses = '\n@question("1.3", points=2, claim="uses 1.1")\ndef test_uses(submission, draw):\n    w = draw.normal(4, 6)\n'
    uses += '    expect_equal(int(submission.global_masks({"a": w}, 0.5)["a"].sum()), 12)\n'
    claim(course.root, TESTS + uses)
    wrong = RIGHT.replace(
        "round(sparsity * weight.numel())", "round(sparsity * weight.numel()) + 1"
    )
    rests = "def global_masks(ws, s): return {k: magnitude_mask(w, s) for k, w in ws.items()}"
    course.hand_in("a", wrong, rests)
    course.grade()
    row = course.table()["a"]
    assert (row["1.1"], row["1.3"]) == ("0", "2")
    assert "right magnitude_mask in place of yours" in course.result("a")["tests"][-1]["output"]


def test_a_zip_with_more_than_a_notebook(tmp_path: Path) -> None:
    mine = "work/lab01_magnitude.ipynb"
    files = {"__MACOSX/._lab01.ipynb": "junk", "work/data.csv": "1,2", mine: notebook(RIGHT)}
    put(tmp_path / "s.zip", zipped(files))
    assert collect(tmp_path, "lab01").submissions[0].notebook == f"s.zip/{mine}"


# --- fair -----------------------------------------------------------------------------

# everything that usually differs from run to run, in what is defined, returned and said
CHANCE = """
import random, sys, warnings
import numpy as np
OFFSET = random.random() + np.random.rand() + torch.rand(1).item()
class Thing: pass
def magnitude_mask(weight, sparsity):
    drawn = random.random(), np.random.rand(), torch.rand(1).item(), OFFSET
    raise ValueError(f"{drawn} {Thing()} {set('abcdefgh')} {Thing}")
def grouped_mask(weight, a):
    return torch.rand(weight.shape) < 0.5
"""
# and what must not cost anything
NOISE = """
import logging, sys, warnings
warnings.warn("a deprecated import")
def noisy(function):
    def f(*args):
        print("out " * 5000)
        print("err " * 5000, file=sys.stderr, flush=True)
        warnings.warn("a deprecated call", DeprecationWarning)
        logging.getLogger().error("logged")
        torch.utils._pytree  # torch's own warnings go the same way
        return function(*args)
    return f
magnitude_mask, grouped_mask = noisy(magnitude_mask), noisy(grouped_mask)
"""


@pytest.mark.long
def test_the_same_submission_gets_the_same_twenty_times(course: Course) -> None:
    for i in range(20):
        course.hand_in(f"chance {i}", CHANCE)
        course.hand_in(f"wrong {i}", RIGHT.replace("False", "True"))
    said: dict[str, set[str]] = {"chance": set(), "wrong": set()}
    for jobs in (1, 2):
        for id in course.grade(f"report {jobs}", seed=5, jobs=jobs).graded:
            path = course.root / f"report {jobs}" / "results"
            (path,) = path.glob(f"{id.replace(' ', '_')}-*.json")
            said[id.split()[0]].add(json.dumps(json.loads(path.read_text())["tests"]))
    assert {name: len(different) for name, different in said.items()} == {"chance": 1, "wrong": 1}
    assert "Thing object at 0x\\u2026" in said["chance"].pop()


def test_warnings_cost_nothing(course: Course) -> None:
    course.hand_in("noisy", RIGHT, NOISE)
    course.grade()
    result = course.result("noisy")
    assert (result["score"], result["output"]) == (3, "")
    assert all(test["output"] == "" for test in result["tests"])


def test_the_table_in_the_terminal_is_harmless(tmp_path: Path) -> None:
    ids = ["doejane_12345", "<b>[red]", "two\nlines", *(f"{i}" for i in range(50))]
    rows = [{"id": id, "1.1": 1.5, "total": 16.5, "maximum": 20, "status": "graded"} for id in ids]
    pd.DataFrame(rows).to_csv(tmp_path / "grades.csv", index=False)
    first, *lines, last = report.to_text(tmp_path).splitlines()
    assert first.split() == ["id", "total", "maximum", "status"] and len(lines) == 40
    assert lines[0].split() == ["doejane_12345", "16.5", "20", "graded"]
    assert last == "\N{HORIZONTAL ELLIPSIS} and 13 more in grades.csv"


# --- graded again ---------------------------------------------------------------------

COUNTED = """
from pathlib import Path
from typing import Any
def note(question):
    with open({log!r}, "a") as file:
        file.write(question + " ")
"""


@pytest.fixture
def counted(course: Course) -> Callable[..., list[str]]:
    """Grades, and says which questions' tests ran, in any order."""
    log = course.root / "ran"

    def grade(text: str = TESTS, **settings: Any) -> list[str]:
        for question, line in (("1.1", "    w = draw"), ("1.2", "    if sub")):
            text = text.replace(f"\n{line}", f'\n    note("{question}")\n{line}')
        claim(course.root, COUNTED.format(log=str(log)) + text)
        log.write_text("")
        course.grade(**settings)
        return sorted(log.read_text().split())

    return grade


def test_only_what_is_named_or_changed_is_graded_again(
    course: Course, counted: Callable[..., list[str]]
) -> None:
    once, both = ["1.1", "1.2"], ["1.1", "1.1", "1.2", "1.2"]
    for name in "ab":
        course.hand_in(name, RIGHT)
    assert counted(seed=3) == both
    whole = contents(course.report)
    assert counted() == []
    assert counted(regrade=["b"]) == once
    assert contents(course.report) == whole  # nothing has changed, so the same comes out
    changed = TESTS.replace("w.abs().flatten()", "w.abs().reshape(-1)")
    assert counted(changed) == both
    assert course.column("total") == {"a": "3", "b": "3"}
    said: list[str] = []
    assert counted(changed, seed=4, say=said.append) == both
    assert said == ["seed 4 instead of the report's 3: everything is graded again, on other inputs"]
    assert counted(changed) == []
    course.hand_in("b", RIGHT, "x = 1")
    assert counted(changed) == once
    course.hand_in("c", RIGHT)
    assert counted(changed) == once


def test_a_claim_that_changes_leaves_the_marks_of_the_others(course: Course) -> None:
    course.hand_in("a", RIGHT)
    course.grade(seed=1)
    harder = TESTS.replace(
        "torch.tensor([1.0]), 1.0).tolist() != [True]",
        "torch.tensor([0.5]), 1.0).tolist() != [True]",
    )
    claim(course.root, harder.replace('claim="a stays"', 'claim="half of a stays"'))
    course.grade()
    row = course.table()["a"]
    assert (row["1.1"], row["1.2"], row["total"]) == ("2", "0", "2")
    assert [t["name"] for t in course.result("a")["tests"]] == [
        "1.1 exactly the smaller half goes",
        "1.2 half of a stays",
    ]
    again = course.grade("anew", seed=1)
    first, second = contents(course.report), contents(again.report)
    assert b"a from 3 to 2" in first.pop("batch.json") and second.pop("batch.json")
    assert first.pop("summary.html", None) == second.pop("summary.html", None)
    assert first == second


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    # a setting, what is raised, what is named
    ({"regrade": ["anna"]}, ValueError, "ann, …"),
    ({"layer": PLAIN, "require_isolation": True}, RuntimeError, "plain"),
    ({"tests": Path("lab09")}, FileNotFoundError, "COURSE_ROOT"),
    ({"report": "submissions/report"}, ValueError, "submissions/report"),
]


@pytest.mark.parametrize("settings, error, named", REFUSED)
def test_what_cannot_be_used_is_refused_before_anything_is_graded(
    settings: dict[str, Any],
    error: type[Exception],
    named: str,
    course: Course,
) -> None:
    for name in ("ann", "bob"):
        course.put(f"{name}.ipynb", "torn")
    with pytest.raises(error, match=named):
        course.grade(**settings)
    assert not any(course.root.glob("**/results/*"))


def test_labs_tests_and_submissions_that_are_not_there_are_said(course: Course) -> None:
    with pytest.raises(FileNotFoundError, match="one of these per student"):
        course.grade()
    with pytest.raises(FileNotFoundError, match="lab09 has no claims in .*: there are lab01$"):
        course.grade(tests=course.tests.with_name("lab09"))
    course.put("a.ipynb", "torn")
    course.grade()
    with pytest.raises(ValueError, match="report of lab01"):
        batch.grade("lab00", course.submissions, course.report, tests=course.tests)
    claim(course.root, TESTS + "\n1 / 0\n")
    with pytest.raises(RuntimeError, match="cannot be imported .ZeroDivisionError"):
        course.grade()
    course.submissions.rename(course.root / "moved")
    with pytest.raises(FileNotFoundError, match="give the folder"):
        course.grade(tests=claim(course.root))


def test_a_message_that_no_file_can_hold_costs_nobody_anything(course: Course) -> None:
    course.hand_in("a", RIGHT, "def grouped_mask(w, a): raise ValueError(chr(0xD800) + chr(0))")
    course.hand_in("b", RIGHT)
    course.grade()
    assert course.column("total") == {"a": "2", "b": "3"}


def test_a_fault_of_the_graders_own_is_graded_again(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        course.hand_in(name, RIGHT)
    with monkeypatch.context() as broken:
        broken.setattr("course_lib.grading.marking.judge.Judge.mark", lambda *_: 1 / 0)
        course.grade()
    assert set(course.column("status").values()) == {"grader failed"}
    assert course.grade().graded == ["a", "b"]
    assert course.column("total") == {"a": "3", "b": "3"}


def test_required_isolation_grades_again_what_had_none(course: Course) -> None:
    course.hand_in("a", RIGHT)
    course.grade(layer=PLAIN)
    assert course.column("total") == {"a": "3"}
    assert "WITHOUT a sandbox" in course.result("a")["extra_data"]["isolation"]
    if not sandbox.best().is_sandbox:
        pytest.skip("this machine has no sandbox to require")
    kept = course.grade()
    assert kept.kept == ["a"]
    assert ["--require-isolation" in remark for remark in kept.remarks] == [True]
    isolated = course.grade(require_isolation=True)
    assert (isolated.graded, isolated.remarks) == (["a"], [])
    assert course.result("a")["extra_data"]["layer"] == isolated.layer.name


def test_what_became_of_earlier_marks_is_said(course: Course) -> None:
    for name in ("ada", "bo", "cy"):
        course.hand_in(name, RIGHT)
    course.grade()
    assert summary.status_sentences(course.report) == [
        "3 submissions: 3 graded, 0 pending, 0 refused, 0 unchanged"
    ]
    (course.submissions / "ada.ipynb").unlink()
    course.put("bo.ipynb", "torn")
    claim(course.root, TESTS.replace("points=2", "points=4"))
    for _ in range(2):
        course.grade()
        said = summary.status_sentences(course.report)
        assert "graded before, and not among the submissions now: ada (3 points)" in said
        assert any(s.startswith("graded before, and without a grade now") for s in said)
        assert "bo (3 points)" in said[-1]


def test_whose_marks_a_changed_claim_changed_is_said(course: Course) -> None:
    course.hand_in("ada", RIGHT)
    course.grade()
    claim(course.root, TESTS.replace("points=2", "points=4"))
    course.grade()
    changed = "changed since the run before: ada from 3 to 5"
    assert changed in summary.status_sentences(course.report)
    assert changed in summary.write(course.report).read_text()


def test_marks_of_an_earlier_file_are_named_until_their_row_changes(course: Course) -> None:
    course.hand_in("ada", RIGHT)
    put(course.report / "marks.csv", "id,question,points,comment\nada,1.1,1,nearly\n")
    course.grade()
    course.hand_in("ada", RIGHT, "x = 1")
    for _ in range(2):
        course.grade()
        said = summary.status_sentences(course.report)
        assert "handed in again after its marks were written" in said[-1]
    put(course.report / "marks.csv", "id,question,points,comment\nada,1.1,1,nearly; it holds\n")
    course.grade()
    assert len(summary.status_sentences(course.report)) == 1


def test_the_teacher_is_told_who_called_a_forbidden_function(course: Course) -> None:
    course.hand_in("ada", RIGHT + "\ntry:\n    import socket\nexcept OSError:\n    pass\n")
    course.hand_in(
        "bo",
        "from course_lib.pruning import weights\n"
        "def magnitude_mask(w, s): return weights.smallest(w.abs(), s)",
    )
    course.grade()
    said = summary.status_sentences(course.report)
    assert "look at ada: code that names socket" in said
    assert any(s.startswith("look at bo: called ") and "1.1" in s for s in said)
    assert course.column("look at")["ada"] == "code that names socket"
    assert "code that names socket" in summary.write(course.report).read_text()


def test_points_are_rounded_once_half_a_hundredth_up() -> None:
    entries = [
        ClaimResult("1.1", "a", 0.333, 1, "passed"),
        ClaimResult("1.2", "b", 1.002, 2, "passed"),
    ]
    assert Result("a", "a", tuple(entries)).score == 1.34
    assert all(
        Result("a", "a", (ClaimResult("1.1", "a", x, 9, "passed"),)).score == y
        for x, y in [(0.005, 0.01), (1.005, 1.01), (2.675, 2.68), (7.7664, 7.77)]
    )


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"No space left on device.*grades\.csv"):
        files.write_atomic(tmp_path / "grades.csv", b"x")
