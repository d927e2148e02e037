"""Judges: whatever a submission makes the process do that judges it, it costs one row;
and what is right is told nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jupytext
import numpy as np
import psutil
import pytest
import torch
from small_lab import claim, hand_in, load_lab

from course_lib import labs
from course_lib.grading import Submission, sandbox
from course_lib.grading.batch import run as batch
from course_lib.grading.claims.alarm import WorkerLost
from course_lib.grading.marking.judge import Judge, JudgeLost, Limits
from course_lib.grading.marking.lab import Lab, Task
from course_lib.grading.marking.pool import Judges
from course_lib.grading.sandbox import Seconds, Session, TimeBudget, Worker

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
# tests that come to grief over some values, as a test, a message or torch itself might
TESTS = """
import ctypes
import torch
from course_lib.grading import expect_int, fail, question

@question("1.1", points=2, claim="a number")
def test_number(submission, draw):
    value = expect_int(submission.magnitude_mask(1, 0.5))
    while value == 666:
        pass
    if value == 667:
        ctypes.string_at(0)
    if value == 668:
        torch.zeros(1 << 40)
    if value == 669:
        fail("x" * 10_000_000)
    if value != 1:
        fail("not 1")

@question("1.2", points=1, claim="another one")
def test_other(submission, draw):
    expect_int(submission.grouped_mask(1, 2))
"""


def code(value: int) -> str:
    return f"def magnitude_mask(w, s): return {value}\ndef grouped_mask(w, a): return 2"


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    return claim(tmp_path, TESTS)


def graded(tmp_path: Path, tests: Path, values: dict[str, int], limits: Limits) -> dict[str, dict]:
    folder = tmp_path / "submissions"
    folder.mkdir()
    for name, value in values.items():
        hand_in(folder, name, code(value))
    done = batch.grade(
        "lab01", folder, tmp_path / "report", tests=tests, jobs=1, seed=1, limits=limits
    )
    results = (json.loads(path.read_text()) for path in (done.report / "results").glob("*.json"))
    return {result["extra_data"]["id"]: result for result in results}


def test_a_submission_that_ends_its_judge_costs_one_row(tests: Path, tmp_path: Path) -> None:
    values = {
        "a-spins": 666,
        "b-right": 1,
        "c-crashes": 667,
        "d-right": 1,
        "e-huge": 668,
        "f-long": 669,
        "g-right": 1,
    }
    results = graded(tmp_path, tests, values, Limits(cpu=2))
    status = {id: result["extra_data"]["status"] for id, result in results.items()}
    assert status == {id: "set aside" if id[0] in "ac" else "graded" for id in values}
    assert {id: result["score"] for id, result in results.items()} == {
        "a-spins": 0, "b-right": 3, "c-crashes": 0, "d-right": 3, "e-huge": 1, "f-long": 1, "g-right": 3,
    }  # fmt: skip
    assert "2 seconds of processor time" in results["a-spins"]["output"]
    assert "set aside" in results["c-crashes"]["output"]
    rights = [[t["output"] for t in results[id]["tests"]] for id in values if "right" in id]
    assert rights[0] == rights[1] == rights[2]
    assert all(len(t["output"]) < 2000 for result in results.values() for t in result["tests"])


def test_what_was_set_aside_is_tried_again_only_if_somebody_asks(
    tests: Path, tmp_path: Path
) -> None:
    graded(tmp_path, tests, {"a-crashes": 667, "b-right": 1}, Limits(cpu=3))
    for regrade in ([], ["a-crashes"]):
        again = batch.grade(
            "lab01",
            tmp_path / "submissions",
            tmp_path / "report",
            tests=tests,
            jobs=1,
            regrade=regrade,
        )
        assert again.graded == regrade


def test_a_judge_that_ends_leaves_nothing_behind(tests: Path) -> None:
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    judge = Judge(sandbox.best(), Limits(cpu=2))
    lab = load_lab(tests)
    assert judge.mark(lab.spec, Task("x", (code(1),))).status == "graded"
    with pytest.raises(JudgeLost, match="processor time"):
        judge.mark(lab.spec, Task("x", (code(666),)))
    assert judge.mark(lab.spec, Task("x", (code(1),))).status == "graded"
    judge.shutdown()
    for _ in range(50):
        left = {
            p.pid
            for p in psutil.Process().children(recursive=True)
            if p.status() != psutil.STATUS_ZOMBIE
        } - before
        if not left:
            break
        time.sleep(0.1)
    assert not left


def test_one_submission_alone_is_set_aside_too(tests: Path) -> None:
    judges = Judges(sandbox.best(), Limits(cpu=2))
    marked = judges.mark_or_set_aside(load_lab(tests), Task("x", (code(667),)))
    judges.stop()
    assert marked.status == "set aside"


def test_the_time_for_a_submission_ends_inside_a_test(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "seconds", Seconds(reply=2.0, submission=3.0))
    budget = TimeBudget(3.0)
    source = "import time\ndef f(): time.sleep(1.2)"
    submission = Submission(worker.open([source], ["f"], budget=budget))
    submission.f()
    with pytest.raises(WorkerLost, match="time for the whole submission, 3 seconds"):
        for _ in range(3):
            submission.f()
    assert budget.left <= 0.1


def test_a_full_core_is_not_the_codes_fault(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three busy processes per core: half a second of work takes two seconds or more."""
    if not os.path.exists(f"/proc/{os.getpid()}/schedstat"):
        pytest.skip("this system does not tell how long a process waited for a core")
    monkeypatch.setattr(worker, "seconds", Seconds(reply=1.0))
    work = "import time\ndef f(seconds):\n    end = time.process_time() + seconds\n    while time.process_time() < end: pass\n    return 1"
    session = worker.open([work], ["f"])
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(3 * (os.cpu_count() or 1))
    ]
    try:
        assert Submission(session).f(0.5) == 1
    finally:
        for process in busy:
            process.kill()
            process.wait()
        session.close()


def test_ctrl_c_ends_a_judge_that_computes(tmp_path: Path) -> None:
    computing, spins = tmp_path / "computing", "    while value == 666:"
    tests = claim(tmp_path, TESTS.replace(spins, f"    open({str(computing)!r}, 'w')\n{spins}"))
    folder = tmp_path / "submissions"
    folder.mkdir()
    hand_in(folder, "a", code(666))
    source = (
        "import signal, sys\nfrom pathlib import Path\nfrom course_lib.grading.batch import run\n"
        # a shell's background ignores it
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "run.grade('lab01', Path(sys.argv[1]), Path(sys.argv[2]), tests=Path(sys.argv[3]), jobs=1, seed=1)"
    )
    command = [sys.executable, "-c", source, str(folder), str(tmp_path / "report"), str(tests)]
    grader = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(900):
        if computing.exists() or grader.poll() is not None:
            break
        time.sleep(0.1)
    assert grader.poll() is None and computing.exists(), "there was no judge at work to be ended"
    below = psutil.Process(grader.pid).children(recursive=True)
    begin = time.monotonic()
    grader.send_signal(signal.SIGINT)
    _, said = grader.communicate(timeout=60)
    assert "stopped: 0 of 1" in said
    assert time.monotonic() - begin < 30
    gone, left = psutil.wait_procs(below, timeout=10)
    assert not left


def solved(lab: str) -> tuple[Lab, Task]:
    """A lab, and its solution as a submission."""
    tests = ROOT / "tests" / "labs" / lab
    source = next((ROOT / "solutions").glob(f"{lab}_*.py"))
    cells = tuple(c.source for c in jupytext.read(source).cells if c.cell_type == "code")
    marking = load_lab(tests, seed=3)
    files = tuple((name, (tests / "files" / name).read_bytes()) for name in marking.known.files)
    return marking, Task("x", cells, files=files)


@pytest.mark.parametrize("lab", labs.available())
def test_a_perfect_submission_is_told_nothing_and_sent_the_same_bytes_twice(
    lab: str, perfect: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first cells import what they need, plots and experiments too, in the sandbox
    as in the notebook; and one seed draws the same inputs, whatever was drawn before.
    """
    marking, task = solved(lab)
    sent: list[str] = []
    call = Session.call

    def noted(
        self: Session, header: dict, blobs: list[bytes], *rest: object, **more: object
    ) -> object:
        sent.append(hashlib.sha256(repr((header, blobs)).encode()).hexdigest())
        return call(self, header, blobs, *rest, **more)

    monkeypatch.setattr(Session, "call", noted)
    runs = []
    for elsewhere in (1, 2):
        torch.manual_seed(elsewhere)
        np.random.seed(elsewhere)
        random.seed(elsewhere)
        sent.clear()
        marked = marking.mark(task, perfect)
        assert marked.notes == ()
        assert all(o.passed for o in marked.outcomes)
        assert {o.message for o in marked.outcomes} == {""}
        runs.append(list(sent))
    assert len(runs[0]) > 20
    assert runs[0] == runs[1]


@pytest.fixture(scope="module")
def perfect() -> Worker:
    worker = Worker(sandbox.best())
    yield worker
    worker.stop()
