"""Write the two notebooks of every lab, and check that they are what their sources
say.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from course_lib import files
from course_lib.authoring import claims, contract, handout, index, source, stamp, student
from course_lib.authoring.errors import AuthoringError, Problems, error, shown
from course_lib.authoring.execute import run
from course_lib.authoring.source import Cell, Lab

CELL_TIMEOUT = 600.0  # seconds one cell may take; a lab's own aim is 90 s for all of them
# of the whole lab, in the text at its top: "20 points; about 4½ hours"
_POINTS = re.compile(r"\b(\d+(?:\.\d+)?) points?[;.]")
_BONUS = re.compile(r"\b(\d+(?:\.\d+)?) bonus points?\b")
_HOURS = re.compile(r"points?; about (\d+½?) hours?")
WORDS_PER_MINUTE = 120  # of a reader in a second language, who looks at figures, too
MINUTES_PER_MINUTE = 1.5  # what an exercise takes, per minute of its heading
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"}


def build(
    root: Path,
    labs: Iterable[str] | None = None,
    execute: bool = True,
    echo: Callable[[str], Any] = print,
    *,
    force: bool = False,
    timeout: float = CELL_TIMEOUT,
) -> list[Path]:
    """Write ``labs/*.ipynb`` (no answers, no outputs) and ``solutions/*.ipynb``
    (executed) from ``solutions/*.py``.

    Nothing is written before every source has been found right. A solution is executed
    only if its code changed, or that of the library which it runs: where only text did,
    the outputs stay. A notebook in ``labs/`` that someone worked in is kept beside the
    new one.

    Args:
        root: the course folder.
        labs: ``"lab01"``, ``"1"`` or a whole slug; None: all.
        execute: False leaves ``solutions/*.ipynb`` as they are.
        echo: is told what happens, a line at a time.
        force: execute what did not change, too.
        timeout: seconds that one cell may take.

    Returns:
        The notebooks that changed.

    Raises:
        AuthoringError: naming file and line of what is wrong, with what to do.
    """
    root = Path(root).resolve()
    paths = chosen(source.sources(root), labs, root)
    ready: list[tuple[Lab, list[Cell]]] = []
    problems: list[str] = [] if labs else _orphan_tests(root)
    for path in paths:
        try:
            ready.append(load(path, root))
        except AuthoringError as caught:
            problems += str(caught).splitlines()
    if problems:
        raise AuthoringError("\n".join(problems))
    changed: list[Path] = []
    for lab, cells in ready:
        path = root / "labs" / f"{lab.slug}.ipynb"
        _keep_work(path, root, echo)
        if _write(path, student_notebook(lab, cells)):
            changed.append(path)
            echo(f"{shown(path, root)} written")
        path = root / "solutions" / f"{lab.slug}.ipynb"
        new, old = solution_notebook(lab, cells, root), _load(path)
        if (
            old is not None
            and not force
            and not _differs(old, new, outputs=True)
            and _course(old) == _course(new)
        ):
            echo(f"{shown(path, root)} is up to date")
            continue
        if old is not None and not force and _same_code(old, new) and is_current(old, new):
            _carry_outputs(old, new)
            how = "written, outputs kept (only text changed)"
        elif execute:
            echo(f"{shown(path, root)} is being executed …")
            start = time.perf_counter()
            where = [(lab.shown, list(cell.lines)) for cell in lab.cells]
            for line in run(new, where, lab.name, path.parent, root, timeout):
                echo(line)
            how = f"executed in {time.perf_counter() - start:.0f} s"
        else:
            echo(f"{shown(path, root)} left as it was: it is to be executed")
            continue
        if _write(path, new):
            changed.append(path)
        echo(f"{shown(path, root)} {how}")
    page = _index(root)
    if page is not None and _write(root / index.NAME, page):
        changed.append(root / index.NAME)
        echo(f"{index.NAME} written")
    return changed


def _index(root: Path) -> Any | None:
    """The notebook of the index, without outputs: it has no figures. None where there
    is no such page.
    """
    cells = index.cells(root)
    return _notebook(cells, _ids("index", cells)) if cells else None


def check(root: Path) -> list[str]:
    """What is wrong with the sources, where the notebooks differ from them (cells and
    hashes, not outputs), and which questions no wrong or no right answer tries.

    Returns:
        Problems as ``file:line: what to do``; an empty list if all is well.
    """
    root = Path(root).resolve()
    try:
        paths = source.sources(root)
    except AuthoringError as caught:
        return str(caught).splitlines()
    problems = _orphan_tests(root)
    for path in paths:
        try:
            lab, cells = load(path, root)
        except AuthoringError as caught:
            problems += str(caught).splitlines()
            with suppress(AuthoringError):  # said already
                problems += _untried(source.read(path, root), root)
            continue
        problems += _untried(lab, root)
        for folder, new in (
            ("labs", student_notebook(lab, cells)),
            ("solutions", solution_notebook(lab, cells, root)),
        ):
            there = root / folder / f"{lab.slug}.ipynb"
            if wrong := out_of_step(there, new, folder == "solutions"):
                problems.append(f"{shown(there, root)}:1: {wrong}: run `course build {lab.name}`")
    page = _index(root)
    if page is not None and (
        not (root / index.NAME).is_file() or (root / index.NAME).read_bytes() != as_bytes(page)
    ):
        problems.append(f"{index.NAME}:1: it is not what {index.SOURCE} says: run `course build`")
    slugs = {path.stem for path in paths} | ({index.NAME.stem} if page is not None else set())
    for folder in ("labs", "solutions"):
        for there in sorted((root / folder).glob("*.ipynb")):
            if there.stem not in slugs and not any(
                kept in there.name for kept in (".edited-", ".before-update")
            ):
                problems.append(
                    f"{shown(there, root)}:1: there is no solutions/{there.stem}.py: delete this,"
                    " or add its source"
                )
    return problems


def load(path: Path, root: Path) -> tuple[Lab, list[Cell]]:
    """A lab and the cells of its student notebook, everything checked, its tests and
    its contract too.

    Raises:
        AuthoringError: with everything that is wrong.
    """
    lab = source.read(path, root)
    problems: list[str] = []
    cells: list[Cell] = []
    steps = (
        lambda: cells.extend(student.strip(lab)),
        lambda: _agree(lab, root),
        lambda: _answered(lab, cells, root),
    )
    for step in steps:
        try:
            step()
        except AuthoringError as caught:
            problems += str(caught).splitlines()
    if problems:
        raise AuthoringError("\n".join(problems))
    return lab, student.for_nbgrader(
        lab, cells, claims.read_claims(claims.claims_of(lab.name, root), root)
    )


def student_notebook(lab: Lab, cells: list[Cell]) -> Any:
    """The notebook that students open. Its version changes with its cells: it tells one
    hand-out from another.

    ``handout`` is the copy of the cells by which `course update` tells a student's text
    from the handout's.
    """
    notebook = _notebook(cells, _ids(lab.name, cells))
    copied = handout.packed((cell.kind, cell.source) for cell in cells)
    notebook.metadata["course"] = {"lab": lab.name, "version": version(notebook), "handout": copied}
    return notebook


def solution_notebook(lab: Lab, cells: list[Cell], root: Path) -> Any:
    """The notebook with the answers, not executed. Cells have the same ids as in the
    student notebook.

    Its ``stamp`` says with which code it is executed.
    """
    notebook = _notebook(lab.cells, _ids(lab.name, cells))
    code = stamp.stamp((cell.source for cell in lab.cells if cell.kind == "code"), root)
    notebook.metadata["course"] = {
        "lab": lab.name,
        "source_hash": "sha256:" + _hash(lab.text),
        "stamp": code,
    }
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.startswith("check("):
            # the same on every machine, unlike times and figures: nbval compares these
            # outputs
            cell.metadata.setdefault("tags", []).append("nbval-check-output")
    return notebook


def chosen(paths: list[Path], labs: Iterable[str] | None, root: Path) -> list[Path]:
    """The sources of ``labs`` (``"lab01"``, ``"1"`` or a whole slug) among ``paths``;
    all of them where it is None.

    Raises:
        AuthoringError: if there is no such lab; says which there are.
    """
    if labs is None:
        return paths
    found: list[Path] = []
    for wanted in [labs] if isinstance(labs, str) else labs:
        name = Path(wanted).name.split(".")[0]
        name = f"lab{int(name):02d}" if name.isdigit() else name
        match = [path for path in paths if name in (path.stem, path.stem[:5])]
        if not match:
            there = ", ".join(path.stem[:5] for path in paths)
            raise error(
                shown(root / "solutions", root),
                1,
                f"there is no lab {wanted!r}: choose among {there}",
            )
        found += match
    return sorted(set(found))


def _agree(lab: Lab, root: Path) -> None:
    """Questions, tests, points and ``check("N.k")`` fit together; raises AuthoringError
    where they do not.
    """
    problems = Problems()
    asked = {question.id: question for question in lab.questions}
    path = claims.claims_of(lab.name, root)
    tests = shown(path, root)
    found = claims.read_claims(path, root)
    for node, line in _calls(lab):
        called = f"{node.func.id}({node.args[0].value!r})"
        if node.args[0].value not in asked:
            message = f"{called} names no question: the headings have {', '.join(asked) or 'none'}"
            problems.add(lab.shown, line, message)
        elif {claim.visible for claim in found if claim.question == node.args[0].value} == {False}:
            problems.add(
                lab.shown,
                line,
                f"{called} has nothing to run: move a claim about it into {tests}/visible.py",
            )
    if not path.is_dir() and lab.questions:
        message = f"this question has no claim, as there is no {tests}: write {tests}/visible.py"
        problems.add(lab.shown, lab.questions[0].line, message)
        problems.stop()
    there = lab.questions and contract.contract_of(lab.name, root).is_file()
    asked_of = contract.read(lab.name, root).asked.questions if there else {}
    by_hand = {id: exercise.by_hand for id, exercise in asked_of.items()}
    for question in lab.questions:
        mine = [claim for claim in found if claim.question == question.id]
        by_a_person = by_hand.get(question.id, 0.0)
        total = sum(claim.points for claim in mine) + by_a_person
        if not mine and not by_a_person:
            message = (
                f"question {question.id} has no claim: write one in {tests} under"
                f' @question("{question.id}", …)'
            )
            problems.add(lab.shown, question.line, message)
        elif abs(total - question.points) > 1e-9:
            message = (
                f"question {question.id} announces {question.points:g} points, its claims in"
                f" {tests} give {total:g}: make them agree"
            )
            problems.add(lab.shown, question.line, message)
    problems.extend(_announced(lab))
    for claim in found:
        if claim.question not in asked:
            message = (
                f"{claim.test} tests question {claim.question}, which {lab.shown} does not ask: add"
                f" `### {claim.question} Title`"
            )
            problems.add(claim.file, claim.line, f"{message} there, or correct the number")
    problems.stop()


def hours(lab: Lab) -> float:
    """The time that a student needs without the optional exercises, from the words of the
    text and the minutes in the headings of the exercises.
    """
    asked = {question.line: question for question in lab.questions}
    words, optional = 0, False
    for cell in lab.cells:
        for number, line in enumerate(
            cell.source.split("\n") if cell.kind == "markdown" else (), start=1
        ):
            if (question := asked.get(cell.line(number))) is not None:
                optional = question.optional
            elif (heading := source.HEADING.match(line)) and len(heading[1]) <= 3:
                optional = False
            words += len(line.split()) * (not optional)
    exercises = sum(question.minutes for question in lab.questions if not question.optional)
    return (words / WORDS_PER_MINUTE + MINUTES_PER_MINUTE * exercises) / 60


def _announced(lab: Lab) -> Problems:
    """Where the text before the first question says how many points, bonus points and
    hours the lab has, it has them.
    """
    problems = Problems()
    total = sum(question.points for question in lab.questions if not question.optional)
    bonus = sum(question.points for question in lab.questions if question.optional)
    announced = (
        (_POINTS, "points", "questions", total),
        (_BONUS, "bonus points", "optional questions", bonus),
    )
    for cell in lab.cells:
        for number, line in enumerate(
            cell.source.split("\n") if cell.kind == "markdown" else (), start=1
        ):
            if any(question.line <= cell.line(number) for question in lab.questions):
                return problems
            for pattern, kind, questions, points in announced:
                for said in pattern.findall(line):
                    if abs(float(said) - points) > 1e-9:
                        message = (
                            f"the lab announces {said} {kind}, its {questions} {points:g}"
                            " together: make them agree"
                        )
                        problems.add(lab.shown, cell.line(number), message)
            for said in _HOURS.findall(line):
                if abs(float(said.replace("½", ".5")) - hours(lab)) > 0.5:
                    message = (
                        f"the lab announces {said} hours, its words and its exercises' minutes give"
                        f" {hours(lab):.1f}: write that, to half an hour"
                    )
                    problems.add(lab.shown, cell.line(number), message)
    return problems


def _answered(lab: Lab, cells: list[Cell], root: Path) -> None:
    """The contract has the lab's questions and what they ask for."""
    if not lab.questions and not contract.contract_of(lab.name, root).is_file():
        return
    known = contract.read(lab.name, root)
    problems = Problems()
    asks = {name for cell in cells if cell.kind == "code" for name in handout.asked(cell.source)}
    for question in lab.questions:
        if question.id not in known.names:
            message = (
                f"question {question.id} is not in {known.file}: write there what it asks for,"
                f' under `@lab.asks("{question.id}")`'
            )
            problems.add(lab.shown, question.line, message)
        elif question.optional != known.asked.is_optional(question.id):
            here, there = ("", "not ") if question.optional else ("not ", "")
            message = (
                f"question {question.id} is {here}optional here and {there}optional in"
                f" {known.file}: make the line under its heading and `optional=True` agree"
            )
            problems.add(lab.shown, question.line, message)
    for id, names in known.names.items():
        if id not in [question.id for question in lab.questions]:
            message = (
                f"{lab.shown} does not ask question {id}: delete it here, or add `### {id} Title`"
                " there"
            )
            problems.add(known.file, known.line(id), message)
            continue
        for name in names:
            if name not in asks and cells:
                message = (
                    f"question {id} grades `{name}`, which {lab.shown} does not ask for: correct"
                    " the name"
                )
                problems.add(known.file, known.line(name), message)
    problems.stop()


def _functions(lab: Lab) -> set[str]:
    """The functions and classes at the top of a lab's cells."""
    nodes = [
        node
        for cell in lab.cells
        if cell.kind == "code"
        for node in source.parsed(cell.source).body
    ]
    return {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def _untried(lab: Lab, root: Path) -> list[str]:
    """Questions whose tests no wrong or no right answer tries, and answers to questions
    that the lab does not ask.
    """
    problems = Problems()
    functions = _functions(lab)
    known = contract.read(lab.name, root).names if lab.questions else {}
    found = contract.answers(lab.name, root)
    tried = {(question, kind) for question, kind, _, _ in found}
    for question in lab.questions:
        for kind in ("wrong", "right"):
            if functions & set(known.get(question.id, ())) and (question.id, kind) not in tried:
                message = f"no {kind} answer tries the tests of question {question.id}: add one"
                problems.add(lab.shown, question.line, message)
    for id, _, file, line in found:
        if id not in [question.id for question in lab.questions]:
            message = (
                f"an answer to {id}, which {lab.shown} does not ask: delete it, or correct the"
                " number"
            )
            problems.add(file, line, message)
    return problems.lines()


def _calls(lab: Lab) -> Iterator[tuple[Any, int]]:
    """Every ``check("N.k")`` and ``skip("N.k")`` of a lab, with its line."""
    for cell in lab.cells:
        for node in ast.walk(source.parsed(cell.source)) if cell.kind == "code" else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("check", "skip"):
                if node.args and isinstance(node.args[0], ast.Constant):
                    yield node, cell.line(node.lineno)


def _orphan_tests(root: Path) -> list[str]:
    names = {path.stem[:5] for path in (root / "solutions").glob("lab*.py")}
    folders = sorted(
        path for path in (root / "tests" / "labs").glob("lab[0-9][0-9]") if path.is_dir()
    )
    return [
        f"{shown(path, root)}:1: claims of a lab that is not there: write"
        f" solutions/{path.name}_slug.py, or delete this"
        for path in folders
        if path.name not in names
    ]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def version(notebook: Any) -> str:
    """A hash of a notebook's cells, outputs and metadata apart."""
    return _hash(json.dumps([[cell.cell_type, cell.source] for cell in notebook.cells]))[:12]


def _ids(name: str, cells: list[Cell]) -> list[str]:
    """An id per cell, from what it says: it stays when others come and go.

    It comes from the student's text in both notebooks: made from a short answer, it
    would let a student check a guess.
    """
    return handout.ids(name, ((cell.kind, cell.source) for cell in cells))


def _notebook(cells: Iterable[Cell], ids: list[str]) -> Any:
    from nbformat import v4

    make = {"code": v4.new_code_cell, "markdown": v4.new_markdown_cell, "raw": v4.new_raw_cell}
    made = [
        make[cell.kind](cell.source, id=id, metadata=copy.deepcopy(cell.metadata))
        for cell, id in zip(cells, ids, strict=True)
    ]
    return v4.new_notebook(
        cells=made, metadata={"kernelspec": dict(_KERNEL), "language_info": dict(_LANGUAGE)}
    )


def _course(notebook: Any) -> Any:
    return notebook.metadata.get("course")


def _load(path: Path) -> Any:
    """The notebook, or None if there is none that can be read."""
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except (
        OSError,
        ValueError,
        nbformat.validator.NotebookValidationError,
        nbformat.reader.NotJSONError,
    ):
        return None


def as_bytes(notebook: Any) -> bytes:
    """The notebook as its file: the same bytes for the same notebook."""
    import nbformat

    notebook.metadata["language_info"] = dict(_LANGUAGE)  # the kernel writes its versions there
    nbformat.validate(notebook)
    return (nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n") + "\n").encode()


def _write(path: Path, notebook: Any) -> bool:
    """Write a notebook whole or not at all; False if the file is already so, byte for
    byte.
    """
    content = as_bytes(notebook)
    if path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(exist_ok=True)
    files.put(path, content)
    return True


def _keep_work(path: Path, root: Path, echo: Callable[[str], Any]) -> None:
    """Move a notebook out of the way whose cells someone changed since it was built."""
    if not path.exists():
        return
    old = _load(path)
    if old is not None and (_course(old) or {}).get("version") == version(old):
        return
    number = 1
    while (beside := path.with_name(f"{path.stem}.edited-{number}.ipynb")).exists():
        number += 1
    path.rename(beside)
    echo(f"{shown(path, root)} had been worked in: that is now {shown(beside, root)}")


def _differs(old: Any, new: Any, outputs: bool) -> int:
    """The number (from 1) of the first cell that is another one, 0 if none is.

    Args:
        outputs: whether the old notebook's cells must have been executed (else: must
            not).
    """
    for i, (a, b) in enumerate(zip(old.cells, new.cells, strict=False), start=1):
        if (a.cell_type, a.get("id"), a.source, _tags(a)) != (
            b.cell_type,
            b.id,
            b.source,
            _tags(b),
        ):
            return i
        if a.cell_type == "code" and bool(a.execution_count or a.outputs) != (
            outputs and bool(a.source.strip())
        ):
            return i
    return 0 if len(old.cells) == len(new.cells) else min(len(old.cells), len(new.cells)) + 1


def _tags(cell: Any) -> Any:
    """The metadata that comes from the source: Jupyter adds what is folded or
    scrolled.
    """
    return {
        k: v
        for k, v in cell.metadata.items()
        if k not in ("collapsed", "scrolled", "jupyter", "execution", "trusted", "editable")
    }


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_current(old: Any, new: Any) -> bool:
    """Was ``old`` executed with the library as it is?"""
    return (_course(old) or {}).get("stamp") == (_course(new) or {}).get("stamp")


def stale(root: Path) -> list[Path]:
    """The walkthroughs that were executed with another code than there is now, their
    own or the library's.
    """
    found = []
    for path in source.sources(root):
        lab, cells = load(path, root)
        there = root / "solutions" / f"{lab.slug}.ipynb"
        old = _load(there)
        if old is None or not is_current(old, solution_notebook(lab, cells, root)):
            found.append(there)
    return found


def _same_code(old: Any, new: Any) -> bool:
    """Was ``old`` executed by a build, with the very code of ``new``?"""
    before, after = _code(old), _code(new)
    return (
        bool((_course(old) or {}).get("source_hash"))
        and [_tags(cell) for cell in before] == [_tags(cell) for cell in after]
        and all(stamp.same(a.source, b.source) for a, b in zip(before, after, strict=True))
        and all(cell.execution_count for cell in before if cell.source.strip())
    )


def _carry_outputs(old: Any, new: Any) -> None:
    for before, after in zip(_code(old), _code(new), strict=True):
        after.outputs, after.execution_count = before.outputs, before.execution_count


def out_of_step(path: Path, new: Any, executed: bool) -> str:
    """In what way a notebook is not what its source says; "" if it is."""
    if not path.is_file():
        return "this notebook has not been built"
    old = _load(path)
    if old is None:
        return "this notebook cannot be read"
    if at := _differs(old, new, executed):
        if at <= min(len(old.cells), len(new.cells)):
            mine, right = old.cells[at - 1], new.cells[at - 1]
            if mine.source == right.source and mine.cell_type == right.cell_type == "code":
                if bool(mine.outputs or mine.execution_count) != executed:
                    return (
                        f"cell {at} has not been executed" if executed else f"cell {at} has outputs"
                    )
        return f"cell {at} is not as in the source"
    # of that: see stale()
    said, right = ({**(_course(book) or {}), "stamp": ""} for book in (old, new))
    if said != right:
        return "its hash is not that of the source"
    if any(
        output.output_type == "error"
        for cell in _code(old)
        for output in cell.outputs
        if "raises-exception" not in cell.metadata.get("tags", [])
    ):
        return "a cell ended in an error"
    return ""
