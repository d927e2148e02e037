"""A warm worker behind the best wall of this machine, shared by all tests; and one behind plain limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from course_lib.grading import Submission, isolation
from course_lib.grading.workers import Worker

LAYERS = [name for name in isolation.LAYERS if not isolation.works(isolation.Layer(name))]


@pytest.fixture(scope="session", params=LAYERS)
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A warm worker, once behind each wall that works here."""
    worker = Worker(isolation.Layer(request.param))
    worker.start()
    yield worker
    worker.stop()


@pytest.fixture
def run(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Submission]]:
    """Opens a submission from the text of its cells; replies are awaited for three seconds only."""
    monkeypatch.setattr("course_lib.grading.workers.REPLY_SECONDS", 3.0)
    sessions = []

    def open(*cells: str, graded: list[str] | None = None) -> Submission:
        session = worker.open(list(cells), graded or [])
        sessions.append(session)
        return Submission(session)

    yield open
    for session in sessions:
        session.close()
