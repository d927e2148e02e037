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
from collections.abc import Callable, Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from course_lib import files
from course_lib.authoring import claims, contract, handout, source, stamp, student
from course_lib.authoring.errors import Problems, shown
from course_lib.authoring.execute import run
from course_lib.authoring.source import Cell, Lab
from course_lib.grading.claims.question import Test
from course_lib.ledger import FILE, Row
from course_lib.ledger import as_bytes as rows_as_bytes

INDEX = Path("solutions") / "index.md"  # of the page solutions/index.ipynb
CELL_TIMEOUT = 600.0  # seconds one cell may take; a lab's own aim is 90 s for all of them
# of the whole lab, in the text at its top: "20 points; about 4½ hours"
_POINTS = re.compile(r"\b(\d+(?:\.\d+)?) points?[;.]")
_BONUS = re.compile(r"\b(\d+(?:\.\d+)?) bonus points?\b")
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"}
# metadata of a cell that Jupyter adds, not the source
_JUPYTERS = ("collapsed", "scrolled", "jupyter", "execution", "trusted", "editable")


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
    ready: list[tuple[Lab, list[Cell]]] = []
    problems = Problems()
    for path in source.chosen(source.sources(root), labs):
        with problems.collecting():
            ready.append(load(path, root))
    problems.stop()
    changed: list[Path] = []

    def write(path: Path, notebook: Any, how: str = "written") -> None:
        if not is_built(path, notebook):
            path.parent.mkdir(exist_ok=True)
            files.write_atomic(path, as_bytes(notebook))
            changed.append(path)
            echo(f"{shown(path, root)} {how}")

    for lab, cells in ready:
        path = root / "labs" / f"{lab.slug}.ipynb"
        _keep_work(path, root, echo)
        write(path, student_notebook(lab, cells))
        path = root / "solutions" / f"{lab.slug}.ipynb"
        old, new = _load(path), solution_notebook(lab, cells, root)
        if old is not None and not force and _has_outputs_of(old, new):
            for before, after in zip(_code(old), _code(new), strict=True):
                after.outputs, after.execution_count = before.outputs, before.execution_count
            if not fault(old, new):
                echo(f"{shown(path, root)} is up to date")
            else:
                write(path, new, "written, outputs kept (only text changed)")
        elif execute:
            echo(f"{shown(path, root)} is being executed …")
            start = time.perf_counter()
            where = [(lab.shown, list(cell.lines)) for cell in lab.cells]
            (path.parent / FILE).unlink(missing_ok=True)  # the rows of this lab alone
            for line in run(new, where, lab.name, path.parent, root, timeout):
                echo(line)
            write(path, new, f"executed in {time.perf_counter() - start:.0f} s")
        else:
            echo(f"{shown(path, root)} left as it was: it is to be executed")
    if page := _index(root):
        write((root / INDEX).with_suffix(".ipynb"), page)
    if (root / claims.FILE).is_file() and _real_data(root) != (text := claims.page(root)):
        (root / claims.PAGE).parent.mkdir(exist_ok=True)
        files.write_atomic(root / claims.PAGE, text.encode())
        changed.append(root / claims.PAGE)
        echo(f"{claims.PAGE.as_posix()} written")
    return changed


def _real_data(root: Path) -> str:
    """The page of the claims as it is."""
    page = root / claims.PAGE
    return page.read_text(encoding="utf-8") if page.is_file() else ""


def remake_ledger(root: Path, echo: Callable[[str], Any]) -> list[Path]:
    """Execute all walkthroughs, each with an empty ledger, and write what they measure as
    the course's table and its picture: these two files.
    """
    from course_lib import labs
    from course_lib.show import course_table, plots

    found: list[Row] = []
    for lab in labs.available():  # each begins with the table of those before
        build(root, [lab], True, echo, force=True)
        rows = root / "solutions" / FILE
        found += json.loads(rows.read_bytes()) if rows.is_file() else []
        files.write_atomic(course_table.path(), rows_as_bytes(found))
    picture = root / "data" / "pictures" / "ledger.png"
    picture.parent.mkdir(exist_ok=True)
    plots.use_style()
    plots.save(course_table.picture(course_table.rows()), picture)
    return [course_table.path(), picture]


def _index(root: Path) -> Any | None:
    """The page that leads a reader through the course, without outputs: it has no
    figures. None where a course has no such page.
    """
    import jupytext

    if not (root / INDEX).is_file():
        return None
    text = (root / INDEX).read_text(encoding="utf-8")
    if claims.DISAGREEMENTS in text:
        text = text.replace(claims.DISAGREEMENTS, claims.disagreements(claims.find_all(root)))
    read = jupytext.reads(text, fmt="md").cells
    return _notebook("index", [Cell(cell.cell_type, cell.source, ()) for cell in read])


def check(root: Path, labs: Iterable[str] | None = None) -> list[str]:
    """What is wrong with the sources, where the notebooks differ from them (cells and
    hashes, not outputs), and which questions no wrong or no right answer tries.

    Args:
        labs: as in :func:`build`.

    Returns:
        Problems as ``file:line: what to do``; an empty list if all is well.
    """
    root = Path(root).resolve()
    problems = Problems()
    paths: list[Path] = []
    with problems.collecting():
        paths = source.sources(root)
    for path in source.chosen(paths, labs):
        with problems.collecting():
            lab = source.read(path, root)
            with problems.collecting():
                _check_answers(lab, root)
            cells = student_cells(lab, root)
            there = root / "labs" / f"{lab.slug}.ipynb"
            if not is_built(there, student_notebook(lab, cells)):
                problems.add(shown(there, root), 1, _build_again(lab.shown, lab.name))
            there = root / "solutions" / f"{lab.slug}.ipynb"
            if wrong := fault(_load(there), solution_notebook(lab, cells, root)):
                problems.add(shown(there, root), 1, f"{wrong}: run `course build {lab.name}`")
    page = _index(root)
    if page and not is_built((root / INDEX).with_suffix(".ipynb"), page):
        problems.add("solutions/index.ipynb", 1, _build_again(str(INDEX)))
    with problems.collecting():
        if (root / claims.FILE).is_file() and _real_data(root) != claims.page(root):
            message = f"this page is not what {claims.FILE.as_posix()} gives: run `course build`"
            problems.add(claims.PAGE.as_posix(), 1, message)
    _check_orphans(root, {path.stem for path in paths}, problems)
    return problems


def _build_again(file: str, lab: str = "") -> str:
    return f"this notebook is not what {file} says: run `course build {lab}".rstrip() + "`"


def _check_orphans(root: Path, slugs: set[str], problems: Problems) -> None:
    """Notebooks and claims belong to a source."""
    for there in sorted((root / "tests" / "labs").glob("lab[0-9][0-9]")):
        if there.name not in {slug[:5] for slug in slugs}:
            message = (
                f"there is no solutions/{there.name}_slug.py: write it, or delete these claims"
            )
            problems.add(shown(there, root), 1, message)
    for there in sorted(
        path for folder in ("labs", "solutions") for path in (root / folder).glob("*.ipynb")
    ):
        if there.stem not in {*slugs, INDEX.stem} and ".edited-" not in there.name:
            message = f"there is no solutions/{there.stem}.py: delete this, or add its source"
            problems.add(shown(there, root), 1, message)


def load(path: Path, root: Path) -> tuple[Lab, list[Cell]]:
    """A lab and the cells of its student notebook, everything checked, its tests and
    its contract too.

    Raises:
        AuthoringError: with everything that is wrong.
    """
    lab = source.read(path, root)
    return lab, student_cells(lab, root)


def student_cells(lab: Lab, root: Path) -> list[Cell]:
    """The cells of a lab's student notebook; raises as :func:`load`."""
    problems = Problems()
    cells: list[Cell] = []
    found: list[Test] = []
    with problems.collecting():
        cells = student.strip(lab)
    with problems.collecting():
        found = contract.claims(lab.name, root)
        with problems.collecting():
            _check_claims(lab, found, root)
        with problems.collecting():
            _check_contract(lab, cells, found, root)
    _check_announced(lab, problems)
    problems.stop()
    return cells


def student_notebook(lab: Lab, cells: list[Cell]) -> Any:
    """The notebook that students open. Its version changes with its cells: it tells one
    hand-out from another.
    """
    notebook = _notebook(lab.name, cells)
    notebook.metadata["course"] = {"lab": lab.name, "version": version(notebook)}
    return notebook


def solution_notebook(lab: Lab, cells: list[Cell], root: Path) -> Any:
    """The notebook with the answers, not executed. Cells have the same ids as in the
    student notebook.

    Its ``stamp`` says with which code it is executed.
    """
    notebook = _notebook(lab.name, lab.cells, cells)
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


def _check_claims(lab: Lab, found: list[Test], root: Path) -> None:
    """Every claim, and every ``check("N.k")`` and ``skip("N.k")``, names a question of the
    lab; raises AuthoringError where one does not.
    """
    problems = Problems()
    asked = [question.id for question in lab.questions]
    tests = shown(contract.claims_of(lab.name, root), root)
    for cell in lab.cells:
        for node in ast.walk(source.parsed(cell.source)) if cell.kind == "code" else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in ("check", "skip") or not node.args:
                continue
            if not isinstance(node.args[0], ast.Constant):
                continue
            id = node.args[0].value
            visible = {claim.visible for claim in found if claim.question == id}
            message = ""
            if id not in asked:
                message = f"names no question: the headings have {', '.join(asked) or 'none'}"
            elif visible == {False}:
                message = f"has nothing to run: move a claim about it into {tests}/visible.py"
            if message:
                problems.add(lab.shown, cell.line(node.lineno), f"{node.func.id}({id!r}) {message}")
    for claim in found:
        if claim.question not in asked:
            message = (
                f"{claim.name} tests question {claim.question}, which {lab.shown} does not ask: add"
                f" `### {claim.question} Title` there, or correct the number"
            )
            problems.add(*contract.place(claim, root), message)
    problems.stop()


def _check_contract(lab: Lab, cells: list[Cell], found: list[Test], root: Path) -> None:
    """The contract has the lab's questions and what they ask for, and their points are
    those of claims and of a person together; raises AuthoringError where not.
    """
    if not lab.questions and not contract.contract_of(lab.name, root).is_file():
        return
    known = contract.read(lab.name, root)
    problems = Problems()
    tests = shown(contract.claims_of(lab.name, root), root)
    for question in lab.questions:
        exercise = known.asked.questions.get(question.id)
        points = [claim.points for claim in found if claim.question == question.id]
        if exercise is not None and exercise.by_hand:
            points.append(exercise.by_hand)
        if exercise is None:
            message = (
                f"question {question.id} is not in {known.file}: write there what it asks for,"
                f' under `@lab.asks("{question.id}")`'
            )
            problems.add(lab.shown, question.line, message)
        elif question.optional != exercise.optional:
            here, there = ("", "not ") if question.optional else ("not ", "")
            message = (
                f"question {question.id} is {here}optional here and {there}optional in"
                f" {known.file}: make the line under its heading and `optional=True` agree"
            )
            problems.add(lab.shown, question.line, message)
        if not points:
            message = (
                f"question {question.id} has no claim: write one in {tests} under"
                f' @question("{question.id}", …)'
            )
            problems.add(lab.shown, question.line, message)
        elif abs(sum(points) - question.points) > 1e-9:
            message = (
                f"question {question.id} announces {question.points:g} points, its claims in"
                f" {tests} give {sum(points):g}: make them agree"
            )
            problems.add(lab.shown, question.line, message)
    asks = {name for cell in cells if cell.kind == "code" for name in handout.asked(cell.source)}
    for id, exercise in known.asked.questions.items():
        if id not in [question.id for question in lab.questions]:
            message = (
                f"{lab.shown} does not ask question {id}: delete it here, or add `### {id} Title`"
                " there"
            )
            problems.add(known.file, known.line(id), message)
            continue
        for name in exercise.names:
            if name not in asks and cells:
                message = (
                    f"question {id} grades `{name}`, which {lab.shown} does not ask for: correct"
                    " the name"
                )
                problems.add(known.file, known.line(name), message)
    problems.stop()


def _check_announced(lab: Lab, problems: Problems) -> None:
    """Where the text before the first question says how many points and bonus points the
    lab has, it has them.
    """
    points = [sum(q.points for q in lab.questions if q.optional is kind) for kind in (False, True)]
    announced = (
        (_POINTS, "points", "questions", points[0]),
        (_BONUS, "bonus points", "optional questions", points[1]),
    )
    for number, line in lab.text_lines():
        if lab.questions and number >= lab.questions[0].line:
            return
        for pattern, kind, questions, total in announced:
            for said in pattern.findall(line):
                if abs(float(said) - total) > 1e-9:
                    message = (
                        f"the lab announces {said} {kind}, its {questions} {total:g}"
                        " together: make them agree"
                    )
                    problems.add(lab.shown, number, message)


def _check_answers(lab: Lab, root: Path) -> None:
    """A wrong and a right answer try the claims of each question that asks for functions,
    and every answer is to a question of the lab; raises AuthoringError where not.
    """
    problems = Problems()
    code = [source.parsed(cell.source) for cell in lab.cells if cell.kind == "code"]
    functions = {
        node.name
        for tree in code
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    found = contract.answers(lab.name, root)
    tried = {(question, kind) for question, kind, _, _ in found}
    asked = contract.read(lab.name, root).asked.questions if lab.questions else {}
    for question in lab.questions:
        graded = asked[question.id].names if question.id in asked else ()
        for kind in ("wrong", "right"):
            if functions & set(graded) and (question.id, kind) not in tried:
                message = f"no {kind} answer tries the tests of question {question.id}: add one"
                problems.add(lab.shown, question.line, message)
    for id, _, file, line in found:
        if id not in [question.id for question in lab.questions]:
            message = (
                f"an answer to {id}, which {lab.shown} does not ask: delete it, or correct the"
                " number"
            )
            problems.add(file, line, message)
    problems.stop()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def version(notebook: Any) -> str:
    """A hash of a notebook's cells, outputs and metadata apart."""
    return _hash(json.dumps([[cell.cell_type, cell.source] for cell in notebook.cells]))[:12]


def _notebook(name: str, cells: Iterable[Cell], named: Iterable[Cell] | None = None) -> Any:
    """A notebook without outputs.

    Args:
        named: the cells that the ids are made from, the same by default. Made from a
            short answer, an id would let a student check a guess: both notebooks of a
            lab have those of the student's cells.
    """
    from nbformat import v4

    ids = handout.ids(name, ((cell.kind, cell.source) for cell in named or cells))
    make = {"code": v4.new_code_cell, "markdown": v4.new_markdown_cell, "raw": v4.new_raw_cell}
    made = [
        make[cell.kind](cell.source, id=id, metadata=copy.deepcopy(cell.metadata))
        for cell, id in zip(cells, ids, strict=True)
    ]
    return v4.new_notebook(
        cells=made, metadata={"kernelspec": dict(_KERNEL), "language_info": dict(_LANGUAGE)}
    )


def _course(notebook: Any) -> Any:
    return notebook.metadata.get("course") or {}


def _load(path: Path) -> Any:
    """The notebook, or None if there is none that can be read."""
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError, nbformat.reader.NotJSONError):
        return None


def as_bytes(notebook: Any) -> bytes:
    """The notebook as its file: the same bytes for the same notebook."""
    import nbformat

    notebook.metadata["language_info"] = dict(_LANGUAGE)  # the kernel writes its versions there
    nbformat.validate(notebook)
    return (nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n") + "\n").encode()


def is_built(path: Path, notebook: Any) -> bool:
    """Does the file hold this notebook, byte for byte?"""
    return path.is_file() and path.read_bytes() == as_bytes(notebook)


def _keep_work(path: Path, root: Path, echo: Callable[[str], Any]) -> None:
    """Move a notebook out of the way whose cells someone changed since it was built."""
    if not path.exists():
        return
    old = _load(path)
    if old is not None and _course(old).get("version") == version(old):
        return
    number = 1
    while (beside := path.with_name(f"{path.stem}.edited-{number}.ipynb")).exists():
        number += 1
    path.rename(beside)
    echo(f"{shown(path, root)} had been worked in: that is now {shown(beside, root)}")


def fault(old: Any, new: Any) -> str:
    """In what way the walkthrough ``old`` (None: there is none) is not ``new`` executed;
    "" if it is. With which library it was executed is left to :func:`stale`.
    """
    if old is None:
        return "this notebook has not been built"
    pairs = zip_longest(old.cells, new.cells)
    for at, (mine, right) in enumerate(pairs, start=1):
        if mine is None or right is None or _from_source(mine) != _from_source(right):
            return f"cell {at} is not as in the source"
        if mine.cell_type != "code" or not mine.source.strip():
            continue
        if not mine.execution_count:
            return f"cell {at} has not been executed"
        if "raises-exception" not in mine.metadata.get("tags", []) and any(
            output.output_type == "error" for output in mine.outputs
        ):
            return f"cell {at} ended in an error"
    if {**_course(old), "stamp": ""} != {**_course(new), "stamp": ""}:
        return "its hash is not that of the source"
    return ""


def _from_source(cell: Any) -> tuple[Any, ...]:
    """What of a cell comes from the source."""
    tags = {name: value for name, value in cell.metadata.items() if name not in _JUPYTERS}
    return cell.cell_type, cell.get("id"), cell.source, tags


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _has_outputs_of(old: Any, new: Any) -> bool:
    """Was ``old`` executed with the code of ``new`` and the library as it is?"""
    before, after = _code(old), _code(new)
    return (
        _course(old).get("stamp") == _course(new)["stamp"]
        and [_from_source(cell)[3] for cell in before] == [_from_source(cell)[3] for cell in after]
        and all(cell.execution_count for cell in before if cell.source.strip())
    )


def stale(root: Path) -> list[Path]:
    """The walkthroughs that were executed with another code than there is now, their
    own or the library's.
    """
    found = []
    for path in source.sources(root):
        lab, cells = load(path, root)
        there = root / "solutions" / f"{lab.slug}.ipynb"
        old, new = _load(there), solution_notebook(lab, cells, root)
        if old is None or _course(old).get("stamp") != _course(new)["stamp"]:
            found.append(there)
    return found
