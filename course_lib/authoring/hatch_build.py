"""What a wheel holds beside the library: the data, and the labs that ``course lab DIR``
writes, without solutions and hidden tests. An editable installation has neither, as it
uses those of its checkout. hatchling runs this file where the course is not installed.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WithLabs(BuildHookInterface):
    """A hook of hatchling."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files.

        Args:
            version: "standard" or "editable".
        """
        if version == "editable":
            return
        root, added = Path(self.root), build_data["force_include"]
        added[str(root / "data")] = "course_lib/_data"
        for path in (path for pattern in _handed_out(root) for path in root.glob(pattern)):
            added[str(path)] = f"course_lib/_course/{path.relative_to(root).as_posix()}"


def _handed_out(root: Path) -> tuple[str, ...]:
    """HANDED_OUT of :mod:`course_lib.labs_folder`, which needs PyTorch to be imported."""
    tree = ast.parse((root / "course_lib" / "labs_folder.py").read_text(encoding="utf-8"))
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "HANDED_OUT"
    )
    return ast.literal_eval(value)
