"""docs/new_exercise.md, done word by word in a copy of the course: what it shows must
work as it stands there.
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

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "new_exercise.md").read_text(encoding="utf-8")
SECTIONS = [
    re.findall(r"^```\w*\n(.*?)^```", part, re.DOTALL | re.MULTILINE)
    for part in PAGE.split("\n## ")[1:]
]
# its file, the words about it, the block
PARTS = re.findall(
    r"^`([\w/.]+)`, ((?:[^`]|`[^`]+`)*?)^```\w*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE
)
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


def put(path: Path, before: str, block: str) -> None:
    """The block in the place of what `course new` added to the file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".txt":
        path.write_text(block, encoding="utf-8")
    elif "# --- 1.10" in text:
        path.write_text(text[: text.index("# --- 1.10")] + block, encoding="utf-8")
    else:  # one part was added
        start = next(i for i, (a, b) in enumerate(zip(before + "\0", text, strict=False)) if a != b)
        start = text.rindex("\n", 0, start) + 1
        marker = "# %% [markdown]\n"  # the cell behind begins with the same line
        start -= len(marker) if text[:start].endswith(marker) else 0
        end = len(text) - (len(before) - start)
        path.write_text(text[:start].rstrip("\n") + "\n\n\n" + block + text[end:], encoding="utf-8")


def test_every_file_of_an_exercise_is_on_the_page() -> None:
    assert [name for name, *_ in PARTS] == [
        "solutions/lab01_magnitude_pruning.py",
        "course_lib/labs/lab01.py",
        "tests/labs/lab01/visible.py",
        "tests/labs/lab01/hidden.py",
        "tests/labs/lab01/answers/1.10.txt",
    ]
    assert len(SECTIONS[0]) == 1 + len(PARTS) and [len(blocks) for blocks in SECTIONS[1:]] == [
        1,
        1,
        0,
    ]


@pytest.mark.long
def test_the_page_is_followed(course: Path) -> None:
    before = {
        name: (course / name).read_text(encoding="utf-8")
        for name, *_ in PARTS
        if (course / name).is_file()
    }
    do(course, SECTIONS[0][0])
    for name, words, block in PARTS:
        put(course / name, before.get(name, ""), block)
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
    assert not [name for name, *_ in PARTS if "TODO" in (course / name).read_text(encoding="utf-8")]

    said = [do(course, line) for line in SECTIONS[1][0].splitlines()]
    assert "labs/lab01_magnitude_pruning.ipynb written" in said[2]
    assert (
        'raise NotImplementedError(\\"1.10 share_pruned'
        in (course / "labs/lab01_magnitude_pruning.ipynb").read_text()
    )
    tried = int(re.findall(r"(\d+) passed", said[3])[0])
    # its claims; the answers in this process; one wrong and one right in a worker
    assert tried == 2 + (3 + 1 + 2) + 2

    *_, explained = [do(course, line) for line in SECTIONS[2][0].splitlines()]
    with open(course / "report" / "grades.csv", newline="", encoding="utf-8") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert (rows["right"]["total"], rows["right"]["maximum"]) == ("21", "21")
    assert (rows["wrong"]["total"], rows["wrong"]["1.10"]) == ("20", "0")
    sentence = re.findall(r"reads: \*(.*?)\*", PAGE, re.DOTALL)[0]
    assert sentence in (course / "report" / "feedback" / "wrong.html").read_text(encoding="utf-8")
    assert sentence in explained and "a bool tensor of shape" in explained


@pytest.mark.long
def test_a_new_lab_is_built_as_its_page_begins(course: Path) -> None:
    page = (ROOT / "docs" / "new_lab.md").read_text(encoding="utf-8")
    command = re.findall(r"^course new lab .*$", page, re.MULTILINE)[0]
    said = do(course, command)
    assert {f"`{line.partition(':')[0]}`" for line in said.splitlines()} >= set(
        re.findall(
            r"`(?:solutions|course_lib/labs|tests/labs)/[\w/.]+py`", page.partition("## ")[0]
        )
    )
    assert "labs/lab12_merging_tokens.ipynb written" in do(
        course, "course build lab12 --no-execute"
    )
    do(course, 'python -c "from course_lib.grading.claims import question as q; from pathlib import Path; '
       "f = Path('tests/labs/lab12'); assert len(q.tests_in(q.texts_in(f), str(f))) == 2\"")  # fmt: skip
