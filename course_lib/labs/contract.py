"""What a lab asks for, and the library's answers: what ``skip`` binds, and what claims
compare with.

A contract is written where the answers are, an answer and what is asked about it
together::

    lab = Contract("lab01")

    @lab.asks("1.1", forbidden=("torch.nn.utils.prune",))
    def magnitude_mask(weight, sparsity):
        return weights.smallest(weight.abs(), sparsity)

    lab.asks("1.8", "answer_1_8a", "answer_1_8b")    # nothing that the library could answer

Students get these files whole: an answer is an adapter to what the library has, never a
solution written out. Where the library has none, the answer that claims compare with
stands beside the hidden claims, in ``tests/labs/labNN/hidden.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")


def order(question: str) -> tuple[int, ...]:
    """Sorts "1.10" after "1.9"."""
    return tuple(int(part) for part in question.split("."))


@dataclass(frozen=True)
class Exercise:
    """What a question asks for.

    Attributes:
        names: the functions, classes or values that are graded.
        forbidden: functions and modules that do the job (beside ``course_lib`` itself).
            Their calls are noticed, as a courtesy: the check runs beside the student's
            code (:mod:`course_lib.student_code.watch`), and similarity stands behind it.
        plain: do only plain data go in and out, so that the grader can answer in its
            place?
        in_place: do its functions change the module that is their first argument, and
            nothing else? Then, too, the grader can answer: with the state that the
            module is to have.
        by_hand: points that a person gives (``marks.csv``); until then the question is
            pending.
        files: names of files that are handed in beside the notebook, and judged.
        optional: are its points a bonus? They make up for points lost in the lab's other
            questions and do not count in its maximum.
    """

    names: tuple[str, ...]
    forbidden: tuple[str, ...] = ()
    plain: bool = True
    in_place: bool = False
    by_hand: float = 0.0
    files: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class Helper:
    """One of :data:`course_lib.student_code.helpers.HELPERS`, and its settings."""

    name: str
    settings: dict[str, Any]


class Contract:
    """A lab: its questions, the library's answer for each graded name, and modules that
    a submission needs and that take long to import."""

    def __init__(self, lab: str, imports: tuple[str, ...] = ()) -> None:
        self.lab = lab
        self.imports = imports
        self._exercises: dict[str, Exercise] = {}
        self._answers: dict[str, Callable[..., Any]] = {}
        self.helpers: dict[str, Helper] = {}  # by the name that each can stand in for

    def asks(
        self,
        question: str,
        *names: str,
        forbidden: tuple[str, ...] = (),
        plain: bool = True,
        in_place: bool = False,
        by_hand: float = 0.0,
        files: tuple[str, ...] = (),
        optional: bool = False,
    ) -> Callable[[T], T]:
        """Ask for the names given; or, as a decorator, for the function or class under
        it, which is the library's answer.

        A question may ask for several: what is said of it is said once, or each time
        the same.

        Raises:
            ValueError: if different things are said of one question.
        """
        said = Exercise((), forbidden, plain and not names, in_place, by_hand, files, optional)
        before = self._exercises.get(question, said)
        if replace(before, names=()) != said:
            raise ValueError(
                f"{self.lab}, {question}: what is forbidden or handed over is said twice, and not"
                " the same"
            )
        self._exercises[question] = replace(before, names=(*before.names, *names))

        def answered(answer: T) -> T:
            name = answer.__name__  # type: ignore[attr-defined]
            exercise = self._exercises[question]
            self._exercises[question] = replace(exercise, names=(*exercise.names, name))
            self._answers[name] = answer  # type: ignore[assignment]
            return answer

        return answered

    def helps(self, name: str, helper: str, **settings: Any) -> None:
        """Where the student's ``name`` is wrong, later questions that use it are tried
        with a helper in its place: a context manager has to run in the student's process.
        The question that asks for ``name`` forbids calls of the function that gives the
        helper its name.
        """
        self.helpers[name] = Helper(helper, settings)
        question = self.question_of(name)
        exercise = self._exercises[question]
        forbidden = (*exercise.forbidden, f"course_lib.student_code.helpers.{helper}")
        self._exercises[question] = replace(exercise, forbidden=forbidden)

    def question_of(self, name: str) -> str:
        """The question that asks for ``name``; "" where none does."""
        return next((q for q, asked in self._exercises.items() if name in asked.names), "")

    @property
    def questions(self) -> dict[str, Exercise]:
        """The exercises by question, in order."""
        return {q: self._exercises[q] for q in sorted(self._exercises, key=order)}

    def exercise(self, question: str) -> Exercise:
        """What ``question`` asks.

        Raises:
            KeyError: if the lab has no such question; the message lists those it has.
        """
        if question not in self._exercises:
            raise KeyError(
                f"{self.lab} has no question {question}: it has {', '.join(self.questions)}"
            )
        return self._exercises[question]

    def is_optional(self, question: str) -> bool:
        """Are the points of ``question`` a bonus?"""
        return question in self._exercises and self._exercises[question].optional

    @property
    def files(self) -> tuple[str, ...]:
        """Names of all files that are handed in beside the notebook."""
        return tuple(name for exercise in self.questions.values() for name in exercise.files)

    def function(self, name: str) -> Callable[..., Any] | None:
        """The library's version of a graded name; None where it has none."""
        return self._answers.get(name)

    @property
    def graded(self) -> list[str]:
        """All graded names."""
        return [name for exercise in self.questions.values() for name in exercise.names]
