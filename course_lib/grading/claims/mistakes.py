"""Knowing a mistake by its result: inputs in which right and wrong answers differ, and
the sentence for what came out.

A mistake is what the student should think of next -> what a code that makes it returns.
A lab writes it once, as a wrong function: ``WRONG`` in its claims, graded
name -> sentence -> function. Claims compare with what these return (:func:`apply_each`), a
bug hunt shows them as versions, and the tests hand them in as answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from course_lib.grading.claims.expect import (
    expect_close,
    expect_equal,
    expect_int,
    expect_keys,
    expect_length,
    expect_number,
    expect_tensor,
    fail,
)
from course_lib.grading.claims.student import Submission

Mistakes = Mapping[str, Any]
Wrong = Mapping[str, Callable[..., Any]]  # a mistake -> the function that makes it
Case = tuple[Any, Any, dict[str, Any]]  # input, right answer, mistakes
Comparison = Callable[[Any, Any], bool]
View = Callable[[Any], Any]


def same(one: Any, other: Any) -> bool:
    """Equal tensors, numbers, or dicts of such."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)
    return bool(one == other)


def near(
    one: Any, other: Any, tolerance: float = 1e-5, least: float = 1.0, relative: bool = True
) -> bool:
    """Tensors of the same shape, or numbers, equal up to rounding (bool ones: equal), or
    dicts, lists or tuples of such.

    Args:
        tolerance: how far apart two numbers may be, in units of the largest size in
            ``other``, which counts ``least`` at least; with ``relative`` False, as it
            is.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            near(one[k], other[k], tolerance, least, relative) for k in one
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(
            near(a, b, tolerance, least, relative) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, int | float) and isinstance(other, int | float):
        one, other = torch.tensor(one).double(), torch.tensor(other).double()
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.shape != other.shape:
        return False
    if torch.bool in (one.dtype, other.dtype):
        return one.dtype == other.dtype and torch.equal(one, other)
    largest = float(other.double().nan_to_num().abs().max()) if other.numel() else least
    atol = tolerance * max(least, largest) if relative else tolerance
    return torch.allclose(one.double(), other.double(), rtol=0, atol=atol)


def expect_form(value: Any, right: Any, what: str) -> Any:
    """The value, with its numbers as Python's, if it has the type, the length, the keys
    and the shapes of the right one.
    """
    if isinstance(right, Tensor):
        return expect_tensor(value, shape=right.shape, what=what)
    if isinstance(right, dict):
        expect_keys(value, right, what)
        return {k: expect_form(value[k], r, f"{what}[{k!r}]") for k, r in right.items()}
    if isinstance(right, list | tuple):
        expect_length(value, len(right), what)
        return type(right)(expect_form(value[i], r, f"{what}[{i}]") for i, r in enumerate(right))
    if isinstance(right, bool) or not isinstance(right, int | float):
        return value
    return expect_int(value, what) if isinstance(right, int) else expect_number(value, what)


def apply_each(wrong: Wrong, *arguments: Any) -> dict[str, Any]:
    """What the functions of a table make of these arguments: sentence -> result."""
    return {sentence: function(*arguments) for sentence, function in wrong.items()}


def recognise(
    value: Any, right: Any, mistakes: Mistakes, said: str = "", equal: Comparison = same
) -> None:
    """Fail with the sentence of the mistake whose result this is, ``said`` before it;
    return if it is none of them.
    """
    if not equal(value, right):
        for sentence, wrong in mistakes.items():
            if equal(value, wrong):
                fail(said + sentence)


def draw_discriminating_case(
    case: Callable[[], Case], equal: Comparison = same, fewest: bool = False
) -> Case:
    """Draw a case in which no two answers, right or wrong, are the same.

    Args:
        case: draws one.
        equal: when two answers are the same.
        fewest: where so many mistakes lead to numbers that hardly any draw tells them
            all apart: if none of 500 does, take the one with the fewest equal answers,
            which is as good for a right answer.

    Raises:
        RuntimeError: if none of 500 does, otherwise. The case must be corrected; the
            student did nothing wrong.
    """
    best: tuple[int, Case] | None = None
    enough = None if fewest else 1  # pairs that are counted of a draw: it is taken for less only
    for _ in range(500):
        drawn = case()
        answers = [drawn[1], *drawn[2].values()]
        pairs = (1 for i, one in enumerate(answers) for other in answers[:i] if equal(one, other))
        found = sum(islice(pairs, enough))
        if not found:
            return drawn
        if fewest and (best is None or found < best[0]):
            best, enough = (found, drawn), found
    if best is not None:
        return best[1]
    raise RuntimeError("no input was drawn that tells the mistakes from the right answer")


def draw_case(
    arguments: Callable[[], tuple[Any, ...]],
    right: Callable[..., Any],
    wrong: Wrong,
    equal: Comparison = same,
    view: View = lambda answer: answer,
) -> Case:
    """Draw arguments for which the right function and the wrong ones all give different
    answers.

    Args:
        arguments: draws the arguments.
        view: the part, or the form, of an answer that is compared.
    """

    def case() -> Case:
        given = arguments()
        mistakes = {said: view(answer) for said, answer in apply_each(wrong, *given).items()}
        return given, view(right(*given)), mistakes

    return draw_discriminating_case(case, equal)


@dataclass(frozen=True)
class Exercises:
    """The exercises of a lab whose answers are functions, by their graded names.

    Attributes:
        reference: the module that holds the right functions. wrong: graded name -> its
            wrong functions.
    """

    reference: Any
    wrong: Mapping[str, Wrong]

    def draw_case(
        self,
        name: str,
        arguments: Callable[[], tuple[Any, ...]],
        equal: Comparison = same,
        view: View = lambda answer: answer,
    ) -> Case:
        """:func:`draw_case` for the right and the wrong functions of this name."""
        return draw_case(arguments, getattr(self.reference, name), self.wrong[name], equal, view)

    def expect_answer(
        self,
        submission: Submission,
        name: str,
        arguments: Callable[[], tuple[Any, ...]],
        equal: Comparison = same,
        view: View = lambda answer: answer,
        *,
        read: View | None = None,
        what: str = "",
    ) -> None:
        """The student's function gives the right answer on a drawn case.

        Args:
            read: checks the form of the student's answer and returns its ``view``; by
                default the answer must have the form of the right one.
            what: the name of the answer in a message.
        """
        given, right, mistakes = self.draw_case(name, arguments, equal, view)
        what = what or f"{name}(…)"
        value = submission.call(name, *given)
        value = read(value) if read else expect_form(value, right, what)
        recognise(value, right, mistakes, equal=equal)
        (expect_equal if equal is same else expect_close)(value, right, what)
