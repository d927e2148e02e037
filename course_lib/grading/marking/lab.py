"""Marks one submission in a warm worker. The same in a judge, in a test and on another
machine: task and marks are plain data.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib import labs
from course_lib.grading.claims.question import Test, Texts, tests_in, texts_in
from course_lib.grading.claims.student import Submission
from course_lib.grading.marking.marker import Marker, Outcome, outcome

if TYPE_CHECKING:  # `check` marks in the notebook, without a sandbox
    from course_lib.grading.sandbox import Session, Worker


@dataclass(frozen=True)
class Task:
    """One submission to mark.

    Attributes:
        id: the submission's. cells: its code. problem: why it could not be read; then
            it is not tried.
        files: beside the notebook, those that the lab asks for and own modules: name, and
            bytes or why there are none.
        version: which of several notebooks of one student it is, from 0.
    """

    id: str
    cells: tuple[str, ...]
    problem: str = ""
    files: tuple[tuple[str, bytes | str], ...] = ()
    version: int = 0


@dataclass(frozen=True)
class GradingResult:
    """What came of it.

    Attributes:
        outcomes: of all tests.
        status: "graded", "stopped" (the definitions ended or hung their process),
            "pending" (it could not be read), "set aside" (judging it ended the judge
            twice), "grader failed".
        notes: sentences for the student. layer: the isolation it ran behind.
        seconds: that marking took.
    """

    outcomes: tuple[Outcome, ...]
    status: str
    notes: tuple[str, ...]
    layer: str
    seconds: float = 0.0


@dataclass(frozen=True)
class GradingSpec:
    """What decides the marks beside the submission, as text: so it can be sent to
    another machine.

    Attributes:
        lab: "lab01". claims: the texts of its claims. folder: names them in tracebacks,
            and need not exist where they are read.
        seed: of the batch; inputs are drawn from it.
    """

    lab: str
    claims: Texts
    folder: str
    seed: int

    @classmethod
    def read(cls, folder: Path, seed: int, lab: str = "") -> GradingSpec:
        """With the claims as they are in a folder, by default that of its lab.

        Raises:
            FileNotFoundError: if there are none.
        """
        return cls(lab or folder.name, texts_in(folder), str(folder), seed)


class Lab:
    """A lab's contract and tests, ready to mark.

    Raises:
        ValueError: if there is no such lab. RuntimeError: if its claims cannot be
            imported.
    """

    def __init__(self, spec: GradingSpec) -> None:
        self.spec = spec
        self.known = labs.load(spec.lab)
        try:
            self.tests: list[Test] = [
                replace(test, optional=self.known.is_optional(test.question))
                for test in tests_in(spec.claims, spec.folder)
            ]
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise RuntimeError(
                f"the claims in {spec.folder} cannot be imported ({what}): mend them first"
            ) from error

    @property
    def version(self) -> str:
        """A short hash of what the marks rest on beside the submission: claims,
        contract, seed.

        The rest of ``course_lib`` is not in it: after an update of the course that
        changes marks, grade into a new folder.
        """
        contract = Path(
            str(import_module(f"course_lib.labs.{self.spec.lab}").__file__)
        ).read_bytes()
        return hashlib.sha256(
            repr((self.spec.claims, contract, self.spec.seed)).encode()
        ).hexdigest()[:16]

    def failed(self, error: BaseException, layer: str) -> GradingResult:
        """A fault of the grader's own: it costs one row, which the next run grades
        again.
        """
        what = f"{type(error).__name__}: {error}"[:500]
        why = (
            f"the grader itself failed on this submission ({what}): grade it again, and look at its"
            " code"
        )
        return self._nothing("grader failed", why, layer)

    def unread(self, task: Task, layer: str) -> GradingResult:
        """A submission that could not be read."""
        return self._nothing("pending", task.problem, layer)

    def set_aside(self, why: str, layer: str) -> GradingResult:
        """A submission on which two judges ended: it is not tried again unless somebody
        asks for it.
        """
        return self._nothing(
            "set aside",
            "set aside without marks: what this code sent ended the process that judges it, twice"
            f" ({why}). Somebody has to look at it",
            layer,
        )

    def _nothing(self, status: str, why: str, layer: str) -> GradingResult:
        return GradingResult(
            tuple(outcome(t, False, why) for t in self.tests), status, (why,), layer
        )

    def mark(self, task: Task, worker: Worker) -> GradingResult:
        """The marks of one submission; never raises for what a submission does."""
        begin = time.monotonic()
        try:
            marked = self._tried(task, worker)
        except Exception as error:
            marked = self.failed(error, worker.layer.name)
        return replace(marked, seconds=time.monotonic() - begin)

    def _tried(self, task: Task, worker: Worker) -> GradingResult:
        if task.problem:
            return self.unread(task, worker.layer.name)
        with self.open_marker(task, worker) as (marker, opened):
            outcomes = marker.mark(self.tests)
        said = tuple(replace(o, message=_without_addresses(o.message)) for o in outcomes)
        if marker.startup_error:
            status, sentences = "stopped", [marker.startup_error]
        else:
            status, sentences = "graded", opened[0].problems if opened else []
        sentences = [_without_addresses(s) for s in sentences]
        return GradingResult(said, status, tuple(sentences), worker.layer.name)

    @contextmanager
    def open_marker(
        self,
        task: Task,
        worker: Worker,
        seen_as: Callable[[Session, dict[str, bytes | str]], Submission] = Submission,
    ) -> Iterator[tuple[Marker, list[Session]]]:
        """What marks this submission, all of it or a question, and the sessions that it has
        opened so far; they are closed at the end.
        """
        known = self.known
        own = {name: data for name, data in task.files if name.endswith(".py")}
        modules = {name: data for name, data in own.items() if isinstance(data, bytes)}
        unread = [data for data in own.values() if isinstance(data, str)]
        names = {q: exercise.names for q, exercise in known.questions.items()}
        budget = worker.budget()
        opened: list[Session] = []

        def open() -> Submission:
            opened.append(
                worker.open(list(task.cells), known.graded, known.imports, names, budget, modules)
            )
            opened[-1].problems += unread
            return seen_as(opened[-1], dict(task.files))

        try:
            yield Marker(open, known, self.spec.seed, budget=budget), opened
        finally:
            for session in opened:
                session.close()


def _without_addresses(text: str) -> str:
    """``<Net object at 0x7f3a…>`` says something else each time it is graded."""
    return re.sub(r" at 0x[0-9a-fA-F]+", " at 0x…", text)
