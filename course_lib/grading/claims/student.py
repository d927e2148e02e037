"""A submission as the tests see it: call ``submission.magnitude_mask(w, 0.5)`` and get
plain data back.

The same object stands for the names of a notebook (self-check, in the student's own
process) and for a worker that holds them (batch grading): only the transport differs.
Arguments are copied on the way in either case.
"""

from __future__ import annotations

import builtins
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.grading.claims.alarm import WorkerLost, limited
from course_lib.labs.contract import Helper
from course_lib.student_code import plain_data
from course_lib.student_code.harness import Harness
from course_lib.student_code.plain_data import Model, Ref

MAX_NUMBERS = 1 << 23  # in the arguments of one call of the grader's by the student's code
MAX_CALLS_OF_THAT_SIZE = 8  # within one test
# for one call of a student's function in the notebook; the grader gives it less
CHECK_SECONDS = 30.0


class StudentError(Exception):
    """The student's code raised.

    Attributes:
        kind: "raised", "missing" (not defined), "lost" (not defined, for a reason that
            the message says), "not run" (not defined yet: the message is the name),
            "library" (called what it should write), "result" (no plain data).
        type, bases: the exception's class name and those of its bases. message, where,
            text: what, on which line.
    """

    def __init__(self, failure: dict[str, Any]) -> None:
        def said(key: str) -> str:
            return str(failure.get(key, ""))[:500]

        self.kind, self.type, self.message = said("kind"), said("type"), said("message")
        self.where, self.text = said("where"), said("text")
        bases = failure.get("bases", [])
        self.bases = [str(b)[:80] for b in bases] if isinstance(bases, list) else []
        super().__init__(f"{self.type}: {self.message}")

    @property
    def unwritten(self) -> bool:
        """Is it the handout's own placeholder that was reached?"""
        return self.type == "NotImplementedError" and "write this" in self.message


class Proxy:
    """A function of the grader's that the student's code may call; plain data (and
    modules, as :class:`Model`) go in and out.
    """

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "function")


class InPlace:
    """A function that changes the module given first, as one of plain data: it returns
    the state that module is to have.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, model: Model, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if not isinstance(model, Model):
            raise TypeError(
                f"the first argument is the module to change, not a {type(model).__name__}"
            )
        module = model.build()
        self.function(module, *args, **kwargs)
        return module.state_dict()


def _within_reason(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as it answers the student's code: it refuses what would keep the
    grader busy or fill its memory.
    """
    left = MAX_NUMBERS * MAX_CALLS_OF_THAT_SIZE

    def answer(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        size = sum(
            map(numbers, (*args, *(value for name, value in kwargs.items() if name != "seed")))
        )
        if size > min(MAX_NUMBERS, left):
            raise ValueError(
                f"called with more than {MAX_NUMBERS:,} numbers: try it on something small"
            )
        left -= size
        result = function(*args, **kwargs)
        if numbers(result) > MAX_NUMBERS:
            raise ValueError(
                f"that would be more than {MAX_NUMBERS:,} numbers: try it on something small"
            )
        return result

    return answer


def numbers(value: Any) -> int:
    """How many numbers a value holds or stands for: a whole number may say how many of
    something there are to be, and whole numbers together may be a shape. Counts no
    further than is needed to know that there are too many.
    """
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, np.ndarray):
        return int(value.size)
    if isinstance(value, Model):
        return numbers(value.state)
    if isinstance(value, int | np.integer):
        return max(1, abs(int(value)))
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, tuple | list):
        return 1
    if value and all(isinstance(n, int | np.integer) for n in value):
        product = 1
        for n in value:
            product *= max(1, abs(int(n)))
            if product > MAX_NUMBERS:
                break
        return max(len(value), product)
    return sum(map(numbers, value))


class Transport(Protocol):
    """Carries one request to the student's names and brings the reply."""

    skipped: set[str]

    def call(
        self, header: dict[str, Any], blobs: list[bytes], proxies: dict[int, Callable[..., Any]]
    ) -> tuple[dict[str, Any], list[bytes]]: ...


class InProcess:
    """The notebook's own names, driven in this process. A context manager: afterwards
    names, chance and torch's default type are as they were.

    Args:
        graded: the names that the lab asks for. all_ran: have all of the notebook's cells
            run?
    """

    def __init__(
        self, namespace: dict[str, Any], graded: Collection[str] = (), all_ran: bool = True
    ) -> None:
        self.skipped: set[str] = set()
        self.proxies: dict[int, Callable[..., Any]] = {}
        self.harness = Harness(namespace, self._ask, graded=graded, all_ran=all_ran)

    def __enter__(self) -> InProcess:
        self._before = (
            random.getstate(),
            np.random.get_state(),
            torch.get_rng_state(),
            torch.get_default_dtype(),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.harness.handle({"op": "restore"}, [])
        pythons, numpys, torchs, dtype = self._before
        random.setstate(pythons)
        np.random.set_state(numpys)
        torch.set_rng_state(torchs)
        torch.set_default_dtype(dtype)

    def call(
        self, header: dict[str, Any], blobs: list[bytes], proxies: dict[int, Callable[..., Any]]
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Raises WorkerLost, as a worker does, where the code takes longer than
        ``CHECK_SECONDS``.
        """
        self.proxies = proxies
        typed, builtins.input = builtins.input, _refuse_input
        try:
            answer, rung = limited(CHECK_SECONDS, lambda: self.harness.handle(header, blobs))
        finally:
            builtins.input = typed
        reply, blobs = answer or ({}, [])
        if rung:
            where = reply.get("error", {}).get("where")
            raise WorkerLost(
                f"your code took longer than {CHECK_SECONDS:.0f} seconds"
                + (f", and was then at {where}: {reply['error']['text']}" if where else "")
                + " (an endless loop?)"
            )
        return reply, blobs

    def _ask(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        packer = plain_data.Packer()
        there = packer.pack([args, kwargs])
        args, kwargs = plain_data.Unpacker(packer.blobs).unpack(there)
        packer = plain_data.Packer()
        back = packer.pack(self.proxies[number](*args, **kwargs))
        return plain_data.Unpacker(packer.blobs).unpack(back)


def _refuse_input(*_: object) -> NoReturn:
    """In the place of ``input``; where a notebook is graded, it raises the same."""
    raise EOFError("nobody can type while a claim is tried, so do without input()")


class Submission:
    """A student's names behind a transport. Any other attribute is one of the student's
    functions.

    Attributes:
        handed_in: by name, what was handed in beside the notebook: bytes, or a sentence
            that says why there are none.
    """

    def __init__(
        self, transport: Transport, handed_in: Mapping[str, bytes | str] | None = None
    ) -> None:
        self._transport = transport
        self.handed_in: Mapping[str, bytes | str] = handed_in or {}
        self._proxies: dict[int, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__"):
            raise AttributeError(name)
        return Function(self, name)

    @property
    def skipped(self) -> set[str]:
        """The questions that the code gave up, where the transport knows."""
        return self._transport.skipped

    def begin(self, seed: int, forbidden: tuple[str, ...] = ()) -> None:
        """Start a question: forget what was kept, start chance anew."""
        self._proxies.clear()
        self._ask("begin", seed=seed, forbidden=list(forbidden))

    def call(
        self,
        path: str,
        *args: Any,
        on: Ref | None = None,
        keep: bool = False,
        returning: tuple[int, ...] = (),
        **kwargs: Any,
    ) -> Any:
        """Call ``path`` among the student's names, or on something kept.

        Args:
            keep: leave the result in the worker and return a :class:`Ref`.
            returning: positions of arguments to send back too, as they are after the
                call: ``(result, [arguments])``.

        Raises:
            StudentError: if the code raised, is not there, or returned what is no plain
                data.
        """
        extra: dict[str, Any] = {} if on is None else {"on": on}
        return self._ask(
            "call",
            path=path,
            args=args,
            kwargs=kwargs,
            keep=keep,
            returning=tuple(returning),
            **extra,
        )

    def put(self, value: Any, requires_grad: bool = False) -> Ref:
        """Make a tensor, or a module, in the worker."""
        return self._ask("put", value=value, requires_grad=requires_grad)

    def helper(self, name: str, **settings: Any) -> Ref:
        """Make one of :data:`course_lib.student_code.helpers.HELPERS` in the worker; read its
        notes by ``get(ref, "log")``.
        """
        return self._ask("helper", name=name, settings=settings)

    def get(self, on: Ref, path: str = "") -> Any:
        """What is kept, or an attribute of it, as plain data."""
        return self._ask("get", on=on, path=path)

    def value(self, name: str) -> Any:
        """A value that the student typed in; ``...`` where it is still the
        handout's.
        """
        answer = self._ask("value", name=name)
        return answer.get("answer", ...) if isinstance(answer, dict) else ...

    def backward(self, on: Ref, gradient: Tensor | None = None) -> None:
        """``on.backward(gradient)``."""
        self.call("backward", gradient, on=on)

    def grad(self, on: Ref) -> Any:
        """``on.grad``, a tensor or None."""
        return self.get(on, "grad")

    @contextmanager
    def within(self, context: Ref, raising: bool = False) -> Iterator[Ref]:
        """Enter a kept context manager; leave it as at its end, or as when an exception
        passes through.
        """
        yield self.call("__enter__", on=context, keep=True)
        self.leave(context, raising)

    def leave(self, context: Ref, raising: bool = False) -> bool:
        """Leave a kept context manager that was entered: as in :meth:`within`. Did it
        swallow the exception?
        """
        return self._ask("exit", on=context, raising=raising) is True

    def train(self, on: Ref, mode: bool = True) -> None:
        """``on.train(mode)``."""
        self.call("train", mode, on=on, keep=True)

    def uses(self, name: str, among: list[str]) -> list[str]:
        """Which of ``among`` the function ``name`` reaches."""
        found = self._ask("uses", name=name, among=among)
        return (
            [n for n in among if any(isinstance(f, str) and f == n for f in found)]
            if isinstance(found, list)
            else []
        )

    def replace(self, functions: Mapping[str, Callable[..., Any] | Ref | Helper]) -> None:
        """Answer the given names from here on by the grader's own functions, or by
        helpers, until :meth:`restore`.
        """

        def stand_in(name: str, function: Callable[..., Any] | Ref | Helper) -> Any:
            if isinstance(function, Helper):
                return self.helper(function.name, **function.settings)
            return function if isinstance(function, Ref) else Proxy(function, name)

        given = {name: stand_in(name, function) for name, function in functions.items()}
        self._ask("replace", functions=given)

    def restore(self) -> None:
        """Undo :meth:`replace`."""
        self._ask("restore")

    def _ask(self, op: str, **fields: Any) -> Any:
        packer = plain_data.Packer(self._export)
        header = {key: packer.pack(value) for key, value in fields.items()}
        reply, blobs = self._transport.call({**header, "op": op}, packer.blobs, self._proxies)
        if "error" in reply:
            failure = reply["error"]
            raise StudentError(
                failure
                if isinstance(failure, dict)
                else {"kind": "result", "message": "no exception"}
            )
        try:
            return plain_data.Unpacker(blobs).unpack(reply.get("value"))
        except plain_data.WireError as error:
            raise StudentError(
                {"kind": "result", "type": "WireError", "message": str(error)}
            ) from None

    def _export(self, value: Any) -> Any:
        if isinstance(value, Proxy):
            number = len(self._proxies) + 1
            self._proxies[number] = _within_reason(value.function)
            return {
                "proxy": number,
                "name": value.name,
                "in_place": isinstance(value.function, InPlace),
            }
        if isinstance(value, nn.Module | Model):
            return None
        if callable(value):
            raise TypeError(
                f"{value!r} cannot travel to the student's code: wrap it as Proxy(function)"
            )
        return None


class Function:
    """One of the student's functions, or an attribute of one:
    ``submission.PrunedLinear.apply``.
    """

    def __init__(self, submission: Submission, path: str) -> None:
        self._submission, self._path = submission, path

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__"):
            raise AttributeError(name)
        return Function(self._submission, f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._submission.call(self._path, *args, **kwargs)
