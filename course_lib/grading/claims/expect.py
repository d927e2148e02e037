"""Saying what is wrong: what a value should be, and a sentence for the student where it
is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from course_lib.grading.claims.student import StudentError, Submission
from course_lib.student_code.plain_data import Model, Ref, Unserializable

MAX_DESCRIPTION = 300  # characters of a value in a message
MAX_MESSAGE = 1500  # characters of a message


class Mistake(AssertionError):
    """A claim that does not hold; the text is for the student."""


class Fault(Exception):
    """The grader's own failure while it tried a claim: no mark follows from it, and the
    submission is graded again.
    """


def fail(message: str) -> NoReturn:
    """The claim does not hold: say what the code did, in the student's terms, and the
    next thought.
    """
    raise Mistake(shortened(message, MAX_MESSAGE))


def describe(value: Any) -> str:
    """A value in a few words: its kind, shape, and a small one itself."""
    return shortened(_described(value), MAX_DESCRIPTION)


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and how much there was."""
    return text if len(text) <= most else f"{text[: most - 40]}… ({len(text):,} characters)"


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        shape = tuple(value.shape)
        kind = str(value.dtype).removeprefix("torch.")
        kind = f"an {kind} tensor" if kind.startswith("int") else f"a {kind} tensor"
        if 0 < value.numel() <= 8 or shape == (0,):
            return (
                f"{kind} {value.tolist()}"
                if value.ndim != 1
                else f"{kind} {value.tolist()} of shape {shape}"
            )
        return f"{kind} of shape {shape}"
    if isinstance(value, np.ndarray):
        return f"a numpy array of shape {value.shape}"
    if isinstance(value, Unserializable):
        return str(value)
    if isinstance(value, Model):
        return f"a module ({value.layer.type.rpartition('.')[2]})"
    if isinstance(value, tuple | list | dict):
        text = repr(value) if len(value) <= MAX_DESCRIPTION and not _holds_large(value) else ""
        return text if 0 < len(text) <= 120 else f"a {type(value).__name__} of {len(value)} items"
    return f"{value!r} ({type(value).__name__})"


def _holds_large(value: Any) -> bool:
    items: Iterable[Any] = value.values() if isinstance(value, dict) else value
    return any(
        isinstance(v, Tensor | np.ndarray | Model)
        or (isinstance(v, tuple | list | dict) and _holds_large(v))
        for v in items
    )


def _no_return(value: Any) -> str:
    return ": did the function forget to return?" if value is None else ""


def expect_tensor(
    value: Any,
    *,
    shape: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
    what: str = "the result",
) -> Tensor:
    """The value, if it is a tensor of this shape and dtype; else a failure that says
    what came instead.
    """
    if not isinstance(value, Tensor):
        fail(f"{what} should be a torch tensor, it is {describe(value)}{_no_return(value)}")
    if dtype is not None and value.dtype != dtype:
        fail(f"{what} should be of dtype {_name(dtype)}, it is {_name(value.dtype)}")
    if shape is not None and tuple(value.shape) != tuple(shape):
        fail(f"{what} should have shape {tuple(shape)}, it has {tuple(value.shape)}")
    return value


def expect_int(value: Any, what: str = "the result") -> int:
    """The value, if it is a whole number (Python's or numpy's)."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        hint = (
            ": int(...) makes one of it" if isinstance(value, float | Tensor | np.floating) else ""
        )
        fail(f"{what} should be an int, it is {describe(value)}{hint or _no_return(value)}")
    return int(value)


def expect_number(value: Any, what: str = "the result") -> float:
    """The value as a float, if it is a number (Python's, numpy's, or a tensor of one
    element).
    """
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        hint = ": write it without quotes, with a point" if isinstance(value, str) else ""
        fail(f"{what} should be a number, it is {describe(value)}{hint or _no_return(value)}")
    return float(value)


def expect_equal(value: Any, expected: Any, what: str = "the result", message: str = "") -> None:
    """Exactly equal, all the way down: type of container, shapes, dtypes, values; NaN
    equals NaN.
    """
    _compare(value, expected, what, message, None)


def expect_close(
    value: Any, expected: Any, what: str = "the result", message: str = "", tolerance: float = 1e-5
) -> None:
    """Equal up to ``tolerance``, relative to the largest expected value (at least 1);
    dtypes are not compared.
    """
    _compare(value, expected, what, message, tolerance)


def _compare(value: Any, expected: Any, what: str, message: str, tolerance: float | None) -> None:
    """Fail where they differ: in whatever way if ``tolerance`` is None."""
    exact = tolerance is None
    if isinstance(expected, Tensor):
        dtype = expected.dtype if exact else None
        expect_tensor(value, shape=expected.shape, dtype=dtype, what=what)
        wrong = _wrong_places(value, expected, tolerance)
        if bool(wrong.any()):
            instead = f"{_at(value, wrong)} instead of {_at(expected, wrong)}"
            fail(message or f"{what} is wrong{_places(wrong)}: {instead}")
    elif isinstance(expected, dict):
        expect_keys(value, expected, what)
        for key in expected:
            _compare(value[key], expected[key], f"{what}[{key!r}]", message, tolerance)
    elif isinstance(expected, list | tuple):
        expect_length(value, len(expected), what, type(expected) if exact else None)
        for i, (mine, other) in enumerate(zip(value, expected, strict=True)):
            _compare(mine, other, f"{what}[{i}]", message, tolerance)
    elif exact and (expected is None or isinstance(expected, bool | str)):
        if type(value) is not type(expected) or value != expected:
            fail(message or f"{what} should be {expected!r}, it is {describe(value)}")
    else:
        number, most = expect_number(value, what), tolerance or 0.0
        if number != expected and not math.isclose(number, expected, rel_tol=most, abs_tol=most):
            fail(message or f"{what} should be {expected:.6g}, it is {number:.6g}")


def _wrong_places(value: Tensor, expected: Tensor, tolerance: float | None) -> Tensor:
    """Where two tensors of one shape differ, a bool tensor of it."""
    both_nan = (value != value) & (expected != expected)
    if tolerance is None:
        return ~((value == expected) | both_nan)
    mine, other = value.double(), expected.double()
    scale = max(1.0, float(other.abs().max()) if other.numel() else 1.0)
    # NaN compares false, and inf - inf is NaN
    return ~(((mine - other).abs() <= tolerance * scale) | (mine == other) | both_nan)


def expect_keys(value: Any, expected: Iterable[Any], what: str = "the result") -> None:
    """A dict with exactly these keys, in any order."""
    if not isinstance(value, dict):
        fail(f"{what} should be a dict, it is {describe(value)}{_no_return(value)}")
    missing, extra = (
        [k for k in expected if k not in value],
        [k for k in value if k not in list(expected)],
    )
    if missing:
        fail(f"{what} lacks the key {missing[0]!r}")
    if extra:
        fail(f"{what} has a key {extra[0]!r} that does not belong there")


def expect_length(
    value: Any, length: int, what: str = "the result", kind: type | None = None
) -> None:
    """A list or tuple of this many items."""
    if not isinstance(value, list | tuple) or (kind is not None and not isinstance(value, kind)):
        fail(
            f"{what} should be a {(kind or list).__name__} of {length}, it is"
            f" {describe(value)}{_no_return(value)}"
        )
    if len(value) != length:
        fail(f"{what} should have {length} items, it has {len(value)}")


def expect_raises(kind: type[Exception], call: Callable[[], Any], when: str) -> None:
    """The student's code raises ``kind`` (or a subclass) when called so."""
    try:
        result = call()
    except StudentError as error:
        if error.kind != "raised" or error.unwritten:
            raise
        if kind.__name__ not in error.bases:
            said = f": {error.message}" if error.message else ""
            fail(f"{when} should raise a {kind.__name__}, it raised a {error.type}{said}")
        return
    fail(f"{when} should raise a {kind.__name__}, it returned {describe(result)}")


def ask(call: Callable[[], Any], when: str, thought: str) -> Any:
    """The result of a call that is easily forgotten; if it raises, say when, and the
    next thought.
    """
    try:
        return call()
    except StudentError as error:
        if error.kind != "raised" or error.unwritten:
            raise
        where = f" ({error.where})" if error.where else ""
        fail(f"{when} your code raised {error.type}: {error.message}{where}. {thought}")


def expect_gradient(
    submission: Submission,
    out: Ref,
    given: Ref,
    gradient: Tensor | None,
    lost: str,
    hints: Mapping[str, str] | None = None,
) -> Tensor:
    """The gradient by ``given`` when ``gradient`` flows back from ``out``.

    Args:
        gradient: None for 1, of a scalar.
        lost: the message where no gradient comes back.
        hints: words of an exception -> the message instead.
    """
    try:
        submission.backward(out, gradient)
    except StudentError as error:
        if error.kind != "raised":
            raise
        fail(next((said for words, said in (hints or {}).items() if words in str(error)), lost))
    found = submission.grad(given)
    if found is None:
        fail(lost)
    return expect_tensor(found, what="the gradient")


def unchanged(before: Any, after: Any, what: str = "the argument") -> None:
    """The function left its argument as it was."""
    try:
        expect_equal(after, before, what)
    except Mistake:
        fail(f"your function changed {what} that it was given: work on a copy (`.clone()`)")


def _places(wrong: Tensor) -> str:
    """Where, behind "is wrong"; of a single number there is nothing to say."""
    index = wrong.nonzero()[0].tolist()
    if not index:
        return ""
    place = f"index {index[0]}" if len(index) == 1 else f"index {tuple(index)}"
    count = int(wrong.sum())
    return (
        f" at {place}" if count == 1 else f" at {count} of {wrong.numel()} places, first at {place}"
    )


def _at(value: Tensor, wrong: Tensor) -> str:
    item = value[tuple(wrong.nonzero()[0])].item()
    return f"{item:.6g}" if isinstance(item, float) else str(item)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
