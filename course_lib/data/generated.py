"""What the generated texts share: no text twice, parts that are held back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from course_lib.checks import check_count

_T = TypeVar("_T")


def new_ones(write: Callable[[], _T], text: Callable[[_T], str], seen: set[str]) -> Iterator[_T]:
    """What ``write`` writes, without end, each with a text that is not in ``seen``, to
    which it is added.
    """
    while True:
        found = write()
        if text(found) not in seen:
            seen.add(text(found))
            yield found


def check_sizes(train: int, validation: int, test: int, held_back: tuple[int, int]) -> None:
    """Raises ValueError if a number is negative or more than is held back."""
    check_count(train, "train")
    for name, wanted, most in zip(
        ("validation", "test"), (validation, test), held_back, strict=True
    ):
        if not 0 <= wanted <= most:
            raise ValueError(
                f"{name} must lie between 0 and {most}, what is held back; got {wanted}"
            )
