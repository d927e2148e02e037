"""From a lab's source to its two notebooks, on small labs made here."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from course_lib.authoring import build, source, student
from course_lib.authoring.errors import AuthoringError

HEADER = """# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Lab 1: Halves

# %%
from course_lib.grading import check, skip

# %% [markdown]
# ### 1.1 Half of it
# **4 minutes · 3 points**
#
# Halve.

"""
HALF = '''# %%
def half(x: float) -> float:
    """Half of x."""
    ### BEGIN SOLUTION
    result = x / 2 if x else 0.0
    return result
    ### END SOLUTION


# %%
check("1.1")
'''
TESTS = '''"""Claims of lab 1."""

from course_lib.grading import fail, question


@question("1.1", points=1, claim="half of 2 is 1")
def test_two(submission, draw):
    if submission.half(2.0) != 1.0:
        fail("not a half")


@question("1.1", points=2, claim="another half")
def test_three(submission, draw):
    pass
'''
CONTRACT = """from course_lib.labs import Contract
from course_lib.pruning import weights

lab = Contract("lab01")


@lab.asks("1.1")
def half(x):
    return weights.half(x)
"""
SOURCE = "solutions/lab01_halves.py"
VISIBLE = "tests/labs/lab01/visible.py"
REFERENCE = "course_lib/labs/lab01.py"
ANSWERS = "tests/labs/lab01/answers/1.1.txt"
FILES = {
    SOURCE: HEADER + HALF,
    VISIBLE: TESTS,
    REFERENCE: CONTRACT,
    ANSWERS: "loses wrong · no\nx = 1\n\nkeeps right\nx = 2\n",
}


def course(root: Path, body: str = HALF, header: str = HEADER) -> Path:
    """A course of one lab, with a wrong and a right answer."""
    for name, text in {**FILES, SOURCE: header + body}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "labs").mkdir(exist_ok=True)
    return root / SOURCE


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def line_of(path: Path, text: str, nth: int = 1) -> int:
    """The line of a file on which ``text`` stands for the nth time."""
    return [i for i, line in enumerate(path.read_text().splitlines(), start=1) if text in line][
        nth - 1
    ]


def quiet(line: str) -> None:
    """No echo."""


def problems(root: Path) -> list[str]:
    with pytest.raises(AuthoringError) as caught:
        build.load(root / SOURCE, root)
    lines = str(caught.value).splitlines()
    assert all(re.match(r"[\w/.]+:\d+: .+", line) for line in lines), lines
    return lines


def test_cells_questions_and_regions_know_their_lines(tmp_path):
    path = course(tmp_path)
    lab = source.read(path, tmp_path)
    text = path.read_text().splitlines()
    assert [cell.kind for cell in lab.cells] == ["markdown", "code", "markdown", "code", "code"]
    for cell in lab.cells:
        for said, number in zip(cell.source.split("\n"), cell.lines, strict=True):
            assert said in text[number - 1]
    (question,) = lab.questions
    assert (question.id, question.title, question.points) == ("1.1", "Half of it", 3)
    assert question.line == line_of(path, "### 1.1")
    (region,) = lab.regions
    assert lab.cells[region.cell].line(region.begin) == line_of(path, "BEGIN SOLUTION")
    assert (lab.title, lab.name, lab.slug) == ("Lab 1: Halves", "lab01", "lab01_halves")


def test_a_cell_marker_in_a_string_begins_no_cell(tmp_path):
    path = course(tmp_path, HALF + '\n# %%\ntext = """\n# %% not a cell\n"""\n\n# %%\nlast = 1\n')
    lab = source.read(path, tmp_path)
    assert lab.cells[-1].source == "last = 1"
    assert lab.cells[-1].lines == (line_of(path, "last = 1"),)


def test_markdown_in_quotes_keeps_its_lines(tmp_path):
    path = course(tmp_path, HALF + '\n# %% [markdown]\n"""\nSome text\n\nmore\n"""\n')
    cell = source.read(path, tmp_path).cells[-1]
    assert (cell.source, cell.line(3)) == ("Some text\n\nmore", line_of(path, "more"))


METHODS = """# %%
class Halves:
    @staticmethod
    def forward(x):
        ### BEGIN SOLUTION
        return x * 0.5 + 0.0 * x
        ### END SOLUTION

    @staticmethod
    def backward(x):
        # divide, then
        ### BEGIN SOLUTION
        for _ in range(3):
            x = x / 2 + x.item()
        return x
        ### END SOLUTION
"""
NAMES = """# %%
### BEGIN SOLUTION
import math

prediction = "more"
low, (high, *rest) = 1, (2, 3)
total: float = 0
for i in range(3):
    total += i
    last = i
sizes = {}
sizes["a"] = math.pi


def _helper():
    inner = 1


def made():
    other = 1
### END SOLUTION
# "more" or "less"

# %%
with open("x") as file:
    ### BEGIN SOLUTION
    content = file.read()
    ### END SOLUTION

# %%
### BEGIN SOLUTION
print("drawn")
### END SOLUTION
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (HALF, ['def half(x: float) -> float:\n    """Half of x."""\n    raise NotImplementedError("1.1 half: write this function")']),
        (METHODS, [
            '    def forward(x):\n        raise NotImplementedError("1.1 Halves.forward: write this method")\n\n    @staticmethod',
            '        # divide, then\n        raise NotImplementedError("1.1 Halves.backward: write this method")',
        ]),
        (NAMES, [
            "".join(f"{name} = ...\n" for name in ["prediction", "low", "high", "rest", "total", "last", "sizes", "made"])
            + '# "more" or "less"\n# %%\nwith open("x") as file:\n    content = ...\n# %%\n...  # 1.1: write this',
        ]),
        (HALF + "\n# %%\n# %matplotlib inline\nx = 1\n", ["%matplotlib inline\nx = 1"]),
    ],
    ids=["function", "methods", "names", "magic"],
)  # fmt: skip
def test_what_stands_in_the_place_of_an_answer(tmp_path, body, expected):
    cells = student.strip(source.read(course(tmp_path, body), tmp_path))
    text = "\n# %%\n".join(cell.source for cell in cells[3:])
    assert [part for part in expected if part not in text] == [] and "SOLUTION" not in text


INSIDE = "# %%\ntotal = sum(\n    ### BEGIN SOLUTION\n    [1, 2],\n    ### END SOLUTION\n)\n"
SPLIT = (
    "# %%\ntry:\n    y = 1\n### BEGIN SOLUTION\nexcept ValueError:\n    y = 2\n### END SOLUTION\n"
)
LAST = 'check("1.1")\n'
ANNOUNCED = "# # Lab 1: Halves"


# file, what in it becomes what, the line that is named (or its text) and of which file, a
# word of the message
@pytest.mark.parametrize(
    ("file", "old", "new", "at", "word"),
    [
        # solutions
        (SOURCE, "    ### END SOLUTION\n", "", "BEGIN", "not closed"),
        (SOURCE, "    ### BEGIN SOLUTION\n", "", "END SOL", "without"),
        (SOURCE, "    return r", "    ### BEGIN SOLUTION # 2\n    ### BEGIN SOLUTION\n    return r", "# 2", "exactly"),
        (SOURCE, "    return r", "    ### BEGIN SOLUTION\n    return r", 26, "inside"),
        (SOURCE, "### BEGIN", "# BEGIN", "# BEGIN", "exactly as `### BEGIN SOLUTION`"),
        (SOURCE, "### END SOLUTION", "### end solution", "### end", "exactly as `### END SOLUTION`"),
        (SOURCE, "    result = x / 2 if x else 0.0\n    return result\n", "", "BEGIN", "nothing stands"),
        (SOURCE, "x / 2 if x else 0.0", "x / 2\n    return result\n\ndef g(x):\n    y = x", "BEGIN", "end of half"),
        (SOURCE, "# %%\ndef", "# %% [markdown]\n# ## Experiment\n\n# %%\ndef", "BEGIN", "no question"),
        (SOURCE, LAST, LAST + "\n# %% [markdown]\n# ### BEGIN SOLUTION\n", "# ### BEGIN", "code cells only"),
        (SOURCE, LAST, LAST + INSIDE, 34, "whole statements"),
        (SOURCE, LAST, LAST + SPLIT, 35, "does not parse"),
        # cells
        (SOURCE, "return result", "return (", "return (", "does not parse"),
        (SOURCE, LAST, LAST + "\n# %%\nsorted(half(x) for x in [1]\n", "sorted", "does not parse"),
        (SOURCE, LAST, LAST + "\n# %%\nreturn 3\n", "return 3", "does not parse"),
        (SOURCE, LAST, LAST + "\n# %% twice [markdown]\n# %% [markdown]\n# Text\n", "twice", "empty"),
        (SOURCE, "#   jupytext:", "#   kernelspec:\n#     name: python3\n#   jupytext:", 1, "jupytext"),
        (SOURCE, HEADER[: HEADER.index("# %%")], "import os\n", 1, "before the first cell"),
        # questions
        (SOURCE, "**4 minutes · 3 points**", "Some text.", "### 1.1", "4 minutes"),
        (SOURCE, "3 points", "3 pionts", "### 1.1", "4 minutes"),
        (SOURCE, "3 points", "4 points", "### 1.1", "4 points"),
        (SOURCE, "3 points", "3 points · needs 1.4", "### 1.1", "1.4"),
        (SOURCE, "3 points", "3 points · optional", "### 1.1", "is optional here"),
        (SOURCE, "### 1.1 Half", "### 1.1. Half", "### 1.1", "`### 1.1 Title`"),
        (SOURCE, "### 1.1 Half", "### 2.1 Half", "### 2.1", "2.1 in lab 01"),
        (SOURCE, "# Halve.\n", "# Halve.\n#\n# ### 1.1 Again\n# **1 minute · 1 point**\n", "### 1.1 Again", "already"),
        (SOURCE, ANNOUNCED, ANNOUNCED + "\n#\n# 2 points; more", "2 points;", "2 points"),
        (SOURCE, 'check("1.1")', 'check("1.7")', 'check("1.7")', "names no question"),
        # claims
        (VISIBLE, '"1.1"', '"1.2"', "@question", "test_two tests question 1.2"),
        (VISIBLE, "points=1", "points=ONE", "ONE", "NameError: name 'ONE'"),
        (VISIBLE, ', claim="another half"', "", "points=2", "argument: 'claim'"),
        (VISIBLE, "points=2", 'points="2"', '"2"', "points must be a number"),
        (VISIBLE, "def test_two(", "def test_two", "def test_two", "SyntaxError"),
        # contract
        (REFERENCE, "def half", "def halve", "def halve", "`halve`"),
        (REFERENCE, "return", "pass\n\n\nlab.asks('1.2', 'third')\n#", "asks('1.2'", "question 1.2"),
        (REFERENCE, "return", "pass\n\n\nlab.asks('1.1', plain=False)\n#", "plain", "ValueError"),
        (REFERENCE, "return", "pass\n\n\nnowhere()\n#", "nowhere", "NameError"),
        (REFERENCE, "return", "return (", "return (", "SyntaxError"),
        (REFERENCE, CONTRACT[CONTRACT.index("\n\n@lab") :], "", 1, "asks for nothing"),
        (REFERENCE, '"1.1")', '"1.1", optional=True)', (SOURCE, "### 1.1"), "is not optional here"),
    ],
)  # fmt: skip
def test_each_slip_is_named_with_its_line(tmp_path, file, old, new, at, word):
    course(tmp_path)
    change(tmp_path / file, old, new)
    if isinstance(at, tuple):
        file, at = at
    line = at if isinstance(at, int) else line_of(tmp_path / file, at)
    found = problems(tmp_path)
    assert any(text.startswith(f"{file}:{line}: ") and word in text for text in found), found
    with pytest.raises(AuthoringError):
        build.build(tmp_path, echo=quiet)
    assert not list((tmp_path / "labs").iterdir())


@pytest.mark.parametrize(
    ("gone", "at"),
    [(VISIBLE, "question 1.1 has no claim"), (REFERENCE, f"{REFERENCE}:1: lab01 has no contract")],
)
def test_a_lab_has_claims_and_a_contract(tmp_path, gone, at):
    course(tmp_path)
    (tmp_path / gone).unlink()
    assert any(at in line for line in problems(tmp_path))


def test_headings_that_are_none(tmp_path):
    extra = "\n# %% [markdown]\n# ### 2.5x faster\n# text\n#\n# ```\n# ### 1.9 in a fence\n# ```\n#\n# #### 1.2 too deep\n"
    lab = source.read(course(tmp_path, HALF + extra), tmp_path)
    assert [question.id for question in lab.questions] == ["1.1"]


def test_a_check_needs_a_visible_test(tmp_path):
    course(tmp_path)
    (tmp_path / VISIBLE).rename(tmp_path / VISIBLE.replace("visible", "hidden"))
    assert any("has nothing to run" in line for line in problems(tmp_path))


@pytest.mark.parametrize(
    "leak",
    [
        "# %%\ndef again(x):\n    result = x / 2 if x else 0.0\n    return result\n",
        "# %%\nvalues = [half(x) for x in range(3)]\nelse_where = x / 2 if x else 0.0\n",
        "# %% [markdown]\n# <details><summary>Hint 1: all</summary>Write `result = x/2 if x else 0.0`.</details>\n",
        "# %%\n# result = x / 2 if x else 0.0\n",
    ],
)
def test_an_answer_that_stays_visible(tmp_path, leak):
    path = course(tmp_path, HALF + "\n" + leak)
    (line,) = problems(tmp_path)
    where = max(
        i
        for i, text in enumerate(path.read_text().splitlines(), 1)
        if "2 if x" in text or "x/2" in text
    )
    assert line.startswith(f"solutions/lab01_halves.py:{where}: the answer to 1.1")
    course(tmp_path, HALF.replace("else 0.0", "else 0.0  # shown elsewhere") + "\n" + leak)
    build.load(path, tmp_path)


def test_small_talk_is_no_leak(tmp_path):
    body = HALF.replace(
        "    return result",
        "    result = float(result) + len(str(x)) - len(str(x))\n    return result",
    )
    body = (
        "# %%\n### BEGIN SOLUTION\nprediction = ['small', 'medium', 'large']\n### END SOLUTION\n\n"
        + body
    )
    more = "\n# %%\nSIZES = ['small', 'medium', 'large']\nresult = half(3.0)\n\n\ndef other(result):\n    return result\n"
    path = course(tmp_path, body + more)
    build.load(path, tmp_path)


def test_names_of_sources(tmp_path):
    with pytest.raises(AuthoringError, match=r"^solutions:1: there is no lab source"):
        build.build(tmp_path)
    course(tmp_path)
    (tmp_path / "solutions" / "lab01_other.py").write_text("")
    (tmp_path / "solutions" / "lab2_x.py").write_text("")
    found = build.check(tmp_path)
    assert "lab01_halves.py has the same number" in found[0]
    assert "name a lab's source labNN_slug.py" in found[1]


def test_a_lab_that_is_not_there_cannot_be_checked(tmp_path):
    course(tmp_path)
    with pytest.raises(AuthoringError, match="lab02"):
        build.check(tmp_path, ["lab02"])


def test_the_student_notebook(tmp_path):
    path = course(tmp_path, HALF + '\n# %% tags=["raises-exception"]\nhalf(None)\n')
    lab, cells = build.load(path, tmp_path)
    notebook, solution = (
        build.student_notebook(lab, cells),
        build.solution_notebook(lab, cells, tmp_path),
    )
    nbformat.validate(notebook)
    assert [cell.id for cell in notebook.cells] == [cell.id for cell in solution.cells]
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert notebook.cells[-1].metadata == {"tags": ["raises-exception"]}
    assert "result = x / 2" in solution.cells[3].source
    assert build.as_bytes(notebook) == build.as_bytes(
        build.student_notebook(*build.load(path, tmp_path))
    )


def test_ids_stay_when_cells_come_and_go_and_tell_no_answer(tmp_path):
    def ids(body: str) -> list[str]:
        lab, cells = build.load(course(tmp_path, body), tmp_path)
        return [cell.id for cell in build.student_notebook(lab, cells).cells]

    before = ids(HALF)
    assert ids("# %%\nnew = 1\n\n" + HALF)[4:] == before[3:]
    assert ids(HALF.replace("x / 2", "0.5 * x")) == before


def test_without_execution_and_for_chosen_labs(tmp_path):
    course(tmp_path)
    said: list[str] = []
    changed = build.build(tmp_path, labs=["1"], execute=False, echo=said.append)
    assert changed == [tmp_path / "labs" / "lab01_halves.ipynb"]
    assert any("left as it was" in line for line in said)
    assert build.build(tmp_path, labs=["lab01"], execute=False, echo=said.append) == []
    with pytest.raises(AuthoringError, match="there is no 'lab07': choose among lab01"):
        build.build(tmp_path, labs=["lab07"])
    assert build.check(tmp_path) == [
        "solutions/lab01_halves.ipynb:1: this notebook has not been built: run `course build lab01`"
    ]


def test_the_core_alone_counts_in_points(tmp_path):
    words = "# Lab 1: Halves 0 points; about 40 hours, and 3 bonus points"
    header = HEADER.replace("# Lab 1: Halves", words).replace("3 points**", "3 points · optional**")
    path = course(tmp_path, header=header)
    change(tmp_path / REFERENCE, '"1.1")', '"1.1", optional=True)')
    build.load(path, tmp_path)
    change(path, "3 bonus points", "2 bonus points")
    (line,) = problems(tmp_path)
    assert "announces 2 bonus points" in line


def test_answers_that_try_the_tests(tmp_path):
    path = course(tmp_path)
    (tmp_path / ANSWERS).write_text("keeps right\nx = 1\n")
    (tmp_path / ANSWERS).with_name("1.2.txt").write_text("loses gone · gone\nx = 1\n")
    found = build.check(tmp_path)
    assert any(line.startswith(f"{SOURCE}:{line_of(path, '### 1.1')}: no wrong") for line in found)
    assert any(line.startswith("tests/labs/lab01/answers/1.2.txt:1: ") for line in found)
    assert len(found) == 4  # beside the notebooks, which are not built
    # a lab that is being written can be built
    build.load(path, tmp_path)


def test_a_removed_question_is_named_wherever_it_is_left(tmp_path):
    """Its column would stand empty in the table of points."""
    course(tmp_path, "# %%\nprint(1)\n", HEADER[: HEADER.index("# %% [markdown]\n# ### 1.1")])
    for name in ("visible.py:6", "course_lib/labs/lab01.py:7", "1.1.txt:1", "1.1.txt:4"):
        assert any(name in line and "1.1" in line for line in build.check(tmp_path)), name


def test_work_in_labs_is_kept(tmp_path):
    course(tmp_path)
    build.build(tmp_path, execute=False, echo=quiet)
    path = tmp_path / "labs" / "lab01_halves.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells[3].source = "def half(x): return x / 2  # mine"
    nbformat.write(notebook, path)
    assert any(line.startswith("labs/lab01_halves.ipynb:1: ") for line in build.check(tmp_path))
    said: list[str] = []
    assert build.build(tmp_path, execute=False, echo=said.append) == [path]
    assert "# mine" in (tmp_path / "labs" / "lab01_halves.edited-1.ipynb").read_text()
    assert "# mine" not in path.read_text()
    assert any("worked in" in line for line in said)
    assert not any(line.startswith("labs/") for line in build.check(tmp_path))


def test_orphans(tmp_path):
    course(tmp_path)
    (tmp_path / "tests" / "labs" / "lab05").mkdir()
    (tmp_path / "labs" / "lab05_gone.ipynb").write_text("{}")
    found = build.check(tmp_path)
    for name in ("tests/labs/lab05:1: ", "labs/lab05_gone.ipynb:1: "):
        assert any(line.startswith(name) for line in found)
