"""``course grade``: marks a folder of submissions. What is done is on disk at once; the
same command again does what is left.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from course_lib.grading import sandbox
from course_lib.grading.batch import gradebook, manual_marks, report, written
from course_lib.grading.batch.collect import collect, written_names
from course_lib.grading.batch.plan import Plan
from course_lib.grading.batch.result import read_all, read_batch
from course_lib.grading.marking.judge import Limits
from course_lib.grading.marking.lab import GradingResult, GradingSpec, Lab, Task
from course_lib.grading.marking.pool import mark_here


@dataclass(frozen=True)
class Batch:
    """What one run of ``course grade`` did.

    Attributes:
        report: its folder.
        graded: ids of the submissions that were marked; kept: of those whose marks were
            there already.
        layer: behind which they ran. seed: from which the inputs were drawn.
        remarks: sentences for the instructor.
    """

    report: Path
    graded: list[str]
    kept: list[str]
    layer: sandbox.Isolation
    seed: int
    remarks: list[str] = field(default_factory=list)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while grading; ``str()`` says what is on disk."""


def grade(
    lab: str,
    submissions: Path,
    out: Path,
    *,
    tests: Path,
    jobs: int | None = None,
    seed: int | None = None,
    layer: sandbox.Isolation | None = None,
    require_isolation: bool = False,
    regrade: Sequence[str] = (),
    limits: Limits | None = None,
    scheduler: str | None = None,
    marks: Path | None = None,
    table: Path | None = None,
    contact: str | None = None,
    progress: Callable[[str, int, int], None] = lambda id, done, all: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Batch:
    """Mark every submission of a folder that is not marked yet, or whose code, claims
    or seed have changed since.

    Args:
        lab: "lab01".
        submissions: notebooks, or one folder or zip per student.
        out: the report's folder. The marks that are there are kept where the
            submission, the claims and the seed are the same.
        tests: the folder of the lab's claims, ``tests/labs/lab01``.
        jobs: workers beside each other, by default one per core.
        seed: from which the inputs are drawn; by default the report's own, or a fresh
            one. Another than the report's own grades everything again.
        layer: how to separate submissions; by default the strongest that works here.
        require_isolation: nothing runs without a sandbox around it, and what was marked
            without one is marked again.
        regrade: ids of submissions to mark again though nothing has changed.
        limits: of time and memory for one submission.
        scheduler: address of a Dask cluster that marks in this machine's place.
        marks: a person's, see :mod:`course_lib.grading.batch.manual_marks`; by default those
            of the last run, else ``marks.csv`` in ``out``.
        table: the platform's gradebook, for students' names. contact: whom students ask about
            their marks, and until when. Both by default as in the last run.
        progress: called with (id, number done, number of all) after each submission.
        say: called with what an instructor should know before the work begins, in
            sentences.

    Raises:
        FileNotFoundError: without submissions or tests.
        ValueError: if the lab or an id does not exist, ``out`` holds a report of
            another lab or lies among the submissions.
        RuntimeError: if the tests cannot be imported, isolation is required and there
            is none, or another process is grading into ``out``. Like those above, before
            anything is graded.
        Interrupted: at Ctrl-C. What is finished stays.
    """
    # what is wrong with the lab or its tests is said before a folder is made
    spec = GradingSpec.read(tests, 0, lab)
    beside = Lab(spec).known.files
    if submissions.resolve() in (out.resolve(), *out.resolve().parents):
        raise ValueError(
            f"the report {out} lies among the submissions, and would be taken for one: give another"
            " folder"
        )
    collected = collect(submissions, lab, beside)
    with ExitStack() as held:
        held.enter_context(report.only_grader(out))
        recorded = _recorded(out, lab)
        ids = [submission.id for submission in collected.submissions]
        chosen = seed if seed is not None else int(recorded.get("seed", secrets.randbelow(1 << 63)))
        marking = Lab(replace(spec, seed=chosen))
        check_ids(regrade, ids)
        by_hand = manual_marks.find(out, marks)
        most = max_points(marking)
        most |= dict.fromkeys(written_names(lab), sum(most.values()))
        given = manual_marks.read_checked(by_hand, ids, most) if by_hand else {}
        cluster = None
        if scheduler:
            from course_lib.grading.batch.cluster import Cluster

            cluster = held.enter_context(closing(Cluster(scheduler, require_isolation)))
            layer = cluster.layer
        layer = _layer(layer, require_isolation)
        contact = str(recorded.get("contact", "")) if contact is None else contact
        names = {} if table is None else gradebook.names(table, collected.submissions)
        names = recorded.get("names", {}) | names
        for submission in collected.submissions:
            submission.name = names.get(submission.id, "")
        plan = Plan(out, marking, collected.submissions, regrade, require_isolation, given, contact)
        for sentence in collected.remarks:
            say(sentence)
        if recorded.get("seed", chosen) != chosen:
            say(
                f"seed {chosen} instead of the report's {recorded['seed']}: everything is graded"
                " again, on other inputs"
            )
        about: dict[str, Any] = {
            "lab": lab,
            "seed": chosen,
            "files": plan.files,
            "left": collected.left,
            "most": most,
            "contact": contact,
            "names": names,
            "submissions": _shown_from(out, submissions),  # where `course explain` finds them
        }
        about |= {"marks": _shown_from(out, by_hand)} if by_hand else {}
        if given:
            # a row on all questions is a mark of each
            lines = {m.line: m for some in given.values() for m in some}.values()
            adds = sum(m.adds for m in lines)
            replaces = sum(m.points is not None and not m.adds for m in lines)
            say(
                f"{by_hand}, rows: {adds} added to the tests' points, {replaces} in their place,"
                f" {len(lines) - adds - replaces} remarks"
            )
        about["scores"] = recorded.get("scores", {})
        about["marked"], changes = _marked_before(recorded.get("marked", {}), given, plan, by_hand)
        report.write_text(out / "batch.json", json.dumps(about, indent=1) + "\n")
        written.write(out, lab, collected.submissions, given)
        plan.refresh()
        if cluster is not None:
            marked = cluster.mark(marking, plan.tasks())
        else:
            jobs = max(1, jobs or os.cpu_count() or 1)
            marked = mark_here(marking, plan.tasks(), layer, jobs, limits)
        _collect(marked, plan, progress)
        about["scores"], changed = _compared(about["scores"], plan, out)
        about["changes"] = changes + changed
        report.write_text(out / "batch.json", json.dumps(about, indent=1) + "\n")
    kept = [id for id in ids if id not in plan.todo]
    return Batch(out, plan.todo, kept, layer, chosen, plan.remarks(layer))


def _marked_before(
    known: dict[str, list[str]], given: manual_marks.Marks, plan: Plan, path: Path | None
) -> tuple[dict[str, list[str]], list[str]]:
    """For which files a person's marks were written, by id; and a sentence for each that has
    other files now. It stays until the rows change.
    """
    now, said = {}, []
    for id, marks in sorted(given.items()):
        rows = repr([(m.question, m.points, m.adds, m.comment) for m in marks])
        digest = plan.submissions[id].digest
        written, before = known.get(id, [rows, plan.handed_in_again.get(id, digest)])
        now[id] = [rows, before if written == rows else digest]
        if now[id][1] != digest:
            lines = ", ".join(str(line) for line in sorted({m.line for m in marks}))
            said.append(
                f"{id} was handed in again after its marks were written: look whether they still"
                f" hold, and change a row or its comment ({path}, line {lines})"
            )
    return now, said


def _compared(
    before: dict[str, float], plan: Plan, out: Path
) -> tuple[dict[str, float], list[str]]:
    """The points that everybody has now, or had last; and sentences on what became of those of
    the run before.
    """
    now = {r.id: None if r.undecided else r.score for r in read_all(out)}
    changed, gone, lost = [], [], []
    for id, points in sorted(before.items()):
        new = now.get(id)
        if id not in now:
            gone.append(f"{id} ({points:g} points)")
        elif new is None:
            lost.append(f"{id} ({points:g} points)")
        elif new != points:
            again = " (handed in again)" if id in plan.handed_in_again else ""
            changed.append(f"{id} from {points:g} to {new:g}{again}")
    named = {
        "changed since the run before": changed,
        "graded before, and not among the submissions now": gone,
        "graded before, and without a grade now, because of another file": lost,
    }
    scores = before | {id: score for id, score in now.items() if score is not None}
    return scores, [f"{what}: {', '.join(ids)}" for what, ids in named.items() if ids]


def _collect(
    marks: Generator[tuple[Task, GradingResult], None, None],
    plan: Plan,
    progress: Callable[[str, int, int], None],
) -> None:
    """Write the marks of every submission as they come, and the table at the end."""
    done, all = 0, len(plan.todo)
    with closing(marks):
        try:
            for task, marked in marks:
                plan.write(task, marked)
                done += 1
                progress(task.id, done, all)
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped: {done} of {all} submissions are graded and stay; the same command goes"
                " on from there"
            ) from None
        finally:
            plan.write_tables()


def _layer(layer: sandbox.Isolation | None, required: bool) -> sandbox.Isolation:
    if layer is None:
        return sandbox.required() if required else sandbox.best()
    if required and not layer.is_sandbox:
        raise RuntimeError(
            f"isolation is required, and the layer {layer.name!r} is no sandbox: leave it out, or"
            " choose another"
        )
    return layer


def _recorded(out: Path, lab: str) -> dict[str, Any]:
    """What the report says of itself; nothing where there is none yet."""
    recorded = read_batch(out) if (out / "batch.json").is_file() else {"lab": lab}
    if recorded.get("lab") != lab:
        raise ValueError(
            f"{out} holds the report of {recorded.get('lab')}: give another folder for {lab}"
        )
    return recorded


def _shown_from(out: Path, path: Path) -> str:
    """As it is found again, from the report's folder."""
    return os.path.relpath(path.resolve(), out.resolve())


def max_points(lab: Lab) -> dict[str, float]:
    """Each question's maximum."""
    most = {id: asked.by_hand for id, asked in lab.known.questions.items()}
    for test in lab.tests:
        most[test.question] = most.get(test.question, 0.0) + test.points
    return {id: points for id, points in most.items() if points}


def check_ids(ids: Iterable[str], known: list[str]) -> None:
    """Raises ValueError for the first id that nobody has, with those that are near."""
    for name in ids:
        if name not in known:
            near = get_close_matches(name, known, 3) or known[:10]
            more = ", …" if len(near) < len(known) else ""
            raise ValueError(f"there is no submission {name!r}: there are {', '.join(near)}{more}")
