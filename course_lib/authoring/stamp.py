"""What a walkthrough was executed with: its code, and the code of the library that it
runs. Where that changes, it is executed anew.

Comments, docstrings and the layout of lines do not matter; nor does the grader, which
no figure comes from.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from course_lib.authoring import source

# rooms of course_lib
_APART = {
    *("authoring", "cli", "demo", "doctor", "environment", "grading", "install", "labs"),
    *("labs_folder", "sandbox_child", "student_code"),
}


def stamp(cells: Iterable[str], root: Path) -> str:
    """A short hash of the code of these cells, of the modules of ``course_lib`` that they
    import, directly or through others, and of the word lists beside these.
    """
    package = root / "course_lib"
    trees = [source.parsed(cell) for cell in cells]
    waiting = {path for tree in trees for path in _imported(tree, package)}
    modules: dict[Path, str] = {}
    while waiting:
        path = waiting.pop()
        if path not in modules:
            modules[path], imported = _module(path.read_text(encoding="utf-8"), package)
            waiting |= imported
    parts = [_code(tree) for tree in trees]
    parts += [f"{path.relative_to(package).as_posix()} {modules[path]}" for path in sorted(modules)]
    lists = {path for folder in {path.parent for path in modules} for path in folder.glob("*.toml")}
    parts += [path.read_text(encoding="utf-8") for path in sorted(lists)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@functools.cache  # most labs import the same files
def _module(text: str, package: Path) -> tuple[str, set[Path]]:
    """A file's code, and the files of the package that it imports."""
    tree = ast.parse(text)
    imported = _imported(tree, package)
    return _code(tree), imported


def _imported(tree: ast.Module, package: Path) -> set[Path]:
    """The files of the package that a module imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = set()
    for name in names:
        first, *parts = name.split(".")
        if first != package.name or not parts or parts[0] in _APART:
            continue
        for path in (
            package.joinpath(*parts).with_suffix(".py"),
            package.joinpath(*parts, "__init__.py"),
        ):
            if path.is_file():
                found.add(path)
    return found


def _code(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            body[0].value = ast.Constant(None)
    return _dump(tree)


def _dump(node: object) -> str:
    """A tree as text, the same with every Python: fields that are empty do not count, since
    later Pythons have more of them, nor do the empty texts that 3.12 puts into f-strings.
    """
    if isinstance(node, list):
        return f"[{','.join(map(_dump, node))}]"
    if isinstance(node, ast.JoinedStr):
        node.values = [v for v in node.values if getattr(v, "value", None) != ""]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = (
        f"{name}={_dump(value)}"
        for name, value in ast.iter_fields(node)
        if value is not None and value != [] and name != "kind"
    )
    return f"{type(node).__name__}({','.join(fields)})"
