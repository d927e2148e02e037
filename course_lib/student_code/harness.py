"""Drives a student's names: call, put, differentiate, enter a context. Runs what it is
given and says what came out.

The same harness serves the notebook (in the student's own process) and the isolated
worker (behind a socket): a request is a dict and blobs, so is the reply, and every
value on the way is plain data (:mod:`course_lib.student_code.plain_data`).
"""

from __future__ import annotations

import linecache
import random
import traceback
import types
from collections import ChainMap
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.student_code import helpers, own
from course_lib.student_code.plain_data import Packer, Ref, Unpacker, WireError
from course_lib.student_code.watch import LibraryUsed, unwatched, watched

Ask = Callable[[int, tuple[Any, ...], dict[str, Any]], Any]
_MISSING = object()


class Missing(Exception):
    """A graded name that the submission does not define."""


class Lost(Exception):
    """A graded name that is missing for a reason that is known."""


class NotRun(Exception):
    """A graded name whose cell has not run yet."""


_KINDS: dict[type[BaseException], str] = {Missing: "missing", Lost: "lost", NotRun: "not run"}


class Harness:
    """Answers the grader's requests about one namespace.

    Args:
        namespace: the student's names.
        ask: called when the student's code calls a proxy: gives the grader's answer.
        lost: of names that the code should have defined and did not, the reason in a
            sentence; under "*" that of names which nothing shows.
        graded: the names that the lab asks for; none of them is another one under a wrong
            name.
        all_ran: have all cells run? In a notebook that a student is working on they have
            not, and a name that is not there may come with a later cell.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        ask: Ask,
        lost: dict[str, str] | None = None,
        graded: Collection[str] = (),
        all_ran: bool = True,
    ) -> None:
        self.namespace = namespace
        self.ask = ask
        self.lost = lost or {}
        self.graded, self.all_ran = graded, all_ran
        self.kept: dict[int, Any] = {}
        self.forbidden: tuple[str, ...] = ()
        self.replaced: list[tuple[dict[str, Any], str, Any]] = []  # where, name, value before

    def handle(
        self, header: dict[str, Any], blobs: list[bytes]
    ) -> tuple[dict[str, Any], list[bytes]]:
        """One request, one reply; whatever the student's code raises becomes part of
        the reply.
        """
        packer = Packer()
        try:
            unpack = Unpacker(blobs, self._resolve, build=True).unpack
            result = getattr(self, "_" + str(header.pop("op")))(
                **{k: unpack(v) for k, v in header.items()}
            )
            try:
                return {"value": packer.pack(result)}, packer.blobs
            except WireError as error:
                return {"error": failure("result", error)}, []
        except LibraryUsed as error:
            return {"error": failure("library", error) | {"where": "", "text": ""}}, []
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failed = failure(_KINDS.get(type(error), "raised"), error)
            if isinstance(error, NameError) and (why := self._why(error.name)):
                failed["message"] += f" ({why})"
            return {"error": failed}, []

    # --- what can be asked ------------------------------------------------------------

    def _begin(self, seed: int, forbidden: list[str]) -> None:
        """A new test: everything kept is let go, replaced names come back, chance
        starts anew.
        """
        self._restore()
        self.kept.clear()
        self.forbidden = tuple(forbidden)
        start_chance(seed)
        torch.set_default_dtype(torch.float32)  # as the grader draws

    def _call(
        self,
        path: str,
        args: tuple,
        kwargs: dict,
        on: Any = _MISSING,
        keep: bool = False,
        returning: tuple = (),
    ) -> Any:
        """Call a student's function; ``returning`` names argument positions to send
        back as they are afterwards.
        """
        function = self._find(path, on)
        if not callable(function):
            kind = type(function).__name__
            raise Missing(f"{path} is a{'n' * (kind[0] in 'aeiou')} {kind} and no function")
        with watched(self.forbidden):
            result = function(*args, **kwargs)
        result = self._keep(result) if keep else result
        return (result, [args[i] for i in returning]) if returning else result

    def _put(self, value: Any, requires_grad: bool = False) -> Ref:
        if requires_grad:
            value = value.requires_grad_()
        return self._keep(value)

    def _helper(self, name: str, settings: dict) -> Ref:
        return self._keep(helpers.HELPERS[name](**settings))

    def _get(self, on: Any, path: str = "") -> Any:
        return _walk(on, path)

    def _value(self, name: str) -> Any:
        if name not in self.namespace:
            raise self._absent(name)
        value = self.namespace[name]
        return {"unanswered": True} if value is ... else {"answer": value}

    def _exit(self, on: Any, raising: bool = False) -> bool:
        """Leave a context, as at its end or as when an exception passes through; is the
        exception swallowed?
        """
        with watched(self.forbidden):
            if not raising:
                return bool(on.__exit__(None, None, None))
            error = RuntimeError("raised inside the context by the test")
            try:
                return bool(on.__exit__(type(error), error, None))
            except RuntimeError as passed:
                if passed is error:
                    return False
                raise

    def _uses(self, name: str, among: list[str]) -> list[str]:
        """Which of ``among`` the function reaches through the student's own
        functions.
        """
        # what the notebook means by a name, else what one of its own modules does
        known = ChainMap(self.namespace, *own.spaces(self.namespace))
        seen: set[str] = set()
        open_names = [name]
        while open_names:
            for used in _names_in(known.get(open_names.pop())):
                # a name that is not there may be one that got lost: a cell that is no
                # Python, a function with another name
                if used not in seen and (known.get(used) is not None or used in among):
                    seen.add(used)
                    open_names.append(used)
        return [other for other in among if other in seen]

    def _replace(self, functions: dict) -> None:
        """Bind the grader's proxies under the names of earlier questions; also in own
        modules, whose functions call each other there.
        """
        modules = own.spaces(self.namespace) if functions else []
        for name, function in functions.items():
            others = [space for space in modules if name in space]
            for space in (self.namespace, *others):
                self.replaced.append((space, name, space.get(name, _MISSING)))
                space[name] = function

    def _restore(self) -> None:
        """Give replaced names back what they were."""
        for space, name, value in reversed(self.replaced):
            if value is _MISSING:
                space.pop(name, None)
            else:
                space[name] = value
        self.replaced.clear()

    # --- inside -----------------------------------------------------------------------

    def _keep(self, value: Any) -> Ref:
        ref = Ref(len(self.kept) + 1)
        self.kept[ref.id] = value
        return ref

    def _find(self, path: str, on: Any) -> Any:
        if on is not _MISSING:
            return _walk(on, path)
        name, _, rest = path.partition(".")
        if name not in self.namespace:
            if why := self._why(name):
                raise Lost(f"{name} is not defined: {why}")
            own = [n for n, v in self.namespace.items() if n not in self.graded and self._own(v)]
            if near := get_close_matches(name, own, 1, 0.75):
                raise Missing(
                    f"{name} is not defined, but {near[0]} is: is that it, under another name?"
                )
            raise self._absent(name)
        return _walk(self.namespace[name], rest)

    def _absent(self, name: str) -> Exception:
        return Missing(f"{name} is not defined") if self.all_ran else NotRun(name)

    def _why(self, name: str | None) -> str:
        """Why a name is not there; "" where that is not known."""
        return self.lost.get(name or "") or self.lost.get("*", "")

    def _own(self, value: Any) -> bool:
        """Is it a function or class that the submission wrote, and no imported one?"""
        if isinstance(value, types.FunctionType):
            return value.__globals__ is self.namespace
        return isinstance(value, type) and value.__module__ == self.namespace.get("__name__")

    def _resolve(self, data: dict[str, Any]) -> Any:
        if "ref" in data:
            return self.kept[data["ref"]]
        number = data["proxy"]

        def proxy(*args: Any, **kwargs: Any) -> Any:
            answer = self.ask(number, args, kwargs)
            return (
                _take(next(iter((*args, *kwargs.values()))), answer)
                if data.get("in_place")
                else answer
            )

        proxy.__name__ = str(data.get("name", "function"))
        return unwatched(proxy)


def _walk(value: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        value = getattr(value, part)
    return value


@torch.no_grad()
def _take(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Give a module this state, in the tensors it has."""
    own = module.state_dict()
    for name, value in state.items():
        own[name].copy_(value)


def start_chance(seed: int) -> None:
    """Whatever the code draws without a seed of its own, it draws the same in every
    run.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _names_in(value: Any) -> set[str]:
    """The global names a function or class mentions, inner functions included."""
    if isinstance(value, type):
        return {
            n for part in vars(value).values() for n in _names_in(getattr(part, "__func__", part))
        }
    code = getattr(value, "__code__", value)
    if not isinstance(code, types.CodeType):
        return set()
    return set(code.co_names).union(
        *(_names_in(c) for c in code.co_consts if isinstance(c, types.CodeType))
    )


def failure(kind: str, error: BaseException) -> dict[str, Any]:
    where, text = "", ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if (
            "site-packages" not in frame.filename
            and "course_lib" not in frame.filename
            and "/lib/python" not in frame.filename
        ):
            text = (
                linecache.getline(frame.filename, frame.lineno or 0) or frame.line or ""
            ).strip()[:200]
            where = (
                f"line {frame.lineno} of {frame.name}"
                if frame.name != "<module>"
                else f"line {frame.lineno}"
            )
            break
    try:
        message = str(error)[:500]
    except Exception:
        message = ""
    bases = [c.__name__[:80] for c in type(error).__mro__][:20]
    return {
        "kind": kind,
        "type": type(error).__name__[:80],
        "bases": bases,
        "message": message,
        "where": where,
        "text": text,
    }
