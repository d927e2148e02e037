"""``course explain``: one question of one submission run again, on the inputs of its
marking, with what went in, what came back and what the library answers. For appeals:
nothing in the report changes.

The student's code runs in the sandbox, as in grading; what comes back is read and
compared in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib import labs
from course_lib.grading import sandbox
from course_lib.grading.batch.collect import Submission, collect
from course_lib.grading.batch.result import read, read_batch
from course_lib.grading.batch.run import check_ids
from course_lib.grading.marking.lab import GradingSpec, Lab
from course_lib.grading.marking.marker import Outcome, earned
from course_lib.grading.marking.witness import Call, Run, Witness
from course_lib.grading.sandbox import Worker

MOST_CALLS = 3  # of one claim that are shown


@dataclass(frozen=True)
class Explained:
    """One question of one submission, marked once more.

    Attributes:
        outcomes: of its claims, now. runs: of them, in order; a claim that failed is
            run again with the library in the place of earlier answers. before: the
            points that the tests gave in the report. remarks: what to know beside that.
    """

    id: str
    question: str
    lab: str
    seed: int
    outcomes: list[Outcome]
    runs: list[Run]
    before: float
    remarks: list[str]


def explain(
    report: Path,
    id: str,
    question: str,
    *,
    tests: Callable[[str], Path],
    submissions: Path | None = None,
    layer: sandbox.Isolation | None = None,
) -> Explained:
    """Mark one question of one submission once more, and write down what passed between
    claims and code.

    Args:
        report: the folder of a report. id: of the submission there.
        tests: the folder of a lab's claims: "lab01" -> ``tests/labs/lab01``.
        submissions: where they are now; by default where they were at the last grading.
        layer: behind which to run; by default the strongest that works here.

    Raises:
        FileNotFoundError: if there is no report, or the submissions are not where they
            were.
        ValueError: if there is no such submission or question; if it could not be read,
            has not been graded, or has changed since.
    """
    about = read_batch(report)
    lab, seed = str(about["lab"]), int(about["seed"])
    submission = _find(report, about, id, submissions)
    folder = tests(lab)
    marking = Lab(GradingSpec.read(folder, seed, lab))
    mine = [t for t in marking.tests if t.question == question]
    if not mine:
        there = ", ".join(dict.fromkeys(t.question for t in marking.tests))
        raise ValueError(f"{lab} has no claims about {question!r}: there are {there}")
    result = read(report, submission.file_name)
    if result is None:
        raise ValueError(
            f"{id} has not been graded: `course grade {lab} … --out {report}` does that"
        )
    if submission.problem:
        raise ValueError(f"there is no code of {id} to run: {submission.problem}")
    if result.digest != submission.digest:
        raise ValueError(
            f"what {id} handed in has changed since it was graded: grade it again, then ask"
        )
    remarks = []
    if result.version != marking.version:
        remarks.append(
            "the claims have changed since this was graded: this is what those of today say"
        )
    runs: list[Run] = []
    worker = Worker(layer or sandbox.best())
    try:
        with marking.open_marker(
            submission.task(),
            worker,
            lambda session, files: Witness(session, marking.known, runs, files),
        ) as (marker, opened):
            marker.observe = lambda test, given: runs.append(Run(test.name, list(given)))
            outcomes = marker.question(question, mine)
        problems = [problem for session in opened[:1] for problem in session.problems]
        remarks += [f"the definitions: {problem}" for problem in problems]
    finally:
        worker.stop()
    earned = sum(e.score for e in result.entries if e.number == question and not e.by_hand)
    return Explained(id, question, lab, seed, outcomes, runs, earned, remarks)


def _find(report: Path, about: dict[str, Any], id: str, submissions: Path | None) -> Submission:
    if submissions is None:
        if "submissions" not in about:
            raise FileNotFoundError(
                f"{report} does not say where its submissions are: name the folder with"
                " --submissions"
            )
        submissions = report / str(about["submissions"])
        if not submissions.exists():
            raise FileNotFoundError(
                f"{submissions} is not there, and was at the last grading: name it with"
                " --submissions"
            )
    lab = str(about["lab"])
    found = {s.id: s for s in collect(submissions, lab, labs.load(lab).files).submissions}
    check_ids([id], list(found))
    return found[id]


def lines(e: Explained) -> Iterator[str]:
    """What was found, to be read by a person."""
    now, most = earned(e.outcomes), sum(o.points for o in e.outcomes)
    yield (
        f"{e.question} of {e.id}, {e.lab}, inputs from seed {e.seed}: the tests gave {e.before:g}"
        f" of {most:g}, now {now:g}"
    )
    yield from e.remarks
    for o in e.outcomes:
        yield ""
        seen = "students see it" if o.visible else "hidden"
        yield (
            f"{'holds' if o.passed else 'DOES NOT HOLD'}: {o.claim} ({o.earned:g} of {o.points:g},"
            f" {seen}, {o.test})"
        )
        if o.message:
            yield f"  told: {o.message}"
        shown: list[Call] = []
        for run in [run for run in e.runs if run.test == o.test]:
            given = (
                f"with the library's {', '.join(run.given)} in place of theirs"
                if run.given
                else "as handed in"
            )
            before, shown = shown, _unlike_calls(run.calls) if not o.passed or run.given else []
            yield f"  {given}, calls: {len(run.calls)}" + (
                ", the same" if shown and shown == before else ""
            )
            for call in shown if shown != before else []:
                yield from (f"    {line}" for line in _call(call))


def _unlike_calls(calls: list[Call]) -> list[Call]:
    """The calls whose answer is not the library's; where none can be compared, the
    last: there the claim stopped.
    """
    unlike = [call for call in calls if call.expected and not call.alike]
    return unlike[:MOST_CALLS] or calls[-MOST_CALLS:]


def _call(call: Call) -> Iterator[str]:
    name, *arguments = call.asked
    yield name
    for argument in arguments:
        yield from _under("  given", argument)
    yield from _under("  came", call.came)
    if call.expected:
        yield from _under("  expected", "the same" if call.alike else call.expected)
        yield from _under("  apart", call.apart) if call.apart else ()


def _under(word: str, text: str) -> Iterator[str]:
    first, *rest = text.splitlines() or [""]
    yield f"{word:<12}{first}"
    yield from (f"{'':<12}{line}" for line in rest)


__all__ = ["Explained", "explain", "lines"]
