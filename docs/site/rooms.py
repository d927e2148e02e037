"""The reference: a page a room of ``course_lib``, a section a file of it, every public
name once, under the name by which it is called.

What a room exports (``__all__``) is called by the room's name, ``weights.magnitude``.
Of a file of which it exports nothing, the file's own names are, ``latency.measure``;
what neither exports is the room's inside.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util.nodes import make_refnode

# files that a room's others are made with: what they are about is said, and no more
INSIDE = {
    "course_lib.pruning.channels.comparison",
    "course_lib.pruning.channels.trace",
    "course_lib.show.labels",
}
# what a room does not export, and its users meet: called by the file's name, or what an
# exported function takes or returns
ALSO = {
    "course_lib.pruning.channels.slimming": ["penalty", "scales"],
    "course_lib.pruning.weights.movement": ["MovementPruning"],
}


@dataclass(frozen=True)
class File:
    """A section of a room's page.

    ``of``: the module under which its names stand, the room or the file;
    ``exported``: some are called by the room's name.
    """

    module: str
    of: str
    data: list[str]
    functions: list[str]
    classes: list[str]
    exported: bool

    @property
    def title(self) -> str:
        return self.module.rpartition(".")[2]

    @property
    def names(self) -> list[str]:
        return [*self.data, *self.functions, *self.classes]

    @property
    def clashes(self) -> bool:
        """The room calls a function by the file's name: ``weights.sensitivity``."""
        return self.of != self.module and self.title in self.names


def files(room: str) -> list[File]:
    """The files of a room that have something for its users, in the order in which the
    room's docstring names them; the room itself first, where it defines something.
    """
    module = importlib.import_module(room)
    inside = [m.name for m in pkgutil.iter_modules(getattr(module, "__path__", [])) if not m.ispkg]
    named = re.findall(r":mod:`\.(\w+)`", module.__doc__ or "")
    inside.sort(key=lambda name: (named.index(name) if name in named else len(named), name))
    found = [_file(module, module)]
    found += [_file(module, importlib.import_module(f"{room}.{name}")) for name in inside]
    return [file for file in found if file.names or file.module in INSIDE]


def elsewhere(room: str) -> list[str]:
    """Full names of what a room exports and another has on its page."""
    module = importlib.import_module(room)
    here = {name for file in files(room) for name in file.names}
    exported = [name for name in getattr(module, "__all__", []) if name not in here]
    return [f"{getattr(module, name).__module__}.{name}" for name in exported]


def _file(room: ModuleType, module: ModuleType) -> File:
    objects = {name: getattr(module, name) for name in _defined(module)}
    exports = getattr(room, "__all__", ())
    exported = [
        name for name, made in objects.items() if name in exports and getattr(room, name) is made
    ]
    if "__all__" in vars(module) and module is not room:
        own = [name for name in objects if name in module.__all__]
    elif module.__name__ in INSIDE or exported or hasattr(module, "__path__"):
        own = ALSO.get(module.__name__, [])
    else:
        own = [
            name
            for name, made in objects.items()
            if not name.startswith("_") and (inspect.isroutine(made) or inspect.isclass(made))
        ]
    # a file has its names under one module's: links from its source lead to that
    of = room if set(own) <= set(exported) else module
    names = [name for name in objects if name in exported or name in own]
    functions = [name for name in names if inspect.isroutine(objects[name])]
    classes = [name for name in names if inspect.isclass(objects[name])]
    data = [name for name in names if name not in functions and name not in classes]
    return File(module.__name__, of.__name__, data, functions, classes, bool(exported))


def _defined(module: ModuleType) -> list[str]:
    """The names that a file defines, from top to bottom."""
    names = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return list(dict.fromkeys(names))


def as_fields(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """``Source: …``, a docstring's last paragraph, stands beside Parameters and
    Returns; and what these return is a sentence: napoleon takes its beginning, if there
    is a colon in it, for a type.
    """
    inside = False
    for number, line in enumerate(lines):
        lines[number] = re.sub(
            r"^(:(?:returns|yields): )\*(.+?)\* -- ", r"\1\2: ", line, flags=re.I
        )
        if line.startswith("Source: "):
            lines[number] = f":Source: {line.removeprefix('Source: ')}"
            inside = True
        elif not line.strip():
            inside = False
        elif inside:
            lines[number] = f"    {line}"


def readable(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: Any
) -> tuple[str | None, Any]:
    """``<factory>``, a dataclass's default that is made anew, is no Python; nor is a
    type by the name that another package has for it inside.
    """
    return signature and signature.replace("<factory>", "...").replace("t.Any", "Any"), returns


class Bars(SphinxTransform):
    """In these docstrings |w| is a size, not something to put in its place."""

    default_priority = 210  # before docutils looks for it

    def apply(self, **kwargs: Any) -> None:
        for node in list(self.document.findall(nodes.substitution_reference)):
            node.replace_self(nodes.Text(f"|{node.astext()}|"))


def resolve(app: Any, env: Any, node: Any, content: Any) -> nodes.reference | None:
    """A reference by any of a name's places (the file that defines it, a room that
    exports it) leads to where it is described; one to a file, to what it defines,
    where both have one name.
    """
    if node.get("refdomain") != "py":
        return None
    target, described = node["reftarget"], env.get_domain("py").objects
    room = node.get("py:module") or ""
    places = [*_places(target), *_places(f"{room}.{target}")]
    places += [name for name in described if name.startswith(room) and name.endswith(f".{target}")]
    for place in places:
        if found := described.get(place):
            return make_refnode(
                app.builder, node["refdoc"], found.docname, found.node_id, content, place
            )
    return None


def _places(name: str) -> Iterator[str]:
    yield name
    module, _, last = name.rpartition(".")
    try:
        home = getattr(importlib.import_module(module), last).__module__
    except (AttributeError, ImportError, ValueError):
        return
    yield f"{home}.{last}"
    yield f"{home.rpartition('.')[0]}.{last}"


def forget_builtins(app: Any, env: Any) -> None:
    """``Masks``, another name of a dict, is no reason for a page with dict's source."""
    env._viewcode_modules.pop("builtins", None)


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", as_fields, priority=600)  # after napoleon
    app.connect("autodoc-process-signature", readable)
    app.connect("env-updated", forget_builtins, priority=600)  # after viewcode
    app.connect("missing-reference", resolve)
    app.add_transform(Bars)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
