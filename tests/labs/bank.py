"""Wrong answers that somebody believes in, and right ones in other styles: what each
must lose or keep, and what it is told.

They stand in ``labNN/answers/N.k.txt``, one file a question. An answer begins with a
line that says what must happen::

    loses counts_weights · single weights went
    loses no_zeros_kept · the last row · also 1.4
    loses one_of_two · single weights went · holds the last row
    keeps by_sorting

A wrong answer loses points of its question and of those named with ``also`` (which rest
on it), and nothing else; some claim of its question that fails says the words, and one
with the words behind ``holds`` holds all the same. A right one keeps all. Below it stands the code, or, after ``· from NAME``, what it changes in
another answer of the file or in the ``solution``: lines that go begin with ``-``, lines
that come with ``+``, those that only say where with a blank; ``...`` parts two places.
``· in a worker`` sends it through a process of its own: it would end this one.

Wrong *functions* that the claims themselves know by name (``WRONG`` in ``visible.py``
and ``hidden.py``: graded name -> sentence -> function) are answers, too: each must lose
its question with that sentence, and where the grader cannot answer in its place, it
may cost the questions that need this one by their heading.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.grading.claims.question import wrong_functions
from solutions import LABS, solved

HERE = Path(__file__).parent
HEAD = re.compile(
    r"(?P<kind>loses|keeps) (?P<name>\w+)(?: · (?P<says>(?!·|also \d|from \w+$|in a worker).+?))?"
    r"(?: · also (?P<also>[\d., ]+))?(?: · holds (?P<holds>.+?))?(?: · from (?P<base>\w+))?(?P<worker> · in a worker)?$"
)


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        question: what it answers. says: words of the message; None for a right answer.
        also: questions that may lose points with it. holds: words of a claim that keeps
            its points; "" if none is named. code: what is handed in behind the
            solution, or
        functions: what takes the place of graded names, where the claims have it as a
            function.
    """

    lab: str
    question: str
    name: str
    says: str | None
    also: frozenset[str] = frozenset()
    holds: str = ""
    code: str = ""
    functions: tuple[tuple[str, Callable[..., Any]], ...] = ()
    worker: bool = False

    def __str__(self) -> str:
        return f"{self.lab}-{self.question}-{self.name}"


@functools.cache
def answers(lab: str) -> list[Answer]:
    """All of a lab, those from files first."""
    return [
        a for path in sorted((HERE / lab / "answers").glob("*.txt")) for a in _read(path)
    ] + _of_tables(lab)


def _read(path: Path) -> list[Answer]:
    """Raises ValueError where an answer does not begin as it should, or its change does
    not fit what it changes.
    """
    lab, question = path.parents[1].name, path.stem
    entries: list[tuple[re.Match[str], list[str]]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if re.match(r"(loses|keeps) ", line):
            head = HEAD.match(line)
            if not head or (head["kind"] == "loses") != bool(head["says"]):
                raise ValueError(
                    f"{path.name}, line {number}: {line!r} should say `loses NAME · words of the message` or `keeps NAME`"
                )
            entries.append((head, []))
        elif entries:
            entries[-1][1].append(line)
    codes: dict[str, str] = {}
    found = []
    for head, lines in entries:
        body = "\n".join(lines).strip("\n")
        if head["name"] in codes:
            raise ValueError(f"{path.name}: {head['name']} stands there twice")
        if head["base"]:
            base = (
                codes.get(head["base"]) if head["base"] != "solution" else _solution(lab, question)
            )
            if base is None:
                raise ValueError(
                    f"{path.name}: {head['name']} is from {head['base']}, which is not above it"
                )
            body = changed(base, body, f"{path.name}, {head['name']}")
        codes[head["name"]] = body
        also = frozenset(re.findall(r"\d+\.\d+", head["also"] or ""))
        found.append(
            Answer(
                lab,
                question,
                head["name"],
                head["says"],
                also,
                head["holds"] or "",
                body,
                worker=bool(head["worker"]),
            )
        )
    return found


def _solution(lab: str, question: str) -> str:
    return solved(lab).definition(set(solved(lab).lab.known.exercise(question).names))


def changed(base: str, change: str, where: str) -> str:
    """``base`` with the lines changed; ValueError where a place is not there, or there
    twice.
    """
    lines = base.split("\n")
    places: list[tuple[int, list[str], list[str]]] = []
    for place in re.split(r"^\.\.\.$", change, flags=re.MULTILINE):
        some = place.strip("\n").split("\n")
        if any(line and line[0] not in " +-" for line in some):
            raise ValueError(f"{where}: a line of a change begins with -, + or a blank")
        old = [line[1:] for line in some if line[:1] != "+"]
        new = [line[1:] for line in some if line[:1] != "-"]
        at = [i for i in range(len(lines) - len(old) + 1) if lines[i : i + len(old)] == old]
        if len(at) != 1:
            raise ValueError(
                f"{where}: {old} stands {len(at)} times in what it changes, and should once"
            )
        places.append((at[0], old, new))
    # from below, so that places above stay where they are
    for start, old, new in sorted(places, reverse=True):
        lines[start : start + len(old)] = new
    return "\n".join(lines)


def _of_tables(lab: str) -> list[Answer]:
    """What the claims know as wrong functions."""
    questions = solved(lab).lab.known.questions
    question = {name: q for q, exercise in questions.items() for name in exercise.names}
    found = []
    helpers = solved(lab).lab.known.helpers
    for number, (file, name, sentence, function) in enumerate(wrong_functions(lab)):
        q = question[name]
        # that rest on it, where the grader cannot answer in its place
        alone = questions[q].plain or name in helpers
        also = frozenset[str]() if alone else frozenset(resting_on(lab, q))
        label = f"{name}_{file}_{number}"
        found.append(Answer(lab, q, label, sentence, also, functions=((name, function),)))
    return found


def resting_on(lab: str, question: str) -> set[str]:
    """The questions that need this one by their heading."""
    return {q for q, needs in solved(lab).needs.items() if question in needs}


def sample(lab: str, each: int = 1) -> list[Answer]:
    """The same few of every question: as many wrong ones from files and from tables,
    and one right one.
    """
    chosen = []
    for question in solved(lab).lab.known.questions:
        mine = [a for a in answers(lab) if a.question == question]
        kinds = (
            [a for a in mine if a.says and a.code],
            [a for a in mine if a.functions],
            [a for a in mine if a.says is None],
        )
        for kind, count in zip(kinds, (each, each, 1), strict=True):
            chosen += kind[:: max(1, len(kind) // count)][:count] if kind else []
    return chosen


__all__ = ["LABS", "Answer", "answers", "sample"]
