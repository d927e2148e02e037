"""Own modules: ``.py`` files that a student hands in together with the notebook.

In the sandbox they are put where the notebook's imports find them: after everything else, so
that none takes the place of a module of the course, of a package or of Python's.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent
# where modules lie that are nobody's own
_INSTALLED = tuple(
    {str(Path(place).resolve()) for place in (sys.prefix, sys.base_prefix, _PACKAGE)}
)


def unpack(files: Mapping[str, bytes], folder: str) -> list[str]:
    """Write own modules into a folder that is then looked through last by imports.

    Args:
        files: by path within the notebook's folder, ``helpers.py`` or ``tools/masks.py``.

    Returns:
        Sentences on those that were not written.
    """
    problems = []
    for name, data in sorted(files.items()):
        if taken := _taken(name):
            problems.append(
                f"{name} was not used: it has the name of {taken}, which is imported instead."
                " Rename the file, and its import in the notebook"
            )
            continue
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    sys.path.append(folder)
    return problems


def look_again() -> None:
    """Let the next import see files that were written just now: Python looks into a folder
    again when its time has changed, which has steps of milliseconds.

    Not ``importlib.invalidate_caches()``: behind Landlock the folder of the installed packages
    cannot be listed a second time.
    """
    sys.path_importer_cache.pop(os.getcwd(), None)


def files_of(namespace: Mapping[str, Any], folder: Path) -> list[str]:
    """The files of own modules that names of a notebook come from, and those that these
    import: their paths as seen from ``folder``.
    """
    found = spaces(namespace)
    paths = [Path(str(space["__file__"])).resolve() for space in found]
    return sorted(
        str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name
        for path in paths
    )


def spaces(namespace: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The namespaces of the own modules that names come from, and of those these import."""
    found: dict[int, dict[str, Any]] = {}
    waiting = [namespace]
    while waiting:
        for value in list(waiting.pop().values()):
            space = _space(value)
            if space is not namespace and id(space) not in found and _is_own(space):
                found[id(space)] = space
                waiting.append(space)
    return list(found.values())


def _space(value: object) -> dict[str, Any]:
    """The namespace in which a function or class was defined; a module's own."""
    try:
        if isinstance(value, ModuleType):
            return vars(value)
        if isinstance(value, FunctionType):
            return value.__globals__
        module = getattr(value, "__module__", None)
        return {} if module == "__main__" else vars(sys.modules[str(module)])
    except Exception:  # a student's object may do anything when it is asked
        return {}


def _is_own(space: dict[str, Any]) -> bool:
    file = space.get("__file__")
    if not isinstance(file, str) or not file.endswith(".py") or not os.path.isfile(file):
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(place) for place in _INSTALLED) and not (
        {"site-packages", "dist-packages"} & set(path.parts)
    )


def _taken(name: str) -> str:
    """Which other module has the name, in words; "" where none has."""
    top = name.partition("/")[0].removesuffix(".py")
    if top in sys.stdlib_module_names:
        return f"Python's own module {top}"
    if top == "course_lib":
        return "the course's library"
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return f"the module {top}"
    # a folder without code on the path has an empty spec: any module goes first
    return f"the installed package {top}" if spec is not None and spec.origin is not None else ""
