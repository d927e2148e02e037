"""Every wrong and right answer handed in behind the solution and marked as ``course grade`` marks it, in a warm worker.

An answer is marked on all questions that its code can reach: its own, and those whose solution uses, however indirectly, a name
that it binds. The others would run the solution's code on the solution's inputs, and that is marked once, in full. Every fortieth
answer is marked on all questions nevertheless.
"""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest

from course_lib.grading import batch, isolation, report
from course_lib.grading.marking import Lab, Source, Task
from course_lib.grading.reference import Reference
from course_lib.grading.workers import Worker
from course_lib.worker.cells import parse

ROOT = Path(__file__).parents[2]
SEED = 1


def answers(lab: str) -> list[Path]:
    """The files of a lab."""
    return sorted((ROOT / "tests" / "mutants" / lab).glob("*.py"))


def used(cells: list[str]) -> dict[str, set[str]]:
    """The names that code binds, each with the names that its definitions read: what the worker goes by, too. Without imports."""
    found: dict[str, set[str]] = {}
    for statement in parse(cells, []):
        if isinstance(statement.node, ast.Import | ast.ImportFrom):
            continue
        for name in statement.binds:
            found.setdefault(name, set()).update(statement.reads)
    return found


def reached(names: set[str], solution: dict[str, set[str]], known: Reference) -> frozenset[str]:
    """The questions whose answers in the solution use one of these names, directly or through others."""
    reach = set(names)
    while more := {name for name, uses in solution.items() if uses & reach} - reach:
        reach |= more
    touched = {q for q, asked in known.questions.items() if reach & set(asked.names)}
    return frozenset(touched | {q for q, asked in known.questions.items() if touched & set(asked.depends)})


class Asked:
    """A lab with its solution, ready to mark answers that are handed in behind it."""

    def __init__(self, lab: str) -> None:
        self.source = next((ROOT / "solutions").glob(f"{lab}_*.py"))
        self.tests = ROOT / "tests" / "labs" / f"test_{lab}.py"
        self.lab = Lab(Source(lab, self.tests.read_text(), str(self.tests), SEED))
        self.solution = [c.source for c in jupytext.read(self.source).cells if c.cell_type == "code"]
        self.used = used(self.solution)
        self.whole = set(answers(lab)[::40])


asked = functools.cache(Asked)


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """One warm worker for all answers that this process of tests marks."""
    worker = Worker(isolation.best())
    yield worker
    worker.stop()


@pytest.fixture(scope="session")
def marked(worker: Worker) -> Callable[[Path], dict[str, Any]]:
    """From an answer's file to its result."""

    def mark(path: Path) -> dict[str, Any]:
        lab, code = asked(path.parent.name), path.read_text()
        some = frozenset() if path in lab.whole else reached(set(used([code])), lab.used, lab.lab.known)
        marks = lab.lab.mark(Task(path.stem, (*lab.solution, code), questions=some), worker)
        return {"tests": [report.entry(outcome) for outcome in marks.outcomes]}

    return mark


@pytest.fixture
def graded(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """From a lab to results by id, of a batch: the solution, the empty handout, a torn file."""

    def grade(name: str) -> dict[str, Any]:
        lab = asked(name)
        folder = tmp_path / "submissions"
        folder.mkdir()
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in lab.solution])
        nbformat.write(book, folder / "solution.ipynb")
        (folder / "handout.ipynb").write_bytes((ROOT / "labs" / f"{lab.source.stem}.ipynb").read_bytes())
        (folder / "torn.ipynb").write_bytes((folder / "solution.ipynb").read_bytes()[:5000])
        done = batch.grade(name, folder, tmp_path / "report", tests=lab.tests, jobs=1, seed=SEED)
        results = [json.loads(path.read_text()) for path in (done.report / "results").glob("*.json")]
        return {result["extra_data"]["id"]: result for result in results}

    return grade
