"""``course new``: the skeletons of an exercise and of a lab.

They are the files of ``skeleton/``, filled in: a lab gets them whole, an exercise adds
to the files of its lab what stands there below the marker. A build takes what is
written, the claims can be imported, and nothing of it is right: every ``TODO`` is an
author's. No line that is there is changed.
"""

from __future__ import annotations

import ast
import keyword
import re
from pathlib import Path
from string import Template

from course_lib import files
from course_lib.authoring import claims, contract, source
from course_lib.authoring.errors import shown
from course_lib.labs.contract import order
from course_lib.student_code.cells import scope

_SKELETON = Path(__file__).parent / "skeleton"
# where the exercise begins in each file of it
_MARKERS = {
    "source.py": "# %% [markdown]\n# ### ",
    "contract.py": "\n\n@lab.asks(",
    "visible.py": "\n\n# --- ",
    "hidden.py": "\n\n# --- ",
    "answers.txt": "",
}


def exercise(root: Path, lab: str, question: str, name: str) -> list[Path]:
    """Write the skeleton of an exercise into a lab: source, contract, claims with their
    table, answers.

    It stands behind the exercise with the next lower number, before the next heading.
    Imports that it needs stand below those of the file, for ``ruff check --fix`` to sort.

    Args:
        root: the course folder.
        lab: ``"lab01"``, ``"1"`` or a whole slug.
        question: ``"1.10"``.
        name: of the function that is graded.

    Returns:
        The files, the answers' new, the others with more in them.

    Raises:
        AuthoringError: if there is no such lab, or it cannot be read.
        ValueError: if the number or the name cannot be had.
        FileExistsError: if there are answers to this question already. Nothing is
            written then.
    """
    (path,) = source.chosen(source.sources(root), [lab])
    read = source.read(path, root)
    there = [q.id for q in read.questions]
    if not re.fullmatch(rf"{read.number}\.[1-9]\d*", question) or question in there:
        last = max((order(id)[1] for id in there), default=0)
        raise ValueError(
            f"question must be {read.number}.k, a number that {read.name} does not have yet, such"
            f" as {read.number}.{last + 1}; got {question!r}"
        )
    skeleton = _skeleton(root, path, question, name)
    *known, answers = skeleton
    if answers.exists():
        raise FileExistsError(
            f"{shown(answers, root)} is there already: give the exercise another number, or"
            " remove it"
        )
    written = {answers: "".join(skeleton[answers])}
    for file in known:
        text, (head, added) = file.read_text(encoding="utf-8"), skeleton[file]
        if (line := _bound(text).get(name)) is not None and file.name != "hidden.py":
            raise ValueError(
                f"{shown(file, root)}, line {line}, defines {name} already: choose another name"
            )
        if file == path:
            written[file] = _inserted(read, question, added)
        else:
            written[file] = _with_names(text, head).rstrip("\n") + "\n" + added
    return _put(written)


def lab(root: Path, number: int, title: str, name: str) -> list[Path]:
    """Write the skeleton of a lab with one exercise: source, contract, claims with
    their table, answers.

    Args:
        root: the course folder.
        number: 12.
        title: "Token merging"; the file's name is made of it.
        name: of the first function that is graded.

    Returns:
        The new files.

    Raises:
        ValueError: if the number, the title or the name cannot be had.
        FileExistsError: if there is something of a lab of that number already. Nothing
            is written then.
    """
    slug = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
    if not 0 <= number <= 99 or not slug:
        raise ValueError(
            "number must be from 0 to 99, and title have a letter from a to z or a digit, as the"
            f" file is named after both; got {number} and {title!r}"
        )
    short = f"lab{number:02d}"
    skeleton = _skeleton(
        root, root / "solutions" / f"{short}_{slug}.py", f"{number}.1", name, title
    )
    for there in (*sorted((root / "solutions").glob(f"{short}_*.py")), *skeleton):
        if there.exists():
            raise FileExistsError(
                f"{shown(there, root)} is there already: add to it by `course new exercise {short}"
                f" {number}.1 my_function`, or give the lab another number"
            )
    return _put({path: "".join(parts) for path, parts in skeleton.items()})


def _skeleton(
    root: Path, path: Path, question: str, name: str, title: str = ""
) -> dict[Path, tuple[str, str]]:
    """By file of the course, the answers' last: the skeleton above the exercise, and the
    exercise.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(
            "name must be that of a function, such as my_function: small letters, digits and _;"
            f" got {name!r}"
        )
    short = path.name[:5]
    folder = claims.claims_of(short, root)
    places = {
        "source.py": path,
        "contract.py": contract.contract_of(short, root),
        "visible.py": folder / "visible.py",
        "hidden.py": folder / "hidden.py",
        "answers.txt": folder / "answers" / f"{question}.txt",
    }
    found = {}
    for file, marker in _MARKERS.items():
        text = Template((_SKELETON / f"{file}.template").read_text(encoding="utf-8")).substitute(
            number=short[3:], lab=short, title=title, question=question, name=name
        )
        at = text.index(marker)
        found[places[file]] = text[:at], text[at:]
    return found


def _bound(text: str) -> dict[str, int]:
    """What the top of a file binds, with its first line. In a lab's source cells are
    text to Python, and magics none.
    """
    found: dict[str, int] = {}
    for node in ast.parse(source.python(text)).body:
        for name in scope(node)[0]:
            found.setdefault(name, node.lineno)
    return found


def _inserted(lab: source.Lab, question: str, cells: str) -> str:
    """The source with these cells behind the exercise with the next lower number."""
    lines = lab.text.splitlines(keepends=True)
    before = [q for q in lab.questions if order(q.id) < order(question)]
    start = max(before, key=lambda q: order(q.id)).line if before else len(lines)
    for number, line in lab.text_lines():
        if number > start and (heading := source.HEADING.match(line)) and len(heading[1]) <= 3:
            at = max(i for i in range(number) if lines[i].startswith("# %%"))
            return "".join([*lines[:at], cells, "\n", *lines[at:]])
    return lab.text.rstrip("\n") + "\n\n" + cells


def _with_names(text: str, head: str) -> str:
    """The text with what ``head`` imports or defines and the text lacks, below the text's
    imports.
    """
    there = _bound(text)
    lacking = ""
    for node in ast.parse(head).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) not in there:
                    lacking += f"from {node.module} import {ast.unparse(alias)}\n"
        elif (names := scope(node)[0]) and not names & there.keys():
            lacking += f"\n{ast.unparse(node)}\n"
    lines = text.splitlines(keepends=True)
    imports = [
        node.end_lineno or 0
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    at = max(imports, default=0)
    return "".join([*lines[:at], lacking, *lines[at:]])


def _put(written: dict[Path, str]) -> list[Path]:
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomic(path, text.encode())
    return list(written)
