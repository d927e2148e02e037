"""Warm workers, which take seconds to start: one in every sandbox of this machine, and
judges that batches take over from each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest
from small_lab import Course

from course_lib.grading import Submission, sandbox
from course_lib.grading.marking.judge import Judge, Limits
from course_lib.grading.sandbox import Worker

LAYERS = [name for name in sandbox.LAYERS if not sandbox.try_layer(name)]
# the best stands for all in `make test`; `make rest` tries the others
TRIED = [LAYERS[0], *(pytest.param(name, marks=pytest.mark.long) for name in LAYERS[1:])]


@pytest.fixture(scope="session", params=TRIED)
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A warm worker, once in each sandbox that works here."""
    worker = Worker(sandbox.Isolation(request.param))
    worker.start()
    yield worker
    worker.stop()


@pytest.fixture
def run(worker: Worker) -> Iterator[Callable[..., Submission]]:
    """Opens a submission from the text of its cells."""
    sessions = []

    def open(
        *cells: str, graded: list[str] | None = None, imports: Sequence[str] = ()
    ) -> Submission:
        session = worker.open(list(cells), graded or [], imports)
        sessions.append(session)
        return Submission(session)

    yield open
    for session in sessions:
        session.close()


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course of one small lab, for which nothing is handed in yet."""
    return Course(tmp_path)


@pytest.fixture(scope="session")
def idle(
    starter: ThreadPoolExecutor,
) -> Iterator[dict[tuple[sandbox.Isolation, Limits], list[Judge]]]:
    """By what they are made of, the judges that no batch has just now."""
    judges: dict[tuple[sandbox.Isolation, Limits], list[Judge]] = defaultdict(list)
    yield judges
    with ThreadPoolExecutor() as threads:  # a second or two each
        list(threads.map(Judge.shutdown, chain.from_iterable(judges.values())))


@pytest.fixture(scope="session")
def starter() -> Iterator[ThreadPoolExecutor]:
    """Threads that outlive every batch: a judge ends with the thread that started
    it.
    """
    with ThreadPoolExecutor() as threads:
        yield threads


@pytest.fixture
def warm(
    idle: dict[tuple[sandbox.Isolation, Limits], list[Judge]],
    starter: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batches that this process grades take over the judges of those before them, and
    do not end them.
    """

    class Lent(Judge):
        def __new__(cls, layer: sandbox.Isolation, limits: Limits) -> Lent:
            return idle[layer, limits].pop() if idle[layer, limits] else super().__new__(cls)  # type: ignore[return-value]

        def __init__(self, layer: sandbox.Isolation, limits: Limits) -> None:
            if not hasattr(self, "layer"):
                super().__init__(layer, limits)

        def _start(self) -> None:
            starter.submit(super()._start).result()

        def shutdown(self) -> None:
            idle[self.layer, self.limits].append(self)

    monkeypatch.setattr("course_lib.grading.marking.pool.Judge", Lent)
