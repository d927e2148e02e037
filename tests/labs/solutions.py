"""A lab with its solution: its code, and what stands in it under a graded name."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import jupytext

from course_lib import labs
from course_lib.authoring.source import read
from course_lib.grading.marking.lab import GradingSpec, Lab

ROOT = Path(__file__).parents[2]
SEED = 1


class Solved:
    """One lab.

    Attributes:
        lab: claims and contract. cells: the code of the solution. needs: of each
            question, the earlier ones that its heading names.
    """

    def __init__(self, name: str) -> None:
        folder = ROOT / "tests" / "labs" / name
        self.lab = Lab(GradingSpec.read(folder, SEED, name))
        source = next((ROOT / "solutions").glob(f"{name}_*.py"))
        self.cells = [c.source for c in jupytext.read(source).cells if c.cell_type == "code"]
        self.files = {name: (folder / "files" / name).read_bytes() for name in self.lab.known.files}
        self.needs = {q.id: set(q.needs) for q in read(source, ROOT).questions}

    def definition(self, names: set[str]) -> str:
        """The functions and classes of these names as the solution has them, without
        the marks round the answers.
        """
        found = []
        for cell in self.cells:
            for node in ast.parse(cell).body if any(name in cell for name in names) else ():
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
                    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                    lines = cell.splitlines()[first - 1 : node.end_lineno]
                    found.append(
                        "\n".join(line for line in lines if not line.strip().startswith("### "))
                    )
        return "\n\n\n".join(found)


solved = functools.cache(Solved)
LABS = labs.available()
