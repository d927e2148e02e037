"""Every wrong and right answer handed in as a notebook and graded once by ``course grade``'s own code."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest

from course_lib.grading import batch

ROOT = Path(__file__).parents[2]


def answers(lab: str) -> list[Path]:
    """The files of a lab."""
    return sorted((ROOT / "tests" / "mutants" / lab).glob("*.py"))


@pytest.fixture(scope="session")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """From a lab to the results of its batch: the solution, the empty handout, a torn file, and the solution with each answer."""

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
        solution = [c.source for c in jupytext.read(source).cells if c.cell_type == "code"]
        folder = tmp_path_factory.mktemp(lab) / "submissions"
        folder.mkdir()

        def hand_in(name: str, cells: list[str]) -> None:
            book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
            nbformat.write(book, folder / f"{name}.ipynb")

        hand_in("solution", solution)
        for path in answers(lab):
            hand_in(f"mutant-{path.stem}", [*solution, path.read_text()])
        (folder / "handout.ipynb").write_bytes((ROOT / "labs" / f"{source.stem}.ipynb").read_bytes())
        (folder / "torn.ipynb").write_bytes((folder / "solution.ipynb").read_bytes()[:5000])
        begin = time.monotonic()
        done = batch.grade(
            lab, folder, folder.parent / "report", tests=ROOT / "tests" / "labs" / f"test_{lab}.py", seed=1
        )
        results = [json.loads(path.read_text()) for path in (done.report / "results").glob("*.json")]
        print(f"{lab}: {len(results)} submissions in {time.monotonic() - begin:.0f} s, {done.layer.name}")
        return {result["extra_data"]["id"]: result for result in results}

    return results
