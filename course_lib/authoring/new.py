"""``course new``: the skeletons of an exercise and of a lab, in all the places where
one is known.

What they write is whole (a build takes it, the claims can be imported) and right in
nothing: every ``TODO`` is an author's. Text is added, none that is there is changed;
imports that the skeleton needs stand below those of the file, for ``ruff check --fix``
to sort.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable
from pathlib import Path

from course_lib import files
from course_lib.authoring import build, claims, contract, source
from course_lib.authoring.errors import AuthoringError, error, shown
from course_lib.labs.contract import order
from course_lib.student_code.cells import scope

Import = tuple[str, str, str]  # module, name, what it is called here

_HEADER = """\
# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab {number:02d} · {title}
#
# **TODO: the one question that this lab answers by an experiment.**
#
# 1 point; TODO hours. After each exercise `check("{number}.1")` tells you at once what is
# right. If you are stuck, write `skip("{number}.1")` in a cell: that question scores 0 and
# the rest of the lab goes on with the course's version.

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import torch

"""
_CELLS = '''\
# %% [markdown]
# ### {question} TODO: a title
# **10 minutes · 1 point**
#
# TODO: one idea, and the question that it answers. Ask before you tell.


# %%
def {name}(weight):
    """TODO: what it returns, in one sentence.

    Args:
        weight: TODO: what it means, of which shape.

    Returns:
        TODO: what, of which shape and dtype.
    """
    {begin}
    raise NotImplementedError("TODO: the solution of {question}, as a good student would write it")
    {end}


# %%
check("{question}")

# %% [markdown]
# <details><summary>Hint 1: where to start</summary>TODO: a first step, never the answer.</details>

'''
_CONTRACT = '''\
"""Lab {number:02d}, {title}: its contracts answered by the library."""

from __future__ import annotations

from course_lib.labs.contract import Contract

lab = Contract("lab{number:02d}")
'''
_ANSWER = '''\


@lab.asks("{question}")
def {name}(weight):
    """{question}: TODO: what it returns, in a line."""
    raise NotImplementedError("TODO: let the library answer {question} here")
'''
_CLAIMS = '''\
"""Lab {number:02d}, {title}: {what}"""

from __future__ import annotations
'''
_TABLES = "\nWRONG: dict[str, dict[str, Callable[..., Any]]] = {}\n"
_TABLE = """\
WRONG["{name}"] = {{
    "TODO: what this code did, in the student's terms, and the next thought": lambda weight: weight,
}}
"""
_RULE = "\n\n# --- {question} {name} {line}\n\n"
_VISIBLE = """\


@question("{question}", points=0.5, claim="TODO: what is true, in a few words")
def test_{name}(submission: Submission, draw: Draw) -> None:
    def weights() -> tuple[Any]:
        return (draw.normal(draw.integer(3, 6), draw.integer(2, 5)),)

    (weight,), right, mistakes = draw_case(weights, reference.{name}, WRONG["{name}"])
    value = submission.{name}(weight)
    recognise(value, right, mistakes)
    expect_equal(value, right)
"""
_HIDDEN = """\

@question("{question}", points=0.5, claim="TODO: what else is true, in a few words")
def test_{name}_further(submission: Submission, draw: Draw) -> None:
    weight = draw.tied(4, 6)
    expect_equal(submission.{name}(weight), reference.{name}(weight))
"""
_ANSWERS = """\
loses todo_a_mistake_of_its_own · TODO: words of the message
def {name}(weight):
    return weight

keeps todo_in_another_style
def {name}(weight):
    raise NotImplementedError("TODO")

keeps todo_in_a_third
def {name}(weight):
    raise NotImplementedError("TODO")
"""
_GRADING, _MISTAKES = "course_lib.grading", "course_lib.grading.claims.mistakes"
_SAME = [(_GRADING, name, name) for name in ("Draw", "Submission", "expect_equal", "question")]
_OF_VISIBLE = [
    *_SAME,
    *((_MISTAKES, name, name) for name in ("draw_case", "recognise")),
    ("collections.abc", "Callable", "Callable"),
    ("typing", "Any", "Any"),
]


def exercise(root: Path, lab: str, question: str, name: str) -> list[Path]:
    """Write the skeleton of an exercise into a lab: source, contract, claims with their
    table, answers.

    It stands behind the exercise with the next lower number, before the next heading.

    Args:
        root: the course folder. lab: ``"lab01"``, ``"1"`` or a whole slug.
        question: ``"1.10"``. name: of the function that is graded.

    Returns:
        The files, the answers' new, the others with more in them.

    Raises:
        AuthoringError: if there is no such lab, or it cannot be read. ValueError: if
            the number or the name cannot be had.
        FileExistsError: if there are answers to this question already. Nothing is
            written then.
    """
    (path,) = build.chosen(source.sources(root), [lab], root)
    read = source.read(path, root)
    _check_number(read, question)
    _check_name(name)
    asked, folder = contract.contract_of(read.name, root), claims.claims_of(read.name, root)
    visible, hidden = (folder / file for file in claims.FILES)
    answers = folder / "answers" / f"{question}.txt"
    for needed in (asked, visible, hidden):
        if not needed.is_file():
            raise error(
                shown(needed, root),
                1,
                f"{read.name} has no such file: see what `course new lab` writes",
            )
    if answers.exists():
        raise FileExistsError(
            f"{shown(answers, root)} is there already: give the exercise another number, or"
            " remove it"
        )
    for file in (path, asked, visible):
        if (line := _bound(file.read_text(encoding="utf-8")).get(name)) is not None:
            raise ValueError(
                f"{shown(file, root)}, line {line}, defines {name} already: choose another name"
            )
    about = {"question": question, "name": name}
    written = {
        path: _into_source(read, question, _cells(about)),
        asked: _joined(asked.read_text(encoding="utf-8"), _ANSWER.format(**about)),
        **_claimed(
            read.name,
            visible.read_text(encoding="utf-8"),
            hidden.read_text(encoding="utf-8"),
            folder,
            about,
        ),
        answers: _ANSWERS.format(**about),
    }
    return _put(written)


def lab(root: Path, number: int, title: str, name: str) -> list[Path]:
    """Write the skeleton of a lab with one exercise: source, contract, claims with
    their table, answers.

    Args:
        root: the course folder. number: 12. title: "Token merging"; the file's name is
            made of it.
        name: of the first function that is graded.

    Returns:
        The new files.

    Raises:
        ValueError: if the number, the title or the name cannot be had. FileExistsError:
            if there is something of a lab of that number already. Nothing is written
            then.
    """
    if not 0 <= number <= 99:
        raise ValueError(f"a lab has a number from 0 to 99, got {number}")
    slug = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
    if not slug:
        raise ValueError(
            f"the file is named after the title, and {title!r} has no letter from a to z: give"
            " another"
        )
    _check_name(name)
    short = f"lab{number:02d}"
    asked, folder = contract.contract_of(short, root), claims.claims_of(short, root)
    for there in (*sorted((root / "solutions").glob(f"{short}_*.py")), asked, folder):
        if there.exists():
            raise FileExistsError(
                f"{shown(there, root)} is there already: add to it by `course new exercise {short}"
                f" {number}.1 my_function`, or give the lab another number"
            )
    question = f"{number}.1"
    about = {"question": question, "name": name}
    said = {"number": number, "title": title}
    empty = (
        _CLAIMS.format(
            **said, what="what is claimed of each answer, and what its likely mistakes look like."
        ),
        _CLAIMS.format(**said, what="the claims that only the grader sees."),
    )
    return _put(
        {
            root / "solutions" / f"{short}_{slug}.py": (
                (_HEADER.format(**said) + _cells(about)).rstrip() + "\n"
            ),
            asked: _joined(_CONTRACT.format(**said), _ANSWER.format(**about)),
            **_claimed(short, *empty, folder, about),
            folder / "answers" / f"{question}.txt": _ANSWERS.format(**about),
        }
    )


def _cells(about: dict[str, str]) -> str:
    return _CELLS.format(**about, begin=source.BEGIN, end=source.END)


def _claimed(
    lab: str, visible: str, hidden: str, folder: Path, about: dict[str, str]
) -> dict[Path, str]:
    """The two files of claims with those of the exercise."""
    rule = _RULE.format(
        **about, line="-" * max(3, 110 - len(about["question"]) - len(about["name"]))
    )
    answer = [("course_lib.labs", lab, "reference")]
    seen = _importing(
        visible, [*_OF_VISIBLE, *answer], "" if "WRONG" in _bound(visible) else _TABLES
    )
    return {
        folder / claims.FILES[0]: _joined(seen, rule + (_TABLE + _VISIBLE).format(**about)),
        folder / claims.FILES[1]: _joined(
            _importing(hidden, [*_SAME, *answer]), rule + _HIDDEN.format(**about)
        ),
    }


def _check_number(lab: source.Lab, question: str) -> None:
    there = [q.id for q in lab.questions]
    last = max((order(id)[1] for id in there), default=0)
    free = f"the next free one is {lab.number}.{last + 1}"
    if not re.fullmatch(r"\d+\.[1-9]\d*", question) or int(question.split(".")[0]) != lab.number:
        raise ValueError(
            f"an exercise of {lab.name} is numbered {lab.number}.k, got {question!r}: {free}"
        )
    if question in there:
        raise ValueError(f"{lab.name} has a question {question} already: {free}")


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(
            "a graded function has a name like my_function, in small letters, digits and _; got"
            f" {name!r}"
        )


def _bound(text: str) -> dict[str, int]:
    """What the top of a file binds, with its first line. In a lab's source cells are
    text to Python, and magics none.
    """
    found: dict[str, int] = {}
    for node in ast.parse(source.python(text)).body:
        for name in scope(node)[0]:
            found.setdefault(name, node.lineno)
    return found


def _into_source(lab: source.Lab, question: str, cells: str) -> str:
    """The source with these cells behind the exercise with the next lower number."""
    lines = lab.text.splitlines(keepends=True)
    before = [q for q in lab.questions if order(q.id) < order(question)]
    if before:
        start = max(before, key=lambda q: order(q.id)).line
        headings = [line for line in _headings(lab) if line > start]
    else:
        headings = [q.line for q in lab.questions]
    if not headings:
        return lab.text.rstrip("\n") + "\n\n" + cells.rstrip() + "\n"
    at = next(i for i in range(headings[0] - 1, -1, -1) if lines[i].startswith("# %%"))
    return "".join(lines[:at]) + cells + "".join(lines[at:])


def _headings(lab: source.Lab) -> Iterable[int]:
    """The lines of the headings that end an exercise."""
    for cell in lab.cells:
        for number, line in enumerate(
            cell.source.split("\n") if cell.kind == "markdown" else (), start=1
        ):
            if (found := source.HEADING.match(line)) and len(found[1]) <= 3:
                yield cell.line(number)


def _importing(text: str, needed: Iterable[Import], more: str = "") -> str:
    """The text with the imports that it lacks, and what else is to stand there, below
    those it has.
    """
    there = _bound(text)
    lines = [
        f"from {module} import {name}" + (f" as {here}" if here != name else "") + "\n"
        for module, name, here in sorted(needed)
        if here not in there
    ]
    body = ast.parse(text).body
    imports = [
        node.end_lineno or 0 for node in body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    at = max(imports, default=0)
    whole = text.splitlines(keepends=True)
    return "".join([*whole[:at], *lines, more, *whole[at:]])


def _joined(text: str, block: str) -> str:
    return text.rstrip("\n") + "\n" + block


def _put(written: dict[Path, str]) -> list[Path]:
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        files.put(path, text.encode())
    return list(written)


__all__ = ["AuthoringError", "exercise", "lab"]
