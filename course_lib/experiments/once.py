"""What is done is kept on disk (``joblib.Memory``), with the seconds that it took, so that
a long run goes on where it was interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any


def once(folder: Path, run: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """``run(*args, **options)``, plain data, as JSON gives it back: computed once for each
    function and arguments, and read from ``folder`` from then on.

    Kept with it are the seconds of the processor that it took. They are those of the whole
    process: in an executor with threads they count what runs beside it, too.
    """
    import joblib  # here, since it changes the environment of the process that imports it

    keep = joblib.Memory(folder, verbose=0).cache(_timed, ignore=["run"])
    return keep(f"{run.__module__}.{run.__qualname__}", run, *args, **options)[0]


def _timed(name: str, run: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, float]:
    start = time.process_time()
    result = json.loads(json.dumps(run(*args, **options)))
    return result, time.process_time() - start


def each_seed(
    executor: Executor,
    folder: Path,
    seeds: int,
    run: Callable[[str, int, Any], Any],
    name: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """``run(name, seed, settings)`` for seeds 0, 1, …, each once: ``settings``, and
    ``seeds``, a list of what came out.
    """
    running = [executor.submit(once, folder, run, name, seed, settings) for seed in range(seeds)]
    return {"settings": dict(settings), "seeds": [future.result() for future in running]}


def spent(folder: Path) -> float | None:
    """The seconds of the processor of everything that :func:`once` has kept in a folder;
    None where nothing is.
    """
    import joblib

    parts = list(folder.rglob(f"{_timed.__name__}/*/output.pkl"))
    return sum(joblib.load(part)[1] for part in parts) if parts else None
