"""Runs that take longer than a lab should: each is shipped as a small result file, and
one command makes it again.

A file here is one lab's: the functions of its longer runs, and ``RESULTS``, what they
make. They are importable, as functions must be that are sent to other processes; the
lab's notebook and its deck run their own, shorter experiments through the same ones.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Executor
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from course_lib import files, paths
from course_lib.experiments.once import spent

TOOK = "took"  # what a result file says of itself, beside the result

Remake = Callable[[Executor, Path], dict[str, Any]]


def registered() -> dict[str, Remake]:
    """Name of a result file -> ``remake(executor, folder)``, which runs it all and
    returns what goes into the file.

    What is done so far lies in ``folder``: called again after an interruption, it goes
    on from there.
    """
    labs = sorted(found.name for found in iter_modules(__path__) if found.name.startswith("lab"))
    # here: reading a result needs none of them
    modules = [import_module(f"{__name__}.{lab}") for lab in labs]
    return {name: remake for module in modules for name, remake in module.RESULTS.items()}


def path(name: str) -> Path:
    """Where the result file of that name lies."""
    return paths.data_dir() / "results" / f"{name}.json"


def read(name: str) -> dict[str, Any]:
    """A shipped result.

    Raises:
        FileNotFoundError: if it is not there; the message says how to make it.
    """
    return {key: value for key, value in _whole(name).items() if key != TOOK}


def took(name: str) -> dict[str, float] | None:
    """What making a shipped result took: ``cpu_seconds`` of all its processes together,
    and on how many ``cores`` they ran; None where its file does not say.

    Raises:
        FileNotFoundError: as :func:`read`.
    """
    return _whole(name).get(TOOK)


def _whole(name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path(name).read_text(encoding="utf-8"))
        return found
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no {path(name)}: copy data/results from the course, or make it again: course"
            f" remake {name}"
        ) from None


def remake(name: str, executor: Executor, folder: Path | None = None) -> Path:
    """Run it again and write its result file, which is returned; with the seconds that
    it took (see :func:`took`), where all of its parts were kept by ``once``.

    Args:
        executor: where the trainings run, for example
            ``course_lib.parallel.processes()``.
        folder: for what is done so far; None: in the cache, so that the same command
            goes on after an interruption; emptied when all is done, so that the next
            run computes anew.

    Raises:
        ValueError: if there is no result of that name.
    """
    known = registered()
    if name not in known:
        raise ValueError(f"there is no result {name!r} to remake: choose one of {', '.join(known)}")
    parts = paths.cache_dir() / "remake" / name
    from course_lib.parallel import workers_of  # here: reading a result needs no torch

    result = dict(known[name](executor, folder or parts))
    seconds = spent(folder or parts)
    if seconds is not None:
        result[TOOK] = {"cpu_seconds": round(seconds), "cores": workers_of(executor)}
    target = path(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    files.put(target, (json.dumps(result, separators=(", ", ": ")) + "\n").encode())
    if folder is None:
        shutil.rmtree(parts, ignore_errors=True)
    return target
