"""``course similarity``: what was copied stands on the page, in a class that answers alike."""

from __future__ import annotations

import ast
import random
import re
import sys
from pathlib import Path

import pytest
from bank import answers

from course_lib.grading.batch import similarity
from course_lib.grading.batch.collect import Submission, code, handout
from solutions import solved

LAB = "lab00"
QUESTIONS = [f"0.{k}" for k in (1, 2, 3, 4, 5, 6, 8)]  # that ask for functions


def right(question: str) -> list[str]:
    """The right answers to a question, in several styles."""
    names = set(solved(LAB).lab.known.exercise(question).names)
    others = [a.code for a in answers(LAB) if a.question == question and a.says is None]
    return [solved(LAB).definition(names), *others]


def disguised(cell: str) -> str:
    """A copy with other names of variables, other layout, and comments."""
    tree = ast.parse(cell)
    variables = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in variables if isinstance(node.ctx, ast.Store)}
    for node in variables:
        node.id = f"my_{node.id}_2" if node.id in own else node.id
    return ast.unparse(tree).replace("\n", "  # I thought hard about this\n\n")


def listed(page: Path) -> list[tuple[set[str], float]]:
    """The pairs on a page, with the larger share of each, in per cent."""
    found = re.findall(r"file: <i>[^<]*?([^/\\<]+)\.py</i> \(<b>([\d.]+)%", page.read_text("utf-8"))
    return [
        ({a, b}, max(float(one), float(other)))
        for (a, one), (b, other) in zip(found[::2], found[1::2], strict=True)
    ]


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.long) for s in (2, 3))])
def test_copies_are_listed(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("copydetect")
    rng = random.Random(seed)
    styles = {q: right(q) for q in QUESTIONS}
    people = [{q: rng.choice(styles[q]) for q in QUESTIONS} for _ in range(40)]
    some = {f"s{i:02}": list(own.values()) for i, own in enumerate(people)}
    some["plain"] = list(some["s07"])
    some["renamed"] = [disguised(cell) for cell in some["s15"]][::-1]
    three = {q: disguised(people[23][q]) for q in ("0.1", "0.5", "0.8")}
    some["three"] = list(({q: rng.choice(styles[q]) for q in QUESTIONS} | three).values())
    given = code(handout(LAB))
    page = similarity.compare(
        [Submission(id, [*given, *own]) for id, own in some.items()], LAB, tmp_path
    )
    pairs = listed(page)
    assert similarity.SHOWN <= len(pairs) < similarity.SHOWN + 5
    share = {frozenset(pair): most for pair, most in pairs}
    assert share[frozenset({"plain", "s07"})] == 100
    assert share[frozenset({"renamed", "s15"})] > 85
    assert frozenset({"three", "s23"}) in share


def test_files_of_an_earlier_run_are_not_compared(tmp_path: Path) -> None:
    pytest.importorskip("copydetect")
    own = right("0.5")[0]
    similarity.compare([Submission(id, [own]) for id in ("ada", "gone")], LAB, tmp_path)
    page = similarity.compare([Submission(id, [own]) for id in ("ada", "bo")], LAB, tmp_path)
    assert listed(page) == [({"ada", "bo"}, 100.0)]


def test_without_copydetect_the_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [Submission("ada", ["x = 1"]), Submission("bo", ["x = 1"])]
    monkeypatch.setitem(sys.modules, "copydetect", None)
    with pytest.raises(RuntimeError, match=r"pruning-course\[similarity\]"):
        similarity.compare(some, "lab01", tmp_path)
    assert sorted(p.name for p in (tmp_path / "submissions").iterdir()) == ["ada.py", "bo.py"]
    with pytest.raises(ValueError, match="1 submissions hold code"):
        similarity.compare(some[:1], "lab01", tmp_path)
