"""``course mistakes``: for instructors alone, the mistakes that a lab's claims know by
name, with the points that each costs.

The claims mark the solution and say what they compare its answers with; then they mark it
with each function of ``WRONG`` in the place of the right one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from course_lib import files
from course_lib.authoring import source
from course_lib.authoring.contract import claims_of
from course_lib.grading.claims import mistakes, typed
from course_lib.grading.claims.question import Test, wrong_functions
from course_lib.grading.claims.student import InProcess, Submission
from course_lib.grading.marking.lab import GradingSpec, Lab
from course_lib.grading.marking.marker import Marker, Outcome
from course_lib.student_code import cells
from course_lib.student_code.watch import unwatched

FOLDER = Path("build") / "mistakes"  # of which no release and no site takes anything
_ABOUT = """# Common mistakes · {title}

For instructors: this page names hidden tests. The sentences are those that the grader prints. The
number before a sentence is the points that the mistake costs. ≥ means that further tests may fail,
too. *hidden* means that only hidden tests find the mistake, so `check` does not show it to
students. Numbers and names in a sentence can be those of one drawn input.
"""
_DRAWN = re.compile(r"'.+?'|[\d.]+")
# functions with which claims compare: arguments -> sign before the points, where, sentence
_COMPARING: dict[Callable[..., None], Callable[[dict[str, Any]], list[tuple[str, str, str]]]] = {
    mistakes.recognise: lambda given: [("≥ ", "", said) for said in given["mistakes"]],
    typed.expect_choice: lambda given: [
        ("", f"`{given['name']}`: ", said) for said in given["misread"].values()
    ],
    typed.expect_figure: lambda given: [
        ("", f"instead of {given['what']}: ", said) for *_, said in given["misread"]
    ],
}


def write(root: Path, labs: list[str] | None = None) -> Iterator[Path]:
    """Write the pages of ``labs`` (all where it is None), one after the other.

    Raises:
        AuthoringError: where there are no solutions, as in a release. RuntimeError: if a
            solution fails its claims.
    """
    for path in source.chosen(source.sources(root), labs):
        lab, page = source.read(path, root), root / FOLDER / f"{path.stem[:5]}.md"
        found, lines = known(lab, root), [_ABOUT.format(title=lab.title)]
        for question in lab.questions:
            lines.append(f"## {question.id} {question.title} (points: {question.points:g})\n")
            lines += [*(found[question.id] or ["The tests know no mistake by name."]), ""]
        page.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomic(page, "\n".join(lines).encode())
        yield page


def known(solved: source.Lab, root: Path) -> dict[str, list[str]]:
    """By question, a line of the page for each mistake, those of ``WRONG`` first."""
    folder, heard = claims_of(solved.name, root), list[tuple[str, str, str]]()

    def hearing(function: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            heard.extend(_COMPARING[function](inspect.getcallargs(function, *args, **kwargs)))
            function(*args, **kwargs)

        return call

    with ExitStack() as stack:  # while the claims are imported
        for function in _COMPARING:
            module = inspect.getmodule(function)
            stack.enter_context(mock.patch.object(module, function.__name__, hearing(function)))
        lab = Lab(GradingSpec.read(folder, seed=1))
    beside = {name: (folder / "files" / name).read_bytes() for name in lab.known.files}
    code = [cell.source for cell in solved.cells if cell.kind == "code"]
    names = cells.run(code, lab.known.graded).namespace

    def failed(tests: list[Test]) -> list[Outcome]:
        with InProcess(names) as transport:
            marker = Marker(lambda: Submission(transport, beside), lab.known, lab.spec.seed)
            return [outcome for outcome in marker.mark(tests) if not outcome.passed]

    compared = []
    for test in lab.tests:
        heard.clear()
        if wrong := failed([test]):
            raise RuntimeError(f"{test.name}: the solution fails it ({wrong[0].message})")
        compared += [(test, *said) for said in heard]
    found: dict[str, list[str]] = {question: [] for question in lab.known.questions}
    asked = {name: q for q, exercise in lab.known.questions.items() for name in exercise.names}
    told: set[tuple[str, str]] = set()
    for _, name, sentence, function in wrong_functions(solved.name):
        with mock.patch.dict(names, {name: unwatched(function)}):
            lost = failed([test for test in lab.tests if test.question == asked[name]])
        seen, cost = any(o.visible for o in lost), f"{sum(o.points for o in lost):g}"
        found[asked[name]].append(_line(cost, seen, f"`{name}`: {sentence}"))
        told.add((asked[name], sentence))
    for test, sign, where, sentence in compared:
        alike = _DRAWN.sub("", sentence) if sign else sentence  # one of those alike is enough
        if not told & {(test.question, sentence), (test.question, alike)}:
            line = _line(f"{sign}{test.points:g}", test.visible, where + sentence)
            found[test.question].append(line)
            told.add((test.question, alike))
    return found


def _line(points: str, seen: bool, text: str) -> str:
    return f"- **{points}**{'' if seen else ', *hidden*'} · {text}"
