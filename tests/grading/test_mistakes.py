"""A case is drawn that tells every mistake from the right answer, or all but the
fewest.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from course_lib.grading.claims.mistakes import Case, draw_discriminating_case


def drawing(cases: list[list[int]], drawn: list[int]) -> Callable[[], Case]:
    """A function that draws these in turn, the last again and again; a case is the
    right answer and what mistakes give.
    """

    def case() -> Case:
        number = min(len(drawn), len(cases) - 1)
        drawn.append(number)
        right, *wrong = cases[number]
        return number, right, {f"mistake {i}": answer for i, answer in enumerate(wrong)}

    return case


@pytest.mark.parametrize("fewest", [False, True])
def test_the_first_that_tells_all_apart(fewest: bool) -> None:
    drawn: list[int] = []
    cases = [[1, 1, 2], [1, 2, 2], [3, 1, 2], [4, 5, 6]]
    assert draw_discriminating_case(drawing(cases, drawn), fewest=fewest)[0] == 2
    assert drawn == [0, 1, 2]


def test_where_none_does_the_case_is_to_be_mended() -> None:
    with pytest.raises(RuntimeError, match="no input was drawn"):
        draw_discriminating_case(drawing([[1, 1]], []))


@pytest.mark.parametrize("seed", range(20))
def test_or_the_first_with_the_fewest_alike(seed: int) -> None:
    generator = random.Random(seed)
    # eight answers of six: some are alike
    cases = [[generator.randrange(6) for _ in range(8)] for _ in range(30)]

    def pairs(answers: list[int]) -> int:
        return sum(one == other for i, one in enumerate(answers) for other in answers[:i])

    best = min(range(30), key=lambda number: pairs(cases[number]))
    assert draw_discriminating_case(drawing(cases, []), fewest=True)[0] == best
