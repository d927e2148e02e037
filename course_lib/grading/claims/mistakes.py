"""Knowing a mistake by its result: inputs in which right and wrong answers differ, and
the sentence for what came out.

A mistake is what the student should think of next -> what a code that makes it returns.
A lab writes it once, as a wrong function: ``WRONG`` in its claims, graded
name -> sentence -> function. Claims compare with what these return (:func:`made`), a
bug hunt shows them as versions, and the tests hand them in as answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from course_lib.grading.claims.expect import fail

Mistakes = Mapping[str, Any]
Case = tuple[Any, Any, dict[str, Any]]  # input, right answer, mistakes
Alike = Callable[[Any, Any], bool]


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
    """Tensors of the same shape, equal up to rounding (bool ones: equal), or dicts of
    such.

    Args:
        tolerance: how far apart two numbers may be, in units of the largest size in
            ``other``, which counts ``least`` at least; with ``relative`` False, as it
            is.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            near(one[k], other[k], tolerance, least, relative) for k in one
        )
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.shape != other.shape:
        return False
    if torch.bool in (one.dtype, other.dtype):
        return one.dtype == other.dtype and torch.equal(one, other)
    largest = float(other.double().nan_to_num().abs().max()) if other.numel() else least
    atol = tolerance * max(least, largest) if relative else tolerance
    return torch.allclose(one.double(), other.double(), rtol=0, atol=atol)


def made(wrong: Mapping[str, Callable[..., Any]], *arguments: Any) -> dict[str, Any]:
    """What the functions of a table make of these arguments: sentence -> result."""
    return {sentence: function(*arguments) for sentence, function in wrong.items()}


def recognise(
    value: Any, right: Any, mistakes: Mistakes, said: str = "", alike: Alike = same
) -> None:
    """Fail with the sentence of the mistake whose result this is, ``said`` before it;
    return if it is none of them.
    """
    if not alike(value, right):
        for sentence, wrong in mistakes.items():
            if alike(value, wrong):
                fail(said + sentence)


def telling(case: Callable[[], Case], alike: Alike = same, fewest: bool = False) -> Case:
    """A drawn case in which no two of its answers, right or wrong, happen to be the
    same.

    Args:
        case: draws one.
        alike: when two answers are the same.
        fewest: where so many mistakes lead to numbers that hardly any draw tells them
            all apart: if none of 500 does, take the one with the fewest answers alike,
            which is as good for a right answer.

    Raises:
        RuntimeError: if none of 500 does, otherwise: the case is to be mended, not the
            student.
    """
    best: tuple[int, Case] | None = None
    enough = None if fewest else 1  # pairs that are counted of a draw: it is taken for less only
    for _ in range(500):
        drawn = case()
        answers = [drawn[1], *drawn[2].values()]
        pairs = (1 for i, one in enumerate(answers) for other in answers[:i] if alike(one, other))
        found = sum(islice(pairs, enough))
        if not found:
            return drawn
        if fewest and (best is None or found < best[0]):
            best, enough = (found, drawn), found
    if best is not None:
        return best[1]
    raise RuntimeError("no input was drawn that tells the mistakes from the right answer")
