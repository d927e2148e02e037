"""The same batch on an existing Dask cluster: its workers mark, each behind the best sandbox of
its machine; this process writes. No disk is shared. A task whose Dask worker dies runs again.
"""

import atexit
import functools
import hashlib
import platform
import time
from collections.abc import Generator, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

import course_lib
from course_lib.grading import sandbox
from course_lib.grading.marking.lab import GradingResult, GradingSpec, Lab, Task
from course_lib.grading.marking.pool import Judges

CONNECT_SECONDS = 15.0
PATIENCE = 120.0  # seconds without a single Dask worker before the batch gives up


class Cluster:
    """A Dask cluster whose workers are fit to mark; ``layer`` is the weakest of theirs.
    RuntimeError if no scheduler with a worker answers, or a worker is not fit.
    """

    def __init__(self, address: str, require_isolation: bool = False) -> None:
        try:
            import distributed
        except ImportError:
            raise RuntimeError(
                '--scheduler needs dask.distributed: pip install "pruning-course[cluster]"'
            ) from None
        self.address, self.required = address, require_isolation
        try:
            self.client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
            self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (OSError, ValueError) as error:  # a TimeoutError is an OSError
            raise RuntimeError(
                f"no Dask scheduler with a worker answers at {address} ({type(error).__name__}):"
                f" start one with `dask scheduler`, and workers with `dask worker {address}`"
            ) from None
        self.close = self.client.close  # the cluster itself goes on
        introduced = self.client.run(_introduce, self.required, on_error="return")
        for worker, one in sorted(introduced.items()):
            broken = isinstance(one, BaseException)
            if broken or one[0] != software():
                self.close()
                why = one if broken else f"it has {one[0]} instead of {software()}"
                raise RuntimeError(f"the Dask worker {worker} cannot grade: {why}")
        layers = (sandbox.Isolation(layer) for _, layer in introduced.values())
        self.layer = min(layers, key=lambda layer: layer.is_sandbox)

    def mark(
        self, lab: Lab, tasks: Iterable[Task]
    ) -> Generator[tuple[Task, GradingResult], None, None]:
        """Mark all tasks, in the order they end; RuntimeError if scheduler or workers have gone."""
        from distributed import wait

        waiting: dict[Any, Task] = {}
        seen, source = time.monotonic(), iter(tasks)
        try:
            while True:
                threads = sum(self.client.nthreads().values())
                while len(waiting) < max(2, 2 * threads) and (task := next(source, None)):
                    sent = (lab.spec, task, self.required, software())
                    waiting[self.client.submit(_mark, *sent, pure=False)] = task
                if not waiting:
                    return
                with suppress(TimeoutError), self.client.as_current():
                    wait(list(waiting), timeout=5, return_when="FIRST_COMPLETED")
                seen = time.monotonic() if threads else seen
                if time.monotonic() - seen > PATIENCE:
                    raise RuntimeError(f"all workers of {self.address} have gone")
                for work in [w for w in waiting if w.status not in ("pending", "lost")]:
                    lost = work.exception() if work.status == "error" else None  # died on it
                    try:
                        found = lab.failed(lost, self.layer.name) if lost else work.result(5)
                    except TimeoutError:  # its worker has gone with what it had found
                        continue
                    yield waiting.pop(work), found
        except (OSError, CancelledError, RuntimeError) as error:
            why = f"the scheduler {self.address} or its workers have gone ({error}): start them,"
            raise RuntimeError(f"{why} and give the same command again") from None
        finally:
            with suppress(Exception):  # the scheduler may have gone
                self.client.cancel(list(waiting))


@functools.cache
def software() -> str:
    """What must be the same on all machines for the same marks."""
    package, digest = Path(course_lib.__file__).parent, hashlib.sha256()
    for file in sorted([*package.rglob("*.py"), *package.rglob("*.toml")]):
        digest.update(file.name.encode() + file.read_bytes())
    versions = torch.__version__.partition("+")[0], platform.python_version().rpartition(".")[0]
    return f"course_lib {digest.hexdigest()[:10]}, torch and Python {versions}"


@functools.cache  # kept from task to task, ended with the process
def _judges(required: bool) -> Judges:
    judges = Judges(sandbox.required() if required else sandbox.best())
    atexit.register(judges.stop)
    return judges


def _introduce(required: bool) -> tuple[str, str]:
    return software(), _judges(required).layer.name


def _mark(spec: GradingSpec, task: Task, required: bool, wanted: str) -> GradingResult:
    if software() != wanted:  # a worker that came later
        raise RuntimeError(f"a Dask worker has other software: {software()} instead of {wanted}")
    return _judges(required).mark_or_set_aside(_lab(spec), task)


_lab = functools.lru_cache(maxsize=2)(Lab)
