"""Nothing is lost: a grader that is killed at any moment, interrupted, or started twice
leaves a report that can be gone on with.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from small_lab import ANSWERS, RIGHT, Course, contents, put

from course_lib.grading import sandbox

# Imports once, then forks a grader for every line "jobs seconds signal" it reads, and
# signals it so many seconds after its next result is on disk (negative: after its
# start; "inf": never). Says how it ended, and whether anything it started outlived it.
NURSERY = """
import ctypes, json, math, os, signal, sys, time
from pathlib import Path
from course_lib.grading.batch import run as batch

place = Path(sys.argv[1])
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # what loses its parent becomes ours, so that we see it
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background is started without

def count():
    return len(list((place / "report" / "results").glob("[!.]*.json")))

def outlived():
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        time.sleep(0.02)
    return True

def grade(jobs):
    try:
        batch.grade("lab01", place / "submissions", place / "report", tests=place / "lab01", seed=7, jobs=jobs)
    except batch.Interrupted as stopped:
        print("said", stopped, flush=True)

for line in sys.stdin:
    jobs, seconds, number = line.split()
    seconds, before, ended = float(seconds), count(), 0
    pid = os.fork()
    if pid == 0:
        grade(int(jobs))
        os._exit(0)
    while seconds >= 0 and not ended and count() == before:
        time.sleep(0.005)
        ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended and math.isfinite(seconds):
        time.sleep(abs(seconds))
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            os.kill(pid, int(number))
    if not ended:
        status = os.waitpid(pid, 0)[1]
    print(json.dumps({"code": os.waitstatus_to_exitcode(status), "outlived": outlived()}), flush=True)
"""
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm")]
PLAIN = sandbox.Isolation("plain")
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="forks graders and adopts what they leave: Linux"
)


class Nursery:
    """The process that forks graders."""

    def __init__(self, course: Course) -> None:
        command = [sys.executable, "-c", NURSERY, str(course.root)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def grade(
        self, jobs: int, seconds: float = float("inf"), signum: int = signal.SIGKILL
    ) -> tuple[int, str]:
        """Exit status of a grader (-9: killed), and what it said."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{jobs} {seconds} {int(signum)}\n")
        self.process.stdin.flush()
        said = ""
        while (line := self.process.stdout.readline()).startswith("said"):
            said += line
        ended = json.loads(line)
        assert not ended["outlived"], "processes of a grader outlived it"
        return ended["code"], said

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=60)


@linux
def test_a_grader_killed_at_any_moment_loses_nothing(course: Course) -> None:
    for i in range(48):
        course.hand_in(f"student {i:02}", ANSWERS[i % len(ANSWERS)])
    moments = random.Random()
    finished: dict[Path, tuple[int, int]] = {}
    killed = 0

    def check_finished() -> None:
        for path in (course.report / "results").glob("[!.]*.json"):
            stamp = (path.stat().st_ino, path.stat().st_mtime_ns)
            assert finished.setdefault(path, stamp) == stamp, f"{path.name} is written again"

    with Nursery(course) as nursery:
        for round in range(11):
            seconds = -moments.uniform(0.01, 3) if round == 5 else moments.uniform(0, 0.15)
            code, _ = nursery.grade(2 if round in (0, 6) else 1, seconds)
            killed += code == -signal.SIGKILL
            check_finished()
        assert killed >= 10, "the batch was too small for so many kills"
        assert len(finished) >= killed - 4
        assert nursery.grade(1)[0] == 0
    check_finished()
    whole = course.grade("whole", seed=7, jobs=2)
    # the table, every result and page; and nothing half written
    assert contents(course.report) == contents(whole.report)
    assert len(course.table()) == 48


# Forks a grader that dies before or after the N-th file it puts in place; submissions
# that need no worker, so that all can be tried.
STEPS = """
import os, signal, sys
from pathlib import Path
from course_lib.grading.batch import run as batch
from course_lib.grading import sandbox

place, replace = Path(sys.argv[1]), os.replace

def grade(report, dies=0, after=False):
    pid = os.fork()
    if pid:
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    puts = 0
    def put(*names):
        nonlocal puts
        puts += 1
        if puts == dies and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*names)
        if puts == dies:
            os.kill(os.getpid(), signal.SIGKILL)
    os.replace = put
    batch.grade("lab01", place / "submissions", place / report, tests=place / "lab01", seed=7, jobs=1,
        layer=sandbox.Isolation("plain"))
    os._exit(0)

grade("whole")
for after in (False, True):
    step = 1
    while grade(f"report {step} {after}", step, after):
        assert not grade(f"report {step} {after}")
        step += 1
print(step)
"""


@linux
def test_a_grader_killed_at_any_step_of_writing_loses_nothing(course: Course) -> None:
    for name in ("a", "b", "c"):
        course.put(f"{name}.ipynb", "torn")
    command = [sys.executable, "-c", STEPS, str(course.root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 8  # the batch, three pages, three results, the tables
    reports = sorted(course.root.glob("report *"))
    assert len(reports) == 2 * int(done.stdout)
    for report in reports:
        assert contents(report) == contents(course.root / "whole"), report.name


@linux
def test_ctrl_c_keeps_what_is_finished_and_ends_the_rest_at_once(course: Course) -> None:
    course.hand_in("a", RIGHT)
    for name in "bcd":
        course.hand_in(name, "def magnitude_mask(weight, sparsity):\n    while True: pass")
    with Nursery(course) as nursery:
        code, said = nursery.grade(2, 1.0, signal.SIGINT)
    assert code == 0
    assert said.startswith("said stopped: 1 of 4 submissions are graded and stay;")
    assert [p.name for p in (course.report / "results").iterdir()] == ["a.json"]
    assert list(course.table()) == ["a"]


def test_a_second_grader_on_the_same_report_is_refused(course: Course) -> None:
    for name in "ab":
        course.put(f"{name}.ipynb", "torn")
    refused: list[str] = []

    def meanwhile(id: str, done: int, all: int) -> None:
        def second() -> None:
            with pytest.raises(RuntimeError, match="another process is grading"):
                course.grade(seed=7, layer=PLAIN)
            refused.append(id)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()

    assert course.grade(seed=7, layer=PLAIN, progress=meanwhile).graded == ["a", "b"]
    assert refused == ["a", "b"]
    assert course.grade(seed=7, layer=PLAIN).kept == ["a", "b"]


def test_what_a_killed_grader_leaves_stops_nobody(course: Course) -> None:
    course.put("a.ipynb", "torn")
    for left in (course.report / ".lock", course.report / "results" / ".a.json.x.part"):
        put(left, "half")
    there = contents(course.grade(layer=PLAIN).report).keys()
    assert {name for name in there if not name.startswith("written/")} == {
        "batch.json",
        "grades.csv",
        "feedback/a.html",
        "results/a.json",
    }
