"""``course explain``: one question of one submission run again in the sandbox, on the inputs of its
marking; of each failed claim what was asked, what came, what was expected.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib import labs
from course_lib.grading import sandbox
from course_lib.grading.batch.collect import collect
from course_lib.grading.batch.result import read, read_batch
from course_lib.grading.batch.run import check_ids
from course_lib.grading.claims.alarm import WorkerLost
from course_lib.grading.claims.expect import Mistake, describe, expect_close, shortened
from course_lib.grading.claims.student import StudentError, Submission
from course_lib.grading.marking.lab import GradingSpec, Lab
from course_lib.grading.marking.marker import Outcome, earned
from course_lib.grading.marking.marker import explain as in_words
from course_lib.grading.sandbox import Worker
from course_lib.labs import Contract


@dataclass
class Call:
    """One request to the student's code, in words. alike: does the library answer the same?"""

    test: str
    asked: list[str]
    came: str
    expected: str = ""
    alike: bool = False


class Witness(Submission):
    """A submission that writes down what is asked of it."""

    contract: Contract
    calls: list[Call]
    test = ""

    def _ask(self, op: str, **fields: Any) -> Any:
        if op not in ("call", "value", "get", "exit") or not self.test:
            return super()._ask(op, **fields)
        shown = [str(fields.get("path") or fields.get("name") or op)]
        shown += [value(a) for a in fields.get("args", ())]
        shown += [f"{name} = {value(a)}" for name, a in fields.get("kwargs", {}).items()]
        function = None
        if op == "call" and "on" not in fields and not fields.get("returning"):
            question = self.contract.question_of(shown[0])
            plain = question and self.contract.exercise(question).plain
            function = self.contract.function(shown[0]) if plain else None
        args, kwargs = copy.deepcopy((fields["args"], fields["kwargs"])) if function else ((), {})
        came: Any = ...  # where the code raises
        try:
            came = super()._ask(op, **fields)
            call = Call(self.test, shown, value(came))
        except (StudentError, WorkerLost) as error:
            told = str(error) if isinstance(error, WorkerLost) else in_words(error, "the question")
            call = Call(self.test, shown, told)
            raise
        finally:
            self.calls.append(call)
            if function is not None:
                call.expected, call.alike = _expected(function, args, kwargs, came)
        return came


def _expected(function: Callable[..., Any], args: Any, kwargs: Any, came: Any) -> tuple[str, bool]:
    """What the library answers, and whether that came."""
    with torch.random.fork_rng(devices=[]):  # claims may draw from it next
        try:
            right = function(*args, **kwargs)
        except Exception as error:
            return f"{type(error).__name__}: {error}", came is ...
    try:
        expect_close(came, right, "what came")
    except (Mistake, RuntimeError, TypeError, ValueError):
        return value(right), False
    return value(right), True


def value(what: Any) -> str:
    """A value as a person can look at it: a small tensor with its numbers."""
    if isinstance(what, dict | tuple | list) and len(what) <= 20:
        items = what.items() if isinstance(what, dict) else enumerate(what)
        shown = (f"{key!r}: {value(item)}" for key, item in items)
        return f"a {type(what).__name__}\n" + "\n".join(shown)
    if not isinstance(what, Tensor):
        return shortened(describe(what), 4000)
    numbers = what.detach().cpu()
    array = (numbers.float() if numbers.dtype == torch.bfloat16 else numbers).numpy()
    text = np.array2string(array, threshold=64, edgeitems=2, max_line_width=100, separator=", ")
    return shortened(f"{what.dtype} of shape {tuple(what.shape)}\n{text}", 4000)


def explain(
    report: Path, id: str, question: str, tests: Callable[[str], Path], where: Path | None = None
) -> Iterator[str]:
    """The lines to print. tests: the folder of a lab's claims. where: the submissions are now."""
    about = read_batch(report)
    where = where or report / str(about.get("submissions", "submissions"))
    if not where.exists():
        raise FileNotFoundError(f"{where} is not there: name the submissions with --submissions")
    lab = str(about["lab"])
    found = {s.id: s for s in collect(where, lab, labs.load(lab).files).submissions}
    check_ids([id], list(found))
    marking = Lab(GradingSpec.read(tests(lab), int(about["seed"]), lab))
    mine = [t for t in marking.tests if t.question == question]
    if not mine:
        there = ", ".join(dict.fromkeys(t.question for t in marking.tests))
        raise ValueError(f"{lab} has no claims about {question!r}: there are {there}")
    result = read(report, found[id].file_name)
    if result is None or found[id].problem or result.digest != found[id].digest:
        why = found[id].problem or "not graded, or changed since: grade it first"
        raise ValueError(f"{id} cannot be run again: {why}")
    calls: list[Call] = []
    Recorder = type("Recorder", (Witness,), {"contract": marking.known, "calls": calls})
    worker = Worker(sandbox.best())
    try:
        with marking.open_marker(found[id].task(), worker, Recorder) as (marker, _):
            marker.observe = lambda test, given: setattr(Recorder, "test", test.name)
            outcomes = marker.question(question, mine)
    finally:
        worker.stop()
    before = sum(e.score for e in result.entries if e.number == question and not e.by_hand)
    most = sum(o.points for o in outcomes)
    now = earned(outcomes)
    yield f"{question} of {id}, {lab}: {before:g} of {most:g} points before, {now:g} now"
    if result.version != marking.version:
        yield "the claims have changed since this was graded: these are the present ones"
    for o in outcomes:
        verdict = "holds" if o.passed else "DOES NOT HOLD"
        yield f"{verdict}: {o.claim} ({o.earned:g} of {o.points:g})"
        yield from () if o.passed else _of_failed(o, [c for c in calls if c.test == o.test])


def _of_failed(o: Outcome, calls: list[Call]) -> Iterator[str]:
    yield f"  told: {o.message}"
    if o.message not in ("not written yet", "not answered yet"):
        unlike = [c for c in calls if c.expected and not c.alike]
        for c in (unlike or calls[-1:])[:1]:
            texts = {"asked": "\n".join(c.asked), "came": c.came, "expected": c.expected}
            for word, text in texts.items():
                yield from [f"  {word}: " + text.replace("\n", "\n    ")] * bool(text)
