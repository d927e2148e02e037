"""Walkthroughs with less to learn from: that their cells run, and that explorers move,
is the question in tests.

Run as a script, it writes them into ``build/walkthroughs``, where nbval runs every
cell. What they measure in full, ``course build`` has measured, and keeps.
"""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from course_lib.authoring.build import stale
from course_lib.student_code.cells import parse

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "walkthroughs"
# images, epochs, texts; not fewer than three seeds, which the course's own figures
# refuse
EVERY_CELL: dict[str, dict[str, Any]] = {
    "lab00": {"SEEDS": (0, 1, 2), "EPOCHS": 4, "levels": (0, 0.7, 0.95)},
    "lab01": {"SETTINGS": {"train": 300, "dense_epochs": 20, "budget": 6}},
    "lab02": {
        "SETTINGS": {"images": 1097, "epochs": 6, "samples": 64, "retrain": 1, "l1_epochs": 10}
    },
    "lab03": {"SETTINGS": {"rounds": 13, "epochs": 6, "every": 4}},
    "lab04": {"SETTINGS": {"images": 300, "epochs": 20, "finetune": 5, "lam": 2e-2}},
    "lab05": {"SETTINGS": {"images": 400, "epochs": 6, "finetune": 1, "gates": 1}},
    "lab06": {"LIVE": {"steps": 12, "batch": 16, "lr": 3e-4}},
    "lab07": {"MANY, TEST": (400, 400)},
    "lab08": {"QUICK": {"steps": 4}},
    "lab09": {"QUICK": {"steps": 12, "lr": 3e-4}},
    "lab10": {"TEXTS": 400},
    "lab11": {"LIVE": {"narrow": 2, "thin": (1, 1, 1, 1, 2), "steps": 6}},
}
# what these checks measure is what was trained, and trained for less it may miss its
# level, on one machine and not on the next
MEASURED = {"lab11": ("11.4", "11.5")}
# for explorers any number of seeds must do, but where an interval is drawn
EXPLORERS: dict[str, dict[str, Any]] = {
    "lab00": {},
    "lab01": {"SEEDS": range(1), **EVERY_CELL["lab01"]},
    "lab04": {"SEEDS": 1, **EVERY_CELL["lab04"]},
    "lab08": EVERY_CELL["lab08"],
    "lab09": EVERY_CELL["lab09"],
    "lab10": {"SEEDS": (0,), **EVERY_CELL["lab10"]},
    "lab11": EVERY_CELL["lab11"],
}


def shortened(
    notebook: nbformat.NotebookNode, settings: Mapping[str, Any]
) -> nbformat.NotebookNode:
    """The notebook, with ``settings`` in place of what it sets these names to.
    ValueError where it does not set one of them.
    """
    left = set(settings)
    for cell in notebook.cells:
        source = cell.source
        for statement in parse([source] if cell.cell_type == "code" else [], []):
            targets = statement.node.targets if isinstance(statement.node, ast.Assign) else []
            for name in [ast.unparse(target).strip("()") for target in targets]:
                if name in settings:
                    cell.source = cell.source.replace(
                        ast.get_source_segment(source, statement.node) or "",
                        f"{name} = {settings[name]!r}",
                    )
                    left.discard(name)
    if left:
        raise ValueError(
            f"nothing sets {' or '.join(sorted(left))}: change that in {Path(__file__).name}"
        )
    return notebook


def main(which: Sequence[str]) -> None:
    """Write walkthroughs: those of the labs named, all where none is; ``stale``: of
    these, what was executed with another code than there is now; ``not-lab00``: but not
    that one.
    """
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    paths = sorted((ROOT / "solutions").glob("*.ipynb"))
    if "stale" in which:
        paths = stale(ROOT)
    named = [name for name in which if name.startswith("lab")]
    for path in paths:
        lab = path.stem[:5]
        if f"not-{lab}" not in which and (not named or lab in named):
            notebook = shortened(nbformat.read(path, 4), EVERY_CELL.get(lab, {}))
            for cell in notebook.cells:
                if cell.source in [f'check("{question}")' for question in MEASURED.get(lab, ())]:
                    cell.metadata.tags.remove("nbval-check-output")
            nbformat.write(notebook, FOLDER / path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
