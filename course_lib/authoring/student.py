"""What a student opens: the lab without its answers, and the checks that no answer is
left in it.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from course_lib.authoring.errors import Problems
from course_lib.authoring.source import Cell, Lab, Region, Wrong, parsed, syntax_error

# at the end of a solution's line that the notebook gives away on purpose
SHOWN = "# shown elsewhere"
_LONG = 12  # shorter statements (`return mask`) are in every notebook
_Plain = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr


def strip(lab: Lab) -> list[Cell]:
    """The cells of the student notebook: in the place of each solution, what asks for
    one.

    Inside a function that is
    ``raise NotImplementedError("1.4 global_masks: write this function")``; elsewhere
    every name assigned there becomes ``name = ...``.

    Raises:
        AuthoringError: if a cell does not parse then, or an answer stays visible.
    """
    problems = Problems()
    wrong = partial(problems.add, lab.shown)
    cells: list[Cell] = []
    for at, cell in enumerate(lab.cells):
        regions = [region for region in lab.regions if region.cell == at]
        if regions:
            cell = _without(cell, regions, wrong)
            if slip := syntax_error(cell.source):
                message = f"without its solution this cell does not parse ({slip.msg})"
                wrong(cell.line(slip.lineno or 1), f"{message}: move the markers")
        cells.append(cell)
    problems.stop()
    _leaks(lab, cells, wrong)
    problems.stop()
    return cells


def _without(cell: Cell, regions: list[Region], wrong: Wrong) -> Cell:
    tree = parsed(cell.source)
    source = cell.source.split("\n")
    lines: list[str] = []
    numbers: list[int] = []
    done = 0
    for region in regions:
        inside = source[region.begin : region.end - 1]
        code = [text for text in inside if text.strip() and not text.lstrip().startswith("#")]
        indent = code[0][: -len(code[0].lstrip())]
        first = region.begin + 1 + next(i for i, text in enumerate(inside) if text in code)
        scopes = _scopes(tree, first)
        if any(_crosses(node, region) for node in ast.walk(tree)):
            begin = cell.line(region.begin)
            wrong(begin, "put the markers round whole statements, not inside of one")
            continue
        if scopes and not isinstance(scopes[-1], ast.ClassDef):
            last = region.begin + max(i for i, text in enumerate(inside, start=1) if text in code)
            if last > (scopes[-1].end_lineno or last):
                message = f"this solution goes on beyond the end of {scopes[-1].name}: end it there"
                wrong(cell.line(region.begin), message)
            kind = (
                "method" if len(scopes) > 1 and isinstance(scopes[-2], ast.ClassDef) else "function"
            )
            name = ".".join(scope.name for scope in scopes)
            new = [f'raise NotImplementedError("{region.question} {name}: write this {kind}")']
        else:
            new = [f"{name} = ..." for name in _assigned(tree, region)] or [
                f"...  # {region.question}: write this"
            ]
        lines += source[done : region.begin - 1] + [indent + text for text in new]
        numbers += [cell.line(i) for i in range(done + 1, region.begin)] + [
            cell.line(region.begin)
        ] * len(new)
        done = region.end
    lines += source[done:]
    numbers += [cell.line(i) for i in range(done + 1, len(source) + 1)]
    return replace(cell, source="\n".join(lines), lines=tuple(numbers))


Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _scopes(tree: ast.AST, line: int) -> list[Scope]:
    """The classes and functions round a line of code, the outermost first; one that
    begins on it does not count.
    """
    for node in ast.walk(tree):
        if isinstance(node, Scope) and node.lineno < line <= (node.end_lineno or 0):
            return [
                node,
                *(scope for child in ast.iter_child_nodes(node) for scope in _scopes(child, line)),
            ]
    return []


def _within(tree: ast.AST, region: Region, functions: bool = False) -> Iterator[ast.stmt]:
    """The statements between the markers, the inner ones of compound statements too.

    Args:
        functions: those in the bodies of functions and classes, too.
    """
    for node in ast.iter_child_nodes(tree):
        if (
            isinstance(node, ast.stmt)
            and region.begin < node.lineno
            and (node.end_lineno or 0) < region.end
        ):
            yield node
            if isinstance(node, Scope) and not functions:
                continue
        yield from _within(node, region, functions)


def _crosses(node: ast.AST, region: Region) -> bool:
    """Does a marker stand inside of a statement that has no body?"""
    if not isinstance(node, ast.stmt) or hasattr(node, "body") or hasattr(node, "cases"):
        return False
    return any(
        node.lineno <= marker <= (node.end_lineno or 0) for marker in (region.begin, region.end)
    )


def _assigned(tree: ast.AST, region: Region) -> list[str]:
    """The names a region binds for the rest of the notebook, in their order: helpers
    (_name), imports and loop variables apart.
    """
    names: dict[str, None] = {}
    for node in _within(tree, region):
        if isinstance(node, Scope):
            names |= {} if node.name.startswith("_") else {node.name: None}
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            stored = [inner for target in targets for inner in ast.walk(target)]
            names |= {
                inner.id: None
                for inner in stored
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
            }
    return list(names)


def _leaks(lab: Lab, cells: list[Cell], wrong: Wrong) -> None:
    """An answer is visible where half of its statements, by length, stand elsewhere in
    the student's notebook.
    """
    pages = [_Page(cell) for cell in cells]
    for region in lab.regions:
        cell = lab.cells[region.cell]
        lines = cell.source.split("\n")
        whole = seen = 0
        places: dict[int, None] = {}
        for node in _within(parsed(cell.source), region, functions=True):
            forms = _forms(node)
            if not forms or any(SHOWN in text for text in lines[node.lineno - 1 : node.end_lineno]):
                continue
            whole += len(forms[0])
            if where := next(
                (line for page in pages for form in forms if (line := page.find(form))), None
            ):
                seen += len(forms[0])
                places[where] = None
        if whole and 2 * seen >= whole:
            begin = cell.line(region.begin)
            at = ", ".join(str(line) for line in places)
            what = (
                f"the answer to {region.question} (line {begin}) can be read here (its lines also"
                f" stand on {at})"
            )
            remedy = f"say it otherwise, or end the solution's line with `{SHOWN}` if that is meant"
            wrong(next(iter(places)), f"{what}: {remedy}")


def _forms(node: ast.stmt) -> list[str]:
    """How a statement might be shown elsewhere: as it is and, where that says enough,
    the value alone. [] if it says little.
    """
    if not isinstance(node, _Plain) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ):
        return []
    whole = _squeeze(ast.unparse(node))
    value = node.value
    if isinstance(node, ast.Return) and (
        value is None or isinstance(value, ast.Constant | ast.Name)
    ):
        return []
    if (
        value is None
        or isinstance(value, ast.Name)
        or _literal(value)
        or len(text := _squeeze(ast.unparse(value))) < _LONG
    ):
        return [whole] if len(whole) >= _LONG else []
    return [whole, text]


def _literal(value: ast.expr) -> bool:
    """Is it data (an answer to choose, a list of names), which proves nothing without
    the name it is given to?
    """
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text).replace('"', "'")


class _Page:
    """A cell of the student notebook as text without spaces, and its statements as
    Python prints them.
    """

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.starts: list[int] = []
        self.text = ""
        for line in cell.source.split("\n"):
            self.starts.append(len(self.text))
            self.text += _squeeze(line)
        self.statements: dict[str, int] = {}
        if cell.kind == "code":
            for node in ast.walk(parsed(cell.source)):
                if isinstance(node, ast.stmt):
                    self.statements |= {
                        form: node.lineno for form in _forms(node) if form not in self.statements
                    }

    def find(self, form: str) -> int | None:
        """The line of the source file on which the statement can be read."""
        if form in self.statements:
            return self.cell.line(self.statements[form])
        at = self.text.find(form)
        return None if at < 0 else self.cell.line(bisect_right(self.starts, at))
