"""Self-check in the notebook: ``check("1.3")``, ``check()``, ``skip("1.3")``.

The tests are those of the grader, run in the student's own process against the names in
the notebook. They teach; the mark is made elsewhere
(:mod:`course_lib.grading.batch.run`), where the student's process has no say in it.
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

from course_lib import labs
from course_lib.grading.claims.question import Test, texts_in
from course_lib.grading.claims.student import InProcess, Submission
from course_lib.grading.marking.lab import GradingSpec, Lab
from course_lib.grading.marking.marker import Marker, Outcome, by_question, earned, maximum, total
from course_lib.labs.contract import order
from course_lib.paths import course_root
from course_lib.student_code import own
from course_lib.student_code.watch import unwatched


class Card:
    """A table for a notebook (HTML) and for a terminal (text)."""

    def __init__(self, title: str, rows: list[tuple[str, str, str, str]], foot: str = "") -> None:
        self.title, self.rows, self.foot = title, rows, foot

    def _repr_html_(self) -> str:
        colours = {"✓": "#00724d", "✗": "#b3400a", "–": "#666666"}
        cells = "".join(
            f'<tr><td style="color:{colours[mark]};font-weight:bold;text-align:center"'
            f' title="{_SAID[mark]}">{mark}</td>'
            f'<td style="text-align:left">{html.escape(claim)}</td>'
            f'<td style="text-align:right">{html.escape(points)}</td>'
            f'<td style="text-align:left;white-space:normal;max-width:46em">'
            f"{html.escape(message)}</td></tr>"
            for mark, claim, points, message in self.rows
        )
        head = (
            "<tr><th></th><th style='text-align:left'>claim</th><th>points</th><th"
            " style='text-align:left'>what to look at</th></tr>"
        )
        foot = f"<p style='margin:.3em 0'>{html.escape(self.foot)}</p>" if self.foot else ""
        return (
            '<div class="course-check"><p style="margin:.3em'
            f' 0"><b>{html.escape(self.title)}</b></p>'
            f"<table><thead>{head}</thead><tbody>{cells}</tbody></table>{foot}</div>"
        )

    def __repr__(self) -> str:
        width = max([len(claim) for _, claim, _, _ in self.rows], default=0)
        lines = [
            f"  {mark} {claim:<{width}}  {points:>7}  {message}".rstrip()
            for mark, claim, points, message in self.rows
        ]
        return "\n".join([self.title, *lines, *([self.foot] if self.foot else [])])


BY_HAND = "read by your instructor"
_SAID = {"✓": "holds", "✗": "does not hold yet", "–": "not tried"}


def check(question: str | None = None) -> None:
    """Run a question's visible tests against the names in this notebook and show what
    holds.

    Args:
        question: "1.3"; without it, the progress of the whole lab.
    """
    namespace = _caller()
    if question is not None and (most := _asked(question).by_hand):
        _show(Card(f"{question}: {BY_HAND}, who gives up to {most:g} points", []))
        return
    lab = _visible(_lab_of(namespace) if question is None else _lab(question))
    tests = lab.tests if question is None else _tests(lab, question)
    with InProcess(namespace) as transport:
        names = [name for name in lab.known.files if Path(name).is_file()]
        beside = {name: Path(name).read_bytes() for name in names}
        marker = Marker(
            lambda: Submission(transport, beside), lab.known, skipped=_skipped(lab, namespace)
        )
        outcomes = marker.mark(tests)
    card = _progress(lab, namespace, outcomes) if question is None else _card(question, outcomes)
    card.foot = " ".join(filter(None, [card.foot, _to_hand_in(namespace)]))
    _show(card)


def skip(question: str) -> None:
    """Give a question up: bind the library's implementation, score 0, and let the rest
    of the lab run.

    Raises:
        ValueError: if the question asks for values, for a file, or is read by a person.
    """
    namespace = _caller()
    exercise = _asked(question)
    if not exercise.by_hand:
        _tests(_visible(_lab(question)), question)
    contract = labs.load(_lab(question))
    names = [
        name for name in exercise.names if contract.function(name) or callable(namespace.get(name))
    ]
    if not names:
        asked = BY_HAND if exercise.by_hand else ", ".join((*exercise.names, *exercise.files))
        raise AskedWrong(
            f"{question} asks for your own answer ({asked}): there is nothing to bind. Leave it, it"
            " costs only its own points."
        )
    for name in names:
        given = contract.function(name) or _nothing
        given = type(name, (given,), {}) if isinstance(given, type) else unwatched(given)
        given.skipped_question = question  # type: ignore[attr-defined]
        namespace[name] = given
    one = len(names) == 1
    where = (
        f"{'comes' if one else 'come'} from the library"
        if all(map(contract.function, names))
        else f"{'does' if one else 'do'} nothing: the library has no answer"
    )
    print(
        f"{question} skipped: {', '.join(names)} now {where}; the question scores 0. Remove this"
        " line to win its points back."
    )


def _nothing(*args: Any, **kwargs: Any) -> None:
    """In the place of an answer that the library does not have."""


def _caller() -> dict[str, Any]:
    """The names of whoever called ``check`` or ``skip``: the notebook's, or a
    script's.
    """
    return sys._getframe(2).f_globals


class AskedWrong(ValueError):
    """What was asked for is not there: a notebook shows the sentence and no
    traceback.
    """

    def _render_traceback_(self) -> list[str]:  # by which IPython asks
        return [str(self)]


def _lab(question: str) -> str:
    if not isinstance(question, str):
        raise AskedWrong(f'write the question in quotes: "{question}", not {question!r}')
    if not (named := re.fullmatch(r"([0-9]{1,2})\.[0-9]+", question)):
        raise AskedWrong(f'a question is named like "1.3", got {question!r}')
    lab = f"lab{int(named[1]):02d}"
    if lab not in labs.available():
        raise AskedWrong(f"there is no {lab}: the labs are {', '.join(labs.available())}")
    return lab


def _asked(question: str) -> labs.Exercise:
    """What the question asks for; nothing, where there is no such question."""
    return labs.load(_lab(question)).questions.get(question, labs.Exercise(()))


def _tests(lab: Lab, question: str) -> list[Test]:
    mine = [t for t in lab.tests if t.question == question]
    if not mine:
        there = ", ".join(sorted({t.question for t in lab.tests}, key=order))
        raise AskedWrong(f"{lab.known.lab} has no question {question}: there are {there}")
    return mine


def _visible(lab: str) -> Lab:
    """The lab with its visible claims."""
    root = course_root()
    if root is None:
        raise FileNotFoundError(
            "check needs the course's folder: start the notebook inside it, or set COURSE_ROOT"
            " to it"
        )
    folder = root / "tests" / "labs" / lab
    return Lab(GradingSpec(lab, texts_in(folder)[:1], str(folder), seed=0))


def _skipped(lab: Lab, namespace: dict[str, Any]) -> set[str]:
    """The questions whose answers are still what ``skip`` bound."""
    return {
        q
        for q, asked in lab.known.questions.items()
        if any(q == _given(namespace.get(name)) for name in asked.names)
    }


def _given(value: Any) -> Any:
    """The question for which ``skip`` bound this; None for what it did not."""
    try:
        return value.skipped_question
    except Exception:  # a student's object may do anything when it is asked
        return None


def _to_hand_in(namespace: dict[str, Any]) -> str:
    """Which files of the student's own the notebook needs, in a sentence; "" where it needs
    none. Those that a cell writes come with the notebook.
    """
    cells = "\n".join(str(cell) for cell in namespace.get("In", ()))
    written = {name.strip("'\"") for name in re.findall(r"^%%(?:write)?file\s+(.+)$", cells, re.M)}
    names = [name for name in own.files_of(namespace, Path.cwd()) if name not in written]
    if not names:
        return ""
    what = "that file" if len(names) == 1 else "those files"
    return f"Answers come from {', '.join(names)}: hand {what} in together with the notebook."


def _card(question: str, outcomes: list[Outcome]) -> Card:
    rows = [
        ("✓" if o.passed else "✗", o.claim, f"{o.earned:g} / {o.points:g}", o.message)
        for o in outcomes
    ]
    whole = earned(outcomes)
    most = sum(o.points for o in outcomes)
    foot = (
        "All visible claims hold. The grader tries all else that the docstring and the line on what"
        " is tested say: read them once more."
    )
    title = (
        f"{whole:g} of {most:g} visible points"
        if most
        else "looked at for its form only; the values are marked when you have handed in"
    )
    right = all(o.passed for o in outcomes)
    return Card(f"{question}: {title}", rows, foot if right else "")


def _progress(lab: Lab, namespace: dict[str, Any], outcomes: list[Outcome]) -> Card:
    known = lab.known
    rows = []
    for id, mine in by_question(outcomes).items():
        names = ", ".join(known.exercise(id).names)
        first = next((o.message for o in mine if not o.passed), "")
        points = f"{earned(mine):g} / {sum(o.points for o in mine):g}"
        bonus = " (optional)" if known.is_optional(id) else ""
        rows.append(("✓" if not first else "✗", f"{id} {names}{bonus}", points, first))
    for id, exercise in known.questions.items():
        if exercise.by_hand:
            rows.append(("–", id, f"… / {exercise.by_hand:g}", BY_HAND))
    for name in sorted(n for n in namespace if n.startswith("prediction_")):
        written = namespace[name] is not ...
        hint = "" if written else "write your guess down before you measure"
        rows.append(("✓" if written else "–", name, "", hint))
    return Card(f"{known.lab}: {total(outcomes):g} of {maximum(outcomes):g} visible points", rows)


def _lab_of(namespace: dict[str, Any]) -> str:
    """The lab whose graded names this notebook has most of."""
    count = {lab: sum(n in namespace for n in labs.load(lab).graded) for lab in labs.available()}
    best = max(count, key=lambda lab: count[lab])
    if not count[best]:
        raise AskedWrong(
            "no graded function is defined here yet: run the lab's cells first, or name a"
            ' question: check("1.1")'
        )
    return best


def _show(card: Card) -> None:
    from IPython.display import display

    display(card)  # prints it where there is no IPython
