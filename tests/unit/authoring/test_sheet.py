"""The cheat sheet: what it names is there, and its formulas are those the library
computes by.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from pathlib import Path

import pytest

import course_lib.cost
import course_lib.pruning
from course_lib.authoring import sheet
from course_lib.authoring.errors import AuthoringError
from course_lib.cost import transformer_macs
from course_lib.cost.encodings import formula_bits

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / sheet.SOURCE).read_text(encoding="utf-8")


def names() -> set[str]:
    """All that the modules of pruning and cost define."""
    modules = [
        importlib.import_module(found.name)
        for package in (course_lib.pruning, course_lib.cost)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return {name for module in modules for name in vars(module) if not name.startswith("_")}


def test_every_function_it_names_is_in_the_library() -> None:
    named = set(re.findall(r"`([a-z_0-9]+)`", TEXT))
    assert len(named) > 25
    assert named <= names()


def test_its_bits_are_the_librarys() -> None:
    rows, columns, p, n, k = 64, 96, 0.9, 8, 4
    L = rows * columns
    N = (1 - p) * L
    said = {
        "bitmap": N * n + L,
        "rle": L * (1 - p) / (1 - p ** (2**k)) * (n + k),
        "coo": N * (n + math.ceil(math.log2(L))),
        "csr": N * (n + math.ceil(math.log2(columns)))
        + (rows + 1) * math.ceil(math.log2(math.ceil(N) + 1)),
    }
    for format, bits in said.items():
        assert formula_bits(format, L, p, n, run_bits=k, shape=(rows, columns)) == pytest.approx(
            bits, rel=1e-3
        )
    assert transformer_macs(2, 128, 64)["total"] == 12 * 2 * 128 * 64**2 + 2 * 2 * 128**2 * 64


def test_without_its_source_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match="no cheat sheet here"):
        sheet.build(tmp_path)
