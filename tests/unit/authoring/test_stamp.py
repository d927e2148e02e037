"""A walkthrough is executed anew when its code changes, or the library's that it runs,
and not for words.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from course_lib.authoring.stamp import stamp

FILES = {
    "__init__.py": "",
    "cost/__init__.py": "from course_lib.cost.count import macs\n",
    "cost/count.py": 'def macs(x):\n    """Counts."""\n    return 2 * x  # twice\n',
    "show.py": "def plot(): ...\n",
    "grading/__init__.py": "from course_lib.grading.check import check\n",
    "grading/check.py": "def check(): ...\n",
    "cost/words.toml": "good = 1\n",
    "unused.py": "x = 1\n",
}
CELLS = [
    "from course_lib.cost import macs\nfrom course_lib.grading import check",
    "macs(3)",
    "%matplotlib inline",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / "course_lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "course_lib" / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "old", "new", "another"),
    [
        ("cost/count.py", "2 * x", "3 * x", True),  # imported by what is imported
        ("cost/count.py", "# twice", "# two times", False),
        ("cost/count.py", '"""Counts."""', '"""Counts them."""', False),
        ("cost/count.py", "return 2 * x", "return (\n        2 * x\n    )", False),
        ("cost/words.toml", "1", "2", True),
        ("unused.py", "1", "2", False),
        ("grading/check.py", "...", "pass", False),
    ],
)
def test_what_changes_it(root: Path, name: str, old: str, new: str, another: bool) -> None:
    before = stamp(CELLS, root)
    path = root / "course_lib" / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert (stamp(CELLS, root) != before) is another


def test_the_cells_are_in_it(root: Path) -> None:
    assert stamp(CELLS, root) != stamp([*CELLS, "macs(4)"], root)
    assert stamp(CELLS, root) == stamp([*CELLS[:1], "macs(3)  # three", CELLS[2]], root)
    assert stamp(CELLS, root) != stamp([*CELLS, "from course_lib import show"], root)
