"""One submission's result: written once for each submission, and read by everything
that comes after: tables, pages, the gradebook, appeals.

On disk it is ``results/NAME.json`` in Gradescope's form, with the rest of what is known
under ``extra_data``. A submission is graded when its result is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.labs.contract import order

if TYPE_CHECKING:
    from course_lib.grading.marking.marker import Outcome

PENDING = "pending"  # a person has still to mark it
MARKED = "marked"  # a person has
OPTIONAL = "optional"


@dataclass(frozen=True)
class ClaimResult:
    """What one claim of a question gave, or what a person gave for the question.

    Attributes:
        number: of the question, "1.3". status: "passed" or "failed"; of a person's
            :data:`MARKED` or :data:`PENDING`. output: what the student reads. tags:
            ("optional",) where the question's points are a bonus; Gradescope shows them.
    """

    number: str
    name: str
    score: float
    max_score: float
    status: str
    output: str = ""
    visibility: str = "visible"
    by_hand: bool = False
    tags: tuple[str, ...] = ()

    @property
    def optional(self) -> bool:
        """Do its points make up for points lost elsewhere, and not count in the maximum?"""
        return OPTIONAL in self.tags

    @classmethod
    def of(cls, o: Outcome) -> ClaimResult:
        """What a claim gave."""
        return cls(
            o.question,
            f"{o.question} {o.claim}",
            o.earned,
            o.points,
            "passed" if o.passed else "failed",
            o.message,
            "visible" if o.visible else "after_published",
            tags=(OPTIONAL,) if o.optional else (),
        )

    def to_json(self) -> dict[str, Any]:
        """In Gradescope's form."""
        found = asdict(self) | {"tags": list(self.tags)}  # as JSON gives them back
        return {k: v for k, v in found.items() if v or k not in ("by_hand", "tags")}


@dataclass(frozen=True)
class Result:
    """What one submission got, and what is known of it.

    Attributes:
        id: of the submission. file_name: of its result and page, without suffix.
        entries: of all questions, in order. status: see ``GradingResult``, or the
            submission's own where the tests gave no points. notes: sentences for the
            student.
        lab: "lab01". layer: the sandbox that it ran in. version: of the claims.
            digest: of the code. problem: why it could not be read, or "".
        notebook, choice, submitters, remark, look, start: as ``Submission``
            has them. time: when it was handed in.
        name: of the student. contact: whom to ask about it, and until when.
        undecided: does it have no grade before a person has looked?
    """

    id: str
    file_name: str
    entries: tuple[ClaimResult, ...] = ()
    version: str = ""
    digest: str = ""
    lab: str = ""
    layer: str = "plain"
    problem: str = ""
    status: str = "graded"
    notes: list[str] = field(default_factory=list)
    notebook: str = ""
    choice: str = ""
    submitters: list[dict[str, str]] = field(default_factory=list)
    remark: str = ""
    look: str = ""
    name: str = ""
    contact: str = ""
    time: float | None = None
    start: str = ""
    undecided: bool = False

    @property
    def score(self) -> float:
        """The points of all questions, those of optional ones up to the maximum: added up
        exactly, and rounded once, half a hundredth up.
        """
        exact = sum((Decimal(str(entry.score)) for entry in self.entries), Decimal())
        rounded = exact.quantize(Decimal("0.01"), ROUND_HALF_UP)
        return min(float(rounded), self.max_score)

    @property
    def max_score(self) -> float:
        """The points of all questions that are not optional."""
        return sum(entry.max_score for entry in self.entries if not entry.optional)

    @property
    def optional(self) -> set[str]:
        """The questions whose points are a bonus."""
        return {entry.number for entry in self.entries if entry.optional}

    @property
    def questions(self) -> dict[str, list[ClaimResult]]:
        """The entries by question."""
        found: dict[str, list[ClaimResult]] = {}
        for entry in self.entries:
            found.setdefault(entry.number, []).append(entry)
        return found

    @property
    def points(self) -> dict[str, tuple[float, float]]:
        """By question, the points earned and the most that can be."""
        return {
            question: (sum(e.score for e in entries), sum(e.max_score for e in entries))
            for question, entries in self.questions.items()
        }

    @property
    def pending(self) -> list[str]:
        """The questions that a person has still to mark."""
        return [entry.number for entry in self.entries if entry.status == PENDING]

    @property
    def page(self) -> str:
        """Where the student's page is in the report."""
        return f"feedback/{self.file_name}.html"

    @property
    def isolation(self) -> str:
        """What the sandbox was, in a sentence."""
        from course_lib.grading import sandbox  # which loads torch

        return sandbox.Isolation(self.layer).sentence

    def with_pending_as_zero(self) -> Result:
        """The same with 0 for all that waits for a person."""
        marked = (replace(e, status=MARKED) if e.status == PENDING else e for e in self.entries)
        return replace(self, entries=tuple(marked), undecided=False)

    def to_json(self) -> dict[str, Any]:
        """In Gradescope's form."""
        return {
            "score": self.score,
            "output": "\n".join(self.notes),
            "visibility": "visible",
            "tests": [entry.to_json() for entry in self.entries],
            "extra_data": {f: getattr(self, f) for f in _ABOUT} | {"isolation": self.isolation},
        }


# what stands under ``extra_data``
_ABOUT = [f.name for f in fields(Result) if f.name not in ("file_name", "entries")]


_CALLED = re.compile(r"asks you to write this yourself: your code called (.+?), so the question")


def to_look_at(result: Result) -> list[str]:
    """What a teacher should look at, though points are given or taken already: calls that a
    question forbids, code that reaches for sockets, processes or files.
    """
    called: dict[str, set[str]] = {}
    for entry in result.entries:
        if found := _CALLED.search(entry.output):
            called.setdefault(found[1], set()).add(entry.number)
    said = [
        f"called {name}, which {', '.join(sorted(some, key=order))} forbids"
        for name, some in called.items()
    ]
    return [*said, *([f"code that names {result.look}"] if result.look else [])]


def read(out: Path, file_name: str) -> Result | None:
    """The result of a submission by its file's name; None where there is none that can
    be read.
    """
    try:
        said = json.loads((out / "results" / f"{file_name}.json").read_text(encoding="utf-8"))
        about = said["extra_data"]
        return Result(
            file_name=file_name,
            entries=tuple(
                ClaimResult(**{**entry, "tags": tuple(entry.get("tags", ()))})
                for entry in said["tests"]
            ),
            **{key: about[key] for key in _ABOUT},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_all(out: Path) -> Iterator[Result]:
    """The results of the submissions that were there when the report was made last, in
    the order of their ids, one by one.

    Raises:
        FileNotFoundError: if ``out`` holds no report.
    """
    return (
        found for name in read_batch(out).get("files", []) if (found := read(out, name)) is not None
    )


def read_batch(out: Path) -> dict[str, Any]:
    """What a report says of itself, ``batch.json``.

    Raises:
        FileNotFoundError: if ``out`` holds no report. ValueError: if it is damaged.
    """
    try:
        said: dict[str, Any] = json.loads((out / "batch.json").read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(
            f"{out / 'batch.json'} is damaged: give another folder, or remove it (then everything"
            " is graded again)"
        ) from None
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{out} holds no report: `course grade … --out {out}` makes one"
        ) from None
    return said
