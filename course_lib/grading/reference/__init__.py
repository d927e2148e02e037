"""The contracts of each lab, answered by ``course_lib``: what ``skip`` binds and what the tests compare with.

No solution text is here: each name is a small adapter from a question's contract to the library. One module a lab.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """What a question asks for.

    Attributes:
        names: the functions, classes or values that are graded.
        forbidden: functions and modules that do the job (beside ``course_lib`` itself): using one scores 0 there.
        depends: earlier questions without which this one cannot be right.
        plain: do only plain data go in and out, so that the grader can answer in its place?
        in_place: do its functions change the module that is their first argument, and nothing else? Then, too, the grader can
            answer: with the state that the module is to have.
        by_hand: points that a person gives for it, in ``marks.csv``; until then it is pending.
    """

    names: tuple[str, ...]
    forbidden: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()
    plain: bool = True
    in_place: bool = False
    by_hand: float = field(default=0.0, repr=False)  # no part of what the tests' marks rest on


@dataclass(frozen=True)
class Reference:
    """One lab: its questions, the library's answer for each graded name, and modules that a submission needs and that take long
    to import."""

    lab: str
    questions: dict[str, Asked]
    names: dict[str, Any]
    imports: tuple[str, ...] = ()

    def asked(self, question: str) -> Asked:
        """What ``question`` asks.

        Raises:
            KeyError: if the lab has no such question; the message lists those it has.
        """
        if question not in self.questions:
            raise KeyError(f"{self.lab} has no question {question}: it has {', '.join(self.questions)}")
        return self.questions[question]

    def function(self, name: str) -> Callable[..., Any] | None:
        """The library's version of a graded function, or None where it is a value."""
        value = self.names.get(name)
        return value if callable(value) else None

    @property
    def graded(self) -> list[str]:
        """All graded names."""
        return [name for asked in self.questions.values() for name in asked.names]


def load(lab: str) -> Reference:
    """The reference of "lab01".

    Raises:
        ValueError: if there is no such lab.
    """
    try:
        module = importlib.import_module(f"{__name__}.{lab}")
    except ModuleNotFoundError:
        raise ValueError(f"no lab {lab!r}: the labs are {', '.join(available())}") from None
    return Reference(lab, module.QUESTIONS, vars(module), getattr(module, "IMPORTS", ()))


def available() -> list[str]:
    """The labs there are, in order."""
    from pkgutil import iter_modules

    return sorted(m.name for m in iter_modules(__path__) if m.name.startswith("lab"))
