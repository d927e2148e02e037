"""Results as they are stored, for tests that make them again in small."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd

from course_lib import experiments
from course_lib.experiments import Result


def remade(remake: Callable[..., Result], folder: Path, *args: Any) -> Result:
    """What ``remake`` makes, one run after the other."""
    with ThreadPoolExecutor(1) as pool:
        return remake(pool, folder, *args)


def assert_like_stored(
    name: str, tables: Mapping[str, pd.DataFrame], *, labels: tuple[str, ...] = ()
) -> None:
    """The tables have the columns of those that are stored under a name, and their types;
    the columns ``labels`` have the same entries together.
    """
    for table, frame in tables.items():
        stored = experiments.read(f"{name}/{table}")
        assert list(frame.columns) == list(stored.columns), table
        whole = [c for c in stored if frame[c].notna().all() and stored[c].notna().all()]
        assert frame[whole].dtypes.equals(stored[whole].dtypes), table
        named = [column for column in labels if column in frame]
        keys = [set(map(tuple, rows[named].astype(str).to_numpy())) for rows in (frame, stored)]
        assert keys[0] == keys[1], table
