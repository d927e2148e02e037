"""What is done is kept on disk, with the seconds that it took, so that a long run goes
on where it was interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from course_lib import files


def once(path: Path, run: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """``run(*args, **options)``, plain data, as JSON gives it back: computed once, and
    read from ``path`` from then on.

    The seconds of the processor that it took lie beside it. They are those of the whole
    process: in an executor with threads they count what runs beside it, too.
    """
    if not path.exists():
        start = time.process_time()
        result = run(*args, **options)
        took = time.process_time() - start
        path.parent.mkdir(parents=True, exist_ok=True)
        files.put(path.with_suffix(".seconds"), f"{took:.2f}\n".encode())
        files.put(path, json.dumps(result).encode())
    return json.loads(path.read_text(encoding="utf-8"))


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
    running = [
        executor.submit(once, folder / f"seed{seed}.json", run, name, seed, settings)
        for seed in range(seeds)
    ]
    return {"settings": dict(settings), "seeds": [future.result() for future in running]}


def spent(folder: Path) -> float | None:
    """The seconds of the processor of everything that :func:`once` has kept in a
    folder; None where nothing is, or where a part does not say.
    """
    parts = list(folder.rglob("*.json"))
    beside = [part.with_suffix(".seconds") for part in parts]
    if not parts or not all(file.exists() for file in beside):
        return None
    return sum(float(file.read_text(encoding="utf-8")) for file in beside)
