"""Every wrong and right answer handed in behind the solution and marked by ``course grade``'s own code.

An answer is marked on all questions that its code can reach: its own, and those whose solution uses, however indirectly, a name
that it binds. The others would run the solution's code on the solution's inputs, and that is marked once, in full. Every fortieth
answer is marked on all questions nevertheless.
"""

from __future__ import annotations

import ast
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest

from course_lib.grading import batch, isolation, report
from course_lib.grading.marking import Lab, Source, Task, mark_here
from course_lib.grading.reference import Reference
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


@pytest.fixture(scope="session")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """From a lab to results by id: the solution, the empty handout, a torn file, and the solution with each answer."""

    @functools.cache
    def once(lab: str) -> dict[str, Any] | Exception:
        try:
            return grade(lab)
        except Exception as error:  # said by every test, without grading again for each
            return error

    def results(lab: str) -> dict[str, Any]:
        got = once(lab)
        if isinstance(got, Exception):
            raise got
        return got

    def grade(lab: str) -> dict[str, Any]:
        source = next((ROOT / "solutions").glob(f"{lab}_*.py"))
        tests = ROOT / "tests" / "labs" / f"test_{lab}.py"
        solution = [c.source for c in jupytext.read(source).cells if c.cell_type == "code"]
        folder = tmp_path_factory.mktemp(lab) / "submissions"
        folder.mkdir()
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in solution])
        nbformat.write(book, folder / "solution.ipynb")
        (folder / "handout.ipynb").write_bytes((ROOT / "labs" / f"{source.stem}.ipynb").read_bytes())
        (folder / "torn.ipynb").write_bytes((folder / "solution.ipynb").read_bytes()[:5000])
        begin = time.monotonic()
        done = batch.grade(lab, folder, folder.parent / "report", tests=tests, seed=SEED)
        whole = [json.loads(path.read_text()) for path in (done.report / "results").glob("*.json")]
        marked = {result["extra_data"]["id"]: result for result in whole} | mark(lab, tests, solution, done.layer)
        print(f"{lab}: {len(marked)} submissions in {time.monotonic() - begin:.0f} s, {done.layer.name}")
        return marked

    def mark(lab: str, tests: Path, solution: list[str], layer: isolation.Layer) -> dict[str, Any]:
        marking = Lab(Source(lab, tests.read_text(), str(tests), SEED))
        theirs = used(solution)
        tasks = []
        for number, path in enumerate(answers(lab)):
            code = path.read_text()
            some = reached(set(used([code])), theirs, marking.known) if number % 40 else frozenset()
            tasks.append(Task(f"mutant-{path.stem}", (*solution, code), "", frozenset(), some))
        results = mark_here(marking, tasks, layer, 2)
        return {task.id: {"tests": [report.entry(o) for o in marks.outcomes]} for task, marks in results}

    return results
