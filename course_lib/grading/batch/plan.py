"""What of a report is out of date, submission by submission; and what is written when
it was marked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib.grading import sandbox as layers
from course_lib.grading.batch import policy, report
from course_lib.grading.batch.byhand import Mark
from course_lib.grading.batch.collect import Handed
from course_lib.grading.marking.lab import Lab, Marked, Task
from course_lib.grading.marking.marker import total


class Plan:
    """The work on one report: looks at what is there, gives out what is to be marked,
    writes what came of it.

    Args:
        out: the report's folder. lab: the tests, as they are now.
        handed: the submissions. Their text is let go as soon as it is no longer needed.
        regrade: ids to mark again though nothing has changed.
        walled: mark again what was marked without a wall. marks: a person's, by
            submission. cases: what a policy says of each submission; None without one.

    Attributes:
        todo: the ids to mark, in order. files: all submissions' names in the report, in
            the order of their ids.
        grades: the table of what is marked so far.
    """

    def __init__(
        self,
        out: Path,
        lab: Lab,
        handed: list[Handed],
        regrade: Iterable[str] = (),
        walled: bool = False,
        marks: Mapping[str, Sequence[Mark]] | None = None,
        cases: Mapping[str, policy.Case] | None = None,
    ) -> None:
        self.out, self.lab, self.handed = out, lab, {h.id: h for h in handed}
        self.regrade, self.walled = set(regrade), walled
        self.marks, self.cases = marks or {}, cases
        self.waiting = {
            id: asked.by_hand for id, asked in lab.known.questions.items() if asked.by_hand
        }
        self.todo: list[str] = []
        late = (policy.COLUMNS, lambda result: policy.cells(result["extra_data"].get("lateness")))
        self.grades = report.Grades(
            out, lab.known.questions, *([late] if cases is not None else [])
        )
        self.files = [h.file_name for h in handed]
        self.seconds = _seconds(out / "times.json")
        self._version = lab.version
        self._layers: Counter[str] = Counter()  # of what is kept
        self._marked: dict[str, dict[int, Marked]] = {}  # by submission and version, until all are
        for h in handed:
            self._look(h)

    def _look(self, h: Handed) -> None:
        result = report.read(self.out, h.file_name)
        if result is not None:
            self.grades.add(h.file_name, result)
        if result is None or self._outdated(h, result):
            self.todo.append(h.id)
        else:
            h.cells = []
            self._layers[result["extra_data"]["layer"]] += 1

    def _outdated(self, h: Handed, result: dict[str, Any]) -> bool:
        extra = result["extra_data"]
        return (
            extra["id"] != h.id
            or extra.get("version") != self._version
            or extra["status"] == "grader failed"
            or extra["digest"] != h.digest
            or extra.get("problem", "") != h.problem
            or (self.walled and not layers.Layer(extra["layer"]).wall)
            or h.id in self.regrade
        )

    def tasks(self) -> Iterator[Task]:
        """What is to be marked, one after the other."""
        for id in self.todo:
            yield from self.handed[id].tasks()
            for version in (self.handed[id], *self.handed[id].versions):
                version.cells = []

    def write(self, task: Task, marked: Marked) -> bool:
        """Put the marks of one submission on disk, once all its versions are marked: is
        it done now?
        """
        h = self.handed[task.id]
        marks = self._marked.setdefault(task.id, {})
        marks[task.version] = marked
        if len(marks) <= len(h.versions):
            return False
        ordered = [marks[version] for version in sorted(self._marked.pop(task.id))]
        best, points = best_of(ordered)
        marked = ordered[best]
        extra = {
            "version": self._version,
            "digest": h.digest,
            "lab": self.lab.source.lab,
            "layer": marked.layer,
            "problem": h.problem,
            "counted": best,
            "versions": points,
        }
        status = h.status if h.status and not points[best] else marked.status
        self._keep(h, report.result(h, marked.outcomes, status, marked.notes, extra))
        self.seconds[task.id] = round(sum(each.seconds for each in ordered), 2)
        return True

    def refresh(self) -> None:
        """Bring what is kept up to date where something beside its marks has changed: a
        person's marks, which file counts.
        """
        for h in self.handed.values():
            before = report.read(self.out, h.file_name)
            if before is not None and h.id not in self.todo:
                self._keep(h, before)

    def _keep(self, h: Handed, result: dict[str, Any]) -> None:
        lateness = self.cases[h.id].told if self.cases is not None else None
        dressed = report.dressed(result, h, self.marks.get(h.id, ()), self.waiting, lateness)
        if dressed != result:
            report.keep(self.out, h.file_name, dressed)
        self.grades.add(h.file_name, dressed)

    def write_tables(self) -> None:
        """Write ``grades.csv``, and how long each submission took: apart from the
        results, which say the same in every run.
        """
        self.grades.write(self.files)
        seconds = {id: self.seconds[id] for id in self.handed if id in self.seconds}
        report.put(self.out / "times.json", json.dumps(seconds, indent=1) + "\n")

    def remarks(self, layer: layers.Layer) -> list[str]:
        """What an instructor should know of the marks that were kept, and of hand-in
        times.
        """
        return self._late() + self._weak(layer)

    def _late(self) -> list[str]:
        cases = (self.cases or {}).values()
        late, unknown = (
            sum(bool(case.days) for case in cases),
            sum(case.days is None and not case.unread for case in cases),
        )
        said = (
            [f"{late} came late by the policy: the columns behind the points say what follows"]
            if late
            else []
        )
        if unknown:
            said.append(
                f"of {unknown} nothing says when they were handed in: write it under [times] of the"
                " policy, or give a roster that has it"
            )
        return said

    def _weak(self, layer: layers.Layer) -> list[str]:
        weak = sum(count for name, count in self._layers.items() if not layers.Layer(name).wall)
        if not weak or not layer.wall:
            return []
        return [
            f"{weak} kept from before were graded without a sandbox; --require-isolation grades"
            " them again in one"
        ]


def best_of(marked: Sequence[Marked]) -> tuple[int, list[float]]:
    """Which of a student's versions counts, and the points of each: the best, the
    likeliest of equals. One on which the grader itself failed comes first, for it is
    graded again.
    """
    points = [total(each.outcomes) for each in marked]
    failed = [each.status == "grader failed" for each in marked]
    return max(range(len(marked)), key=lambda i: (failed[i], points[i], -i)), points


def _seconds(path: Path) -> dict[str, float]:
    """Of earlier runs; none where the file is missing or damaged, for nothing rests on
    it.
    """
    try:
        return {
            str(id): float(seconds)
            for id, seconds in json.loads(path.read_text(encoding="utf-8")).items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
