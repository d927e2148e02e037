"""Of a worked notebook, what its explorers need: so that a browser need not wait for
experiments that nbval runs anyway.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import nbformat

from course_lib.student_code.cells import Statement, parse


def explorers_alone(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A notebook of the statements that the calls of ``plots.explore`` depend on, a
    cell each, in their order, and those calls.

    A statement belongs to them if it binds a name that they, or what they call, may
    read, and no later statement binds all of it anew. What changes an object without
    naming it on the left (``rows.append(…)``) is left out: an explorer that needs such
    a thing fails here, and should be given a function that makes it.
    """
    statements = parse([cell.source for cell in notebook.cells if cell.cell_type == "code"], [])
    cells = [nbformat.v4.new_code_cell(ast.unparse(s.node)) for s in _needed(statements)]
    return nbformat.v4.new_notebook(cells=cells, metadata=notebook.metadata)


def _needed(statements: Sequence[Statement]) -> list[Statement]:
    definitions = {
        s.node.name: s for s in statements if isinstance(s.node, ast.FunctionDef | ast.ClassDef)
    }
    needed: set[str] = set()
    chosen: list[Statement] = []

    def need(names: set[str]) -> None:
        """These, and what functions among them will read when they are called, wherever
        they stand.
        """
        for name in names - needed:
            needed.add(name)
            if name in definitions:
                need(definitions[name].reads)

    for statement in reversed(statements):
        if _explores(statement) or statement.binds & needed:
            chosen.append(statement)
            needed.difference_update(_anew(statement.node))
            need(statement.reads)
    return chosen[::-1]


def _explores(statement: Statement) -> bool:
    node = statement.node
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "plots.explore"
    )


def _anew(node: ast.stmt) -> set[str]:
    """The names of which nothing is left from before: whole names on the left of an
    assignment.
    """
    if not isinstance(node, ast.Assign):
        return set()
    parts = [
        part
        for target in node.targets
        for part in (target.elts if isinstance(target, ast.Tuple) else [target])
    ]
    return {part.id for part in parts if isinstance(part, ast.Name)}
