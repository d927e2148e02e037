"""A batch: found, marked, on disk at once, resumed; nobody's submission costs anyone
else.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_lab import RIGHT, TESTS, claim, contents, notebook, put, read_table, zipped

from course_lib import cli
from course_lib.grading import sandbox
from course_lib.grading.batch import origin, summary
from course_lib.grading.batch import run as batch
from course_lib.grading.batch.collect import collect
from course_lib.grading.batch.submission import Submission
from course_lib.grading.marking.judge import Limits
from course_lib.grading.sandbox import Seconds

pytestmark = pytest.mark.usefixtures("warm")


HASTY = Limits(Seconds(reply=2.0))


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    return claim(tmp_path, TESTS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "submissions"
    folder.mkdir()
    return folder


def test_a_mixed_batch(folder: Path, tests: Path, tmp_path: Path) -> None:
    (folder / "right.ipynb").write_text(notebook(RIGHT))
    (folder / "truncated.ipynb").write_text(notebook(RIGHT)[:200])
    (folder / "no notebook.ipynb").write_text("[1, 2]")
    (folder / "empty.ipynb").write_text(notebook())
    (folder / "loop.ipynb").write_text(
        notebook(RIGHT, "def magnitude_mask(w, s):\n    while True: pass")
    )
    (folder / "exit.ipynb").write_text(
        notebook(RIGHT, "import sys\nsys.exit(0)", "def magnitude_mask(w, s): sys.exit(0)")
    )
    (folder / "hard exit.ipynb").write_text(
        notebook("import os\nclass A(os._exit(0)): pass", RIGHT)
    )
    equal = "class Equal(torch.Tensor):\n    def __eq__(self, o): return True\n    def __torch_function__(self, *a, **k): return self"
    always = f"{equal}\ndef magnitude_mask(w, s): return torch.zeros(4, 6, dtype=torch.bool).as_subclass(Equal)"
    (folder / "equal.ipynb").write_text(notebook(RIGHT, always))
    (folder / "gigabyte.ipynb").write_text(
        notebook(RIGHT, "def threshold_mask(w, a):\n    while True: print('x' * 10**7)")
    )
    (folder / "skipped.ipynb").write_text(
        notebook("from course_lib.grading import skip", RIGHT, 'skip("1.1")')
    )
    (folder / "=cmd()\n.ipynb").write_text(notebook(RIGHT))
    (folder / "in a folder" / "deep").mkdir(parents=True)
    (folder / "in a folder" / "deep" / "lab01 final (2).ipynb").write_text(notebook(RIGHT))
    (folder / "in a folder" / "a lab00.ipynb").write_text(notebook())
    put(folder / "zipped.zip", zipped({"../../lab01.ipynb": notebook(RIGHT)}))
    (folder / "bad.zip").write_bytes(b"PK no zip")
    done = batch.grade("lab01", folder, tmp_path / "report", tests=tests, seed=1, limits=HASTY)
    table = read_table(done.report)
    want = {
        "right": "3", "truncated": "", "no notebook": "", "empty": "", "loop": "1", "exit": "1", "hard exit": "", "equal": "1",
        "gigabyte": "2", "skipped": "1", "'=cmd()\n": "3", "in a folder": "3", "zipped": "3", "bad": "",
    }  # fmt: skip
    assert {id: row["total"] for id, row in table.items()} == want
    assert {row["maximum"] for row in table.values()} == {"3"}
    assert table["truncated"]["status"] == "pending"
    assert table["hard exit"]["status"] == "stopped"
    assert not (tmp_path / "lab01.ipynb").exists()
    result = json.loads((done.report / "results" / "loop.json").read_text())
    assert result["score"] == 1
    assert {t["status"] for t in result["tests"]} == {"passed", "failed"}
    assert "endless loop" in result["tests"][0]["output"]
    page = (done.report / "feedback" / "loop.html").read_text()
    assert "exactly the smaller half goes" in page
    assert "endless loop" in page
    assert len(list((done.report / "feedback").glob("*.html"))) == len(want)


def test_the_same_command_again_grades_only_what_is_left(
    folder: Path, tests: Path, tmp_path: Path
) -> None:
    (folder / "a.ipynb").write_text(notebook(RIGHT))
    first = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    text = (first.report / "grades.csv").read_bytes()
    assert (first.graded, first.kept) == (["a"], [])
    again = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    assert (again.graded, again.kept) == ([], ["a"])
    assert again.seed == first.seed
    assert (first.report / "grades.csv").read_bytes() == text
    (folder / "b.ipynb").write_text(notebook())
    (folder / "a.ipynb").write_text(notebook("# handed in again", RIGHT))
    assert batch.grade("lab01", folder, tmp_path / "report", tests=tests).graded == ["a", "b"]
    assert batch.grade("lab01", folder, tmp_path / "report", tests=tests).kept == ["a", "b"]
    claim(tmp_path, TESTS.replace("draw.normal(4, 6)", "draw.normal(6, 4)"))
    assert batch.grade("lab01", folder, tmp_path / "report", tests=tests).graded == ["a", "b"]


def test_what_is_no_submission_is_said_before_and_after(
    folder: Path, tests: Path, tmp_path: Path
) -> None:
    (folder / "Section A").mkdir()
    (folder / "Section A" / "amy.ipynb").write_text(notebook(RIGHT))
    for name in ("bob.html", "cy <b>.pdf"):
        (folder / name).write_text("x")
    said: list[str] = []
    done = batch.grade("lab01", folder, tmp_path / "report", tests=tests, say=said.append)
    assert done.graded == ["amy"]
    assert [sentence.partition(":")[0] for sentence in said] == [
        "Section A is read as a section",
        "bob.html is not taken for a submission",
        "cy <b>.pdf is not taken for a submission",
    ]
    page = summary.write(done.report).read_text(encoding="utf-8")
    assert "Not taken for submissions" in page and "bob.html" in page and "cy &lt;b&gt;.pdf" in page
    for i in range(110):
        (folder / f"{i}.html").write_text("x")
    said.clear()
    batch.grade("lab01", folder, tmp_path / "report", tests=tests, say=said.append)
    assert len(said) == 102 and said[-1] == "12 others are not taken for submissions either"
    page = summary.write(done.report).read_text(encoding="utf-8")
    assert all(f"{i}.html" in page for i in range(110))


def of_a_lab(lab: str, cells: list[str], release: str = "") -> str:
    book = json.loads(notebook(*cells))
    book["metadata"]["course"] = {"lab": lab, "version": release}
    return json.dumps(book)


def test_another_lab_or_release_is_named(folder: Path, tests: Path, tmp_path: Path) -> None:
    other = [
        "def find_ticket(build):\n    raise NotImplementedError('3.1')",
        "class Rewound:\n    pass",
        "def find_bug(f): ...",
    ]
    now = origin.released("lab01")
    assert now
    (folder / "wrong lab.ipynb").write_text(of_a_lab("lab03", other, "a" * 12))
    (folder / "by its names.ipynb").write_text(
        notebook("def attention_received(a): pass\nanswer_10_7a = 'B'", "def find_bug(f): ...")
    )
    (folder / "carried over.ipynb").write_text(of_a_lab("lab03", [RIGHT]))
    (folder / "old.ipynb").write_text(
        of_a_lab(
            "lab01", [RIGHT.replace("def threshold_mask", "def my_threshold_mask")], "0123456789ab"
        )
    )
    (folder / "new.ipynb").write_text(
        of_a_lab("lab01", ["import pandas_of_mine\n" + RIGHT, RIGHT], now)
    )
    (folder / "nothing.ipynb").write_text(of_a_lab("lab01", [""], now))
    (folder / "hostile.ipynb").write_text(
        of_a_lab("<b>", [RIGHT]).replace('"version": ""', '"version": {"a": [1]}')
    )
    done = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    table = read_table(done.report)
    assert {id: (row["total"], row["status"]) for id, row in table.items()} == {
        "wrong lab": ("", "pending"), "by its names": ("", "pending"), "carried over": ("3", "graded"), "old": ("2", "graded"),
        "new": ("3", "graded"), "nothing": ("", "unchanged"), "hostile": ("3", "graded"),
    }  # fmt: skip

    def page(id: str) -> str:
        return (done.report / "feedback" / f"{Submission(id).file_name}.html").read_text(
            encoding="utf-8"
        )

    assert (
        "this is a notebook of lab03 (release aaaaaaaaaaaa) and holds nothing that lab01 asks for"
        in page("wrong lab")
    )
    assert "not defined" not in page("wrong lab")
    assert "this is a notebook of lab10 and holds" in page("by its names")
    assert "by its metadata this is a notebook of lab03, but it answers questions of lab01" in page(
        "carried over"
    )
    assert f"is of release 0123456789ab of lab01, and the course now has {now}" in page("old")
    for id in ("new", "nothing", "hostile"):
        assert "release" not in page(id)
    text = summary.write(done.report).read_text(encoding="utf-8")
    text = text[text.index("Renamed, lost, missing") : text.index("Slowest")]
    assert "not defined: threshold_mask" in text and "release 0123456789ab" in text
    assert "neither installed nor handed in: pandas_of_mine" in text


def test_what_changes_beside_the_marks_needs_no_marking(
    folder: Path, tests: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    (folder / "a.ipynb").write_text(of_a_lab("lab01", [RIGHT], "0123456789ab"))
    first = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    before = contents(first.report)
    with monkeypatch.context() as patch:
        patch.setattr("course_lib.grading.batch.origin.released", lambda lab: "0123456789ab")
        again = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    assert (again.graded, again.kept) == ([], ["a"])
    assert "release" not in (again.report / "feedback" / "a.html").read_text()
    batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    assert contents(first.report) == before


def test_an_interrupted_batch_keeps_what_was_finished(
    folder: Path, tests: Path, tmp_path: Path
) -> None:
    for name in "abcd":
        (folder / f"{name}.ipynb").write_text(notebook(RIGHT))

    def stop(id: str, number: int, all: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch.grade("lab01", folder, tmp_path / "report", tests=tests, jobs=1, progress=stop)
    finished = list((tmp_path / "report" / "results").glob("*.json"))
    assert len(finished) >= 2
    times = {path: path.stat().st_mtime_ns for path in finished}
    batch.grade("lab01", folder, tmp_path / "report", tests=tests, jobs=1)
    assert len(read_table(tmp_path / "report")) == 4
    assert {path: path.stat().st_mtime_ns for path in finished} == times


def test_the_seed_decides_the_inputs(folder: Path, tests: Path, tmp_path: Path) -> None:
    claim(
        tmp_path,
        TESTS.replace("expect_equal(", "fail(str(w.sum().item())) if 1 else expect_equal("),
    )
    (folder / "a.ipynb").write_text(notebook(RIGHT))

    def said(seed: int, out: str) -> str:
        batch.grade("lab01", folder, tmp_path / out, tests=tests, seed=seed)
        return json.loads((tmp_path / out / "results" / "a.json").read_text())["tests"][0]["output"]

    assert said(1, "one") == said(1, "two") != said(2, "three")


@pytest.mark.parametrize("wrong", ["missing", "empty"])
def test_no_submissions_is_said(wrong: str, tests: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="give the folder|one of these per student"):
        batch.grade("lab01", tmp_path / wrong, tmp_path / "report", tests=tests)


def test_a_lab_that_is_not_there_is_said_with_those_that_are(
    folder: Path, tests: Path, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="lab09 has no claims in .*: there are lab01$"):
        batch.grade("lab09", folder, tmp_path / "report", tests=tests.with_name("lab09"))
    with pytest.raises(
        FileNotFoundError, match="work inside the course's folder, or set COURSE_ROOT"
    ):
        batch.grade("lab01", folder, tmp_path / "report", tests=tmp_path / "elsewhere" / "lab01")
    assert not (tmp_path / "report").exists()


def test_another_labs_report_is_not_overwritten(folder: Path, tests: Path, tmp_path: Path) -> None:
    (folder / "a.ipynb").write_text(notebook(RIGHT))
    batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    with pytest.raises(ValueError, match="report of lab01"):
        batch.grade("lab00", folder, tmp_path / "report", tests=tests)


def test_a_question_that_rests_on_a_wrong_earlier_one_is_tried_with_a_right_one(
    folder: Path, tests: Path, tmp_path: Path
) -> None:
    uses = '\n@question("1.4", points=2, claim="uses 1.1")\ndef test_uses(submission, draw):\n    w = draw.normal(4, 6)\n'
    uses += '    expect_equal(int(submission.global_masks({"a": w}, 0.5)["a"].sum()), 12)\n'
    claim(tmp_path, TESTS + uses)
    wrong = RIGHT.replace(
        "round(sparsity * weight.numel())", "round(sparsity * weight.numel()) + 1"
    )
    (folder / "a.ipynb").write_text(
        notebook(
            wrong,
            "def global_masks(ws, s): return {k: magnitude_mask(w, s) for k, w in ws.items()}",
        )
    )
    done = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    row = read_table(done.report)["a"]
    assert (row["1.1"], row["1.4"]) == ("0", "2")
    output = json.loads((done.report / "results" / "a.json").read_text())["tests"][-1]["output"]
    assert "right magnitude_mask in place of yours" in output


@pytest.mark.long
def test_plain_limits_mark_the_same(folder: Path, tests: Path, tmp_path: Path) -> None:
    (folder / "a.ipynb").write_text(notebook(RIGHT))
    done = batch.grade(
        "lab01", folder, tmp_path / "report", tests=tests, layer=sandbox.Layer("plain")
    )
    assert read_table(done.report)["a"]["total"] == "3"
    assert (
        "WITHOUT a sandbox"
        in json.loads((done.report / "results" / "a.json").read_text())["extra_data"]["isolation"]
    )


def test_names_of_files_are_safe_and_distinct() -> None:
    names = [
        Submission(id).file_name
        for id in ("a b", "a_b", "../../x", "a\nb", "é" * 300, ".hidden", "ok-1.2")
    ]
    assert len(set(names)) == len(names)
    assert all(
        "/" not in n and "\n" not in n and len(n) < 120 and not n.startswith(".") for n in names
    )
    assert names[-1] == "ok-1.2"


def test_a_zip_with_more_than_a_notebook(tmp_path: Path) -> None:
    mine = "work/lab01_magnitude.ipynb"
    files = {"__MACOSX/._lab01.ipynb": "junk", "work/data.csv": "1,2", mine: notebook(RIGHT)}
    put(tmp_path / "s.zip", zipped(files))
    assert collect(tmp_path, "lab01").submissions[0].notebook == mine


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
def threshold_mask(weight, a):
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
magnitude_mask, threshold_mask = noisy(magnitude_mask), noisy(threshold_mask)
"""


def outcomes_of(report: Path) -> dict[str, list[dict]]:
    found = [json.loads(path.read_text()) for path in (report / "results").glob("*.json")]
    return {result["extra_data"]["id"]: result["tests"] for result in found}


@pytest.mark.long
def test_the_same_submission_gets_the_same_twenty_times(
    folder: Path, tests: Path, tmp_path: Path
) -> None:
    wrong = RIGHT.replace("False", "True")
    for i in range(20):
        (folder / f"chance {i}.ipynb").write_text(notebook(CHANCE))
        (folder / f"wrong {i}.ipynb").write_text(notebook(wrong))
    said: dict[str, set[str]] = {"chance": set(), "wrong": set()}
    for jobs in (1, 2):
        done = batch.grade(
            "lab01", folder, tmp_path / f"report {jobs}", tests=tests, seed=5, jobs=jobs
        )
        for id, outcomes in outcomes_of(done.report).items():
            said[id.split()[0]].add(json.dumps(outcomes, ensure_ascii=False))
    assert {name: len(different) for name, different in said.items()} == {"chance": 1, "wrong": 1}
    assert "Thing object at 0x…" in said["chance"].pop()


def test_warnings_cost_nothing(folder: Path, tests: Path, tmp_path: Path) -> None:
    (folder / "noisy.ipynb").write_text(notebook(RIGHT, NOISE))
    done = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    assert read_table(done.report)["noisy"]["total"] == "3"
    result = json.loads((done.report / "results" / "noisy.json").read_text())
    assert result["output"] == ""
    assert all(test["output"] == "" for test in result["tests"])


@pytest.mark.parametrize("columns, policy", [(80, False), (80, True), (200, False), (200, True)])
def test_the_table_in_the_terminal_can_be_read(
    columns: int, policy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [f"1.{i}" for i in range(1, 12)]
    late = ["handed in", "days late", "late days", "penalty", "after penalty"] if policy else []
    told = ["2026-10-14 12:00 +0200", "2", "1", "10 %", "14.85"] if policy else []
    with open(tmp_path / "grades.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["id", *questions, "total", "maximum", "status", *late, "feedback"]]
            + [
                [
                    f"doejane_1234{i}",
                    *["1.5"] * 11,
                    "16.5",
                    "20",
                    "graded",
                    *told,
                    "feedback/x.html",
                ]
                for i in range(3)
            ]
        )
    said = io.StringIO()
    monkeypatch.setattr(cli, "console", Console(file=said, width=columns))
    cli._summary(tmp_path)
    lines = said.getvalue().splitlines()
    assert all(len(line) <= columns for line in lines) and "\u2026" not in said.getvalue()
    row = next(line.split() for line in lines if line.strip().startswith("doejane_12340"))
    whole = ["doejane_12340", *["1.5"] * 11, "16.5", "20", "graded", *" ".join(told).split()]
    assert row == (whole if columns == 200 else [cell for cell in row if cell in whole])
    assert {"16.5", "graded", *(["14.85", "2"] if policy else ["20"])} <= set(row)
    assert ("all columns: grades.csv" in lines) is (columns == 80)


# --- graded again ---------------------------------------------------------------------

COUNTED = """
from pathlib import Path
from typing import Any
def note(question):
    with open({log!r}, "a") as file:
        file.write(question + " ")
"""


@pytest.fixture
def counted(tests: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Grades, and says which questions' tests ran, in any order."""
    log = tmp_path / "ran"

    def write(text: str) -> None:
        text = text.replace("\n    w = draw", '\n    note("1.1")\n    w = draw').replace(
            "\n    if sub", '\n    note("1.2")\n    if sub'
        )
        claim(tmp_path, COUNTED.format(log=str(log)) + text)

    def grade(folder: Path, text: str = TESTS, **settings: Any) -> list[str]:
        write(text)
        log.write_text("")
        settings = {"jobs": 1, **settings}  # one warm worker to wait for, not two
        batch.grade("lab01", folder, tmp_path / "report", tests=tests, **settings)
        return sorted(log.read_text().split())

    return grade


def test_only_what_is_named_or_changed_is_graded_again(
    folder: Path, tmp_path: Path, counted: Callable[..., list[str]]
) -> None:
    for name in "ab":
        (folder / f"{name}.ipynb").write_text(notebook(RIGHT))
    assert counted(folder, seed=3) == ["1.1", "1.1", "1.2", "1.2"]
    whole = contents(tmp_path / "report")
    assert counted(folder) == []
    assert counted(folder, regrade=["b"]) == ["1.1", "1.2"]
    assert contents(tmp_path / "report") == whole  # nothing has changed, so the same comes out
    changed = TESTS.replace("w.abs().flatten()", "w.abs().reshape(-1)")
    assert counted(folder, changed) == ["1.1", "1.1", "1.2", "1.2"]
    assert {row["total"] for row in read_table(tmp_path / "report").values()} == {"3"}
    said: list[str] = []
    assert counted(folder, changed, seed=4, say=said.append) == ["1.1", "1.1", "1.2", "1.2"]
    assert said == ["seed 4 instead of the report's 3: everything is graded again, on other inputs"]
    assert counted(folder, changed) == []
    (folder / "b.ipynb").write_text(notebook(RIGHT, "x = 1"))
    assert counted(folder, changed) == ["1.1", "1.2"]


def test_a_claim_that_changes_leaves_the_marks_of_the_others(
    folder: Path, tests: Path, tmp_path: Path
) -> None:
    (folder / "a.ipynb").write_text(notebook(RIGHT))
    batch.grade("lab01", folder, tmp_path / "report", tests=tests, seed=1, jobs=1)
    harder = TESTS.replace(
        "torch.tensor([1.0]), 1.0).tolist() != [True]",
        "torch.tensor([0.5]), 1.0).tolist() != [True]",
    )
    claim(tmp_path, harder.replace('claim="a stays"', 'claim="half of a stays"'))
    done = batch.grade("lab01", folder, tmp_path / "report", tests=tests, jobs=1)
    row = read_table(done.report)["a"]
    assert (row["1.1"], row["1.2"], row["total"]) == ("2", "0", "2")
    assert [t["name"] for t in outcomes_of(done.report)["a"]] == [
        "1.1 exactly the smaller half goes",
        "1.2 half of a stays",
    ]
    anew = batch.grade("lab01", folder, tmp_path / "anew", tests=tests, seed=1, jobs=1)
    assert contents(done.report) == contents(anew.report)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regrade": ["anna"]}, "no submission 'anna': there are ann, …"),
        ({"layer": sandbox.Layer("plain"), "require_isolation": True}, "is no sandbox"),
        ({"scheduler": "tcp://127.0.0.1:9"}, "no Dask scheduler answers|dask.distributed"),
    ],
)
def test_what_does_not_exist_is_said_before_anything_is_graded(
    settings: dict[str, Any],
    message: str,
    folder: Path,
    tests: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("course_lib.grading.batch.cluster.CONNECT_SECONDS", 1.0)
    for name in ("ann", "bob"):
        (folder / f"{name}.ipynb").write_text("torn")
    with pytest.raises((ValueError, RuntimeError), match=message):
        batch.grade("lab01", folder, tmp_path / "report", tests=tests, **settings)
    assert contents(tmp_path / "report") == {}


def test_a_report_among_the_submissions_is_refused(folder: Path, tests: Path) -> None:
    (folder / "a.ipynb").write_text("torn")
    with pytest.raises(ValueError, match="lies among the submissions"):
        batch.grade("lab01", folder, folder / "report", tests=tests)
    assert not (folder / "report").exists()


def test_tests_that_do_not_load_are_said(folder: Path, tests: Path, tmp_path: Path) -> None:
    (folder / "a.ipynb").write_text("torn")
    claim(tmp_path, TESTS + "\n1 / 0\n")
    with pytest.raises(RuntimeError, match="cannot be imported .ZeroDivisionError"):
        batch.grade("lab01", folder, tmp_path / "report", tests=tests)


def test_a_message_that_no_file_can_hold_costs_nobody_anything(
    folder: Path, tests: Path, tmp_path: Path
) -> None:
    (folder / "a.ipynb").write_text(
        notebook(RIGHT, "def threshold_mask(w, a): raise ValueError(chr(0xD800) + chr(0))")
    )
    (folder / "b.ipynb").write_text(notebook(RIGHT))
    done = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    assert {id: row["total"] for id, row in read_table(done.report).items()} == {"a": "2", "b": "3"}


def test_a_fault_of_the_graders_own_is_graded_again(
    folder: Path, tests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (folder / f"{name}.ipynb").write_text(notebook(RIGHT))
    with monkeypatch.context() as broken:
        broken.setattr("course_lib.grading.marking.judge.Judge.mark", lambda *_: 1 / 0)
        done = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    assert {row["status"] for row in read_table(done.report).values()} == {"grader failed"}
    again = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    assert again.graded == ["a", "b"]
    assert {row["total"] for row in read_table(again.report).values()} == {"3"}


@pytest.mark.skipif(not sandbox.best().is_sandbox, reason="this machine has no sandbox to require")
def test_required_isolation_grades_again_what_had_none(
    folder: Path, tests: Path, tmp_path: Path
) -> None:
    (folder / "a.ipynb").write_text(notebook(RIGHT))
    first = batch.grade(
        "lab01", folder, tmp_path / "report", tests=tests, layer=sandbox.Layer("plain")
    )
    kept = batch.grade("lab01", folder, tmp_path / "report", tests=tests)
    assert kept.kept == ["a"]
    assert kept.remarks == [
        "1 kept from before were graded without a sandbox; --require-isolation grades them again in one"
    ]
    required = batch.grade(
        "lab01", folder, tmp_path / "report", tests=tests, require_isolation=True
    )
    assert (required.graded, required.remarks) == (["a"], [])
    assert (
        json.loads((first.report / "results" / "a.json").read_text())["extra_data"]["layer"]
        == required.layer.name
    )
