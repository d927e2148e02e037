"""What passes between the claims and a student's functions, written down: what was
asked, what came, what the library answers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.grading.claims.alarm import WorkerLost
from course_lib.grading.claims.expect import Mistake, describe, expect_close, shortened
from course_lib.grading.claims.student import Proxy, StudentError, Submission, Transport
from course_lib.grading.marking.marker import explain
from course_lib.labs import Contract
from course_lib.student_code.plain_data import Ref

VALUES = 64  # numbers of a tensor that are shown; of larger ones the corners
MAX_SHOWN = 4000  # characters of one value
# what the student's code can be wrong in
_ASKED = ("call", "value", "get", "exit")


@dataclass
class Call:
    """One request to the student's code, in words.

    Attributes:
        asked: what was called, with which arguments, a line each. came: what came back,
            or how it failed.
        expected: what the library answers to the same; "" where it cannot be asked.
            apart: in what way that is not what came.
    """

    asked: list[str]
    came: str
    expected: str = ""
    apart: str = ""

    @property
    def alike(self) -> bool:
        """Did the code answer as the library does?"""
        return bool(self.expected) and not self.apart


@dataclass
class Run:
    """One test, run once.

    Attributes:
        test: its name. given: the functions that the library answered in the student's
            place.
    """

    test: str
    given: list[str]
    calls: list[Call] = field(default_factory=list)


class Witness(Submission):
    """A submission that writes down in the last of ``runs`` what is asked of it."""

    def __init__(
        self,
        transport: Transport,
        contract: Contract,
        runs: list[Run],
        handed_in: Mapping[str, bytes | str] | None = None,
    ) -> None:
        super().__init__(transport, handed_in)
        self._contract, self._runs = contract, runs

    def _ask(self, op: str, **fields: Any) -> Any:
        if op not in _ASKED or not self._runs:
            return super()._ask(op, **fields)
        calls, asked, reference = (
            self._runs[-1].calls,
            _asked(op, fields),
            self._reference(op, fields),
        )
        try:
            came = super()._ask(op, **fields)
        except StudentError as error:
            calls.append(Call(asked, explain(error, "this question"), *_answer(reference)))
            raise
        except WorkerLost as lost:
            calls.append(Call(asked, str(lost), *_answer(reference)))
            raise
        calls.append(Call(asked, value(came), *_answer(reference, came)))
        return came

    def _reference(self, op: str, fields: dict[str, Any]) -> Callable[[], Any] | None:
        """The library's answer to the same call; None where it has none, or arguments
        are no plain data.
        """
        function = (
            self._contract.function(fields.get("path", ""))
            if op == "call" and "on" not in fields
            else None
        )
        if (
            function is None
            or fields["returning"]
            or not _plain([fields["args"], fields["kwargs"]])
        ):
            return None
        # the student's code may change them
        args, kwargs = copy.deepcopy((fields["args"], fields["kwargs"]))
        return lambda: function(*args, **kwargs)


def _answer(reference: Callable[[], Any] | None, came: Any = ...) -> tuple[str, str]:
    """What the library answers, in words, and in what way it is another than what came,
    if anything did.
    """
    if reference is None:
        return "", ""
    with torch.random.fork_rng(devices=[]):  # claims may draw from it next
        try:
            right = reference()
        except Exception as error:
            return f"{type(error).__name__}: {error}", "" if came is ... else "the library raises"
    if came is ...:
        return value(right), "the library returns"
    try:
        expect_close(came, right, "what came")
    except Mistake as mistake:
        return value(right), str(mistake)
    except (RuntimeError, TypeError, ValueError):  # so odd that it cannot be compared
        return value(right), "it cannot be compared"
    if _dtypes(came) != _dtypes(right):  # which expect_close leaves to the claims
        return value(right), "the numbers agree, the dtypes do not"
    return value(right), ""


def _dtypes(what: Any) -> Any:
    """The dtypes of the arrays in a value, in its own structure."""
    if isinstance(what, dict):
        return {key: _dtypes(item) for key, item in what.items()}
    if isinstance(what, list | tuple):
        return list(map(_dtypes, what))
    return str(what.dtype) if isinstance(what, Tensor | np.ndarray) else None


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, Tensor | np.ndarray | bool | int | float | str)


def _asked(op: str, fields: dict[str, Any]) -> list[str]:
    on = f"{value(fields['on'])} . " if "on" in fields else ""
    if op == "call":
        arguments = [value(a) for a in fields["args"]] + [
            f"{k} = {value(a)}" for k, a in fields["kwargs"].items()
        ]
        return [f"{on}{fields['path']}", *arguments]
    others = [
        f"{k} = {value(a)}"
        for k, a in fields.items()
        if k != "on" and not (a is None or isinstance(a, str))
    ]
    return [f"{on}{fields.get('path') or fields.get('name') or op}", *others]


def value(what: Any) -> str:
    """A value as somebody can look at it: a small tensor with its numbers."""
    return shortened(_value(what), MAX_SHOWN)


def _value(what: Any) -> str:
    if isinstance(what, Tensor):
        numbers = what.detach()
        array = (numbers.float() if numbers.dtype == torch.bfloat16 else numbers).cpu().numpy()
        text = np.array2string(
            array, threshold=VALUES, edgeitems=2, max_line_width=100, separator=", "
        )
        text = "\n".join(line for line in text.splitlines() if line.strip())
        return (
            f"{describe(what).partition(' of shape')[0].partition(' [')[0]} of shape"
            f" {tuple(what.shape)}\n{text}"
        )
    if isinstance(what, dict) and len(what) <= 20:
        return "a dict\n" + "\n".join(f"{key!r}: {_value(item)}" for key, item in what.items())
    if (
        isinstance(what, list | tuple)
        and len(what) <= 20
        and any(isinstance(item, Tensor) for item in what)
    ):
        return f"a {type(what).__name__}\n" + "\n".join(_value(item) for item in what)
    if isinstance(what, Ref):
        return f"‹kept {what.id}›"
    if isinstance(what, Proxy):
        return f"a function ({what.name})"
    if isinstance(what, nn.Module):
        return f"a module ({type(what).__name__})"
    return describe(what)
