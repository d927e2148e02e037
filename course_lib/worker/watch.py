"""Noticing, while a student's function runs, that it calls what the question asks to write.

A profile hook sees every call, Python's and C's, whatever name the caller gave it. Where the hook is not trusted (a hostile
submission could remove it) nothing is lost: there the library is not even present, see :mod:`course_lib.worker.stubs`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

LIBRARY = ("course_lib.pruning", "course_lib.cost")
# torch calls it after every step of every optimizer, also of a student's who uses nothing of the library's
NOT_THE_STUDENTS = "course_lib.pruning.masks._after_any_step"


class LibraryUsed(BaseException):
    """The code called a function that the question asks to write. Not an Exception, so that no ``except`` swallows it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@contextmanager
def watched(forbidden: tuple[str, ...] = ()) -> Iterator[None]:
    """Raise :class:`LibraryUsed` from any call into the library or into ``forbidden``.

    Args:
        forbidden: dotted names; of modules ("scipy.sparse": everything inside) or of functions ("torch.Tensor.to_sparse_csr").
    """
    modules = LIBRARY + forbidden
    names = {name.rpartition(".")[2]: name for name in forbidden}

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            module = frame.f_globals.get("__name__") or ""
            if not module.startswith(("course_lib", "torch", "scipy", "sklearn", "numpy")):
                return
            inside = next((m for m in modules if module == m or module.startswith(m + ".")), None)
            if inside is not None and (called := f"{module}.{frame.f_code.co_qualname}") != NOT_THE_STUDENTS:
                _stop(called)
            if frame.f_code.co_name in names and _same(names[frame.f_code.co_name], module):
                _stop(names[frame.f_code.co_name])
        elif event == "c_call":
            name = getattr(arg, "__name__", "")
            if name in names and type(arg).__name__ in ("builtin_function_or_method", "method_descriptor"):
                owner = getattr(arg, "__self__", None)
                if isinstance(owner, dict | list | str | set | tuple | bytes):
                    return
                _stop(names[name])

    before = sys.getprofile()
    sys.setprofile(hook)
    try:
        yield
    finally:
        sys.setprofile(before)


def _same(forbidden: str, module: str) -> bool:
    return forbidden.split(".")[0] == module.split(".")[0]


def _stop(what: str) -> None:
    sys.setprofile(None)
    raise LibraryUsed(what)


def unwatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """A version of ``function`` during which nothing is watched: what the grader hands in may use the library."""

    def call(*args: Any, **kwargs: Any) -> Any:
        before = sys.getprofile()
        sys.setprofile(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.setprofile(before)

    call.__name__ = getattr(function, "__name__", "function")
    call.__doc__ = function.__doc__
    return call
