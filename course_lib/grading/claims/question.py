"""The tests' vocabulary: a test is a claim about one question, worth points; a failure
names the likely mistake.

A lab's claims (``tests/labs/labNN/visible.py`` and ``hidden.py``) are functions
``test_…(submission, draw)`` under :func:`question`. pytest runs them against the
solution; ``check`` and ``course grade`` run the same functions against a student's
names.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from course_lib.grading.claims.student import Submission
from course_lib.labs.contract import order


@dataclass(frozen=True)
class Test:
    """One test of a question."""

    question: str
    points: float
    visible: bool
    claim: str
    run: Callable[[Submission, Any], None]
    name: str
    optional: bool = False  # of a question whose points are a bonus

    __test__ = False  # not a test class for pytest


def question(
    id: str, *, points: float, claim: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a test function: which question it belongs to, its points, what it claims.

    Args:
        id: the question, "1.4".
        claim: what is true when the test passes, in a few words for a table.

    Raises:
        TypeError: if ``points`` is no number.
    """
    if not isinstance(points, int | float):
        raise TypeError(f"points must be a number, such as 0.5; got {points!r}")

    def mark(function: Callable[..., None]) -> Callable[..., None]:
        visible = not function.__module__.endswith(".hidden")  # the file says it
        function.__dict__["course_test"] = Test(
            id, points, visible, claim, function, function.__name__
        )
        return function

    return mark


FILES = (
    "visible.py",
    "hidden.py",
)  # of a lab's claims: those that students have too, and those that only the grader sees
Texts = tuple[tuple[str, str], ...]  # of these files: name, text


def texts_in(folder: Path) -> Texts:
    """The texts of a lab's claims, ``tests/labs/lab01``; in a student's folder only the
    visible ones.

    Raises:
        FileNotFoundError: if there are none; says which labs have some.
    """
    found = tuple(
        (name, (folder / name).read_text(encoding="utf-8"))
        for name in FILES
        if (folder / name).is_file()
    )
    if found:
        return found
    there = sorted(path.parent.name for path in folder.parent.glob(f"lab*/{FILES[0]}"))
    remedy = (
        f"there are {', '.join(there)}"
        if there
        else "work inside the course's folder, or set COURSE_ROOT to it"
    )
    raise FileNotFoundError(f"{folder.name} has no claims in {folder}: {remedy}")


_importing = threading.Lock()  # two threads would import each other's half-made modules


def tests_in(texts: Texts, folder: str) -> list[Test]:
    """The tests in these texts, by question, the visible ones first.

    Args:
        folder: names the files in tracebacks, and need not exist on this machine.
    """
    with _importing:
        # a package, so that hidden claims can import from the visible ones
        package = ModuleType(f"course_claims_{Path(folder).name}")
        package.__path__ = []
        sys.modules[package.__name__] = package
        found: list[Test] = []
        for name, text in texts:
            module = ModuleType(f"{package.__name__}.{Path(name).stem}")
            module.__file__ = str(Path(folder, name))
            module.__package__ = package.__name__
            sys.modules[module.__name__] = module
            exec(compile(text, module.__file__, "exec", dont_inherit=True), module.__dict__)
            own = (
                value
                for value in vars(module).values()
                if getattr(value, "__module__", "") == module.__name__
            )
            found += [value.course_test for value in own if hasattr(value, "course_test")]
    return sorted(found, key=lambda t: order(t.question))


def wrong_functions(lab: str) -> Iterator[tuple[str, str, str, Callable[..., Any]]]:
    """What the claims of ``lab`` that :func:`tests_in` read last know as wrong functions
    (``WRONG``): file ("visible" or "hidden"), graded name, sentence, function.
    """
    for file in ("visible", "hidden"):
        module = sys.modules.get(f"course_claims_{lab}.{file}")
        for name, table in getattr(module, "WRONG", {}).items():
            for sentence, function in table.items():
                yield file, name, sentence, function
