"""A lab of two questions and what is handed in for it: small, for what is tested is the
batch around them.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

from course_lib.grading.batch import run as batch
from course_lib.grading.batch.collect import Submission
from course_lib.grading.marking.lab import GradingSpec, Lab

TESTS = """
import torch
from course_lib.grading import expect_equal, fail, question

@question("1.1", points=2, claim="exactly the smaller half goes")
def test_half(submission, draw):
    w = draw.normal(4, 6)
    expect_equal(submission.magnitude_mask(w, 0.5), w.abs() >= w.abs().flatten().sort().values[12])

@question("1.2", points=1, claim="a stays")
def test_equal(submission, draw):
    if submission.grouped_mask(torch.tensor([1.0]), 1.0).tolist() != [True]:
        fail("a weight of exactly a should stay")
"""
# a question whose answer uses that of 1.1
USES = """
@question("1.3", points=2, claim="uses 1.1")
def test_uses(submission, draw):
    expect_equal(int(submission.global_masks({"a": draw.normal(4, 6)}, 0.5)["a"].sum()), 12)
"""
RIGHT = """
def magnitude_mask(weight, sparsity):
    kept = torch.ones(weight.numel(), dtype=torch.bool)
    kept[weight.abs().flatten().argsort()[: round(sparsity * weight.numel())]] = False
    return kept.view_as(weight)
def grouped_mask(weight, a): return weight.abs() >= a
"""
# right, and wrong in one question, in the other, in both
ANSWERS = [
    RIGHT,
    RIGHT.replace(">=", ">"),
    RIGHT.replace("False", "True"),
    "def magnitude_mask(weight, sparsity): return {'no': weight}[sparsity]",
]


def claim(folder: Path, text: str = TESTS) -> Path:
    """Write these claims as those of lab 01; the folder that has them."""
    (folder / "lab01").mkdir(parents=True, exist_ok=True)
    (folder / "lab01" / "visible.py").write_text(text)
    return folder / "lab01"


def load_lab(folder: Path, seed: int = 1) -> Lab:
    """The lab whose claims are in ``tests/labs/labNN``, or as :func:`claim` wrote them."""
    return Lab(GradingSpec.read(folder, seed))


def notebook(*cells: str) -> str:
    """The text of a notebook that imports torch and has these cells."""
    code = [nbformat.v4.new_code_cell(cell) for cell in ("import torch", *cells)]
    return nbformat.writes(nbformat.v4.new_notebook(cells=code))


def put(path: Path, data: str | bytes, when: float = 1_700_000_000) -> Path:
    """Write a file, and the folders that it lies in. All have one time, as in a clone,
    unless ``when`` says another.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    os.utime(path, (when, when))
    return path


def put_code(path: Path, text: str, when: float = 1_700_000_000) -> Path:
    """Write code: as a notebook, or a ``.py`` file or what else the name says."""
    return put(path, notebook(text) if path.suffix == ".ipynb" else text, when)


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """A zip with these files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def read_table(report: Path, name: str = "grades.csv") -> dict[str, dict[str, str]]:
    """A table of a report: its rows, by what stands in their first cells."""
    with open(report / name, newline="", encoding="utf-8") as file:
        return {next(iter(row.values())): row for row in csv.DictReader(file)}


def hand_in(folder: Path, name: str, *cells: str) -> None:
    """Such a notebook as a file of ``folder``."""
    (folder / f"{name}.ipynb").write_text(notebook(*cells))


def contents(report: Path) -> dict[str, bytes]:
    """Everything that a report holds, but the lock and the seconds that it took."""
    files = [p for p in report.rglob("*") if p.is_file() and p.name not in (".lock", "times.json")]
    return {str(p.relative_to(report)): p.read_bytes() for p in files}


class Course:
    """A folder with the small lab's tests, what is handed in for it, and a report."""

    def __init__(self, root: Path) -> None:
        self.root, self.report = root, root / "report"
        self.tests, self.submissions = claim(root), root / "submissions"
        self.submissions.mkdir()

    def hand_in(self, name: str, *cells: str) -> Path:
        """Hand in a notebook with these cells: "bob", or "bob/lab01"."""
        return self.put(f"{name}.ipynb", notebook(*cells))

    def put(self, name: str, data: str | bytes) -> Path:
        """Hand in a file."""
        return put(self.submissions / name, data)

    def grade(self, report: str = "report", **settings: Any) -> batch.Batch:
        """Grade everything; one warm worker starts faster than two."""
        settings = {"jobs": 1, "tests": self.tests, **settings}
        return batch.grade("lab01", self.submissions, self.root / report, **settings)

    def table(self, name: str = "grades.csv") -> dict[str, dict[str, str]]:
        """A table of the report: its rows, by what stands in their first cells."""
        return read_table(self.report, name)

    def rows(self, name: str) -> list[dict[str, str]]:
        """A table of the report, row by row."""
        with open(self.report / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def column(self, name: str) -> dict[str, str]:
        """A column of grades.csv by id."""
        return {id: row[name] for id, row in self.table().items()}

    def result(self, id: str) -> dict[str, Any]:
        """A submission's result."""
        path = self.report / "results" / f"{Submission(id).file_name}.json"
        result: dict[str, Any] = json.loads(path.read_text())
        return result

    def page(self, id: str) -> str:
        """A student's page."""
        path = self.report / "feedback" / f"{Submission(id).file_name}.html"
        return path.read_text(encoding="utf-8")
