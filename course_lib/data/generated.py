"""What the generated texts share: word lists, draws, no text twice, parts that are held
back.
"""

from __future__ import annotations

import random
import tomllib
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, TypeVar

from course_lib.checks import check_count


class _HasText(Protocol):
    @property
    def text(self) -> str: ...


_T = TypeVar("_T")
_Text = TypeVar("_Text", bound=_HasText)


def read_words(name: str) -> dict[str, Any]:
    """The word lists of a grammar, from a file beside this one."""
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


# Of `rng` only random() is used, whose stream Python promises not to change.


def draw(options: Sequence[_T], rng: random.Random) -> _T:
    """One of the options, all equally likely."""
    return options[int(rng.random() * len(options))]


def draw_by_rank(options: Sequence[_T], rng: random.Random) -> _T:
    """One of the options, with a probability that falls as 1 over its rank (Zipf's law)."""
    return _draw(options, _rank_sums(len(options)), rng)


def draw_by_weight(weights: Mapping[_T, float], rng: random.Random) -> _T:
    """One of the keys, with a probability proportional to its value."""
    return _draw([*weights], [*accumulate(weights.values())], rng)


def _draw(options: Sequence[_T], sums: Sequence[float], rng: random.Random) -> _T:
    return options[bisect(sums, rng.random() * sums[-1], hi=len(options) - 1)]


@cache
def _rank_sums(n: int) -> list[float]:
    return [*accumulate(1 / rank for rank in range(1, n + 1))]


def write_new(
    stream: str, write: Callable[[random.Random], _Text], n: int, seen: set[str]
) -> list[_Text]:
    """``n`` results of ``write`` on the random stream of that name, each with a text that
    is not in ``seen``, to which it is added.
    """
    rng = random.Random(stream)
    found: list[_Text] = []
    while len(found) < n:
        new = write(rng)
        if new.text not in seen:
            seen.add(new.text)
            found.append(new)
    return found


def hold_back(
    stream: str, write: Callable[[random.Random], _Text], validation: int, test: int
) -> dict[str, list[_Text]]:
    """The texts of two parts, which no training set has; of a stream for each part."""
    seen: set[str] = set()
    return {
        part: write_new(stream.format(part), write, n, seen)
        for part, n in (("validation", validation), ("test", test))
    }


def cut(train: int, held_back: Mapping[str, list[_T]], **sizes: int) -> dict[str, list[_T]]:
    """The first texts of what is held back, as many as are asked for.

    Raises:
        ValueError: if a number is negative, or more than are there.
    """
    check_count(train, "train")
    for name, size in sizes.items():
        most = len(held_back[name])
        if not 0 <= size <= most:
            raise ValueError(f"{name} must lie between 0 and {most}, what is held back; got {size}")
    return {name: held_back[name][:size] for name, size in sizes.items()}
