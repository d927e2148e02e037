"""Self-check in the notebook: ``check("1.3")``, ``check()``, ``skip("1.3")``.

The tests are those of the grader, run in the student's own process against the names in
the notebook. They teach; the mark is made elsewhere
(:mod:`course_lib.grading.batch.run`), where the student's process has no say in it.
"""

from __future__ import annotations

import html
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from course_lib import labs
from course_lib.grading.claims.expect import describe
from course_lib.grading.claims.question import Test, texts_in
from course_lib.grading.claims.student import InProcess, Submission
from course_lib.grading.marking.lab import GradingSpec, Lab
from course_lib.grading.marking.marker import (
    NOT_RUN,
    Marker,
    Outcome,
    by_question,
    earned,
    maximum,
    total,
)
from course_lib.labs.contract import order
from course_lib.paths import visible_claims
from course_lib.student_code import own
from course_lib.student_code.watch import unwatched


class Card:
    """A table for a notebook (HTML) and for a terminal (text)."""

    def __init__(self, title: str, rows: list[tuple[str, str, str, str]], foot: str = "") -> None:
        self.title, self.rows, self.foot = title, rows, foot

    def _repr_html_(self) -> str:
        # legible on a light and on a dark page; all other letters have the page's own colour
        colours = {"✓": "#008a5e", "✗": "#d04f00", "○": "inherit", "–": "inherit"}
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
            "<tr><th></th><th style='text-align:left'>test</th><th>points</th><th"
            " style='text-align:left'>message</th></tr>"
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


BY_HAND = "marked by your instructor"
_SAID = {"✓": "passed", "✗": "failed", "○": "only the form was checked", "–": "not run"}


def check(question: str | None = None) -> None:
    """Run a question's visible tests against the names in this notebook and show what
    holds.

    Args:
        question: "1.3"; without it, the progress of the whole lab.

    Raises:
        ValueError: if the question is none of this notebook's lab, or there are no claims.
    """
    namespace = _caller()
    name = _only_lab(namespace) if question is None else _lab("check", question, namespace)
    if question is not None and (most := _asked(name, question).by_hand):
        _show(Card(f"{question}: {BY_HAND}, up to {most:g} points", []))
        return
    lab = _visible(name)
    tests = lab.tests if question is None else _tests(lab, question)
    with InProcess(namespace, lab.known.graded, all_ran=False) as transport:
        names = [name for name in lab.known.files if Path(name).is_file()]
        beside = {name: Path(name).read_bytes() for name in names}
        marker = Marker(
            lambda: Submission(transport, beside), lab.known, skipped=_skipped(lab, namespace)
        )
        outcomes = marker.mark(tests)
    card = _progress(lab, namespace, outcomes) if question is None else _card(question, outcomes)
    card.foot = " ".join(filter(None, [card.foot, _to_hand_in(namespace)]))
    _show(card)


def skip(question: str | None = None) -> None:
    """Give a question up: bind the library's implementation, score 0, and let the rest
    of the lab run.

    Args:
        question: "1.3".

    Raises:
        ValueError: if no question is named, or one that is none of this notebook's lab,
            that asks for values or for a file, or that a person reads.
    """
    namespace = _caller()
    if question is None:
        raise AskedWrong('name the question to skip: skip("1.3")')
    lab = _lab("skip", question, namespace)
    exercise = _asked(lab, question)
    if not exercise.by_hand:
        _tests(_visible(lab), question)
    contract = labs.load(lab)
    names = [
        name for name in exercise.names if contract.function(name) or callable(namespace.get(name))
    ]
    if not names:
        asked = BY_HAND if exercise.by_hand else ", ".join((*exercise.names, *exercise.files))
        raise AskedWrong(
            f"question {question} cannot be skipped: it asks for your own answer ({asked}). Leave"
            " it as it is; you lose only its points."
        )
    for name in names:
        given = contract.function(name) or _nothing
        given = type(name, (given,), {}) if isinstance(given, type) else unwatched(given)
        given.skipped_question = question  # type: ignore[attr-defined]
        namespace[name] = given
    where = (
        "from the library" if all(map(contract.function, names)) else "a function that does nothing"
    )
    print(
        f"You skipped question {question}, so it scores 0. {', '.join(names)}: {where}. To answer"
        " the question later, delete this line and run your answer's cell."
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
        return _lines(str(self))


def _lines(sentence: str) -> list[str]:
    """In lines that fit into a notebook's page, which would break within a word."""
    return textwrap.wrap(sentence, 88, break_long_words=False, break_on_hyphens=False)


def explain_unwritten() -> None:
    """Let the shell that runs this show one sentence, and no traceback, where a cell
    reaches a function that the student has not written.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.set_custom_exc((NotImplementedError,), _show_unwritten)


def _show_unwritten(shell: Any, kind: Any, error: Any, trace: Any, tb_offset: Any = None) -> None:
    # as course_lib.authoring.student writes it into a handout
    if placeholder := re.fullmatch(r"([0-9.]+) ([\w.]+): write this \w+", str(error)):
        question, name = placeholder.groups()
        sentence = (
            f"This cell stopped: {name} is not written yet. Write it below question {question}, run"
            " its cell, then run this cell and those below it; or give it up with"
            f' skip("{question}").'
        )
        error._render_traceback_ = lambda: _lines(sentence)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


explain_unwritten()


def _lab(call: str, question: str, namespace: dict[str, Any]) -> str:
    """The lab of a question that was asked for by ``check`` or ``skip``."""
    if not isinstance(question, str):
        _refuse(call, question, namespace)
    if not (named := re.fullmatch(r"([0-9]{1,2})\.[0-9]+", question)):
        raise AskedWrong(f'a question is named like "1.3", got {question!r}')
    lab = f"lab{int(named[1]):02d}"
    if lab not in labs.available():
        raise AskedWrong(f"there is no {lab}: the labs are {', '.join(labs.available())}")
    if (own := _labs_of(namespace)) and lab not in own:
        raise AskedWrong(
            f"{question} is a question of {_in_words([lab])}; this is the notebook of"
            f" {_in_words(own)}"
        )
    return lab


def _refuse(call: str, question: object, namespace: dict[str, Any]) -> NoReturn:
    """Say how a question is named, where something else than a text was given."""
    names = [name for name, value in namespace.items() if value is question]
    contracts = map(labs.load, _labs_of(namespace) or labs.available())
    for asking, name in ((c.question_of(name), name) for c in contracts for name in names):
        if asking:
            raise AskedWrong(f'write the question in quotes: {call}("{asking}") is for {name}')
    if isinstance(question, int | float):
        raise AskedWrong(f'write the question in quotes: "{question}", not {question!r}')
    raise AskedWrong(f'write the question in quotes, such as "1.3"; got {describe(question)}')


def _asked(lab: str, question: str) -> labs.Exercise:
    """What the question asks for; nothing, where there is no such question."""
    return labs.load(lab).questions.get(question, labs.Exercise(()))


def _tests(lab: Lab, question: str) -> list[Test]:
    mine = [t for t in lab.tests if t.question == question]
    if not mine:
        there = ", ".join(sorted({t.question for t in lab.tests}, key=order))
        raise AskedWrong(f"{lab.known.lab} has no question {question}: there are {there}")
    return mine


def _visible(lab: str) -> Lab:
    """The lab with its visible claims."""
    try:
        folder = visible_claims(lab)
    except ValueError as error:  # COURSE_ROOT is no folder
        raise AskedWrong(str(error)) from None
    if folder is None:
        raise AskedWrong(
            f"the tests of {lab} are neither in this folder nor in the installed package: start the"
            " notebook inside the course's folder, or set COURSE_ROOT to that folder"
        )
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
    what = "this file" if len(names) == 1 else "these files"
    return f"Your answers import {', '.join(names)}: hand in {what} together with the notebook."


def _card(question: str, outcomes: list[Outcome]) -> Card:
    rows, said = [], set()
    for o in outcomes:  # one cause is said once
        message = o.message if o.message not in said else ""
        rows.append((_mark([o]), o.claim, f"{o.earned:g} / {o.points:g}", message))
        said.add(o.message)
    most = sum(o.points for o in outcomes)
    title = (
        f"{earned(outcomes):g} of {most:g} visible points"
        if most
        else "only the form is checked here; the values are marked after you hand in"
    )
    foot = "All visible tests pass. Hidden tests check the rest of the docstring."
    passed = most and all(o.passed for o in outcomes)
    return Card(f"{question}: {title}", rows, foot if passed else "")


def _progress(lab: Lab, namespace: dict[str, Any], outcomes: list[Outcome]) -> Card:
    known = lab.known
    rows = []
    for id, mine in by_question(outcomes).items():
        names = ", ".join(known.exercise(id).names)
        first = next((o.message for o in mine if not o.passed), "")
        points = f"{earned(mine):g} / {sum(o.points for o in mine):g}"
        bonus = " (optional)" if known.is_optional(id) else ""
        rows.append((_mark(mine), f"{id} {names}{bonus}", points, first))
    for id, exercise in known.questions.items():
        if exercise.by_hand:
            rows.append(("–", id, f"… / {exercise.by_hand:g}", BY_HAND))
    for name in sorted(n for n in namespace if n.startswith("prediction_")):
        written = namespace[name] is not ...
        hint = "" if written else "write down your prediction before you measure"
        rows.append(("○" if written else "–", name, "", hint))
    return Card(f"{known.lab}: {total(outcomes):g} of {maximum(outcomes):g} visible points", rows)


def _mark(outcomes: list[Outcome]) -> str:
    if all(o.passed for o in outcomes):
        return "✓" if any(o.points for o in outcomes) else "○"
    left = all(o.message.startswith(NOT_RUN) for o in outcomes if not o.passed)
    return "–" if left and not any(o.passed for o in outcomes) else "✗"


def _labs_of(namespace: dict[str, Any]) -> list[str]:
    """The labs whose experiments a notebook has imported: its first cell imports its own."""
    imported = {vars(v).get("__name__") for v in list(namespace.values()) if type(v) is ModuleType}
    return [lab for lab in labs.available() if f"course_lib.experiments.{lab}" in imported]


def _only_lab(namespace: dict[str, Any]) -> str:
    """The lab of this notebook, where no question was named."""
    match _labs_of(namespace):
        case [lab]:
            return lab
        case []:
            raise AskedWrong(
                "check() does not know which lab this is: run the notebook's first cell, or name a"
                ' question: check("1.1")'
            )
        case several:
            raise AskedWrong(
                f"this notebook has imported the experiments of {_in_words(several)}: name a"
                ' question: check("1.1")'
            )


def _in_words(found: Sequence[str]) -> str:
    """ "lab 01 and lab 07" of their modules' names."""
    return " and ".join(f"lab {lab.removeprefix('lab')}" for lab in found)


def _show(card: Card) -> None:
    from IPython.display import display

    display(card)  # prints it where there is no IPython
