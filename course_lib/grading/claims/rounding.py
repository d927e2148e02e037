"""How many of n are pruned: ``round(share · n)``, and the usual mistakes about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from course_lib.grading.claims.expect import fail

Rounding = Callable[[float, int], int]  # a share and n -> how many of n

CUT_OFF = "the fraction was cut off: int() and // do that, round() does not"
TOO_FEW = (
    "always one too few: does the last one that should go compare as equal to your threshold, and"
    " stay?"
)
TOO_MANY = (
    "always one too many: is your threshold one place too far along the sorted list? It counts from"
    " 0"
)
ROUNDINGS: dict[str, Rounding] = {
    CUT_OFF: lambda share, n: math.floor(share * n),
    "a fraction was always rounded up: round() takes the nearest": lambda share, n: math.ceil(
        share * n
    ),
    "a half was rounded up: Python's round() takes it to the even neighbour, + 0.5 does not": (
        lambda share, n: math.floor(share * n + 0.5)
    ),
    "a half was rounded down: Python's round() takes it to the even neighbour": lambda share, n: (
        math.ceil(share * n - 0.5)
    ),
    "the number kept was rounded: round the number that goes": lambda share, n: (
        n - round((1 - share) * n)
    ),
    TOO_FEW: lambda share, n: round(share * n) - 1,
    TOO_MANY: lambda share, n: round(share * n) + 1,
}


def expect_rounded(
    counts: Sequence[int],
    cases: Sequence[tuple[float, int]],
    name: str,
    what: str,
    wrong: Mapping[str, Rounding] = ROUNDINGS,
) -> None:
    """In each case the count is ``round(share · n)``; else name the mistake that explains
    all counts.

    Args:
        cases: the (share, n) of each count.
        name: of the share. what: happened to how many, "weights went".
    """
    for count, (share, n) in zip(counts, cases, strict=True):
        if count != round(share * n):
            why = [said for said, way in wrong.items() if counts == [way(*case) for case in cases]]
            hint = f"print what your code counts, and compare it with round({name} · n)"
            went = f"{count} of {n} {what} ({share} · {n} = {share * n:g})"
            fail(f"at {name} {share}, {went}: {why[0] if why else hint}")
