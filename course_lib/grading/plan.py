"""What of a report is out of date: submission by submission, question by question; and how new marks join those that stay."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib.grading import isolation, policy, report
from course_lib.grading.byhand import Mark
from course_lib.grading.mark import Outcome, by_question, outcome
from course_lib.grading.marking import Lab, Marked, Task
from course_lib.grading.submissions import Handed


class Plan:
    """The work on one report: looks at what is there, gives out what is to be marked, writes what came of it.

    Args:
        out: the report's folder. lab: the tests, as they are now. versions: of every question, what its marks rest on.
        handed: the submissions. Their text is let go as soon as it is no longer needed.
        regrade: ids to mark again, questions: to mark again (in these submissions, or in all) though nothing has changed.
        walled: mark again what was marked without a wall. marks: a person's, by submission. cases: what a policy says of each
            submission; None without one.

    Attributes:
        todo: by id, the questions to mark. files: all submissions' names in the report, in the order of their ids.
        grades: the table of what is marked so far.
    """

    def __init__(
        self,
        out: Path,
        lab: Lab,
        versions: dict[str, str],
        handed: list[Handed],
        regrade: Iterable[str] = (),
        questions: Iterable[str] = (),
        walled: bool = False,
        marks: Mapping[str, Sequence[Mark]] | None = None,
        cases: Mapping[str, policy.Case] | None = None,
    ) -> None:
        self.out, self.lab, self.versions, self.handed = out, lab, versions, {h.id: h for h in handed}
        self.regrade, self.questions, self.walled = set(regrade), set(questions), walled
        self.marks, self.cases = marks or {}, cases
        self.waiting = {id: asked.by_hand for id, asked in lab.known.questions.items() if asked.by_hand}
        self.todo: dict[str, frozenset[str]] = {}
        late = (policy.COLUMNS, lambda result: policy.cells(result["extra_data"].get("lateness")))
        self.grades = report.Grades(out, lab.known.questions, *([late] if cases is not None else []))
        self.files = [h.file_name for h in handed]
        self.seconds = _seconds(out / "times.json")
        self._lost: dict[str, frozenset[str]] = {}
        self._layers: Counter[str] = Counter()  # of what is kept
        self._claims = {
            id: [report.entry(o)["name"] for o in group]
            for id, group in by_question(outcome(t, False, "") for t in lab.tests).items()
        }
        for h in handed:
            self._look(h)

    def _look(self, h: Handed) -> None:
        result = report.read(self.out, h.file_name)
        again = self._outdated(h, result)
        if result is not None:
            self.grades.add(h.file_name, result)
            self._lost[h.id] = frozenset(result["extra_data"].get("lost", ()))
        if again:
            self.todo[h.id] = again
        else:
            h.cells = []
            assert result is not None
            self._layers[result["extra_data"]["layer"]] += 1

    def _outdated(self, h: Handed, result: dict[str, Any] | None) -> frozenset[str]:
        """The questions to mark."""
        everything = frozenset(self.versions)
        if result is None:
            return everything
        extra = result["extra_data"]
        if extra["id"] != h.id:
            return everything
        recorded = extra.get("versions")
        if not isinstance(recorded, dict) or recorded.keys() != everything:
            return everything
        if extra["status"] == "grader failed" or extra["digest"] != h.digest:
            return everything
        if (extra["status"] == "unreadable") != bool(h.problem) or (h.problem and result["output"] != h.problem):
            return everything
        if self.walled and not isolation.Layer(extra["layer"]).wall:
            return everything
        if h.id in self.regrade and not self.questions:
            return everything
        asked = self.questions if not self.regrade or h.id in self.regrade else set()
        return frozenset(
            id
            for id, version in self.versions.items()
            if id in asked
            or recorded[id] != version
            or [t["name"] for t in result["tests"] if t["number"] == id and not t.get("by_hand")] != self._claims[id]
        )

    def partly(self) -> dict[str, list[str]]:
        """Of which submissions only some questions are to be marked, and which."""
        return {
            id: [q for q in self.versions if q in some] for id, some in self.todo.items() if some != set(self.versions)
        }

    def tasks(self) -> Iterator[Task]:
        """What is to be marked, one after the other."""
        for id, some in self.todo.items():
            h = self.handed[id]
            whole = some == frozenset(self.versions)
            yield Task(
                id,
                tuple(h.cells),
                h.problem,
                frozenset() if whole else some,
                frozenset() if whole else self._lost[id],
            )
            h.cells = []

    def write(self, task: Task, marked: Marked) -> None:
        """Put the marks of one submission on disk, beside those of its other questions that stay."""
        h = self.handed[task.id]
        outcomes, layer = list(marked.outcomes), marked.layer
        if not marked.whole and marked.status != "grader failed":
            before = report.read(self.out, h.file_name)
            assert before is not None  # it was there, and nobody else writes here
            stay = [q for q in self.versions if q not in task.questions]
            outcomes = self._joined(by_question(outcomes), before, stay)
            if not isolation.Layer(before["extra_data"]["layer"]).wall:
                layer = before["extra_data"]["layer"]
        extra = {
            "versions": self.versions,
            "digest": h.digest,
            "lab": self.lab.source.lab,
            "layer": layer,
            "lost": sorted(marked.lost),
        }
        self._keep(h, report.result(h, outcomes, marked.status, marked.notes, extra))
        if marked.whole:
            self.seconds[task.id] = round(marked.seconds, 2)

    def refresh(self) -> None:
        """Bring what is kept up to date where something beside its marks has changed: a person's marks, which file counts."""
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
        """Write ``grades.csv``, and how long each submission took: apart from the results, which say the same in every run."""
        self.grades.write(self.files)
        seconds = {id: self.seconds[id] for id in self.handed if id in self.seconds}
        report.put(self.out / "times.json", json.dumps(seconds, indent=1) + "\n")

    def _joined(self, new: dict[str, list[Outcome]], before: dict[str, Any], stay: list[str]) -> list[Outcome]:
        joined: list[Outcome] = []
        for id in self.versions:
            if id in stay:
                tests = [t for t in self.lab.tests if t.question == id]
                entries = [t for t in before["tests"] if t["number"] == id and not t.get("by_hand")]
                joined += [
                    outcome(t, e["status"] == "passed", e["output"]) for t, e in zip(tests, entries, strict=True)
                ]
            else:
                joined += new[id]
        return joined

    def remarks(self, layer: isolation.Layer) -> list[str]:
        """What an instructor should know of the marks that were kept, and of hand-in times."""
        return self._late() + self._weak(layer)

    def _late(self) -> list[str]:
        cases = (self.cases or {}).values()
        late, unknown = sum(bool(case.days) for case in cases), sum(case.days is None for case in cases)
        said = [f"{late} came late by the policy: the columns behind the points say what follows"] if late else []
        if unknown:
            said.append(
                f"of {unknown} nothing says when they were handed in: write it under [times] of the policy, or give a roster that has it"
            )
        return said

    def _weak(self, layer: isolation.Layer) -> list[str]:
        weak = sum(count for name, count in self._layers.items() if not isolation.Layer(name).wall)
        if not weak or not layer.wall:
            return []
        return [f"{weak} kept from before were graded without a wall; --require-isolation grades them again behind one"]


def _seconds(path: Path) -> dict[str, float]:
    """Of earlier runs; none where the file is missing or damaged, for nothing rests on it."""
    try:
        return {str(id): float(seconds) for id, seconds in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
