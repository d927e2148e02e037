"""``solutions/index.ipynb``, the page that leads a reader through the course, from ``solutions/index.md``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from course_lib.authoring import segments

SOURCE, NAME = Path("solutions") / "index.md", Path("solutions") / "index.ipynb"


def notebook(root: Path) -> Any | None:
    """The notebook as its source says, without outputs: it has no figures. None where a course has no such page."""
    import jupytext
    from nbformat import v4

    path = root / SOURCE
    if not path.is_file():
        return None
    made = v4.new_notebook()
    times: dict[tuple[str, str], int] = {}
    for cell in jupytext.reads(path.read_text(encoding="utf-8"), fmt="md").cells:
        same = (cell.cell_type, cell.source)
        times[same] = times.get(same, 0) + 1
        make = v4.new_code_cell if cell.cell_type == "code" else v4.new_markdown_cell
        made.cells.append(make(cell.source, id=segments.cell_id("index", *same, times[same])))
    return made
