"""Grading throughput beside nbgrader's and otter's, on the same notebooks, in one run,
taking turns.

By default the notebooks hold definitions and no experiments: nbgrader and otter execute
a notebook from top to bottom, experiments too, and this grader does not; with
experiments in them the ratio says how long the lab is rather than how fast the grader
is. ``--whole`` measures that as well, with one whole lab. ``--curve 10 100 500``
measures ours alone on growing classes, with the memory of the grader.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jupytext
import nbformat
import psutil
from nbformat.v4 import new_code_cell, new_notebook

from course_lib.grading.batch import run as batch
from course_lib.labs import load

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "labs" / "lab01"
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
POINTS = {"magnitude_mask": 3, "threshold_mask": 1, "grouped_mask": 4, "global_masks": 2}
# what an instructor would put into the peers' test cells: the same library answers,
# random inputs
CHECKS = {
    "magnitude_mask": "for s in (0.0, 0.3, 0.5, 1.0):\n    w = torch.randn(7, 9)\n    assert torch.equal(magnitude_mask(w, s), reference.magnitude_mask(w, s))",
    "threshold_mask": "w = torch.randint(-3, 4, (50,)).float()\nassert torch.equal(threshold_mask(w, 2.0), reference.threshold_mask(w, 2.0))",
    "grouped_mask": "for g in ('element', 'row', 'kernel', 'filter'):\n    w = torch.randn(4, 3, 3, 3)\n    assert torch.equal(grouped_mask(w, 0.5, g), reference.grouped_mask(w, 0.5, g))",
    "global_masks": "w = {'a': torch.randn(5, 6), 'b': torch.randn(30, 2)}\nm, r = global_masks(w, 0.5), reference.global_masks(w, 0.5)\nassert all(torch.equal(m[k], r[k]) for k in r)",
}
REFERENCE = "from course_lib.labs import lab01 as reference"


def solution() -> list[str]:
    """The code cells of lab 01's solution; without the marks around answers, which
    nbgrader would take for its own.
    """
    cells = jupytext.read(next((ROOT / "solutions").glob("lab01_*.py"))).cells
    sources = [c.source for c in cells if c.cell_type == "code"]
    return [
        "\n".join(line for line in s.splitlines() if not line.strip().startswith("###"))
        for s in sources
    ]


def definitions() -> list[str]:
    """The cells of lab 01's solution that define something, nothing that trains."""
    graded = [
        c
        for c in solution()
        if any(f"def {name}(" in c for name in load("lab01").graded) or "class PrunedLinear" in c
    ]
    return [
        "import torch\nfrom torch import Tensor, nn\nfrom collections.abc import Callable",
        *graded,
    ]


class Ours:
    """``course grade``'s own code: every test of the lab, visible and hidden; workers
    started anew each time.
    """

    def __init__(self, place: Path, cells: list[str], students: int) -> None:
        self.place, self.students, self.turn, self.layer = place / "ours", students, 0, ""
        (self.place / "submissions").mkdir(parents=True)
        for student in range(students):
            book = new_notebook(cells=[new_code_cell(c) for c in cells])
            nbformat.write(book, self.place / "submissions" / f"student{student}.ipynb")

    def grade(self) -> None:
        self.turn += 1
        out = self.place / f"report{self.turn}"
        done = batch.grade("lab01", self.place / "submissions", out, tests=TESTS)
        self.layer = done.layer.name
        scores = {json.loads(p.read_text())["score"] for p in (out / "results").glob("*.json")}
        assert len(done.graded) == self.students and len(scores) == 1, f"scores {scores}"


class Nbgrader:
    """An nbgrader course with one assignment of four test cells."""

    def __init__(self, place: Path, cells: list[str], students: int) -> None:
        self.course = place / "nbgrader"
        book = new_notebook(cells=[new_code_cell(c) for c in cells], metadata=KERNEL)
        for name, check in CHECKS.items():
            cell = new_code_cell(f"{REFERENCE}\n{check}")
            cell.metadata["nbgrader"] = {
                "schema_version": 3, "grade": True, "solution": False, "locked": True, "task": False,
                "grade_id": name, "points": POINTS[name], "cell_type": "code",
            }  # fmt: skip
            book.cells.append(cell)
        (self.course / "source" / "lab01").mkdir(parents=True)
        nbformat.write(book, self.course / "source" / "lab01" / "lab01.ipynb")
        self.run("generate_assignment", "lab01", "--create")
        for student in range(students):
            folder = self.course / "submitted" / f"student{student}" / "lab01"
            folder.mkdir(parents=True)
            shutil.copy(self.course / "release" / "lab01" / "lab01.ipynb", folder)

    def run(self, *arguments: str) -> None:
        timeout = "--ExecutePreprocessor.timeout=1200"
        command = [
            sys.executable,
            "-m",
            "nbgrader",
            *arguments,
            f"--course-dir={self.course}",
            timeout,
        ]
        # nbgrader calls a program of its own environment by name, which is found where
        # that is activated
        path = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        done = subprocess.run(
            command, cwd=self.course, check=False, capture_output=True, text=True, env=path
        )
        assert done.returncode == 0, done.stderr[-2000:]

    def grade(self) -> None:
        self.run("autograde", "lab01", "--force")


class Otter:
    """``otter run`` on each notebook: four tests, in this process' environment, without
    its containers.
    """

    def __init__(self, place: Path, cells: list[str], students: int) -> None:
        self.place, self.students = place / "otter", students
        (self.place / "tests").mkdir(parents=True)
        for name, check in CHECKS.items():
            lines = [f">>> {REFERENCE}"]
            lines += [
                f"{'... ' if line.startswith(' ') else '>>> '}{line}" for line in check.splitlines()
            ]
            case = {"code": "\n".join(lines), "hidden": False, "locked": False}
            suite = {
                "scored": True,
                "setup": "",
                "teardown": "",
                "type": "doctest",
                "cases": [case],
            }
            test = {"name": name, "points": POINTS[name], "suites": [suite]}
            (self.place / "tests" / f"{name}.py").write_text(f"OK_FORMAT = True\ntest = {test!r}\n")
        self.run(
            "generate", "-t", "tests", "-o", "lab01.zip", "--no-environment", "--no-requirements"
        )
        nbformat.write(
            new_notebook(cells=[new_code_cell(c) for c in cells], metadata=KERNEL),
            self.place / "student.ipynb",
        )

    def run(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "otter", *arguments]
        done = subprocess.run(command, cwd=self.place, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]

    def grade(self) -> None:
        for _ in range(self.students):
            self.run("run", "-a", "lab01.zip", "student.ipynb", "-o", ".")
            earned = sum(
                t.get("score") or 0
                for t in json.loads((self.place / "results.json").read_text())["tests"]
            )
            assert earned == sum(POINTS.values()), f"otter gave {earned}"


def available(names: list[str]) -> list[Callable[[Path, list[str], int], Nbgrader | Otter]]:
    """The peers that are installed; who is missing is said."""
    peers: dict[str, Callable[[Path, list[str], int], Nbgrader | Otter]] = {
        "nbgrader": Nbgrader,
        "otter": Otter,
    }
    found = []
    for name in names:
        try:
            __import__(name)
            found.append(peers[name])
        except ImportError:
            print(f"{name} is not installed: pip install -e '.[bench]'")
    return found


def beside(cells: list[str], students: int, turns: int, names: list[str]) -> None:
    """Print submissions per minute of all graders on the same notebooks, and ours as a
    multiple of theirs.
    """
    with tempfile.TemporaryDirectory() as place:
        makers = [Ours, *available(names)]
        graders = [make(Path(place), cells, students) for make in makers]
        seconds: dict[str, list[float]] = {type(g).__name__: [] for g in graders}
        for _ in range(turns):
            for grader in graders:
                begin = time.perf_counter()
                grader.grade()
                seconds[type(grader).__name__].append(time.perf_counter() - begin)
    rates = {name: students * 60 / statistics.median(times) for name, times in seconds.items()}
    ours = rates.pop("Ours")
    peers = "".join(
        f"   {name.lower()} {rate:.2g} ({ours / rate:.0f}x)" for name, rate in rates.items()
    )
    print(
        f"  submissions a minute: course grade {ours:.0f} ({graders[0].layer}){peers}", flush=True
    )


def curve(sizes: list[int]) -> None:
    """Print submissions per minute and the grader's memory for classes of these
    sizes.
    """
    me = psutil.Process()
    for students in sizes:
        with tempfile.TemporaryDirectory() as place:
            ours = Ours(Path(place), definitions(), students)
            before, begin = me.memory_info().rss, time.perf_counter()
            ours.grade()
            seconds, after = time.perf_counter() - begin, me.memory_info().rss
        print(
            f"  {students:4d} submissions: {students * 60 / seconds:.0f} a minute, the grader grew by "
            f"{(after - before) / 2**20:+.0f} MB to {after / 2**20:.0f} MB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument(
        "--whole", action="store_true", help="one whole lab too, experiments included: minutes"
    )
    parser.add_argument(
        "--curve", type=int, nargs="+", default=[], help="classes of these sizes, ours alone"
    )
    options = parser.parse_args()
    print(
        f"{options.students} notebooks of lab 01's definitions, no experiments; {os.cpu_count()} cores, median of {options.turns} "
        "turns, workers started anew each time\n"
        f"  (course grade runs every test of the lab, visible and hidden, {len(load('lab01').graded)} functions; the peers four test cells)"
    )
    beside(definitions(), options.students, options.turns, ["nbgrader", "otter"])
    if options.whole:
        print(
            "one whole notebook of lab 01: nbgrader executes its experiments, course grade does not; one turn"
        )
        beside(solution(), 1, 1, ["nbgrader"])
    if options.curve:
        print("lab 01's definitions, ours alone")
        curve(options.curve)


if __name__ == "__main__":
    main()
