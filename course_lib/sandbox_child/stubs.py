"""What a submission finds in place of ``course_lib``'s modules while it is graded.

- ``data``, ``models`` and what trains and runs (:data:`REAL`) are what they are in the
  notebook.
- ``course_lib.pruning`` and ``course_lib.cost`` import, but whatever is called there
  raises :class:`LibraryUsed`. What a lab gives its students to call is handed through
  from where it may be seen (:data:`GIVEN`).
- All else (``grading``, ``show``, the experiments, the ledger …) imports too and is
  idle, so that a notebook's first cells run: it may be called, and what it gives stands
  for nothing. Only :data:`skip` says something, by whether it is called.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

from course_lib.student_code.cells import skip
from course_lib.student_code.watch import LIBRARY, LibraryUsed

# of course_lib
REAL = (
    "student_code",
    "sandbox_child",
    "data",
    "devices",
    "models",
    "training",
    "parallel",
    "paths",
    "files",
    "modes",
    "progress",
    "ranking",
    "torchvision_operators",
)
# of what is refused, what labs give: where a model has its heads, and nothing of how to
# prune them; the rule for ties, and nothing of what is ranked
GIVEN = {
    f"course_lib.pruning.heads.{name}": "course_lib.models.attention"
    for name in ("Attention", "find_attention", "output_projections")
} | {"course_lib.pruning.weights.prune_lowest": "course_lib.ranking"}


class _Refuses:
    """Stands for anything of the library. It may be imported, named, passed on; not
    called.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise LibraryUsed(self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Refuses(f"{self._name}.{name}")

    def __mro_entries__(self, bases: Any) -> Any:
        raise LibraryUsed(self._name)


class _Idle:
    """Stands for plots, widgets, checks, experiments: callable, usable as a decorator
    or a context manager, without effect.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name}, which is idle while the grader runs your code>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Any:
        return iter(())

    def __getitem__(self, key: Any) -> Any:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if full in GIVEN:
            return getattr(importlib.import_module(GIVEN[full]), name)
        if full == "course_lib.grading.skip":
            return skip
        return _Refuses(full) if _within(full, LIBRARY) else _Idle(full)


def _within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, rest = name.partition(".")
        if package == "course_lib" and rest and rest.partition(".")[0] not in REAL:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []


def install() -> None:
    """Put the stand-ins in place, before anything of ``course_lib`` beside the worker
    is imported.
    """
    sys.meta_path.insert(0, _Finder())
