"""Warm workers, which take seconds to start: one behind every wall of this machine, and those that batches take over from each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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
def run(worker: Worker) -> Iterator[Callable[..., Submission]]:
    """Opens a submission from the text of its cells."""
    sessions = []

    def open(*cells: str, graded: list[str] | None = None, imports: Sequence[str] = ()) -> Submission:
        session = worker.open(list(cells), graded or [], imports)
        sessions.append(session)
        return Submission(session)

    yield open
    for session in sessions:
        session.close()


@pytest.fixture(scope="session")
def idle(starter: ThreadPoolExecutor) -> Iterator[dict[str, list[Worker]]]:
    """By layer, the workers that no batch has just now."""
    workers: dict[str, list[Worker]] = defaultdict(list)
    yield workers
    for some in workers.values():
        for worker in some:
            worker.stop()


@pytest.fixture(scope="session")
def starter() -> Iterator[ThreadPoolExecutor]:
    """Threads that outlive every batch: a jail ends with the thread that started it."""
    with ThreadPoolExecutor() as threads:
        yield threads


@pytest.fixture
def warm(idle: dict[str, list[Worker]], starter: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that this process grades take over the workers of those before them, and do not end them."""

    class Kept(Worker):
        def start(self) -> None:
            starter.submit(super().start).result()

    class Lent:
        def __init__(self, layer: isolation.Layer) -> None:
            self.worker = idle[layer.name].pop() if idle[layer.name] else Kept(layer)

        def stop(self) -> None:
            idle[self.worker.layer.name].append(self.worker)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.worker, name)

    monkeypatch.setattr("course_lib.grading.marking.Worker", Lent)
