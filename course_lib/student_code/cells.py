"""From the cells of a notebook to the names a grader can call: run what defines, leave
out what experiments.

Run, in the notebook's order: imports, functions, classes, assignments of literals, settings
(``sys.setrecursionlimit(…)``), ``%%writefile``, and any other top-level statement that a graded
name depends on. Not run: training loops, plots, ``check(...)``, shell commands. Magics that measure
code (``%time f(x)``, ``%%capture``) are left out, and their code is read.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
import copy
import functools
import inspect
import linecache
import operator
import re
import symtable
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from course_lib.student_code import own

PLACEHOLDER = "NotImplementedError"
# magics around ordinary code: of a cell, its first line; of a line, what stands before the code
_AROUND_CELL = re.compile(r"\s*%%(?:time|capture|prun)\b.*")
_AROUND_LINE = re.compile(
    r"^(\s*(?:[\w.,\[\] ]+=\s*)?)%time\s+(?:--no-raise-error\s+)?", re.MULTILINE
)
_SETTING_MAGICS = ("writefile", "file", "env", "set_env")
_DEFINES = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)
# cell magics that hand the cell to another program
OTHER_PROGRAMS = {
    "bash",
    "cmd",
    "perl",
    "pypy",
    "python",
    "python2",
    "python3",
    "ruby",
    "script",
    "sh",
}
# calls at top level that change how later code runs
_SETTINGS = re.compile(
    r"sys\.(set\w+|path\.(append|insert|extend))|os\.(chdir|makedirs|mkdir|putenv)"
    r"|warnings\.\w*filter\w*|torch\.(autograd\.)?(set|use)_(?!num_|rng_)\w+|numpy\.set\w+"
    r"|logging\.(basicConfig|disable)|(importlib\.)?reload"
)
# methods that change what they are called on, beside torch's, which end with _
_CHANGING = set(
    """add append appendleft clear discard extend insert pop popitem register remove reverse
    setdefault sort update""".split()  # noqa: SIM905 (a list has a line for each)
)

# the flags by which a cell's imports from __future__ hold for the cells below it
_FUTURE = functools.reduce(
    operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
)


@dataclass
class Statement:
    """One top-level statement: what it binds, what it reads, where it stands."""

    node: ast.stmt
    file: str

    @cached_property
    def binds(self) -> set[str]:
        """The global names it binds."""
        return set(_bound(self.node))

    @cached_property
    def reads(self) -> set[str]:
        """The global names it reads; a function's own variables are not among them."""
        return _read(self.node)

    @cached_property
    def changes(self) -> set[str]:
        """The names on which it calls a method that may change them: ``table.append(1)``."""
        return set(_changed(self.node))

    @cached_property
    def effects(self) -> set[str]:
        """Of a function: the global names that a call of it may bind or change."""
        if not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return set()
        stored = {
            root
            for inner in ast.walk(self.node)
            if isinstance(inner, ast.Attribute | ast.Subscript) and isinstance(inner.ctx, ast.Store)
            if (root := _root(inner))
        }
        changed = set(_changed(*self.node.body))
        said = [inner.names for inner in ast.walk(self.node) if isinstance(inner, ast.Global)]
        return (stored | changed) & self.reads | {name for names in said for name in names}

    @cached_property
    def calls(self) -> set[str]:
        """The names that it calls when it runs."""
        return {
            inner.func.id
            for inner in _run_at_once(self.node)
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name)
        }

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
        node = self.node
        if self.defines or self.sets or isinstance(node, ast.Import | ast.ImportFrom):
            return True
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if all(isinstance(t, ast.Name | ast.Tuple) for t in targets) and _literal(node.value):
                return True
        return "skip" in _names(node) and "skip" in self.reads

    @cached_property
    def sets(self) -> bool:
        """Does it change how later code runs: a setting, ``%env``, ``%%writefile``?"""
        if not (isinstance(self.node, ast.Expr) and isinstance(self.node.value, ast.Call)):
            return False
        if (magic := _magic(self.node.value)) is not None:
            return magic[1] in _SETTING_MAGICS
        name = ast.unparse(self.node.value.func).replace("np.", "numpy.")
        return bool(_SETTINGS.fullmatch(name))

    @property
    def defines(self) -> bool:
        """Is it a function or a class?"""
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


@dataclass
class Definitions:
    """What came out of a notebook.

    Attributes:
        namespace: its names. problems: what went wrong on the way. skipped: the questions
            it gives up. lost: of names that are not there, the problem that is the reason.
    """

    namespace: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)


class Skipped:
    """Stands for an answer that was given up by ``skip("1.3")``."""

    def __init__(self, question: str) -> None:
        self.question = question


class _Skip:
    """``skip``: binds the names that a question asks for to :class:`Skipped`."""

    names: dict[str, Iterable[str]] = {}
    namespace: dict[str, Any] = {}

    def __call__(self, question: Any) -> None:
        for name in self.names.get(question, ()) if isinstance(question, str) else ():
            self.namespace[name] = Skipped(question)


skip = _Skip()


def parse(
    cells: Iterable[str], problems: list[str], lost: dict[str, str] | None = None
) -> list[Statement]:
    """The statements of all cells; a cell that does not parse is left out and said.

    Args:
        lost: gets the names that a cell left out seems to define, with the problem.
    """
    statements: list[Statement] = []
    commands: list[str] = []  # of a shell, in any cell
    for number, source in enumerate(cells, start=1):
        file = f"<cell {number}>"
        try:
            tree = _python(source, file)
        except (SyntaxError, ValueError, RecursionError, MemoryError, IndentationError) as error:
            line = (
                f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            )
            problems.append(
                f"cell {number}{line} is no Python that can be read ({type(error).__name__}:"
                f" {_short(error)}): it was left out"
            )
            if lost is not None:
                lost |= dict.fromkeys(_DEFINES.findall(source), problems[-1])
            continue
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        for magic in filter(None, map(_magic, ast.walk(tree))):
            if _starts_program(*magic):
                commands.append(f"`{_shown(*magic)[:60]}` (cell {number})")
            elif magic[1] == "run":
                problems.append(
                    f"cell {number}: `{_shown(*magic)[:60]}` is not run while a notebook is graded:"
                    " import the file instead"
                )
        statements += [Statement(node, file) for node in tree.body]
    if commands:
        more = ", …" if len(commands) > 3 else ""
        problems.append(
            "shell commands are not run while a notebook is graded:"
            f" {', '.join(commands[:3])}{more}"
        )
    return statements


def _python(source: str, file: str) -> ast.Module:
    """A cell as Python, its magics turned into calls; what is Python already has none,
    and is not searched for them.
    """
    try:
        return ast.parse(source, file)
    except SyntaxError:
        if around := _AROUND_CELL.match(source):
            # the lines keep their numbers
            return _python("\n" * around[0].count("\n") + source[around.end() :], file)
        from IPython.core.inputtransformer2 import TransformerManager

        code = _AROUND_LINE.sub(r"\1", source)
        return ast.parse(TransformerManager().transform_cell(code), file)


def _magic(node: ast.AST) -> tuple[str, str, str] | None:
    """What IPython makes of a magic, a call of a method of ``get_ipython()``: the method, the
    magic's name ("" of a shell command) and its line. None of any other node.
    """
    match node:
        case ast.Call(
            ast.Attribute(ast.Call(ast.Name("get_ipython")), kind),
            [ast.Constant(str(first)), *more],
        ):
            line = more[0].value if more and isinstance(more[0], ast.Constant) else ""
            return (kind, first, str(line)) if kind.startswith("run_") else (kind, "", first)
    return None


def _shown(kind: str, name: str, line: str) -> str:
    """A magic as the student wrote it."""
    marks = {"run_line_magic": f"%{name} ", "run_cell_magic": f"%%{name} "}
    return f"{marks.get(kind, '!')}{line}".strip()


def _starts_program(kind: str, name: str, _line: str) -> bool:
    return kind in ("system", "getoutput") or (kind == "run_cell_magic" and name in OTHER_PROGRAMS)


def _run_at_once(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement that run when it runs: not what is in functions."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _changed(*nodes: ast.stmt) -> Iterator[str]:
    for node in nodes:
        for inner in _run_at_once(node):
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                method = inner.func.attr
                changing = method in _CHANGING or method.endswith("_") and method[0] != "_"
                if changing and (root := _root(inner.func)):
                    yield root


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
    return _bound(node), _read(node)


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


def _read(node: ast.stmt) -> set[str]:
    try:
        text = ast.unparse(_Generators().visit(copy.deepcopy(node)))
        return set(_globals_read(symtable.symtable(text, "<statement>", "exec")))
    # running it will say so, and leave it out
    except (SyntaxError, RecursionError, MemoryError):
        return set()
    except ValueError:  # an f-string that has no other spelling: better too much than nothing
        return _names(node)


def _names(node: ast.stmt) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


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
                if not isinstance(node.ctx, ast.Load):  # "del f", too, changes what f is
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
    _, needed = _close(kept, graded, {id(s): s.binds for s in kept})
    chosen, _ = _close(kept, graded, _touched(kept, needed))
    return [s for s in kept if id(s) in chosen]


def _close(
    kept: list[Statement], graded: Iterable[str], touched: dict[int, set[str]]
) -> tuple[set[int], set[str]]:
    """The statements to run, by id, and the names that are needed.

    Args:
        touched: by id, the names that a statement binds or changes.
    """
    last = {name: s for s in kept for name in touched[id(s)]}
    # A function reads a global when it is called, and then what bound it last counts; a
    # statement reads what is there when it runs.
    at_calls, at_once = set(graded), set[str]()
    chosen = {id(s) for s in kept if s.always}
    for s in kept:
        if s.sets:
            at_once |= s.reads
    while True:
        before = len(at_calls), len(at_once)
        for s in kept:
            bound = touched[id(s)]
            if bound & (at_calls | at_once):
                if s.always:
                    at_calls |= s.reads
                    at_once |= s.reads_at_once
                elif bound & at_once or any(not last[n].always for n in bound & at_calls):
                    chosen.add(id(s))
                    at_once |= s.reads
        if (len(at_calls), len(at_once)) == before:
            return chosen, at_calls | at_once


def _touched(statements: list[Statement], needed: set[str]) -> dict[int, set[str]]:
    """By statement, the names that it binds, and those that it changes: by a method, or by
    calling a function that does.

    What a needed function changes itself is its memory, or its log: whoever else calls it or
    adds to that is not run for it.
    """
    left = {
        name
        for s in statements
        if isinstance(s.node, ast.Import | ast.ImportFrom)
        for name in s.binds
    }
    effects: dict[str, set[str]] = {}
    for s in statements:
        if s.defines and s.binds & needed:
            left |= s.effects
        elif s.defines:
            effects.setdefault(getattr(s.node, "name", ""), set()).update(s.effects)
    return {
        id(s): s.binds.union(
            s.changes - left, *(effects[name] - left for name in s.calls & effects.keys())
        )
        for s in statements
    }


def run(
    cells: Iterable[str],
    graded: Iterable[str],
    names: Mapping[str, Iterable[str]] | None = None,
    namespace: dict[str, Any] | None = None,
) -> Definitions:
    """Run the definitions of a notebook; what fails is said and left out.

    Args:
        names: of each question, what it asks for. A question is given up if ``skip``
            was called for it and what it asks for was not defined after that: as in the
            notebook, where the last definition counts.
        namespace: where to define it; by default a fresh one.
    """
    if namespace is None:
        namespace = {"__name__": "__main__", "__builtins__": __builtins__}
    result = Definitions(namespace)
    skip.names, skip.namespace = dict(names or {}), result.namespace
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for statement in select(parse(cells, result.problems, result.lost), graded):
        try:
            try:
                flags |= _execute(statement, flags, result.namespace)
            except NameError:
                if not statement.defines:
                    raise
                # an annotation may name what is not needed otherwise, and was not run
                _execute(statement, flags | __future__.annotations.compiler_flag, result.namespace)
        # SystemExit and KeyboardInterrupt too: a cell may not end the rest
        except BaseException as error:
            where = f"{statement.file.strip('<>')}, line {statement.node.lineno}"
            problem = f"{where} raised {type(error).__name__}: {_short(error)}"
            if isinstance(error, ModuleNotFoundError) and error.name:
                module = str(error.name).partition(".")[0][:80]
                problem = (
                    f"{where} imports `{module}`: no installed package has this name, and"
                    f" {module}.py was not handed in: hand it in together with the notebook, or"
                    " copy what you need from it into a cell"
                )
            result.problems.append(problem)
            missing = [name for name in statement.binds if name not in result.namespace]
            result.lost |= dict.fromkeys(missing, problem)
    result.skipped = {v.question for v in result.namespace.values() if type(v) is Skipped}
    return result


def _execute(statement: Statement, flags: int, namespace: dict[str, Any]) -> int:
    """Run a statement; the flags by which its imports from __future__ hold from here on."""
    if isinstance(statement.node, ast.Import | ast.ImportFrom):
        own.look_again()
    # not with what this file imports from __future__
    code = compile(
        ast.Module([statement.node], []), statement.file, "exec", flags, dont_inherit=True
    )
    done = eval(code, namespace)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(done)
    return code.co_flags & _FUTURE


def _short(error: BaseException) -> str:
    try:
        return str(error)[:300]
    except Exception:
        return "(no text)"
