"""Similarity: what was copied comes first however it was renamed, what everybody writes
does not, and nobody is judged.
"""

from __future__ import annotations

import csv
import json
import random
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook
from typer.testing import CliRunner

from course_lib.cli import app
from course_lib.grading.batch import similarity
from course_lib.grading.batch.similarity import GRAM, WINDOW, compare, fingerprints, tokens
from course_lib.grading.batch.submission import Submission

HANDOUT = [
    "import torch\nfrom torch import Tensor\n\nSEEDS = (0, 1, 2)",
    "def half(x: Tensor) -> Tensor:\n    '''Half of every value of x, whatever its\n    shape may be, as a new tensor.'''\n"
    "    raise NotImplementedError('1.1 half: write this function')",
    "for seed in SEEDS:\n    y = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))\n    print(y.mean(), y.std(), half(y).sum())",
]
LIBRARY = {
    "course_lib/a.py": "def keep(scores, n):\n    order = scores.flatten().argsort(stable=True)\n    mask = torch.ones(len(order), dtype=bool)\n"
    "    mask[order[:n]] = False\n    return mask.view_as(scores)\n"
}
COMMON = "def half(x: Tensor) -> Tensor:\n    if x.numel() == 0:\n        return x.clone()\n    return x.mul(0.5).to(x.dtype).contiguous()"


FORMS = (
    "{one}.{call}({other})",
    "{one} {operator} {digit}",
    "[{one} for i in range({digit})]",
    "{built_in}({one}[{digit}:])",
    "({one}, {other}[{digit}])",
)
HEADS = ("", "", "if {one} > {digit}: ", "for k in {one}: ")
WORDS = {
    "one": "x y scores kept mask n",
    "other": "x y scores kept mask n",
    "call": "abs sum mean flatten sort argsort max clone cumsum topk nonzero view",
    "operator": "+ - * / @ // % < &",
    "digit": "0 1 2 3 4 5 6 7 8",
    "built_in": "len sum max sorted int",
}


def program(seed: int, functions: int = 8) -> list[str]:
    """Cells that nobody else would write, of a length as in a lab."""
    rng = random.Random(seed)

    def draw(form: str) -> str:
        return form.format(**{kind: rng.choice(words.split()) for kind, words in WORDS.items()})

    cells = []
    for number in range(functions):
        lines = [
            draw(f"    {rng.choice(HEADS)}{{other}} = {rng.choice(FORMS)}")
            for _ in range(rng.randrange(4, 9))
        ]
        lines.append(draw(f"    return {rng.choice(FORMS)}"))
        cells.append("\n".join([draw(f"def f{number}({{one}}, n):"), *lines]))
    return cells


def disguised(cells: list[str]) -> list[str]:
    """A copy with other names, comments, layout, strings and order."""
    cells = [
        re.sub(r"\b(x|y|scores|kept|mask|n|k|f\d)\b", r"my_\1_2", cell)
        .replace("\n", "  # I thought hard about this\n\n")
        .replace(", ", " ,")
        for cell in cells
    ]
    return cells[::-1]


def handed(cells: dict[str, list[str]]) -> list[Submission]:
    return [Submission(id, [*HANDOUT, *own]) for id, own in cells.items()]


@pytest.fixture(scope="module")
def classroom() -> dict[str, list[str]]:
    """Forty students; all have one short answer alike, one has copied from another, one
    from the library.
    """
    cells = {f"s{i:02}": [COMMON, *program(i)] for i in range(40)}
    cells["copy"] = [COMMON, *disguised(program(7))]
    cells["library"] = [COMMON, *program(90), disguised([LIBRARY["course_lib/a.py"]])[0]]
    cells["one function"] = [COMMON]
    return cells


def test_a_disguised_copy_comes_first(classroom) -> None:
    found = compare(handed(classroom), HANDOUT, LIBRARY)
    first, second = found.pairs[:2]
    assert {first.left, first.right} == {"s07", "copy"}
    assert (first.rank, first.matching > 20) == (1, True)
    assert first.rare > 0.9 and first.alike > 0.9 and first.exact < 0.2
    assert second.rare < 0.5 * first.rare  # nobody else stands out
    assert max(first.usual) < 0.3
    assert len(found.shares) == found.compared * (found.compared - 1) / 2
    # the same copy without any disguise
    plain = compare(handed(classroom | {"copy": classroom["s07"]}), HANDOUT, LIBRARY).pairs[0]
    assert {plain.left, plain.right} == {
        "s07",
        "copy",
    } and plain.exact == plain.alike == plain.rare == 1


def test_many_copies_are_one_cluster_and_leave_room_for_others(classroom) -> None:
    cells = dict(classroom)
    for i in range(12):  # 78 pairs
        cells[f"of s07, {i:02}"] = (
            [COMMON, *disguised(program(7))] if i % 2 else [*classroom["s07"], f"x = {i}"]
        )
    for i in range(3):
        cells[f"of s09, {i}"] = classroom["s09"]
    found = compare(handed(cells), HANDOUT, LIBRARY, 20)
    assert [c.names for c in found.clusters] == [
        sorted(["s07", "copy", *(f"of s07, {i:02}" for i in range(12))]), ["of s09, 0", "of s09, 1", "of s09, 2", "s09"],
    ]  # fmt: skip
    assert all(0.8 < c.least <= c.most <= 1 for c in found.clusters)
    of = {name: i for i, cluster in enumerate(found.clusters) for name in cluster.names}
    ends = [frozenset(of.get(name, name) for name in (p.left, p.right)) for p in found.pairs]
    # a pair of each cluster, then pairs of others, no two of them between the same ones
    assert {*ends[:2]} == {frozenset({0}), frozenset({1})} and len(set(ends)) == len(ends) == 20
    assert len(found.shares) == found.compared * (found.compared - 1) / 2
    # two that are alike are a pair
    assert compare(handed(classroom), HANDOUT, LIBRARY).clusters == []


def test_beside_an_earlier_term(classroom) -> None:
    now = {name: cells for name, cells in classroom.items() if name not in ("copy", "s07")}
    old = {f"old {i}": [COMMON, *program(200 + i)] for i in range(20)} | {
        "last year/it": disguised(program(3)),
        "twin": program(300),
    }
    old["twin's copy"] = program(300)  # is nobody's concern now
    before = [Submission("last year/torn", problem="torn"), *handed(old)]
    found = compare(handed(now), HANDOUT, LIBRARY, against=before)
    assert found.against == len(old) and found.compared == len(now)
    first, second = found.earlier[:2]
    assert (first.left, first.right, first.rank) == ("s03", "last year/it", 1)
    assert first.rare > 0.9 > second.rare * 1.5
    assert first.exact < 0.2 and first.usual[0] < 0.3
    assert len({pair.left for pair in found.earlier}) == len(found.earlier)  # each once
    assert "my_f0_2" in matching_lines(first)
    now_only = {name for pair in found.pairs for name in (pair.left, pair.right)}
    assert not {"twin", "last year/it"} & now_only
    assert ("last year/torn", "torn") in found.left_out
    alone = compare(handed(now), HANDOUT, LIBRARY)
    assert np.allclose(alone.shares, found.shares) and alone.earlier == [] and alone.against == 0
    assert compare(handed(now), HANDOUT, LIBRARY, against=before[:1]).earlier == []


def matching_lines(pair: similarity.Pair) -> str:
    """What the passages show of the second text."""
    lines = [line for passage in pair.passages for line in passage.right]
    return "\n".join(line for line, matching in lines if matching)


def test_part_of_a_submission_that_was_copied_is_found(classroom) -> None:
    partly = [COMMON, *program(91)[:5], *disguised(program(7)[:3])]
    first = compare(handed(classroom | {"copy": partly}), HANDOUT, LIBRARY).pairs[0]
    assert {first.left, first.right} == {"s07", "copy"}
    shown = matching_lines(first)
    assert all(f"my_f{i}_2" in shown for i in range(3)) and "my_f3_2" not in shown


def test_what_everybody_writes_is_no_finding(classroom) -> None:
    found = compare(handed(classroom), HANDOUT, LIBRARY)
    alone = [pair for pair in found.pairs if "one function" in (pair.left, pair.right)]
    assert not alone or max(pair.rare for pair in alone) < 0.1
    everybody = []
    for pair in found.pairs:  # passages that are in the whole class come last
        others = [passage.others for passage in pair.passages]
        assert others == sorted(others)
        everybody += [
            p.others for p in pair.passages if any("x.numel() == 0" in line for line, _ in p.left)
        ]
    assert everybody and set(everybody) == {found.compared - 2}


def test_passages_stand_side_by_side(classroom) -> None:
    (pair,) = compare(
        handed({"a": program(7), "b": disguised(program(7)), "c": program(8)}), HANDOUT, LIBRARY, 1
    ).pairs
    assert {pair.left, pair.right} == {"a", "b"}
    assert len(pair.passages) >= 8
    for passage in pair.passages:
        mine = [re.sub(r"\W|my_|_2", "", line) for line, matching in passage.left if matching]
        theirs = [
            re.sub(r"\W|my_|_2", "", line.partition("#")[0])
            for line, matching in passage.right
            if matching
        ]
        assert mine == theirs
        cell, line = re.fullmatch(r"cell (\d+), line (\d+)", passage.left_at).groups()
        assert [*HANDOUT, *program(7)][int(cell) - 1].split("\n")[int(line) - 1] == passage.left[0][
            0
        ]


def test_the_library_is_one_of_the_texts(classroom) -> None:
    found = compare(handed(classroom), HANDOUT, LIBRARY)
    first = found.library[0]
    assert (first.left, first.right, first.rank) == ("library", similarity.LIBRARY, 1)
    assert first.passages[0].right_at == "course_lib/a.py, line 1"
    assert len(found.library) == 1 or found.library[1].rare < first.rare / 4
    assert all(similarity.LIBRARY not in (pair.left, pair.right) for pair in found.pairs)


def test_the_handout_is_left_out() -> None:
    changed = [HANDOUT[0], HANDOUT[1].replace("raise", "return x / 2\n    raise"), HANDOUT[2]]
    submissions = [
        Submission("a", HANDOUT),
        Submission("b", changed),
        Submission("c", [cell.replace("    ", "\t") for cell in HANDOUT]),
    ]
    found = compare(submissions, HANDOUT, LIBRARY)
    assert found.pairs == [] and found.library == []
    assert [name for name, _ in found.left_out] == ["a", "b", "c"]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_small_classes(count: int) -> None:
    found = compare(handed({f"s{i}": program(5) for i in range(count)}), HANDOUT, LIBRARY)
    assert found.compared == count and found.clusters == []
    assert [pair.rare for pair in found.pairs] == [1.0] * (count == 2)


def test_what_cannot_be_read_is_said_and_stops_nothing(classroom) -> None:
    odd = [
        Submission("torn", problem="the notebook is no readable JSON"),
        Submission("empty", []),
        Submission(
            "broken",
            [
                *HANDOUT,
                "def (:\n  '''never ends\n" + program(1)[0],
                '"' * 4001 + "\\",
                "é = 'ü'\n%%time\n!ls",
                "\x00\ud800",
            ],
        ),
        *(Submission(f"long {i}", ["x = [" + "1, " * 300_000 + "]"]) for i in range(2)),
    ]
    found = compare([*odd, *handed(classroom)], HANDOUT, LIBRARY)
    assert [name for name, _ in found.left_out] == ["torn", "empty"]
    assert {found.pairs[0].left, found.pairs[0].right} == {"s07", "copy"}
    (pair,) = compare(odd[-2:], HANDOUT, LIBRARY).pairs
    assert pair.rare == 1 and len(pair.passages) == 1


def test_the_order_of_submissions_does_not_matter(classroom) -> None:
    found = compare(handed(classroom), HANDOUT, LIBRARY)
    back = compare(handed(classroom)[::-1], HANDOUT, LIBRARY)
    assert np.allclose(found.shares, back.shares)
    assert {found.pairs[0].left, found.pairs[0].right} == {back.pairs[0].left, back.pairs[0].right}


def read(source: str) -> tuple[list[str], list[int]]:
    """The lines of the tokens, and their numbers with names replaced."""
    found = tokens([source], {""})
    return [str(line) for line in found.line], found.plain.tolist()


def test_tokens() -> None:
    source = 'def f(a, b):\n    # why\n    c = a.sum() + 0x1F\n    return f"{c}" """two\nlines""" if c else len(b)'
    lines, plain = read(source)
    assert lines == ["1"] * 8 + ["2"] + ["3"] * 9 + ["4"] * 3 + ["5"] * 7
    other = 'def g(x, y): # no comment here\n    z = x.sum() + 0x1F\n    return f"{z} {z}" "" if z else len(y)'
    assert [n for n in read(other)[1] if n] == [n for n in plain if n]
    # what is called counts
    assert [n for n in read(source.replace("sum", "max"))[1] if n] != [n for n in plain if n]
    exact = tokens([source], {""}).exact.tolist()
    assert exact != tokens([source.replace("# why", "# how")], {""}).exact.tolist()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_run_as_long_as_promised_leaves_a_common_fingerprint(data) -> None:
    code = st.lists(st.integers(1, 6), max_size=40)
    run = data.draw(st.lists(st.integers(1, 6), min_size=GRAM + WINDOW - 1, max_size=40))
    marks = []
    for _ in range(2):
        row = np.array([*data.draw(code), *run, *data.draw(code)], dtype=np.uint64)
        values, where = fingerprints(row, np.zeros(len(row)))
        marks.append(set(values.tolist()))
        assert np.all(where + GRAM <= len(row)) and len(set(where.tolist())) == len(where)
    assert marks[0] & marks[1]


def test_no_fingerprint_reaches_over_the_end_of_a_cell() -> None:
    codes = np.arange(1, 2 * GRAM, dtype=np.uint64)
    assert len(fingerprints(codes, np.repeat([0, 1], [GRAM - 1, GRAM]))[0]) == 1
    assert len(fingerprints(codes[: 2 * GRAM - 2], np.repeat([0, 1], GRAM - 1))[0]) == 0


def test_the_page_and_its_table(classroom, tmp_path: Path) -> None:
    cells = dict(classroom)
    hostile = "=cmd|' /C calc'!A0<script>alert(1)</script>\n"
    cells[hostile] = [
        *disguised(program(3)),
        "x = '<img src=x onerror=alert(1)>'\ny = '</pre><script>'\n" * 9,
    ]
    cells["s03"] = [*cells["s03"], "x = '<img src=x onerror=alert(1)>'\ny = '</pre><script>'\n" * 9]
    found = compare(
        [*handed(cells), Submission("<b>torn", problem="<i>unreadable")], HANDOUT, LIBRARY, 5
    )
    page, table = similarity.write(found, "lab01", tmp_path / "page.html")
    text = page.read_text()
    assert "no verdict" in text and "s07" in text and "my_f0_2" in text
    assert not re.search(
        r"<script|<img|<i>|<b>torn|https?://|src=(?!x onerror)", text.replace("&lt;", "")
    )
    assert "default-src 'none'" in text  # nothing is fetched, nothing runs
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(found.pairs) + len(found.library) == 5 + len(found.library)
    assert {"s07", "copy"} in [{row["first"], row["second"]} for row in rows[:2]]
    assert all(
        not value.startswith("=") and "\n" not in value for row in rows for value in row.values()
    )
    again = tmp_path / "again.html"
    similarity.write(found, "lab01", again)
    assert again.read_bytes() == page.read_bytes()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classroom) -> None:
    folder = tmp_path / "submissions"
    folder.mkdir()
    for id, own in list(classroom.items())[-12:] + [("s07", classroom["s07"])]:
        nbformat.write(
            new_notebook(cells=[new_code_cell(cell) for cell in own]), folder / f"{id}.ipynb"
        )
    (folder / "torn.ipynb").write_text("{")
    (tmp_path / "course" / "labs").mkdir(parents=True)
    (tmp_path / "course" / "labs" / "lab01_x.ipynb").write_text(
        json.dumps(new_notebook(cells=[new_code_cell(cell) for cell in HANDOUT]))
    )
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path / "course"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["similarity", "lab01", str(folder)])
    assert said.exit_code == 0, said.output
    assert "copy" in said.output.split("s07")[0].splitlines()[-1]
    assert "13 submissions compared, 1 could not be" in said.output
    assert (tmp_path / "similarity-lab01.html").is_file() and (
        tmp_path / "similarity-lab01.csv"
    ).is_file()
    (tmp_path / "2025").mkdir()
    cells = [new_code_cell(cell) for cell in disguised(classroom["s07"])]
    nbformat.write(new_notebook(cells=cells), tmp_path / "2025" / "zed.ipynb")
    said = CliRunner().invoke(
        app, ["similarity", "lab01", str(folder), "--against", str(tmp_path / "2025")]
    )
    assert said.exit_code == 0 and "2025/zed" in said.output
    assert "Beside earlier terms" in (tmp_path / "similarity-lab01.html").read_text()
    with pytest.raises(FileNotFoundError, match="has no lab09"):
        similarity.course_texts("lab09")
