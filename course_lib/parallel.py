"""Many small trainings side by side: in processes or threads, usable from a notebook
and from a plain script alike.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from itertools import product
from multiprocessing import context
from types import ModuleType
from typing import Any

import pandas as pd
import torch

from course_lib import devices, progress


def processes(workers: int | None = None) -> Executor:
    """An executor with processes in which torch uses one thread; to be closed, best by
    ``with``. Where the course uses an accelerator (:func:`course_lib.devices.use`): with
    one thread of this process, since the accelerator does one thing after the other.

    A small network trains fastest with one thread, and two networks side by side. The
    processes start afresh ("spawn": a copy of a process in which torch has computed can
    hang), and without running the caller's script or notebook again, so no
    ``if __name__ == "__main__"`` is needed. In return, functions that are sent must be
    importable: those of a package, or ``functools.partial`` of them, not those that a
    notebook defines.

    Args:
        workers: how many; None: one for each core that this process may use.

    Raises:
        ValueError: if ``workers`` is below 1; by ``submit``, if what is sent was
            defined in the script or notebook itself.
    """
    if workers is None:
        workers = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if workers < 1:
        raise ValueError(f"workers is how many processes to start, 1 or more, got {workers}")
    if devices.current().type != "cpu":
        return ThreadPoolExecutor(1)
    return _Pool(workers, _Context(), _begin_process)


def workers_of(executor: Executor) -> int:
    """How many processes an executor of :func:`processes` has; 1 for any other."""
    return executor.workers if isinstance(executor, _Pool) else 1


def _begin_process() -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In a process of the pool: an interrupt, which reaches all processes, ends the call and
    not the process.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return fn(*args, **kwargs)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Pool(ProcessPoolExecutor):
    def __init__(self, workers: int, *others: Any) -> None:
        super().__init__(workers, *others)
        self.workers = workers

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        # Asked here: a process that cannot find what it was sent dies without a word
        # about the reason.
        if b"__main__" in pickle.dumps((fn, args, kwargs)):
            raise ValueError(
                "a function or class defined in this notebook or script cannot be sent to another"
                " process: put it into a module and import it, or work without an executor"
            )
        return super().submit(_call, fn, args, kwargs)


_main = threading.Lock()


class _Process(context.SpawnProcess):
    """A process that is told of no main module, so that it does not run it."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        with _main:
            real, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
            try:
                return context.SpawnProcess._Popen(process_obj)
            finally:
                sys.modules["__main__"] = real


class _Context(context.SpawnContext):
    Process = _Process


def side_by_side(
    run: Callable[..., Any],
    jobs: Iterable[tuple[Any, ...]],
    workers: int = 2,
    what: str = "runs",
) -> list[Any]:
    """``[run(*job) for job in jobs]``, two at a time in threads: a network this small
    keeps one core busy, not two.

    torch computes with one thread from then on; a bar shows how many runs are done, by their
    training steps, if they take their time. Unlike with ``processes``, ``run`` may be a function
    of the notebook. But threads share torch's one random stream: a model that ``run`` builds
    from a seed may come out with other weights; build it before, and hand it over.

    Args:
        what: the runs are, for the bar.

    Raises:
        KeyboardInterrupt: at an interrupt; runs at work end at their next training step.
        Exception: the first that a run raises; the other runs end.
    """
    torch.set_num_threads(1)
    jobs = list(jobs)
    runs = [progress.Run() for _ in jobs]

    def work(state: progress.Run, job: tuple[Any, ...]) -> Any:
        progress.set_current_run(state)
        try:
            return run(*job)
        finally:
            state.ended = True
            progress.set_current_run(None)

    pool = ThreadPoolExecutor(workers)
    waiting = {pool.submit(work, state, job): None for state, job in zip(runs, jobs, strict=True)}
    results = list(waiting)
    try:
        with progress.open_bar(len(jobs), what, delay=2) as bar:
            while waiting:
                done, _ = wait(waiting, 0.5, FIRST_COMPLETED)
                for future in done:
                    del waiting[future]
                    future.result()  # the first error ends it all
                bar.update(progress.count_done(runs) - bar.n)
        return [future.result() for future in results]
    except KeyboardInterrupt:
        ended = sum(future.done() for future in results)
        raise progress.Interrupted(
            f"Interrupted: {ended} of {len(jobs)} {what} were done. Their results are lost; the"
            " cell can be run again."
        ) from None
    finally:
        for state in runs:
            state.stopped = True
        pool.shutdown(wait=False, cancel_futures=True)


def sweep(
    run: Callable[..., Any], *, measure: str = "accuracy", workers: int = 2, **grid: Iterable[Any]
) -> pd.DataFrame:
    """Call ``run`` once per combination of the settings in ``grid``, two calls at a time
    (:func:`side_by_side`), and collect one long table.

    Example::
        >>> sweep(lambda seed, method: 90.0 + seed, seed=range(2), method=["magnitude"])
           seed     method  accuracy
        0     0  magnitude      90.0
        1     1  magnitude      91.0

    Args:
        run: called with one keyword argument per setting. It returns a number, a dict of
            measurements, a list of such dicts (several rows), or a table.
        measure: the column for the result where ``run`` returns a number.
        grid: the values of each setting; the last setting varies fastest.

    Returns:
        One row per result: the settings, then the measurements.

    Raises:
        ValueError: if a result has a column with the name of a setting.
    """
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    what = f"runs ({' × '.join(grid)})"
    jobs = [(point,) for point in points]
    found = side_by_side(lambda point: run(**point), jobs, workers, what)
    rows: list[dict[str, Any]] = []
    for point, result in zip(points, found, strict=True):
        if isinstance(result, pd.DataFrame):
            result = result.to_dict("records")
        many = result if isinstance(result, list) else [result]
        for one in many:
            measured = one if isinstance(one, dict) else {measure: one}
            if clash := point.keys() & measured.keys():
                raise ValueError(
                    f"run returned {', '.join(sorted(clash))}, which is the name of a setting:"
                    " rename one of them"
                )
            rows.append(point | measured)
    return pd.DataFrame(rows)
