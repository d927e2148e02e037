"""Many small trainings side by side: in processes or threads, usable from a notebook
and from a plain script alike.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from itertools import product
from typing import Any

import joblib
import pandas as pd
import torch
from joblib.externals.loky import ProcessPoolExecutor

from course_lib import devices, progress
from course_lib.checks import check_count


def processes(workers: int | None = None) -> Executor:
    """An executor with processes in which torch uses one thread; to be closed, best by
    ``with``. Where the course uses an accelerator (:func:`course_lib.devices.use`): with
    one thread of this process, since the accelerator does one thing after the other.

    A small network trains fastest with one thread, and two networks side by side. The
    processes start afresh (a copy of a process in which torch has computed can hang), and
    without running the caller's script or notebook again, so no
    ``if __name__ == "__main__"`` is needed. Functions of a notebook can be sent, too.

    Args:
        workers: how many; None: one for each core that this process may use.
    """
    workers = joblib.cpu_count() if workers is None else check_count(workers, "workers", 1)
    if devices.current().type != "cpu":
        return ThreadPoolExecutor(1)
    return _Pool(workers)


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
    def __init__(self, workers: int) -> None:
        super().__init__(workers, initializer=_begin_process)
        self.workers = workers

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(_call, fn, args, kwargs)


def side_by_side(
    run: Callable[..., Any],
    jobs: Iterable[tuple[Any, ...]],
    workers: int = 2,
    what: str = "runs",
) -> list[Any]:
    """``[run(*job) for job in jobs]``, two at a time in threads: a network this small
    keeps one core busy, not two.

    torch computes with one thread from then on; a bar shows how many runs are done, by their
    training steps, if they take their time. Threads share torch's one random stream: a model
    that ``run`` builds from a seed may come out with other weights; build it before, and hand
    it over.

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
        with state.counting():
            return run(*job)

    pool = ThreadPoolExecutor(workers)
    results = [pool.submit(work, state, job) for state, job in zip(runs, jobs, strict=True)]
    waiting = set(results)
    try:
        with progress.open_bar(len(jobs), what, delay=2) as bar:
            while waiting:
                done, waiting = wait(waiting, 0.5, FIRST_COMPLETED)
                for future in done:
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
        One row per result: the settings, then the measurements, of other names.
    """
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    what = f"runs ({' × '.join(grid)})"
    found = side_by_side(lambda point: run(**point), [(point,) for point in points], workers, what)
    rows: list[dict[str, Any]] = []
    for point, result in zip(points, found, strict=True):
        if isinstance(result, pd.DataFrame):
            result = result.to_dict("records")
        for one in result if isinstance(result, list) else [result]:
            measured = one if isinstance(one, dict) else {measure: one}
            if clash := point.keys() & measured.keys():
                raise ValueError(
                    f"run returned {', '.join(sorted(clash))}, which is the name of a setting:"
                    " rename one of them"
                )
            rows.append(point | measured)
    return pd.DataFrame(rows)
