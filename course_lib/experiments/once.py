"""What is done is kept on disk (``joblib.Memory``), with the seconds that it took, so that
a long run goes on where it was interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pandas as pd


def once(folder: Path, run: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """``run(*args, **options)``, plain data, as JSON gives it back: computed once for each
    function and arguments, and read from ``folder`` from then on.

    Kept with it are the seconds of the processor that it took. They are those of the whole
    process: in an executor with threads they count what runs beside it, too.
    """
    import joblib  # here: importing it sets environment variables

    keep = joblib.Memory(folder, verbose=0).cache(_timed, ignore=["run"])
    return keep(f"{run.__module__}.{run.__qualname__}", run, *args, **options)[0]


def _timed(name: str, run: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, float]:
    start = time.process_time()
    result = json.loads(json.dumps(run(*args, **options)))
    return result, time.process_time() - start


def tables(
    parts: Iterable[tuple[Mapping[str, Any], Mapping[str, Iterable[Mapping[str, Any]]]]],
) -> dict[str, pd.DataFrame]:
    """Long tables of parts: each is columns that all of its rows begin with, such as
    ``seed``, and its rows by table.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for about, found in parts:
        for name, of_part in found.items():
            rows.setdefault(name, []).extend({**about, **row} for row in of_part)
    return {name: pd.DataFrame(every) for name, every in rows.items()}


def each(
    executor: Executor,
    folder: Path,
    run: Callable[..., Any],
    jobs: Iterable[tuple[Any, ...]],
    **options: Any,
) -> list[Any]:
    """``run(*job, **options)`` of all jobs, in their order, each once."""
    running = [executor.submit(once, folder, run, *job, **options) for job in jobs]
    return [future.result() for future in running]


def spent(folder: Path) -> float | None:
    """The seconds of the processor of everything that :func:`once` has kept in a folder;
    None where nothing is.
    """
    import joblib

    parts = list(folder.rglob(f"{_timed.__name__}/*/output.pkl"))
    return sum(joblib.load(part)[1] for part in parts) if parts else None
