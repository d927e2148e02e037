"""Lab 11, the capstone: its contracts answered by the library, the files that are
handed in, and what a person marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from course_lib.cost import decisions, storage
from course_lib.labs.contract import Contract

lab = Contract("lab11")
lab.asks("11.4", files=("capstone-cnn.safetensors",))
lab.asks("11.5", files=("capstone-bert.safetensors",), optional=True)
lab.asks("11.6", "answer_11_6a", "answer_11_6b")
lab.asks("11.7", by_hand=5)


@lab.asks("11.1")
def model_bits(
    state: Mapping[str, Tensor], tied: Mapping[str, str] | None = None, bits: int = 32
) -> int:
    """11.1: every tensor in its cheapest format."""
    return storage.model_bits(state, tied, bits)


@lab.asks("11.2")
def frontier(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """11.2: the rows that no other dominates."""
    return decisions.frontier(rows)


@lab.asks("11.3")
def pick(candidates: Sequence[Mapping[str, Any]], budget: Mapping[str, float | None]) -> int | None:
    """11.3: the best on validation within the budget."""
    return decisions.pick(candidates, budget)
