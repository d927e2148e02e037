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
lab.asks("11.3", *(f"answer_11_3{part}" for part in "abcde"))
lab.asks("11.4", files=("capstone-bert.safetensors",))
lab.asks("11.5", files=("capstone-cnn.safetensors",), optional=True)
lab.asks("11.6", by_hand=5)


@lab.asks("11.1")
def model_bits(
    state: Mapping[str, Tensor], tied: Mapping[str, str] | None = None, bits: int = 32
) -> int:
    """11.1: every tensor in its cheapest format."""
    return storage.model_bits(state, tied, bits)


@lab.asks("11.2")
def pick(candidates: Sequence[Mapping[str, Any]], budget: Mapping[str, float | None]) -> int | None:
    """11.2: the best on validation within the budget."""
    return decisions.pick(candidates, budget)
