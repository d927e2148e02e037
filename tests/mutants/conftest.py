"""One warm worker for all mutants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from course_lib.grading import isolation
from course_lib.grading.workers import Worker


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """A warm worker behind the best wall of this machine."""
    worker = Worker(isolation.best())
    worker.start()
    yield worker
    worker.stop()
