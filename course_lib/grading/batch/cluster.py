"""The same batch on an existing Dask cluster: its workers mark, this process writes.
Extra ``[cluster]``.

Each task marks one submission, by a judge that the Dask worker keeps from task to task,
behind the best sandbox of *that* machine. No disk is shared: tests and submissions travel
as text, marks come back as plain data. A task whose Dask worker dies runs again
elsewhere; only what this process writes counts, and it writes one result for each
submission.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import platform
import threading
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
    """A Dask cluster whose workers are fit to mark.

    Args:
        address: of its scheduler, "tcp://host:8786".
        require_isolation: do without the workers that have no sandbox, which means:
            refuse.

    Attributes:
        layer: the weakest of the workers' layers.

    Raises:
        RuntimeError: if dask.distributed is not installed, no scheduler answers, it has
            no workers, or one of them has another ``course_lib`` or torch, or no sandbox
            where one is required. The message says which, and what to do.
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
        except (OSError, ValueError) as error:
            raise RuntimeError(
                f"no Dask scheduler answers at {address} ({type(error).__name__}): start one with"
                f" `dask scheduler`, and workers with `dask worker {address}`"
            ) from None
        try:
            self.layer = self._weakest()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        self.client.close()

    def _weakest(self) -> sandbox.Isolation:
        """Ask every worker what it is."""
        try:
            self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise RuntimeError(
                f"the scheduler {self.address} has no workers: `dask worker {self.address}`"
            ) from None
        said = self.client.run(_introduce, self.required, on_error="return")
        for worker, one in sorted(said.items()):
            if isinstance(one, ImportError):
                raise RuntimeError(
                    f"the Dask worker {worker} has no course_lib ({one}): install the course there"
                )
            if isinstance(one, BaseException):
                raise RuntimeError(f"the Dask worker {worker} cannot grade: {one}")
            if one["software"] != software():
                raise RuntimeError(
                    f"the Dask worker {worker} has other software: {one['software']} instead of"
                    f" {software()}: install the same there"
                )
        layers = [sandbox.Isolation(one["layer"]) for one in said.values()]
        return min(layers, key=lambda layer: layer.is_sandbox)

    def mark(
        self, lab: Lab, tasks: Iterable[Task]
    ) -> Generator[tuple[Task, GradingResult], None, None]:
        """Mark all tasks, two for every thread of the cluster under way at a time; in
        the order they end.

        Raises:
            RuntimeError: if the scheduler, or for two minutes every worker, has gone.
        """
        from distributed import wait

        waiting: dict[Any, Task] = {}
        seen = time.monotonic()  # when a worker was there last
        source = iter(tasks)
        more = True
        try:
            while more or waiting:
                threads = sum(self.client.nthreads().values())
                while more and len(waiting) < max(2, 2 * threads):
                    task = next(source, None)
                    if task is None:
                        more = False
                        break
                    work = self.client.submit(
                        _mark, lab.spec, task, self.required, software(), pure=False
                    )
                    waiting[work] = task
                if not waiting:
                    break
                try:
                    with self.client.as_current():
                        done = wait(list(waiting), timeout=5, return_when="FIRST_COMPLETED").done
                except TimeoutError:
                    done = set()
                seen = time.monotonic() if threads else seen
                if time.monotonic() - seen > PATIENCE:
                    raise RuntimeError(
                        f"all workers of {self.address} have gone: start some, and give the same"
                        " command again"
                    )
                for work in done:
                    # its worker took the result along: it is computed again
                    if work.status in ("pending", "lost"):
                        continue
                    task = waiting.pop(work)
                    yield task, self._marked(work, lab)
                    work.release()
        except (OSError, CancelledError) as error:
            raise RuntimeError(
                f"the scheduler {self.address} has gone ({type(error).__name__}): start it, and"
                " give the same command again"
            ) from None
        finally:
            with suppress(Exception):  # the scheduler may have gone
                self.client.cancel(list(waiting))

    def _marked(self, work: Any, lab: Lab) -> GradingResult:
        # the sandbox of a new worker, or one submission on which worker after worker died
        if work.status == "error":
            return lab.failed(work.exception(), self.layer.name)
        if work.status == "cancelled":
            raise CancelledError
        marked: GradingResult = work.result()  # waits, where it was lost just now
        return marked


# --- on the Dask workers --------------------------------------------------------------


@functools.cache
def software() -> str:
    """What must be the same on all machines for the same marks."""
    package = Path(course_lib.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(
            file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes() + b"\0"
        )
    python = ".".join(platform.python_version_tuple()[:2])
    return (
        f"course_lib {digest.hexdigest()[:10]}, torch {torch.__version__.partition('+')[0]}, Python"
        f" {python}"
    )


def _introduce(required: bool) -> dict[str, str]:
    return {"software": software(), "layer": _judges(required).layer.name}


def _mark(spec: GradingSpec, task: Task, required: bool, wanted: str) -> GradingResult:
    if software() != wanted:  # a worker that came later
        raise RuntimeError(f"a Dask worker has other software: {software()} instead of {wanted}")
    return _judges(required).mark_or_set_aside(_lab(spec), task)


@functools.lru_cache(maxsize=2)
def _lab(spec: GradingSpec) -> Lab:
    return Lab(spec)


_kept: dict[bool, Judges] = {}
_one_at_a_time = threading.Lock()


def _judges(required: bool) -> Judges:
    """This process's judges, one a thread, made once and ended with the process."""
    with _one_at_a_time:
        if required not in _kept:
            _kept[required] = Judges(sandbox.required() if required else sandbox.best())
            atexit.register(_kept[required].stop)
        return _kept[required]
