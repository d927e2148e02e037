"""``solutions/index.ipynb``, the page that leads a reader through the course, from
``solutions/index.md``.
"""

from __future__ import annotations

from pathlib import Path

from course_lib.authoring.source import Cell

SOURCE, NAME = Path("solutions") / "index.md", Path("solutions") / "index.ipynb"


def cells(root: Path) -> list[Cell]:
    """The cells that its source says; none where a course has no such page."""
    import jupytext

    path = root / SOURCE
    if not path.is_file():
        return []
    read = jupytext.reads(path.read_text(encoding="utf-8"), fmt="md").cells
    return [Cell(cell.cell_type, cell.source, ()) for cell in read]
