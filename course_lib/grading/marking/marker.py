"""Runs the tests of a lab against a submission and says what each is worth. Serves
``check`` and ``course grade`` alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from course_lib.grading.claims.alarm import WorkerLost
from course_lib.grading.claims.draw import Draw
from course_lib.grading.claims.expect import MAX_MESSAGE, Fault, Mistake, shortened
from course_lib.grading.claims.question import Test
from course_lib.grading.claims.student import InPlace, StudentError, Submission
from course_lib.labs import Contract, Exercise
from course_lib.labs.contract import Helper, order
from course_lib.student_code.harness import start_chance

if TYPE_CHECKING:
    from course_lib.grading.sandbox import TimeBudget

# what the grader answers by, by the name that it stands in for
Given = dict[str, Callable[..., Any] | Helper]
NOT_RUN = "not run yet"  # so begins the message where the name's cell is still to run
# tests of one question that may end or hang their process before the rest is not tried
MAX_LOSSES = 2


@dataclass(frozen=True)
class Outcome:
    """What became of one test."""

    question: str
    claim: str
    points: float
    passed: bool
    message: str
    visible: bool
    test: str
    borrowed: bool = False  # did the code call what the question asks to write?
    optional: bool = False  # are its points a bonus?

    @property
    def earned(self) -> float:
        return self.points if self.passed else 0.0


class ForbiddenCall(Exception):
    """The code called the library, or the function that does the job, for what the
    question asks to write.
    """


class Marker:
    """Marks one submission, question by question.

    Args:
        open: gives the submission to test; called again after the code has ended its
            process.
        contract: what the lab asks for, answered by the library.
        seed: from which the inputs are drawn (together with the name of the test).
        skipped: questions the student gave up, where the submission does not know
            (:attr:`Submission.skipped`).
        budget: of time for everything; what is not reached by then earns nothing and
            is said.
    """

    def __init__(
        self,
        open: Callable[[], Submission],
        contract: Contract,
        seed: int = 0,
        skipped: Iterable[str] = (),
        budget: TimeBudget | None = None,
    ) -> None:
        self.open = open
        self.contract = contract
        self.seed = seed
        self.skipped = set(skipped)
        self.budget = budget
        self.lost: set[str] = set()  # questions whose code ended or hung its process
        self.startup_error = ""  # why the definitions could not be run; then no test is tried
        # called before each test, with what the grader answers for: for who looks on
        self.observe: Callable[[Test, Given], None] = lambda test, given: None
        self._submission: Submission | None = None

    def mark(self, tests: list[Test]) -> list[Outcome]:
        """The outcome of every test, in the order of the questions."""
        outcomes: list[Outcome] = []
        for id in sorted({t.question for t in tests}, key=order):
            outcomes += self.question(id, [t for t in tests if t.question == id])
        return outcomes

    def question(self, id: str, tests: list[Test]) -> list[Outcome]:
        """One question: once as it is; if points were lost, once more with the earlier
        questions answered by the grader.
        """
        if id in self._skipped():
            return [
                outcome(t, False, f'skipped: you called skip("{id}"), so this question scores 0')
                for t in tests
            ]
        if (
            self.lost
            and (known := self._earlier(id))
            and any(self.contract.question_of(name) in self.lost for name in known)
        ):
            # it would only wait again for a function that is known to hang: the grader
            # answers for that one at once
            return self._with(id, tests, known)
        first = self._run(id, tests, {})
        failed = [t for t, o in zip(tests, first, strict=True) if not o.passed]
        given = self._earlier(id) if failed else {}
        if not given:
            return first
        again = self._with(id, failed, given)
        if not any(o.passed for o in again):
            return first  # nothing to gain, whatever the others say
        others = self._run(id, [t for t in tests if t not in failed], given)
        by_test = {o.test: o for o in (*again, *others)}
        second = [by_test[t.name] for t in tests]
        return second if earned(second) > earned(first) else first

    def _skipped(self) -> set[str]:
        try:
            return self.skipped | self._opened().skipped
        except WorkerLost:
            return self.skipped

    def _with(self, id: str, tests: list[Test], given: Given) -> list[Outcome]:
        """Run a question with the grader answering for ``given``, and say so of the
        tests that pass.
        """
        message = f"passes with a right {', '.join(given)} in place of yours: mend that one first"
        return [replace(o, message=message) if o.passed else o for o in self._run(id, tests, given)]

    def _run(self, id: str, tests: list[Test], given: Given) -> list[Outcome]:
        asked = self.contract.exercise(id)
        outcomes: list[Outcome] = []
        losses = 0
        for test in tests:
            try:
                message = self._not_tried(losses) or self._one(test, asked, given)
            except WorkerLost as lost:
                losses += 1
                self.lost.add(id)
                self._submission = None
                message = str(lost)
            except ForbiddenCall as error:
                return [outcome(t, False, str(error), borrowed=True) for t in tests]
            outcomes.append(outcome(test, not message, message))
        return outcomes

    def _not_tried(self, losses: int) -> str:
        """Why the next test is not tried after so many losses; "" where it is."""
        if losses >= MAX_LOSSES:
            return "not tried: the tests before ended or hung your code's process"
        if self.budget is not None and self.budget.left <= 0 and not self.startup_error:
            return f"not tried: {self.budget.exhausted}"
        return self.startup_error

    def _one(self, test: Test, asked: Exercise, given: Given) -> str:
        """Run one test; "" where it passes, else the message for the student."""
        submission = self._opened()
        draw = Draw(self.seed, test.question, test.name)
        start_chance(draw.seed)  # of what a test makes without a draw, too: a layer's first weights
        try:
            # a chance of its own: from the draw's seed the code could draw what it is
            # not to know
            submission.begin(
                Draw("the worker's", self.seed, test.question, test.name).seed, asked.forbidden
            )
            submission.replace(given)
            self.observe(test, given)
            test.run(submission, draw)
            return ""
        except Mistake as mistake:
            return str(mistake)
        except StudentError as error:
            if error.kind == "library":
                raise ForbiddenCall(explain(error, test.question)) from None
            return explain(error, test.question)
        except (WorkerLost, Fault):
            raise
        except Exception as error:  # a value so odd that the test itself stumbled over it
            what = f"{type(error).__name__}: {error}"[:300]
            return f"what your code returned does not have the form the question asks for ({what})"

    def _opened(self) -> Submission:
        # once is enough: definitions that hang would be waited for at every question
        if self.startup_error:
            raise WorkerLost(self.startup_error)
        if self._submission is None:
            try:
                self._submission = self.open()
            except WorkerLost as lost:
                self.startup_error = str(lost)
                raise
        return self._submission

    def _earlier(self, id: str) -> Given:
        """The functions of earlier questions that this one's code uses, as the library
        has them.
        """
        known: Given = {}
        for other, asked in self.contract.questions.items():
            for name in asked.names if order(other) < order(id) else ():
                function = self.contract.function(name)
                if name in self.contract.helpers:
                    known[name] = self.contract.helpers[name]
                elif function is not None and asked.in_place:
                    known[name] = InPlace(function)
                elif function is not None and asked.plain:
                    known[name] = function
        try:
            submission = self._opened()
            used = [
                n
                for name in self.contract.exercise(id).names
                for n in submission.uses(name, list(known))
            ]
        except StudentError:
            return {}
        except WorkerLost:
            self._submission = None
            return {}
        return {name: known[name] for name in known if name in used}


def explain(error: StudentError, question: str) -> str:
    """What the student reads when their code raised."""
    if error.unwritten:
        return "not written yet"
    if error.kind == "lost":
        return error.message
    if error.kind == "not run":
        return f"{NOT_RUN}: run the cell that defines {error.message}"
    if error.kind == "missing":
        return f"{error.message}: keep the name that the question gives"
    if error.kind == "library":
        return (
            f"{question} asks you to write this yourself: your code called {error.message}, so the"
            " question scores 0"
        )
    if error.kind == "result":
        return f"your code returned {error.message}, which cannot be a result"
    where = f" ({error.where}: {error.text})" if error.where else ""
    hint = ". Does the cell run that defines it?" if error.type == "NameError" else ""
    if error.type == "ModuleNotFoundError":
        hint = ". Is it a file of yours? Hand it in together with the notebook"
    return f"your code raised {error.type}: {error.message}{where}{hint}"


def outcome(test: Test, passed: bool, message: str, borrowed: bool = False) -> Outcome:
    message = shortened(message, MAX_MESSAGE)
    return Outcome(
        test.question,
        test.claim,
        test.points,
        passed,
        message,
        test.visible,
        test.name,
        borrowed,
        test.optional,
    )


def earned(outcomes: Iterable[Outcome]) -> float:
    """Points earned in one question."""
    return sum(o.earned for o in outcomes)


def maximum(outcomes: Iterable[Outcome]) -> float:
    """Points of a lab: a bonus does not count."""
    return sum(o.points for o in outcomes if not o.optional)


def total(outcomes: Collection[Outcome]) -> float:
    """Points earned in a lab, a bonus counted up to the maximum."""
    return min(earned(outcomes), maximum(outcomes))


def by_question(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Outcomes grouped, questions in order."""
    groups: dict[str, list[Outcome]] = {}
    for o in outcomes:
        groups.setdefault(o.question, []).append(o)
    return groups
