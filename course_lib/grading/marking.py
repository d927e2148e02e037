"""Marks one submission in a warm worker. The same here and on another machine: a task and the outcomes are plain data."""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from course_lib.grading import isolation, reference
from course_lib.grading.claims import Test, module_of, tests_in
from course_lib.grading.mark import Marker, Outcome, outcome
from course_lib.grading.submission import Submission
from course_lib.grading.workers import Session, Worker

# After each message a thread waits for its turn, which by default lasts 5 ms wherever another one computes: a function that
# asks back two hundred times lost seconds of its deadline to the marking of others.
TURN_SECONDS = 0.0005


@dataclass(frozen=True)
class Task:
    """One submission to mark.

    Attributes:
        id: the submission's. cells: its code. problem: why it could not be read; then it is not tried.
        skipped: the questions it gives up.
        questions: those to mark; empty: all of them.
        lost: where only some are marked, the questions that ended or hung their process when all of them were.
    """

    id: str
    cells: tuple[str, ...]
    problem: str
    skipped: frozenset[str]
    questions: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Marked:
    """What came of it.

    Attributes:
        outcomes: of the questions that were marked.
        status: "graded", "stopped" (the definitions ended or hung their process), "unreadable", "grader failed".
        notes: sentences for the student. layer: the isolation it ran behind.
        lost: the questions that ended or hung their process. whole: were all questions marked?
        seconds: that marking took.
    """

    outcomes: tuple[Outcome, ...]
    status: str
    notes: tuple[str, ...]
    layer: str
    lost: frozenset[str] = frozenset()
    whole: bool = True
    seconds: float = 0.0


@dataclass(frozen=True)
class Source:
    """What decides the marks beside the submission, as text: so it can be sent to another machine.

    Attributes:
        lab: "lab01". tests: the text of its test module. file: names that in tracebacks, and need not exist where it is read.
        seed: of the batch; inputs are drawn from it.
    """

    lab: str
    tests: str
    file: str
    seed: int


class Lab:
    """A lab's contracts and tests, ready to mark.

    Raises:
        ValueError: if there is no such lab. RuntimeError: if the test module cannot be imported.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.known = reference.load(source.lab)
        try:
            self.tests: list[Test] = tests_in(module_of(source.tests, source.file))
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise RuntimeError(f"{source.file} cannot be imported ({what}): mend the tests first") from error

    def failed(self, error: BaseException, layer: str) -> Marked:
        """A fault of the grader's own: it costs one row, which the next run grades again."""
        what = f"{type(error).__name__}: {error}"[:500]
        why = f"the grader itself failed on this submission ({what}): grade it again, and look at its code"
        return Marked(tuple(outcome(t, False, why) for t in self.tests), "grader failed", (why,), layer)

    def mark(self, task: Task, seats: Seats) -> Marked:
        """The marks of one submission; never raises for what a submission does."""
        begin = time.monotonic()
        try:
            marked = self._tried(task, seats)
        except Exception as error:
            marked = self.failed(error, seats.layer.name)
        return replace(marked, seconds=time.monotonic() - begin)

    def _tried(self, task: Task, seats: Seats) -> Marked:
        if task.problem:
            outcomes = tuple(outcome(t, False, task.problem) for t in self.tests)
            return Marked(outcomes, "unreadable", (task.problem,), seats.layer.name)
        if task.questions:
            marked = self._mark(task, task.questions, task.lost, seats)
            # else the other questions would have met another process than the one they are on record for
            if marked is not None and marked.lost == task.lost:
                return marked
        marked = self._mark(task, frozenset(), frozenset(), seats)
        assert marked is not None
        return marked

    def _mark(self, task: Task, questions: frozenset[str], lost: frozenset[str], seats: Seats) -> Marked | None:
        """The marks of some questions (all where none is named); None where some were named and none needed the code."""
        notes: list[str] | None = None
        with seats.sessions() as open_session:

            def open() -> Submission:
                nonlocal notes
                session = open_session(list(task.cells), self.known.graded, self.known.imports)
                notes = list(session.problems) if notes is None else notes
                return Submission(session)

            marker = Marker(open, self.known, self.source.seed, task.skipped)
            marker.lost = set(lost - questions)
            outcomes = marker.mark([t for t in self.tests if not questions or t.question in questions])
        if questions and (notes is None or marker.unopened):
            return None
        said = tuple(replace(o, message=_without_addresses(o.message)) for o in outcomes)
        status, sentences = ("stopped", [marker.unopened]) if marker.unopened else ("graded", notes or [])
        sentences = [_without_addresses(s) for s in sentences]
        return Marked(said, status, tuple(sentences), seats.layer.name, frozenset(marker.lost), not questions)


def _without_addresses(text: str) -> str:
    """``<Net object at 0x7f3a…>`` says something else each time it is graded."""
    return re.sub(r" at 0x[0-9a-fA-F]+", " at 0x…", text)


class Seats:
    """One warm worker a thread."""

    def __init__(self, layer: isolation.Layer) -> None:
        self.layer = layer
        self._local = threading.local()
        self._workers: list[Worker] = []
        self._closed = False

    @contextmanager
    def sessions(self) -> Iterator[Callable[[list[str], list[str], Sequence[str]], Session]]:
        """A function that opens a submission in this thread's worker; what it opened ends with the context."""
        opened: list[Session] = []

        def open(cells: list[str], graded: list[str], imports: Sequence[str]) -> Session:
            if self._closed:
                raise RuntimeError("grading was stopped")
            if not hasattr(self._local, "worker"):
                self._local.worker = Worker(self.layer)
                self._workers.append(self._local.worker)
            opened.append(self._local.worker.open(cells, graded, imports))
            return opened[-1]

        try:
            yield open
        finally:
            for session in opened:
                session.close()

    def interrupt(self) -> None:
        """Let whatever is under way fail at once, and nothing be begun: for another thread than theirs, which still use the workers."""
        self._closed = True
        for worker in list(self._workers):
            control = worker.control
            if control is not None:
                with suppress(OSError):  # closed at the same moment
                    control.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """End all workers; none is started again. Their threads must have ended, or be at rest."""
        self._closed = True
        for worker in self._workers:
            worker.stop()


def mark_here(
    lab: Lab, tasks: Iterable[Task], layer: isolation.Layer, jobs: int
) -> Generator[tuple[Task, Marked], None, None]:
    """Mark in ``jobs`` threads, each with a warm worker, as many tasks under way as they need; in the order they end.

    Closing the iterator ends what is under way, and its processes, without waiting for it.
    """
    seats = Seats(layer)
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="grader")
    waiting: dict[Future[Marked], Task] = {}
    turns = sys.getswitchinterval()
    sys.setswitchinterval(TURN_SECONDS)
    try:
        for task in tasks:
            waiting[pool.submit(lab.mark, task, seats)] = task
            while len(waiting) > jobs:  # one waits beside those under way, so that no thread does
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()
    finally:
        sys.setswitchinterval(turns)
        pool.shutdown(wait=False, cancel_futures=True)
        begun = [future for future in waiting if not future.cancelled()]
        while wait(begun, timeout=0.1).not_done:
            seats.interrupt()  # again and again: one may just have been starting its worker
        seats.stop()


__all__ = ["Lab", "Marked", "Seats", "Source", "Task", "mark_here"]
