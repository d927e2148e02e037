"""From the cells of a notebook to the names a grader can call: run what defines, leave
out what experiments.

Run, in the notebook's order: imports, functions, classes, assignments of literals, and
any other top-level statement that a graded name depends on. Not run: training loops,
plots, ``check(...)``. Magics are dropped.
"""

from __future__ import annotations

import ast
import io
import linecache
import symtable
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from course_lib.worker import stubs

PLACEHOLDER = "NotImplementedError"
_BODY_MAGICS = {"time", "timeit", "capture", "prun"}  # cell magics whose body is ordinary code


@dataclass
class Statement:
    """One top-level statement: its text, what it binds, what it reads, where it
    stands.
    """

    node: ast.stmt
    file: str
    source: str

    @cached_property
    def binds(self) -> set[str]:
        """The global names it binds."""
        return set(_bound(self.node))

    @cached_property
    def reads(self) -> set[str]:
        """The global names it reads; a function's own variables are not among them."""
        return _read(self.source)

    @cached_property
    def reads_at_once(self) -> set[str]:
        """Of these, what it reads when it runs: of a function not what is in its body."""
        if not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return self.reads
        head: list[ast.AST] = [self.node.args, *self.node.decorator_list]
        head += [self.node.returns] if self.node.returns else []
        names = {n.id for part in head for n in ast.walk(part) if isinstance(n, ast.Name)}
        return self.reads & names

    @cached_property
    def always(self) -> bool:
        """Is it a definition, or does it give a question up? Then it is run whether or
        not something needs it.
        """
        return _always(self.node) or (
            "skip" in self.source and not self.defines and "skip" in self.reads
        )

    @property
    def defines(self) -> bool:
        """Is it a function or a class?"""
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


@dataclass
class Definitions:
    """The names that came out of a notebook, what went wrong on the way, and the
    questions it gives up.
    """

    namespace: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)


def parse(cells: Iterable[str], problems: list[str]) -> list[Statement]:
    """The statements of all cells; a cell that does not parse is left out and said."""
    statements: list[Statement] = []
    for number, source in enumerate(cells, start=1):
        file = f"<cell {number}>"
        try:
            code, tree = _python(source, file)
        except (SyntaxError, ValueError, RecursionError, MemoryError, IndentationError) as error:
            line = (
                f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            )
            problems.append(
                f"cell {number}{line} is no Python that can be read ({type(error).__name__}:"
                f" {_short(error)}): it was left out"
            )
            continue
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        lines = _lines(code)
        for node in tree.body:
            try:
                statements.extend(_statements(node, file, lines))
            except (SyntaxError, RecursionError, ValueError) as error:
                problems.append(
                    f"cell {number}, line {node.lineno} was left out ({type(error).__name__}:"
                    f" {_short(error)})"
                )
    return statements


def _python(source: str, file: str) -> tuple[str, ast.Module]:
    """A cell as Python, its magics turned into calls; what is Python already has none,
    and is not searched for them.
    """
    try:
        return source, ast.parse(source, file)
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        code = TransformerManager().transform_cell(source)
        return code, ast.parse(code, file)


def _statements(node: ast.stmt, file: str, lines: list[str]) -> list[Statement]:
    source = _text(node, lines)
    magic = _magic(node) if "get_ipython" in source else None
    if magic is not None:
        name, body = magic
        if name not in _BODY_MAGICS or body is None:
            return []
        try:
            inside = _lines(body)
            return [
                s for inner in ast.parse(body, file).body for s in _statements(inner, file, inside)
            ]
        except SyntaxError:
            return []
    return [Statement(node, file, source)]


def _lines(code: str) -> list[str]:
    """As Python counts them."""
    return list(io.StringIO(code, newline=None))


def _text(node: ast.stmt, lines: list[str]) -> str:
    """A statement as it is written: its decorators too, and not what stands beside it
    on its lines.
    """
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    text = lines[first - 1 : node.end_lineno]
    text[-1] = text[-1].encode()[: node.end_col_offset].decode()  # Python counts bytes
    if first == node.lineno:
        text[0] = text[0].encode()[node.col_offset :].decode()
    return "".join(text)


def _magic(node: ast.stmt) -> tuple[str, str | None] | None:
    """(name, body) where the statement is what IPython makes of a magic line or
    cell.
    """
    for inner in ast.walk(node) if isinstance(node, ast.Expr | ast.Assign) else ():
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            if (
                isinstance(inner.func.value, ast.Call)
                and getattr(inner.func.value.func, "id", "") == "get_ipython"
            ):
                values = [a.value if isinstance(a, ast.Constant) else None for a in inner.args]
                if inner.func.attr == "run_cell_magic" and len(values) == 3:
                    return str(values[0]), values[2] if isinstance(values[2], str) else None
                return inner.func.attr, None
    return None


def _always(node: ast.stmt) -> bool:
    if isinstance(
        node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ):
        return True
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(isinstance(t, ast.Name | ast.Tuple) for t in targets) and _literal(node.value)
    return False


def _literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
        return True
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return isinstance(node, ast.Constant)


def scope(node: ast.stmt) -> tuple[set[str], set[str]]:
    """The global names that a top-level statement binds, and those it reads; a
    function's own variables are neither.
    """
    return _bound(node), _read(ast.unparse(node))


class _Generators(ast.NodeTransformer):
    """Every comprehension as a generator expression, which has a scope of its own: from
    Python 3.12 on the symbol table counts the variable of ``[x for x in xs]`` as one of
    the module's, and as read.
    """

    def _generator(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        return self.generic_visit(ast.GeneratorExp(node.elt, node.generators))

    visit_ListComp = visit_SetComp = _generator

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return self.generic_visit(ast.GeneratorExp(pair, node.generators))


def _read(source: str) -> set[str]:
    try:
        return set(_globals_read(symtable.symtable(_plain(source), "<statement>", "exec")))
    # running it will say so, and leave it out
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return set()


def _plain(source: str) -> str:
    try:
        return ast.unparse(ast.fix_missing_locations(_Generators().visit(ast.parse(source))))
    except ValueError:  # an f-string that has no other spelling: better too much than nothing
        return source


def _globals_read(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals_read(inner)


def _bound(statement: ast.stmt) -> set[str]:
    """Names assigned, imported or defined, and those whose attributes or items are set
    (``f.k = 7`` changes f).
    """
    # by the tree, not by the symbol table: from Python 3.12 on that counts a
    # comprehension's variable as the module's
    found: set[str | None] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name():
                if isinstance(node.ctx, ast.Store):
                    found.add(node.id)
                continue
            case ast.Constant() | ast.Lambda():
                continue
            case ast.Attribute() | ast.Subscript():
                if isinstance(node.ctx, ast.Store):
                    found.add(_root(node))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                named = [
                    inner.target for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)
                ]
                found |= {target.id for target in named}
                continue
            case ast.Import() | ast.ImportFrom():
                found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                found.add(node.name)
            case ast.MatchMapping():
                found.add(node.rest)
        waiting += ast.iter_child_nodes(node)
    return {name for name in found if name}


def _root(target: ast.expr) -> str | None:
    """The name that ``f.a[0].b`` begins with; None where it is something else, a call's
    result.
    """
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None


def unwritten(node: ast.stmt) -> bool:
    """Is this the handout's own placeholder: a body of nothing but a docstring and
    ``raise NotImplementedError("N.k …")``?
    """
    if isinstance(node, ast.ClassDef):
        methods = [m for m in node.body if isinstance(m, ast.FunctionDef)]
        return bool(methods) and any(unwritten(m) for m in methods)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return False
    last = node.body[-1]
    if not (
        isinstance(last, ast.Raise)
        and isinstance(last.exc, ast.Call)
        and getattr(last.exc.func, "id", "") == PLACEHOLDER
    ):
        return False
    return all(
        isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) for s in node.body[:-1]
    )


def _placeholder_value(node: ast.stmt) -> bool:
    value = getattr(node, "value", None)
    return (
        isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(value, ast.Constant)
        and value.value is ...
    )


def select(statements: list[Statement], graded: Iterable[str]) -> list[Statement]:
    """What to run: the definitions, and what the graded names need beside them, in the
    notebook's order.

    A copy of the handout's placeholder never replaces an answer: cells get copied.
    """
    answered = {
        name
        for s in statements
        if s.always and not unwritten(s.node) and not _placeholder_value(s.node)
        for name in s.binds
    }  # fmt: skip
    kept = [
        s
        for s in statements
        if not (
            (unwritten(s.node) or _placeholder_value(s.node)) and s.binds and s.binds <= answered
        )
    ]
    last = {name: s for s in kept for name in s.binds}
    # A function reads a global when it is called, and then what bound it last counts; a
    # statement reads what is there when it runs.
    at_calls, at_once = set(graded), set[str]()
    chosen = {id(s) for s in kept if s.always}
    while True:
        before = len(at_calls), len(at_once)
        for s in kept:
            if s.binds & (at_calls | at_once):
                if s.always:
                    at_calls |= s.reads
                    at_once |= s.reads_at_once
                elif s.binds & at_once or any(not last[n].always for n in s.binds & at_calls):
                    chosen.add(id(s))
                    at_once |= s.reads
        if (len(at_calls), len(at_once)) == before:
            return [s for s in kept if id(s) in chosen]


def run(
    cells: Iterable[str], graded: Iterable[str], names: Mapping[str, Iterable[str]] | None = None
) -> Definitions:
    """Run the definitions of a notebook in a fresh namespace; what fails is said and
    left out.

    Args:
        names: of each question, what it asks for. A question is given up if ``skip``
            was called for it and what it asks for was not defined after that: as in the
            notebook, where the last definition counts.
    """
    result = Definitions({"__name__": "__main__", "__builtins__": __builtins__})
    stubs.skip.names, stubs.skip.namespace = dict(names or {}), result.namespace
    for statement in select(parse(cells, result.problems), graded):
        try:
            code = compile(ast.Module([statement.node], []), statement.file, "exec")
            exec(code, result.namespace)
        # SystemExit and KeyboardInterrupt too: a cell may not end the rest
        except BaseException as error:
            where = f"{statement.file.strip('<>')}, line {statement.node.lineno}"
            result.problems.append(f"{where} raised {type(error).__name__}: {_short(error)}")
    result.skipped = {v.question for v in result.namespace.values() if type(v) is stubs.Skipped}
    return result


def _short(error: BaseException) -> str:
    try:
        return str(error)[:300]
    except Exception:
        return "(no text)"
