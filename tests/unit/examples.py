"""Every code example there is: of README and the pages, of docstrings, and of the
exercises of the labs; and the few names that they may use without defining them.

A block of a page says what it is: ``python`` runs, ``sh`` is typed in a terminal,
``toml`` and ``csv`` are read, ``text`` is no code. In a docstring, a block behind
``::`` is Python and runs, as do lines at a ``>>>``; ``.. code-block:: text`` is no
code.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import torch
from sybil import Document
from sybil.document import PythonDocStringDocument
from sybil.parsers.abstract.lexers import BlockLexer
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer
from sybil.parsers.rest.lexers import END_PATTERN_TEMPLATE, DirectiveLexer
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.authoring.source import read
from course_lib.data.images import load
from course_lib.models import SmallConvNet
from unit.small_transformers import inputs_of, model_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "data/*.md", "docs/*.md", "solutions/*.md")
    for path in ROOT.glob(pattern)
)
LABS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("solutions/lab*.py"))
# a paragraph that ends with ::, with a block behind it
PARAGRAPH = re.compile(r"^(?P<prefix>[ \t]*)(?!\.\. )(?:\S[^\n]*)?::\n[ \t]*\n", re.MULTILINE)
LEXERS = (BlockLexer(PARAGRAPH, END_PATTERN_TEMPLATE), DirectiveLexer("code-block"))


@dataclass(frozen=True)
class Block:
    """One example: where it stands, its language ("" where it says none), its lines."""

    file: str
    line: int
    language: str
    source: str


def of_page(name: str) -> list[Block]:
    """The blocks of a page."""
    return list(_blocks(Document.parse(str(ROOT / name), FencedCodeBlockLexer(r"\w*")), name))


@functools.cache
def of_docstrings() -> dict[str, list[Block]]:
    """The blocks of every docstring of the library that has any, by the name of what it
    describes.
    """
    found = {}
    for path in sorted((ROOT / "course_lib").rglob("*.py")):
        source, file = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        if not any(mark in source for mark in ("::\n", "code-block::", ">>>")):
            continue  # parsing every file takes seconds
        module = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        for start, end, _ in PythonDocStringDocument.extract_docstrings(source):
            text, line = source[start:end], source.count("\n", 0, start)
            # lines keep their numbers, and the first its place
            document = Document("\n" * line + textwrap.dedent(" " * 4 + text), str(path))
            for lexer in LEXERS:
                for region in lexer(document):
                    document.add(region)
            blocks = list(_blocks(document, file.as_posix()))
            if ">>>" in text:
                blocks.append(Block(file.as_posix(), line + 1, "doctest", text))
            if blocks:
                found[_described(source, module)[line + 1]] = blocks
    return found


def of_exercises(name: str) -> tuple[list[Block], dict[str, Any]]:
    """The examples in the docstrings of a lab's exercises, and the names of the solution
    that they use: imports, functions and classes.
    """
    cells = [c.source for c in jupytext.read(ROOT / name).cells if c.cell_type == "code"]
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    found = [node for cell in cells for node in ast.parse(cell).body if isinstance(node, kinds)]
    names: dict[str, Any] = {}
    exec(compile(ast.Module(found, []), ROOT / name, "exec"), names)
    texts = [ast.get_docstring(node) or "" for node in found if isinstance(node, kinds[2:])]
    return [Block(name, 1, "doctest", text) for text in texts if ">>>" in text], names


def docstrings_of_exercises(name: str) -> dict[str, str]:
    """Name -> docstring, for each function and class of a lab that holds an answer."""
    lab, found = read(ROOT / name, ROOT), {}
    for region in lab.regions:
        for node in ast.parse(lab.cells[region.cell].source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (
                node.lineno < region.begin <= (node.end_lineno or 0)
            ):
                found[node.name] = ast.get_docstring(node) or ""
    return found


def _blocks(document: Document, file: str) -> Iterator[Block]:
    for example in document.examples():
        source = example.region.lexemes["source"]
        said = example.region.lexemes.get("language", example.region.lexemes.get("arguments"))
        language = "python" if said is None else said
        yield Block(file, example.line + source.line_offset + 1, language, source)


def _described(source: str, module: str) -> dict[int, str]:
    """Line of a docstring -> full name of what it describes."""
    found = {}

    def look(node: Any, name: str) -> None:
        if node.body and isinstance(node.body[0], ast.Expr):
            found[node.body[0].lineno] = name
        for inside in node.body:
            if isinstance(inside, ast.ClassDef | ast.FunctionDef):
                look(inside, f"{name}.{inside.name}")

    look(ast.parse(source), module)
    return found


# ------------------------------------------------------------------- what they may use


def images() -> dict[str, Any]:
    """A small network, some images, and a way to train it a little."""
    data = load("digits")

    def train(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(data.train.images[:32]), data.train.labels[:32]).backward()
            optimizer.step()

    model, images, labels = SmallConvNet(), data.train.images[:64], data.train.labels[:64]
    return {"model": model, "data": data, "images": images, "labels": labels, "train": train}


def texts() -> dict[str, Any]:
    """A small BERT for two classes, some texts, their losses, and a way to train it a
    little.
    """
    model, batch = model_of("bert").eval(), inputs_of("bert")
    batch = {**batch, "labels": torch.arange(len(batch["input_ids"])) % 2}

    def losses(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(model(**batch).logits, batch["labels"], reduction="none")

    def train(model: nn.Module, penalty: Callable[[], Tensor] | None = None) -> None:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if penalty else 0.001)
        for _ in range(60 if penalty else 3):
            optimizer.zero_grad()
            loss = losses(model, batch).mean()
            (loss + penalty() if penalty else loss).backward()
            optimizer.step()

    def evaluate(model: nn.Module) -> float:
        return 100 * float((model(**batch).logits.argmax(1) == batch["labels"]).float().mean())

    return {
        "model": model,
        "batch": batch,
        "batches": [batch, batch],
        "losses": losses,
        "train": train,
        "evaluate": evaluate,
    }


OF_TEXTS = re.compile(
    r"course_lib\.(models\.(attention|mlps)|training$|pruning\.(components|heads|layers|tokens)"
    r"|pruning\.weights\.movement)"
)


# a part of an exercise: its file, the words about it, the block that goes into the file
PART = re.compile(
    r"^`([\w/.]+)`, ((?:[^`#]|`[^`]+`)*?)^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE
)


def setting(name: str) -> dict[str, Any]:
    """The names that a docstring's example may use beside those of its own file."""
    given = texts() if OF_TEXTS.match(name) else images()
    return {"torch": torch, "generator": torch.Generator().manual_seed(0), **given}
