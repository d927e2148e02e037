"""``course grade``: marks a folder of submissions. One submission at a time per worker; what is done is on disk at once."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.grading import isolation, reference, report
from course_lib.grading.claims import load_tests, tests_in
from course_lib.grading.mark import Marker, Outcome, outcome
from course_lib.grading.submission import Submission
from course_lib.grading.submissions import Handed, find
from course_lib.grading.workers import Worker


@dataclass(frozen=True)
class Batch:
    """What one run of ``course grade`` did."""

    report: Path
    graded: list[str]
    kept: list[str]
    layer: isolation.Layer
    seed: int


def grade(
    lab: str,
    submissions: Path,
    out: Path,
    *,
    tests: Path,
    jobs: int | None = None,
    seed: int | None = None,
    layer: isolation.Layer | None = None,
    progress: Callable[[str, int, int], None] = lambda id, done, all: None,
) -> Batch:
    """Mark every submission of a folder that is not marked yet.

    Args:
        lab: "lab01".
        submissions: notebooks, or one folder or zip per student.
        out: the report's folder; results that are there, of the same notebook and the same tests, are kept.
        tests: the lab's test module.
        jobs: workers beside each other; by default one a core.
        seed: from which the inputs are drawn; by default the report's own, or a fresh one.
        layer: how to separate submissions; by default the strongest that works here.
        progress: called with (id, number done, number of all) after each submission.

    Raises:
        FileNotFoundError: without submissions or tests. ValueError: if the lab does not exist, or ``out`` holds a report of
        another lab.
    """
    known = reference.load(lab)
    module_tests = tests_in(load_tests(tests))
    handed = find(submissions, lab)
    (out / "results").mkdir(parents=True, exist_ok=True)
    (out / "feedback").mkdir(exist_ok=True)
    seed = _settle(out / "batch.json", lab, seed)
    version = hashlib.sha256(tests.read_bytes() + str(seed).encode()).hexdigest()[:16]
    layer = layer or isolation.best()
    todo = [h for h in handed if not _done(out, h, version)]
    kept = [h.id for h in handed if h not in todo]
    workers = _Workers(layer)

    def one(h: Handed) -> None:
        try:
            outcomes, status, notes = _mark(h, known, module_tests, workers, seed)
        except Exception as error:  # a fault of the grader's own: it costs one row, which the next run grades again
            why = f"the grader itself failed on this submission ({type(error).__name__}: {error}): grade it again, and look at its code"
            outcomes, status, notes = [outcome(t, False, why) for t in module_tests], "grader failed", [why]
        report.write(
            out, h, outcomes, status, notes, {"version": version, "digest": h.digest, "lab": lab, "layer": layer.name}
        )

    try:
        with ThreadPoolExecutor(max(1, jobs or os.cpu_count() or 1)) as pool:
            waiting = {pool.submit(one, h): h for h in todo}
            try:
                for number, done in enumerate(as_completed(waiting), start=1):
                    done.result()
                    report.table(out, [h.id for h in handed], [h.file_name for h in handed], list(known.questions))
                    progress(waiting[done].id, number, len(todo))
            except BaseException:  # interrupted: what is running ends, what waits is left for the next time
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        workers.stop()
    report.table(out, [h.id for h in handed], [h.file_name for h in handed], list(known.questions))
    return Batch(out, [h.id for h in todo], kept, layer, seed)


def _mark(
    h: Handed, known: reference.Reference, tests: list[Any], workers: _Workers, seed: int
) -> tuple[list[Outcome], str, list[str]]:
    """Outcomes, a word for the table, and sentences for the student."""
    if h.problem:
        return [outcome(t, False, h.problem) for t in tests], "unreadable", [h.problem]
    notes: list[str] = []

    def open() -> Submission:
        session = workers.mine().open(h.cells, known.graded)
        if not notes:
            notes.extend(session.problems)
        workers.remember(session)
        return Submission(session)

    marker = Marker(open, known, seed, h.skipped)
    try:
        outcomes = marker.mark(tests)
    finally:
        workers.forget()
    if marker.unopened:
        return outcomes, "stopped", [marker.unopened]
    return outcomes, "graded", notes


def _settle(path: Path, lab: str, seed: int | None) -> int:
    """The batch's seed: the one asked for, the one recorded, or a fresh one; recorded."""
    recorded: dict[str, Any] = {}
    if path.exists():
        try:
            recorded = json.loads(path.read_text())
        except ValueError:
            recorded = {}
        if recorded.get("lab", lab) != lab:
            raise ValueError(f"{path.parent} holds the report of {recorded['lab']}: give another folder for {lab}")
    chosen = seed if seed is not None else int(recorded.get("seed", secrets.randbelow(1 << 31)))
    report.put(path, json.dumps({"lab": lab, "seed": chosen}, indent=1) + "\n")
    return chosen


def _done(out: Path, h: Handed, version: str) -> bool:
    try:
        extra = json.loads((out / "results" / f"{h.file_name}.json").read_text())["extra_data"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    same = extra.get("version") == version and extra.get("digest") == h.digest
    return same and extra.get("status") != "grader failed" and not h.problem


class _Workers:
    """One warm worker a thread."""

    def __init__(self, layer: isolation.Layer) -> None:
        self.layer = layer
        self.local = threading.local()
        self.all: list[Worker] = []

    def mine(self) -> Worker:
        if not hasattr(self.local, "worker"):
            self.local.worker = Worker(self.layer)
            self.local.sessions = []
            self.all.append(self.local.worker)
        return self.local.worker

    def remember(self, session: Any) -> None:
        self.local.sessions.append(session)

    def forget(self) -> None:
        for session in getattr(self.local, "sessions", []):
            session.close()
        if hasattr(self.local, "sessions"):
            self.local.sessions.clear()

    def stop(self) -> None:
        for worker in self.all:
            worker.stop()
