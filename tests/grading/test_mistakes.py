"""A case is drawn that tells every mistake from the right answer, or all but the
fewest.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from course_lib.grading import Draw, Mistake, Submission, expect_close, expect_equal
from course_lib.grading.claims.mistakes import (
    Case,
    Exercises,
    draw_case,
    draw_discriminating_case,
    expect_form,
    near,
    recognise,
)
from course_lib.grading.claims.student import InProcess


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


def test_arguments_are_drawn_until_the_functions_differ() -> None:
    numbers = iter([0, 1, 3])
    given, right, mistakes = draw_case(
        lambda: (next(numbers),),
        lambda n: [2 * n],
        {
            "squared": lambda n: [n * n],
            "2 n + 1": lambda n: [2 * n + 1],
            "n + 1": lambda n: [n + 1],
        },
        view=lambda answer: answer[0],
    )
    assert (given, right) == ((3,), 6) and mistakes == {"squared": 9, "2 n + 1": 7, "n + 1": 4}


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: (x.sum(), 2 * len(x)), ""),
        (lambda x: (x.mean(), 2 * len(x)), "the mean was taken"),
        (lambda x: (x.sum(), len(x)), r"total\(…\)\[1\] should be 8, it is 4"),
        (lambda x: (x, 2 * len(x)), r"total\(…\)\[0\] should have shape \(\)"),
        (lambda x: (x.sum(), "8"), r"total\(…\)\[1\] should be an int"),
        (lambda x: x.sum(), "should be a list of 2"),
    ],
)
def test_the_driver_compares_the_students_answer(function: Callable[..., Any], said: str) -> None:
    exercises = Exercises(
        SimpleNamespace(total=lambda x: (x.sum(), 2 * len(x))),
        {"total": {"the mean was taken": lambda x: (x.mean(), 2 * len(x))}},
    )
    draw = Draw("driver")
    with InProcess({"total": function}) as transport:
        submission = Submission(transport)
        submission.begin(1)

        def grade() -> None:
            exercises.expect_answer(submission, "total", lambda: (draw.normal(4),), near)

        if said:
            with pytest.raises(Mistake, match=said):
                grade()
        else:
            grade()


def test_a_form_is_the_right_answers_form() -> None:
    right = {"a": [1, 2.0], "b": torch.zeros(2), "c": "any"}
    value = {"a": (1, torch.tensor(3.0)), "b": torch.ones(2), "c": None}
    assert expect_form(value, right, "f(…)")["a"] == [1, 3.0]
    with pytest.raises(Mistake, match=r"f\(…\)\['b'\] should have shape \(2,\)"):
        expect_form({**value, "b": torch.ones(3)}, right, "f(…)")
    with pytest.raises(Mistake, match="lacks the key 'c'"):
        expect_form({"a": [1, 2], "b": torch.ones(2)}, right, "f(…)")


MASK = torch.tensor([True, False])
SMALL = torch.tensor([1e-7])
LARGE = torch.tensor([1000.0, 0.0])
# two results, settings -> are they the same for the grader?
NEAR: list[tuple[Any, Any, dict[str, Any], bool]] = [
    (1000, 1000.005, {}, True),
    (1, 1.001, {}, False),
    (1, torch.tensor(1.0), {}, False),
    ((1, 2.0), [1.0, 2.0000001], {}, True),
    ((1, 2), (1, 2, 3), {}, False),
    # by the largest number unless told otherwise
    (LARGE, torch.tensor([1000.0, 5e-3]), {}, True),
    (LARGE, torch.tensor([1000.0, 5e-3]), {"relative": False}, False),
    (SMALL, -SMALL, {}, True),
    (SMALL, -SMALL, {"least": 1e-9}, False),
    (torch.tensor([1.0]), torch.tensor([1.0001]), {}, False),
    (torch.tensor([1.0]), torch.tensor([1.0001]), {"tolerance": 1e-3}, True),
    # shapes, masks, dicts
    (MASK, MASK.clone(), {}, True),
    (MASK, ~MASK, {}, False),
    (MASK, MASK.float(), {}, False),
    (torch.zeros(2), torch.zeros(2, 1), {}, False),
    (torch.zeros(1), 0.0, {}, False),
    (torch.zeros(0), torch.zeros(0), {}, True),
    ({"a": torch.ones(2)}, {"a": torch.ones(2) + 1e-7}, {}, True),
    ({"a": MASK}, {"b": MASK}, {}, False),
    (torch.tensor([float("nan")]), torch.tensor([0.0]), {}, False),
]


@pytest.mark.parametrize(("one", "other", "settings", "alike"), NEAR, ids=range(len(NEAR)))
def test_what_is_near(one: Any, other: Any, settings: dict[str, Any], alike: bool) -> None:
    assert near(one, other, **settings) == alike


def test_a_mistake_is_recognised_by_its_result() -> None:
    right, wrong = torch.tensor([1.0, 2.0]), {"the sign is wrong": torch.tensor([-1.0, -2.0])}
    recognise(right + 1e-7, right, wrong, equal=near)
    recognise(torch.zeros(2), right, wrong, equal=near)  # wrong, but not so
    with pytest.raises(Mistake, match="here: the sign is wrong"):
        recognise(-right + 1e-7, right, wrong, "here: ", equal=near)


GRID = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("value", "right", "said"),
    [
        (GRID + torch.tensor([[0, 0], [0, 1]]), GRID, " at index (1, 1): 5 instead of 4"),
        (-GRID, GRID, " at 4 of 4 places, first at index (0, 0): -1 instead of 1"),
        (torch.tensor(0.5), torch.tensor(1.0), ": 0.5 instead of 1"),
    ],
)
def test_where_a_tensor_is_wrong(value: torch.Tensor, right: torch.Tensor, said: str) -> None:
    for compare in (expect_close, expect_equal):
        with pytest.raises(Mistake, match=re.escape(f"f(x) is wrong{said}")):
            compare(value, right, "f(x)")
