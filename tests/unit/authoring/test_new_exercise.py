"""The exercise of docs/extending.md, done word by word in a copy of the course: what it
shows must work as it stands there.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from unit.examples import PART

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
PAGE = TEXT.split("\n## An exercise\n")[1].split("\n## ")[0]
PARTS = PART.findall(PAGE)
(COMMANDS,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COPIED = ("pyproject.toml", "course_lib", "labs", "tests/conftest.py", "tests/labs", "solutions")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "lab0[!1]*", "lab1*", "*.edited-*")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of the course with lab 01 alone."""
    for name in COPIED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(
            ROOT / name,
            tmp_path / name,
            **({"ignore": LEFT_OUT} if copy is shutil.copytree else {}),
        )
    (tmp_path / "data").symlink_to(ROOT / "data")
    return tmp_path


def do(course: Path, line: str) -> str:
    """A line of the page, as typed in the course's folder."""
    env = {**os.environ, "PYTHONPATH": str(course), "COURSE_ROOT": str(course), "COLUMNS": "120"}
    env.pop("ANSWERS", None)  # all that there are
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-ec", line], cwd=course, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def put(path: Path, block: str) -> None:
    """The block where the page says that it goes: cells above those to play, text at the
    end.
    """
    if path.suffix == ".txt":
        path.write_text(block, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    at = text.index("# %% [markdown]\n# ## Play") if "# ## Play" in text else len(text)
    gap = "" if at < len(text) else "\n\n"
    path.write_text(f"{text[:at]}{gap}{block}\n{text[at:]}", encoding="utf-8")


def test_every_file_of_an_exercise_is_on_the_page() -> None:
    assert [name for name, *_ in PARTS] == [
        "solutions/lab01_magnitude_pruning.py",
        "course_lib/labs/lab01.py",
        "tests/labs/lab01/visible.py",
        "tests/labs/lab01/hidden.py",
        "tests/labs/lab01/answers/1.10.txt",
    ]
    assert PAGE.count("\n```") == 2 * (len(PARTS) + 1)


@pytest.mark.long
def test_the_page_is_followed(course: Path) -> None:
    for name, words, block in PARTS:
        put(course / name, block)
        for line in re.findall(r"`((?:from [\w.]+\s)?import [^`]+)`", words):
            text = (course / name).read_text(encoding="utf-8")
            first = text.index("\nimport ") + 1  # somewhere among the imports
            (course / name).write_text(
                text[:first] + " ".join(line.split()) + "\n" + text[first:], encoding="utf-8"
            )
    (changes,) = re.findall(r"`(\w[^`]*)`, `([^`]*)` becomes `([^`]*)`", PAGE)
    name, old, new = changes
    text = (course / name).read_text(encoding="utf-8")
    assert text.count(old) == 1
    (course / name).write_text(text.replace(old, new), encoding="utf-8")

    said = [do(course, line) for line in COMMANDS.splitlines()]
    assert "labs/lab01_magnitude_pruning.ipynb written" in said[2]
    assert (
        'raise NotImplementedError(\\"1.10 share_pruned'
        in (course / "labs/lab01_magnitude_pruning.ipynb").read_text()
    )
    tried = int(re.findall(r"(\d+) passed", said[3])[0])
    # its claims; the answers in this process; one wrong and one right in a worker
    assert tried == 2 + (2 + 1 + 1) + 2

    explained = said[-1]
    with open(course / "report" / "grades.csv", newline="", encoding="utf-8") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert (rows["right"]["total"], rows["right"]["maximum"]) == ("20", "20")
    assert (rows["wrong"]["total"], rows["wrong"]["1.10"]) == ("20", "0")
    sentence = re.findall(r"reads: \*(.*?)\*", PAGE, re.DOTALL)[0]
    assert sentence in (course / "report" / "feedback" / "wrong.html").read_text(encoding="utf-8")
    assert sentence in explained and "torch.bool of shape" in explained
