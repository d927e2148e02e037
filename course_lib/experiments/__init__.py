"""What the labs run, and what their longer runs have found.

A file here is one lab's: the functions that its notebook and its deck call. Runs that take
longer than a lab should are stored under ``data/results``, a folder per result with a CSV
file per table; the scripts that made them are ``data/results/make/labNN_results.py``, and
``course remake NAME`` runs one again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from course_lib import files, paths
from course_lib.experiments.once import once, spent, tables

TOOK = "took"  # what a result says of its making, in addition to its settings
ABOUT = "about.json"

Remake = Callable[[Executor, Path], "Result"]


class Result(NamedTuple):
    """What a long run found.

    Attributes:
        tables: name -> long table: one row per measurement, with a column ``seed``.
        settings: how it was run; plain data.
    """

    tables: Mapping[str, pd.DataFrame]
    settings: Mapping[str, Any]


def by_seed(
    about: str,
    settings: Mapping[str, Any],
    seeds: int,
    *parts: Callable[..., Any],
    data: str = "",
) -> Remake:
    """A ``remake(executor, folder)``, described by ``about``: the tables of every
    ``part(seed)``, or ``part(seed, data, settings)`` where ``data`` are named, for seeds 0,
    1, …
    """
    more = (data, settings) if data else ()

    def remake(executor: Executor, folder: Path) -> Result:
        jobs = [(seed, part) for seed in range(seeds) for part in parts]
        running = [executor.submit(once, folder, part, seed, *more) for seed, part in jobs]
        found = zip(jobs, running, strict=True)
        return Result(tables(({"seed": job[0]}, of.result()) for job, of in found), settings)

    remake.__doc__ = about
    return remake


def registered() -> dict[str, Remake]:
    """Name of a result -> ``remake(executor, folder)``, which runs it all and returns a
    :class:`Result`.

    Finished parts are kept in ``folder``: called again after an interruption, it goes on
    from there.
    """
    paths.import_producers("checkpoints", "*_checkpoints.py")  # which some results are made with
    modules = paths.import_producers("results", "lab*_results.py")
    return {name: remake for module in modules for name, remake in module.RESULTS.items()}


def path(name: str) -> Path:
    """Where a result lies: its folder, or the file of one of its tables ("NAME/TABLE")."""
    at = paths.data_dir() / "results" / name
    return at.with_name(f"{at.name}.csv") if "/" in name else at


def read(name: str) -> pd.DataFrame:
    """A table of a stored result: ``read("lab02_criteria_digits/pruned")``.

    Returns:
        A long table: one row per measurement.

    Raises:
        FileNotFoundError: if it is missing; the message says how to make it.
    """
    try:
        return pd.read_csv(path(name), float_precision="round_trip")
    except (FileNotFoundError, IsADirectoryError):
        raise _missing(name) from None


def settings(name: str) -> dict[str, Any]:
    """How a stored result was run.

    Raises:
        FileNotFoundError: as :func:`read`.
    """
    found: dict[str, Any] = _about(name.partition("/")[0])["settings"]
    return found


def took(name: str) -> dict[str, float] | None:
    """What making a stored result took: ``cpu_seconds`` of all its processes together,
    and on how many ``cores`` they ran; None where it is not recorded.

    Raises:
        FileNotFoundError: as :func:`read`.
    """
    return _about(name.partition("/")[0]).get(TOOK)


def write(name: str, result: Result, took: Mapping[str, float] | None = None) -> Path:
    """Store a result: a CSV file per table, and its settings; the folder is returned.

    Numbers are written so that reading them back gives the same bits.
    """
    folder = paths.data_dir() / "results" / name
    folder.mkdir(parents=True, exist_ok=True)
    for table, frame in result.tables.items():
        files.write_atomic(folder / f"{table}.csv", frame.to_csv(index=False).encode())
    about = {"settings": dict(result.settings), **({TOOK: dict(took)} if took else {})}
    files.write_atomic(folder / ABOUT, (json.dumps(about, indent=1) + "\n").encode())
    return folder


def _about(name: str) -> dict[str, Any]:
    try:
        text = (path(name) / ABOUT).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _missing(name) from None
    found: dict[str, Any] = json.loads(text)
    return found


def _missing(name: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"there is no table {path(name)}: copy data/results from the course, or make it again:"
        f" course remake {name.partition('/')[0]}"
    )


def remake(name: str, executor: Executor, folder: Path | None = None) -> Path:
    """Run it again and store its result, whose place is returned; with the seconds that
    it took (see :func:`took`), where all of its parts were kept by ``once``.

    Args:
        executor: where the trainings run, for example
            ``course_lib.parallel.processes()``.
        folder: for finished parts; None: in the cache, so that the same command continues
            after an interruption; emptied when all is done, so that the next run computes
            everything again.

    Raises:
        ValueError: if there is no result of that name.
    """
    known = registered()
    if name not in known:
        raise ValueError(f"there is no result {name!r} to remake: choose one of {', '.join(known)}")
    parts = paths.cache_dir() / "remake" / name
    from course_lib.parallel import workers_of  # here: reading a result needs no torch

    result = known[name](executor, folder or parts)
    seconds = spent(folder or parts)
    cost = (
        None if seconds is None else {"cpu_seconds": round(seconds), "cores": workers_of(executor)}
    )
    target = write(name, result, cost)
    if folder is None:
        shutil.rmtree(parts, ignore_errors=True)
    return target
