"""Every batch is graded once, and all tests look at what came of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "labs"))  # answers, right and wrong

import hostile
import pytest
from battle import BEST, HONEST, Battle, fight, grade, results_of


@pytest.fixture(scope="session")
def battles(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Battle]:
    """From a lab and a layer to the batch graded there, once."""

    @functools.cache
    def once(lab: str, layer: str) -> Battle | Exception:
        try:
            return fight(lab, layer, tmp_path_factory.mktemp(f"{lab}-{layer}"))
        except Exception as error:  # said by every test, without grading again for each
            return error

    def battle(lab: str, layer: str) -> Battle:
        got = once(lab, layer)
        if isinstance(got, Exception):
            raise got
        return got

    return battle


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, dict[str, Any]]]:
    """From a lab to the results of its honest submissions with nobody else in the
    batch.
    """

    @functools.cache
    def once(lab: str) -> dict[str, dict[str, Any]]:
        folder = tmp_path_factory.mktemp(f"{lab}-alone")
        (folder / "submissions").mkdir()
        for kind, cells in HONEST.items():
            (folder / "submissions" / f"{kind}.ipynb").write_text(hostile.notebook(cells(lab)))
        return results_of(grade(lab, BEST, folder / "submissions", folder / "report", jobs=1))

    return once
