"""Noticing, while a student's function runs, that it calls what the question asks to
write.

A profile hook sees every call that Python makes, whatever name the caller gave it, also
in threads that the function starts. Where C makes the call (``map``,
``operator.methodcaller``, ``torch.ops``), torch's own dispatcher says which operator
runs. What was noticed is said at the end, too, if the code swallowed it; and so is a
hook that was taken away. This is a rule about where code comes from, kept in the
student's own process, not a sandbox: who rewrites this module gets as far as who pastes
torch's source into a cell. The library itself is out of reach: a submission that is
graded cannot see it, see :mod:`course_lib.sandbox_child.stubs`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import CodeType, FrameType
from typing import Any

LIBRARY = ("course_lib.pruning", "course_lib.cost", "course_lib.perplexity")
# torch calls these round every step of every optimizer, also of a student's who uses
# nothing of the library's
NOT_THE_STUDENTS = (
    "course_lib.pruning.weights.masks._before_any_step",
    "course_lib.pruning.weights.masks._after_any_step",
)

# by what is forbidden: code that was looked at, by its number, and itself, so that no
# other gets that number
_HARMLESS: dict[tuple[str, ...], dict[int, CodeType]] = {}


class LibraryUsed(BaseException):
    """The code called a function that the question asks to write. Not an Exception, so
    that few ``except`` swallow it.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@contextmanager
def watched(forbidden: tuple[str, ...] = ()) -> Iterator[None]:
    """Raise :class:`LibraryUsed` from any call into the library or into ``forbidden``.

    Args:
        forbidden: dotted names; of modules ("scipy.sparse": everything inside) or of
            functions ("torch.Tensor.to_sparse_csr").
    """
    modules = LIBRARY + forbidden
    names = {name.rpartition(".")[2]: name for name in forbidden}
    noticed: list[str] = []
    harmless = _HARMLESS.setdefault(forbidden, {})

    def stop(what: str) -> None:
        noticed.append(what)
        sys.setprofile(None)
        raise LibraryUsed(what)

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            if id(code) in harmless:
                return
            module = frame.f_globals.get("__name__") or ""
            if module.startswith(
                ("course_lib", "torch", "transformers", "scipy", "sklearn", "numpy")
            ):
                inside = next(
                    (m for m in modules if module == m or module.startswith(m + ".")), None
                )
                if (
                    inside is not None
                    and (called := f"{module}.{code.co_qualname}") not in NOT_THE_STUDENTS
                ):
                    stop(called)
                called = names.get(code.co_name, "")
                if called.partition(".")[0] == module.partition(".")[0]:
                    stop(called)
            harmless[id(code)] = code
        elif names and event == "c_call":
            name = getattr(arg, "__name__", "")
            if name in names and type(arg).__name__ in (
                "builtin_function_or_method",
                "method_descriptor",
            ):
                owner = getattr(arg, "__self__", None)
                if isinstance(owner, dict | list | str | set | tuple | bytes):
                    return
                stop(names[name])

    before, of_threads = sys.getprofile(), threading.getprofile()
    sys.setprofile(hook)
    threading.setprofile(hook)
    try:
        with _operators(forbidden, stop):
            yield
    finally:
        taken_away = sys.getprofile() is not hook and not noticed
        sys.setprofile(before)
        threading.setprofile(of_threads)
        if noticed or taken_away:
            raise LibraryUsed(
                noticed[0] if noticed else "sys.setprofile, which hides what else is called"
            )


def _operators(
    forbidden: tuple[str, ...], stop: Callable[[str], None]
) -> AbstractContextManager[object]:
    """While it is entered, ``stop`` is called before an operator of torch runs that one
    of the forbidden functions is made of.
    """
    aten = sys.modules["torch"].ops.aten if "torch" in sys.modules else None
    named = {name.rpartition(".")[2]: name for name in forbidden if name.startswith("torch.")}
    functions = {last.lstrip("_"): name for last, name in named.items() if hasattr(aten, last)}
    if not functions:
        return nullcontext()
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            operator = func.__name__.partition(".")[0].lstrip("_")
            if (
                called := next(
                    (name for key, name in functions.items() if operator.startswith(key)), None
                )
            ) is not None:
                stop(called)
            return func(*args, **(kwargs or {}))

    return Watch()


def unwatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """A version of ``function`` during which nothing is watched: what the grader hands
    in may use the library.
    """

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
