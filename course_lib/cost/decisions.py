"""A table without a best row: which rows no other beats, and which to take for a
budget.

Source: Pareto's order; that a choice is made on validation data, before test data are
seen, is the rule of the whole course.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

LESS = ("bits", "macs", "ms")  # is better; of accuracy more is


def frontier(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Indices, increasing, of the rows that no other dominates: no worse in all of
    bits, macs, ms and accuracy, and better in one.

    Args:
        rows: with these four keys; others do not count. Equal rows do not dominate each
            other.
    """
    costs = [(*(row[key] for key in LESS), -row["accuracy"]) for row in rows]
    return [
        i
        for i, own in enumerate(costs)
        if not any(
            other != own and all(a <= b for a, b in zip(other, own, strict=True)) for other in costs
        )
    ]


def pick(candidates: Sequence[Mapping[str, Any]], budget: Mapping[str, float | None]) -> int | None:
    """The index of the candidate within the budget whose mean validation accuracy is
    largest; None if none is within it.

    Args:
        candidates: ``bits``, ``macs``, ``faster``, and ``validation``, an accuracy for
            each seed; what else there is ("test") does not count.
        budget: any of ``bits``, ``macs`` (at most) and ``faster`` (at least), the limit
            itself included; None or missing: no limit. Of equal means that with fewer
            macs, then the first.
    """

    def within(candidate: Mapping[str, Any]) -> bool:
        small = all(
            budget.get(key) is None or candidate[key] <= budget[key] for key in ("bits", "macs")
        )
        return small and (budget.get("faster") is None or candidate["faster"] >= budget["faster"])

    fitting = [i for i, candidate in enumerate(candidates) if within(candidate)]
    return min(
        fitting,
        key=lambda i: (-fmean(candidates[i]["validation"]), candidates[i]["macs"]),
        default=None,
    )
