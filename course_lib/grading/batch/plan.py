"""What of a report is out of date, submission by submission; and what is written when
it was marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from course_lib.grading import sandbox
from course_lib.grading.batch import report
from course_lib.grading.batch.collect import Submission
from course_lib.grading.batch.manual_marks import Mark
from course_lib.grading.batch.result import Result, read
from course_lib.grading.marking.lab import GradingResult, Lab, Task


class Plan:
    """The work on one report: looks at what is there, gives out what is to be marked,
    writes what came of it.

    Args:
        out: the report's folder. lab: the tests, as they are now.
        submissions: all of them. Their text is let go as soon as it is no longer needed.
        regrade: ids to mark again though nothing has changed.
        require_isolation: mark again what was marked without a sandbox. marks: a person's, by
            submission. contact: whom students ask, and until when.

    Attributes:
        todo: the ids to mark, in order. handed_in_again: ids whose files changed since
            they were marked, with the digest of before. files: all submissions' names in the
            report, in the order of their ids.
    """

    def __init__(
        self,
        out: Path,
        lab: Lab,
        submissions: list[Submission],
        regrade: Iterable[str],
        require_isolation: bool,
        marks: Mapping[str, Sequence[Mark]],
        contact: str = "",
    ) -> None:
        self.out, self.lab, self.submissions = out, lab, {s.id: s for s in submissions}
        self.marks, self.contact = marks, contact
        self.questions = lab.known.questions
        self.todo: list[str] = []
        self.files = [s.file_name for s in submissions]
        self._version = lab.version
        self.handed_in_again: dict[str, str] = {}
        self._without_sandbox = 0  # submissions that are kept
        for submission in submissions:
            result = read(out, submission.file_name)
            if result is not None and result.digest != submission.digest:
                self.handed_in_again[submission.id] = result.digest
            isolated = result is not None and sandbox.Isolation(result.layer).is_sandbox
            if (
                result is None
                or submission.id in regrade
                or self._is_outdated(submission, result)
                or (require_isolation and not isolated)
            ):
                self.todo.append(submission.id)
            else:
                submission.cells = []
                self._without_sandbox += not isolated

    def _is_outdated(self, submission: Submission, result: Result) -> bool:
        return (
            result.id != submission.id
            or result.version != self._version
            or result.status == "grader failed"
            or result.digest != submission.digest
            or result.problem != submission.problem
        )

    def tasks(self) -> Iterator[Task]:
        """What is to be marked, one after the other."""
        for id in self.todo:
            yield self.submissions[id].task()
            self.submissions[id].cells = []

    def write(self, task: Task, graded: GradingResult) -> None:
        """Put the marks of one submission on disk."""
        submission = self.submissions[task.id]
        result = report.build_result(submission, graded, self.lab.spec, self._version)
        report.save(self.out, self._complete(submission, result))

    def refresh(self) -> None:
        """Bring what is kept up to date where something beside its marks has changed: a
        person's marks, which file counts.
        """
        for submission in self.submissions.values():
            before = read(self.out, submission.file_name)
            if before is not None and submission.id not in self.todo:
                made = self._complete(submission, before)
                if made != before:
                    report.save(self.out, made)

    def _complete(self, submission: Submission, result: Result) -> Result:
        by_hand = {id: asked.by_hand for id, asked in self.questions.items() if asked.by_hand}
        marks = self.marks.get(submission.id, ())
        return report.add_manual_marks(result, submission, marks, by_hand, self.contact)

    def write_tables(self) -> None:
        """Write ``grades.csv``."""
        report.write_grades(self.out, list(self.questions))

    def remarks(self, layer: sandbox.Isolation) -> list[str]:
        """What an instructor should know of the marks that were kept."""
        if not self._without_sandbox or not layer.is_sandbox:
            return []
        return [
            f"{self._without_sandbox} kept from before were graded without a sandbox;"
            " --require-isolation grades them again in one"
        ]
