"""Everything that a room names at its door is there, and what it shows there is an
example that runs (see ``test_examples.py``).
"""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

from course_lib import pruning
from unit import examples

ROOMS = sorted(f"pruning.{found.name}" for found in pkgutil.iter_modules(pruning.__path__))
SHOWN = examples.of_docstrings()


@pytest.mark.parametrize("room", [*ROOMS, "cost"])
def test_what_it_names_is_there(room: str) -> None:
    module = importlib.import_module(f"course_lib.{room}")
    assert f"course_lib.{room}" in SHOWN, "an example, behind ::"
    files = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert set(re.findall(r":mod:`\.(\w+)`", module.__doc__)) == files
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_the_rooms_of_pruning_are_listed() -> None:
    assert re.findall(r":mod:`~course_lib\.(pruning\.\w+)`", pruning.__doc__ or "") == [
        "pruning.weights",
        *ROOMS[:-1],
    ]
