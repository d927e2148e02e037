"""Grading throughput beside nbgrader's, on the same eight notebooks, in one run, taking turns.

The notebooks hold definitions and no experiments: nbgrader executes a notebook from top to bottom, experiments too, and this
grader does not; with experiments in them the ratio would say how long the lab is rather than how fast the grader is.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jupytext
import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from course_lib.grading import batch
from course_lib.grading.reference import load

ROOT = Path(__file__).parents[2]
STUDENTS = 8
GRADED = ("magnitude_mask", "threshold_mask", "grouped_mask", "global_masks")
POINTS = {"magnitude_mask": 3, "threshold_mask": 1, "grouped_mask": 4, "global_masks": 2}
# what an instructor would put into nbgrader's test cells: the same library answers, random inputs
CHECKS = {
    "magnitude_mask": "for s in (0.0, 0.3, 0.5, 1.0):\n    w = torch.randn(7, 9)\n    assert torch.equal(magnitude_mask(w, s), reference.magnitude_mask(w, s))",
    "threshold_mask": "w = torch.randint(-3, 4, (50,)).float()\nassert torch.equal(threshold_mask(w, 2.0), reference.threshold_mask(w, 2.0))",
    "grouped_mask": "for g in ('element', 'row', 'kernel', 'filter'):\n    w = torch.randn(4, 3, 3, 3)\n    assert torch.equal(grouped_mask(w, 0.5, g), reference.grouped_mask(w, 0.5, g))",
    "global_masks": "w = {'a': torch.randn(5, 6), 'b': torch.randn(30, 2)}\nm, r = global_masks(w, 0.5), reference.global_masks(w, 0.5)\nassert all(torch.equal(m[k], r[k]) for k in r)",
}


def definitions() -> list[str]:
    """The cells of lab 01's solution that define something, nothing that trains."""
    cells = [
        c.source for c in jupytext.read(next((ROOT / "solutions").glob("lab01_*.py"))).cells if c.cell_type == "code"
    ]
    graded = [
        c for c in cells if any(f"def {name}(" in c for name in load("lab01").graded) or "class PrunedLinear" in c
    ]
    # nbgrader would take the marks around the solutions for its own
    plain = ["\n".join(line for line in c.splitlines() if not line.strip().startswith("###")) for c in graded]
    return ["import torch\nfrom torch import Tensor, nn\nfrom collections.abc import Callable", *plain]


def for_nbgrader(course: Path, cells: list[str]) -> None:
    """An nbgrader course with one assignment and eight submissions."""
    book = new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})
    for source in cells:
        book.cells.append(new_code_cell(source))
    for name in GRADED:
        cell = new_code_cell(f"from course_lib.grading.reference import lab01 as reference\n{CHECKS[name]}")
        cell.metadata["nbgrader"] = {
            "schema_version": 3, "grade": True, "solution": False, "locked": True, "task": False,
            "grade_id": name, "points": POINTS[name], "cell_type": "code",
        }  # fmt: skip
        book.cells.append(cell)
    (course / "source" / "lab01").mkdir(parents=True)
    nbformat.write(book, course / "source" / "lab01" / "lab01.ipynb")
    nbgrader(course, "generate_assignment", "lab01", "--create")
    released = (course / "release" / "lab01" / "lab01.ipynb").read_text()
    for student in range(STUDENTS):
        folder = course / "submitted" / f"student{student}" / "lab01"
        folder.mkdir(parents=True)
        (folder / "lab01.ipynb").write_text(released)


def nbgrader(course: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "nbgrader", *arguments, f"--course-dir={course}", "--log-level=ERROR"]
    subprocess.run(command, cwd=course, check=True, capture_output=True)


def main() -> None:
    """Print submissions per minute of both, and the ratio."""
    cells = definitions()
    ours: list[float] = []
    peers: list[float] = []
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        for_nbgrader(place / "course", cells)
        (place / "submissions").mkdir()
        for student in range(STUDENTS):
            nbformat.write(
                new_notebook(cells=[new_code_cell(c) for c in cells]), place / "submissions" / f"student{student}.ipynb"
            )
        tests = ROOT / "tests" / "labs" / "test_lab01.py"
        for turn in range(3):
            begin = time.perf_counter()
            done = batch.grade("lab01", place / "submissions", place / f"report{turn}", tests=tests)
            ours.append(time.perf_counter() - begin)
            assert len(done.graded) == STUDENTS
            begin = time.perf_counter()
            nbgrader(place / "course", "autograde", "lab01", "--force")
            peers.append(time.perf_counter() - begin)
    mine, other = (STUDENTS * 60 / statistics.median(t) for t in (ours, peers))
    print(
        f"grading {STUDENTS} notebooks of lab 01's definitions (no experiments), {os.cpu_count()} cores, median of {len(ours)} turns, "
        f"workers started anew each time:\n"
        f"  course grade {mine:.0f} submissions a minute ({done.layer.name})   nbgrader autograde {other:.0f}   {mine / other:.0f}x\n"
        f"  (course grade runs every test of the lab, visible and hidden; nbgrader's notebooks hold four test cells, and nbgrader would execute the experiments too)"
    )


if __name__ == "__main__":
    main()
