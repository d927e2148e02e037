"""The battle: every attack handed in among honest submissions, graded in one batch a
lab, once behind each layer that works here.

What is looked at before and after is everything a submission could have changed: files,
processes, shared memory, the grader's own process. The tests then only compare.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import hostile
import psutil
import sklearn  # noqa: F401  (sets variables of OpenMP when the digits are first loaded)
import torch
from kinds import SAMPLE

from course_lib.grading import sandbox
from course_lib.grading.batch import handback, summary
from course_lib.grading.batch import run as batch
from course_lib.grading.marking.judge import Limits
from course_lib.grading.sandbox import Seconds
from course_lib.sandbox_child import restrictions

# "sample": some of each kind in one class; "rest": all others
WHICH = os.environ.get("ATTACKS", "all")
LABS = ("lab00", "lab01", "lab03", "lab07", "lab10") if WHICH != "sample" else ("lab01",)
LAYERS = [name for name in sandbox.LAYERS if not sandbox.try_layer(name)]
BEST = LAYERS[0]
LAYERS = LAYERS if WHICH != "sample" else [BEST]
SEED = 1
# shorter than in earnest: an attack that hangs hangs as well for a fifth of the time
LIMITS = Limits(Seconds(reply=2.0, define=6.0))
HONEST: dict[str, Callable[[str], list[str]]] = {
    "solution": hostile.solution,
    "handout": hostile.handout,
    "half": hostile.half,
}


@dataclass
class Battle:
    """What came of one batch.

    Attributes:
        results: by id, as in the report. copies: ids of the honest submissions, by
            kind.
        before, after: the grader and the machine. calls: attacks that reached the
            listener, or sent the grader a signal.
    """

    report: Path
    mark: str
    results: dict[str, dict[str, Any]]
    copies: dict[str, list[str]]
    expected: dict[str, hostile.Expected]
    before: dict[str, Any]
    after: dict[str, Any]
    calls: list[str]
    megabytes: float


def chosen(lab: str, layer: str) -> list[hostile.Attack]:
    """The attacks of a lab that are graded behind a layer: all behind the best,
    elsewhere what the layer makes a difference for.
    """
    of_lab = [
        a
        for a in hostile.attacks()
        if a.lab == lab and (sandbox.Isolation(layer).is_sandbox or not a.needs_sandbox)
    ]
    if layer != BEST:
        return [a for a in of_lab if a.needs_sandbox or a.everywhere]
    return [a for a in of_lab if WHICH == "all" or (a.path.stem in SAMPLE) == (WHICH == "sample")]


def grade(
    lab: str,
    layer: str,
    submissions: Path,
    report: Path,
    jobs: int | None = None,
    limits: Limits = LIMITS,
) -> Path:
    tests = hostile.ROOT / "tests" / "labs" / lab
    settings = {"jobs": jobs, "seed": SEED, "layer": sandbox.Isolation(layer), "limits": limits}
    return batch.grade(lab, submissions, report, tests=tests, **settings).report


def results_of(report: Path) -> dict[str, dict[str, Any]]:
    results = [json.loads(path.read_text()) for path in (report / "results").glob("*.json")]
    return {result["extra_data"]["id"]: result for result in results}


def fight(lab: str, layer: str, folder: Path) -> Battle:
    submissions, report, temporary = folder / "submissions", folder / "report", folder / "tmp"
    for made in (submissions, temporary):
        made.mkdir()
    mark = f"attacked{os.getpid()}{layer}{lab}"
    with contextlib.ExitStack() as stack:
        calls: list[str] = []
        port = stack.enter_context(_listening(mark, calls))
        stack.enter_context(_counting_signals(calls))
        stack.enter_context(_adopting_orphans())
        stack.enter_context(mock.patch.dict(os.environ, COURSE_SECRET="seen by nobody"))
        stack.enter_context(mock.patch.object(tempfile, "tempdir", str(temporary)))
        known = {
            "COURSE": str(hostile.ROOT), "SUBMISSIONS": str(submissions), "REPORT": str(report),
            "GRADER": os.getpid(), "PORT": port, "MARK": mark,
        }  # fmt: skip
        copies, expected = _hand_in(lab, layer, submissions, known)
        before = {**_grader(), **_machine(mark, submissions, temporary)}
        begin, most = time.monotonic(), _peak()
        grade(lab, layer, submissions, report)
        seconds, megabytes = time.monotonic() - begin, _peak() - most
        after = {**_grader(), **_machine(mark, submissions, temporary)}
        _end({*after["processes"]} - {*before["processes"]})
    handback.write(report)
    summary.write(report)
    results = results_of(report)
    print(
        f"{lab}, {layer}: {len(results)} submissions in {seconds:.0f} s, the grader grew by {megabytes:.0f} MB at most"
    )
    return Battle(report, mark, results, copies, expected, before, after, calls, megabytes)


def _hand_in(
    lab: str, layer: str, folder: Path, known: dict[str, Any]
) -> tuple[dict[str, list[str]], dict[str, hostile.Expected]]:
    """The folder of submissions: honest ones first, last, and after every few
    attacks.
    """
    right = hostile.solution(lab)
    copies: dict[str, list[str]] = {kind: [] for kind in HONEST}

    def honest(kind: str, id: str) -> None:
        (folder / f"{id}.ipynb").write_text(hostile.notebook(HONEST[kind](lab)))
        copies[kind].append(id)

    place = "\n".join(f"{name} = {value!r}" for name, value in known.items())
    for number, attack in enumerate(chosen(lab, layer)):
        for id in attack.ids:
            (folder / f"{id}.ipynb").write_text(
                hostile.notebook([place, *right, attack.path.read_text()])
            )
        if number % 8 == 0:  # graded right after the attack: its id follows
            honest(("solution", "solution", "half")[number // 8 % 3], f"{attack.path.stem}-honest")
    for kind in HONEST:
        honest(kind, f"aaa-{kind}")
        honest(kind, f"zzz-{kind}")
    expected: dict[str, hostile.Expected] = {}
    if layer == BEST and lab == hostile.LAB:
        for make in hostile.MAKERS:
            expected |= make(folder, right)
    return copies, expected


# --- what is looked at ----------------------------------------------------------------


def _grader() -> dict[str, Any]:
    """The grader's own process: whatever code that ran inside it could have changed."""
    gc.collect()
    descriptors = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    return {
        "environment": dict(os.environ),
        "working folder": os.getcwd(),
        "descriptors": len(os.listdir(descriptors)),
        # the grader's own watch goes on, to be there for the next batch
        "threads": sorted(t.name for t in threading.enumerate() if t.name != "course-watch"),
        "signal handlers": {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM)},
        "limits": {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("AS", "CPU", "NOFILE", "CORE")},
        "umask": _umask(),
        "python": (sys.getrecursionlimit(), sys.gettrace() is None, list(sys.path), len(sys.meta_path), gc.isenabled()),
        "functions": [id(f) for f in (open, len, isinstance, json.dumps, json.loads, torch.equal, torch.Tensor.__eq__, os.kill)],
        "torch": (torch.get_default_dtype(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()),
    }  # fmt: skip


def _machine(mark: str, submissions: Path, temporary: Path) -> dict[str, Any]:
    """Everything around it: processes below the grader, files, shared memory."""
    home = os.path.expanduser("~")
    places = {
        "/tmp",
        "/var/tmp",
        "/dev/shm",
        "/",
        home,
        os.getcwd(),
        str(hostile.ROOT),
        os.path.dirname(torch.__file__),
    }
    written = [p for d in places if os.path.isdir(d) for p in os.listdir(d) if mark in p]
    for folder in ("tests", "solutions", "labs", "course_lib"):
        for path in (hostile.ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".ipynb") and mark in path.read_text(errors="ignore"):
                written.append(str(path))
    return {
        "processes": _below(),
        "written": sorted(written),
        "temporary files": sorted(os.listdir(temporary)),
        "submissions": _files(submissions),
        "escaped": sorted(str(p) for p in submissions.parent.rglob("*escaped*")),
        "System V": [_read(f"/proc/sysvipc/{kind}") for kind in ("msg", "sem", "shm")],
        "POSIX shared memory": sorted(n for n in os.listdir("/dev/shm") if mark in n) if os.path.isdir("/dev/shm") else [],
        "sockets by name": sorted(line for line in _read("/proc/net/unix").splitlines() if f"note{mark}" in line),
    }  # fmt: skip


def _below() -> list[str]:
    """The processes below this one, which adopts those that lost their parent. The dead
    count as gone.
    """
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {process.cmdline()}")
    return sorted(found)


def _end(left: set[str]) -> None:
    """What has outlived the batch is noted, and must not outlive the test."""
    for process in left:
        with contextlib.suppress(OSError):
            os.kill(int(process.split()[0]), signal.SIGKILL)


def _files(folder: Path) -> dict[str, str]:
    """What every file is and holds; links are not followed."""
    seen = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            seen[str(path)] = "link to " + os.readlink(path)
        elif path.is_file():
            with open(path, "rb") as file:
                seen[str(path)] = hashlib.file_digest(file, "sha256").hexdigest()
        else:
            seen[str(path)] = "folder" if path.is_dir() else "something else"
    return seen


def _read(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text()
    return ""


def _umask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def _peak() -> float:
    """The most memory this process has ever held, in MB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


# --- what is set up -------------------------------------------------------------------


@contextlib.contextmanager
def _listening(mark: str, calls: list[str]) -> Iterator[int]:
    """A listener on this machine, by port and by a name in no file; who calls is noted.
    Gives the port.
    """
    listeners = {"TCP": socket.create_server(("127.0.0.1", 0))}
    if sys.platform.startswith("linux"):
        listeners["a named socket"] = socket.socket(socket.AF_UNIX)
        listeners["a named socket"].bind("\0" + mark)
        listeners["a named socket"].listen()
    try:
        yield listeners["TCP"].getsockname()[1]
    finally:
        for kind, listener in listeners.items():
            listener.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
                calls.append(kind)
            listener.close()


@contextlib.contextmanager
def _counting_signals(calls: list[str]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda number, frame: calls.append("a signal"))
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Linux: whoever loses its parent becomes a child of this process, so that no
    process of the batch can hide.
    """
    restrictions.prctl(restrictions.PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        restrictions.prctl(restrictions.PR_SET_CHILD_SUBREAPER, 0)
