"""From a lab's source to its two notebooks, on small labs made here."""

from __future__ import annotations

import re
import shutil
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
lab.asks("1.1")
"""
REFERENCE = "course_lib/labs/lab01.py"
VISIBLE = "tests/labs/lab01/visible.py"


def course(
    root: Path,
    body: str = HALF,
    tests: str = TESTS,
    header: str = HEADER,
    contract: str | None = CONTRACT,
) -> Path:
    """A course of one lab, with a wrong and a right answer."""
    for folder in ("solutions", "labs", "course_lib/labs", "tests/labs/lab01/answers"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    path = root / "solutions" / "lab01_halves.py"
    path.write_text(header + body)
    (root / VISIBLE).write_text(tests)
    (root / REFERENCE).unlink(missing_ok=True)
    if contract is not None:
        (root / REFERENCE).write_text(contract)
    (root / "tests/labs/lab01/answers/1.1.txt").write_text(
        "loses wrong · no\nx = 1\n\nkeeps right\nx = 2\n"
    )
    return path


def line_of(path: Path, text: str, nth: int = 1) -> int:
    """The line of a file on which ``text`` stands for the nth time."""
    return [i for i, line in enumerate(path.read_text().splitlines(), start=1) if text in line][
        nth - 1
    ]


def problems(root: Path) -> list[str]:
    with pytest.raises(AuthoringError) as caught:
        build.load(root / "solutions" / "lab01_halves.py", root)
    lines = str(caught.value).splitlines()
    assert all(re.match(r"[\w/.]+:\d+: .+", line) for line in lines), lines
    return lines


def stripped(root: Path, body: str) -> str:
    """What becomes of the cells after the heading of 1.1."""
    path = course(root, body)
    cells = student.strip(source.read(path, root))
    return "\n# %%\n".join(cell.source for cell in cells[3:])


def test_cells_questions_and_regions_know_their_lines(tmp_path):
    path = course(tmp_path)
    lab = source.read(path, tmp_path)
    text = path.read_text().splitlines()
    assert [cell.kind for cell in lab.cells] == ["markdown", "code", "markdown", "code", "code"]
    for cell in lab.cells:
        for said, number in zip(cell.source.split("\n"), cell.lines, strict=True):
            assert said in text[number - 1]
    (question,) = lab.questions
    assert (question.id, question.title, question.minutes, question.points) == (
        "1.1",
        "Half of it",
        4,
        3,
    )
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


def test_a_function_asks_to_be_written(tmp_path):
    text = stripped(tmp_path, HALF)
    assert text.startswith(
        'def half(x: float) -> float:\n    """Half of x."""\n'
        '    raise NotImplementedError("1.1 half: write this function")'
    )
    assert "SOLUTION" not in text


def test_a_method_asks_to_be_written(tmp_path):
    body = """# %%
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
    text = stripped(tmp_path, body)
    assert '        raise NotImplementedError("1.1 Halves.forward: write this method")' in text
    assert (
        '        # divide, then\n        raise NotImplementedError("1.1 Halves.backward: write this method")'
        in text
    )
    assert text.count("@staticmethod") == 2


def test_names_at_the_top_become_dots(tmp_path):
    body = """# %%
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
    first, second, third = stripped(tmp_path, body).split("\n# %%\n")
    names = ["prediction", "low", "high", "rest", "total", "last", "sizes", "made"]
    assert first == "\n".join(f"{name} = ..." for name in names) + '\n# "more" or "less"'
    assert second == 'with open("x") as file:\n    content = ...'
    assert third == "...  # 1.1: write this"


@pytest.mark.parametrize(
    ("body", "at", "nth", "message"),
    [
        (HALF.replace("    ### END SOLUTION\n", ""), "BEGIN", 1, "not closed"),
        (HALF.replace("    ### BEGIN SOLUTION\n", ""), "END SOL", 1, "without"),
        (HALF.replace("    return", "    ### BEGIN SOLUTION\n    return"), "BEGIN", 2, "inside the one begun on line"),
        (HALF.replace("### BEGIN", "# BEGIN"), "# BEGIN", 1, "exactly as `### BEGIN SOLUTION`"),
        (HALF.replace("### END SOLUTION", "### end solution"), "### end", 1, "exactly as `### END SOLUTION`"),
        (HALF.replace("    result = x / 2 if x else 0.0\n    return result\n", ""), "BEGIN", 1, "nothing stands between"),
        (HALF.replace("return result", "return ("), "return (", 1, "does not parse"),
        (HALF.replace("x / 2 if x else 0.0", "x / 2\n    return result\n\ndef g(x):\n    y = x"), "BEGIN", 1, "beyond the end of half"),
        ("# %% [markdown]\n# ## Experiment\n\n" + HALF, "BEGIN", 1, "belongs to no question"),
        (HALF + "\n# %% [markdown]\n# ### BEGIN SOLUTION\n", "### BEGIN", 2, "code cells only"),
        (HALF.replace('"1.1"', '"1.7"'), 'check("1.7")', 1, "names no question"),
        (HALF + "\n# %%\nsorted(half(x) for x in [1]\n", "sorted", 1, "does not parse"),
        (HALF + "\n# %%\nreturn 3\n", "return 3", 1, "does not parse"),
        (HALF + "\n# %% begun twice [markdown]\n# %% [markdown]\n# Text\n", "begun twice", 1, "this cell is empty"),
    ],
)  # fmt: skip
def test_each_slip_is_named_with_its_line(tmp_path, body, at, nth, message):
    path = course(tmp_path, body)
    found = problems(tmp_path)
    assert any(
        line.startswith(f"solutions/lab01_halves.py:{line_of(path, at, nth)}: ") and message in line
        for line in found
    ), found


def test_markers_inside_of_a_statement(tmp_path):
    body = """# %%
total = sum(
    ### BEGIN SOLUTION
    [1, 2],
    ### END SOLUTION
)
"""
    path = course(tmp_path, body)
    (line,) = problems(tmp_path)
    assert line.startswith(
        f"solutions/lab01_halves.py:{line_of(path, 'BEGIN')}: put the markers round whole statements"
    )


def test_a_cell_that_does_not_parse_without_its_solution(tmp_path):
    body = """# %%
if True:
    ### BEGIN SOLUTION
    x = 1
else:
    x = 2
### END SOLUTION
finally_ = 3

# %%
try:
    y = 1
### BEGIN SOLUTION
except ValueError:
    y = 2
### END SOLUTION
"""
    path = course(tmp_path, body)
    (line,) = problems(tmp_path)
    assert "without its solution this cell does not parse" in line
    assert int(line.split(":")[1]) in range(line_of(path, "try:"), line_of(path, "y = 2") + 2)


def test_magics_are_python_too(tmp_path):
    text = stripped(tmp_path, HALF + "\n# %%\n# %matplotlib inline\nx = 1\n")
    assert "%matplotlib inline\nx = 1" in text


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.replace("**4 minutes · 3 points**", "Some text."), "4 minutes · 2 points"),
        (HEADER.replace("3 points", "3 pionts"), "4 minutes · 2 points"),
        (
            HEADER.replace("3 points", "4 points"),
            "announces 4 points, its claims in tests/labs/lab01 give 3",
        ),
        (
            "# %% [markdown]\n# 3 points; about 4½ hours\n\n" + HEADER,
            "announces 4½ hours, its words and its exercises' minutes give 0.1",
        ),
        (
            HEADER.replace("3 points", "3 points · needs 1.4"),
            "1.1 needs 1.4, which is no question before it",
        ),
        (HEADER.replace("### 1.1 Half", "### 1.1. Half"), "as `### 1.1 Title`"),
        (HEADER.replace("### 1.1 Half", "### 2.1 Half"), "question 2.1 in lab 01"),
        (HEADER + HEADER[HEADER.index("# %% [markdown]\n# ### 1.1") :], "already stands on line"),
    ],
)
def test_headings_of_questions(tmp_path, header, message):
    course(tmp_path, header=header)
    assert any(message in line for line in problems(tmp_path))


def test_headings_that_are_none(tmp_path):
    extra = "\n# %% [markdown]\n# ### 2.5x faster\n# text\n#\n# ```\n# ### 1.9 in a fence\n# ```\n#\n# #### 1.2 too deep\n"
    lab = source.read(course(tmp_path, HALF + extra), tmp_path)
    assert [question.id for question in lab.questions] == ["1.1"]


def test_questions_and_tests_belong_together(tmp_path):
    course(tmp_path, tests=TESTS.replace('"1.1"', '"1.2"'))
    found = problems(tmp_path)
    assert any(
        "question 1.1 has no claim" in line and line.startswith("solutions/") for line in found
    )
    path = tmp_path / VISIBLE
    at = f"{VISIBLE}:{line_of(path, '@question')}: test_two tests question 1.2"
    assert any(line.startswith(at) for line in found)
    shutil.rmtree(path.parent)
    assert any("there is no tests/labs/lab01" in line for line in problems(tmp_path))


def test_a_check_needs_a_visible_test(tmp_path):
    course(tmp_path)
    (tmp_path / VISIBLE).rename(tmp_path / VISIBLE.replace("visible", "hidden"))
    assert any("has nothing to run" in line for line in problems(tmp_path))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("points=1", "points=ONE"),
        (', claim="another half"', ""),
        ("points=2", 'points="2"'),
        ("def test_two(", "def test_two"),
    ],
)
def test_decorators_are_read_without_running_the_file(tmp_path, old, new):
    course(tmp_path, tests=TESTS.replace(old, new))
    (line,) = problems(tmp_path)
    assert line.startswith(f"{VISIBLE}:")


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


def test_several_problems_come_together_and_nothing_is_written(tmp_path):
    course(tmp_path, HALF.replace('"1.1"', '"1.3"') + "\n# %%\nresult = x / 2 if x else 0.0\n")
    with pytest.raises(AuthoringError) as caught:
        build.build(tmp_path, echo=lambda line: None)
    assert len(str(caught.value).splitlines()) == 2
    assert not list((tmp_path / "labs").iterdir())


def test_names_of_sources(tmp_path):
    with pytest.raises(AuthoringError, match=r"^solutions:1: there is no lab source"):
        build.build(tmp_path)
    course(tmp_path)
    (tmp_path / "solutions" / "lab01_other.py").write_text("")
    (tmp_path / "solutions" / "lab2_x.py").write_text("")
    found = build.check(tmp_path)
    assert "lab01_halves.py has the same number" in found[0]
    assert "name a lab's source labNN_slug.py" in found[1]


def test_a_source_that_jupytext_cannot_read(tmp_path):
    course(
        tmp_path,
        header=HEADER.replace(
            "#   jupytext:", "#   kernelspec:\n#     name: python3\n#   jupytext:"
        ),
    )
    (line,) = problems(tmp_path)
    assert "jupytext cannot read this" in line
    path = course(tmp_path, header="import os\n" + HEADER[HEADER.index("# %%") :])
    (line,) = problems(tmp_path)
    assert line.startswith("solutions/lab01_halves.py:1: this stands before the first cell"), path


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
    with pytest.raises(AuthoringError, match="there is no lab 'lab07': choose among lab01"):
        build.build(tmp_path, labs=["lab07"])
    assert build.check(tmp_path) == [
        "solutions/lab01_halves.ipynb:1: this notebook has not been built: run `course build lab01`"
    ]


GRADED = CONTRACT.replace(
    'lab.asks("1.1")', '@lab.asks("1.1")\ndef half(x):\n    return weights.half(x)'
)


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        (None, f"{REFERENCE}:1: lab01 has no contract and no answers of the library: write this file"),
        (GRADED.replace('"1.1"', '"1.2"'), f"question 1.1 is not in {REFERENCE}: write there what it asks for"),
        (GRADED + 'lab.asks("1.2", "third")\n', f"{REFERENCE}:8: solutions/lab01_halves.py does not ask question 1.2"),
        (GRADED.replace("def half", "def halve"), f"{REFERENCE}:6: question 1.1 grades `halve`, which solutions/lab01_halves.py does not ask for"),
        (GRADED + 'lab.asks("1.1", plain=False)\n', f"{REFERENCE}:8: this cannot be imported (ValueError: lab01, 1.1: what is forbidden"),
        (GRADED + "nowhere()\n", f"{REFERENCE}:8: this cannot be imported (NameError"),
        (GRADED[: GRADED.index("@lab")], f"{REFERENCE}:1: this asks for nothing"),
        (GRADED + "(", f"{REFERENCE}:8: this cannot be imported (SyntaxError"),
    ],
)  # fmt: skip
def test_a_contract_that_is_not_the_labs_is_noticed_before_anything_is_written(
    tmp_path, contract, message
):
    course(tmp_path, contract=contract)
    said: list[str] = []
    with pytest.raises(AuthoringError) as caught:
        build.build(tmp_path, echo=said.append)
    assert message in str(caught.value)
    assert not said and not list((tmp_path / "labs").iterdir())
    assert message in "\n".join(build.check(tmp_path))


def test_a_contract_that_is_the_labs(tmp_path):
    course(tmp_path, contract=GRADED)
    build.build(tmp_path, execute=False, echo=lambda line: None)
    assert [line.split(": ")[0] for line in build.check(tmp_path)] == [
        "solutions/lab01_halves.ipynb:1"
    ]


def test_optional_is_said_in_the_heading_and_in_the_contract(tmp_path):
    course(tmp_path, header=HEADER.replace("3 points**", "3 points · optional**"))
    (line,) = problems(tmp_path)
    assert "question 1.1 is optional here and not optional in" in line
    course(tmp_path, contract=CONTRACT.replace('"1.1"', '"1.1", optional=True'))
    (line,) = problems(tmp_path)
    assert "question 1.1 is not optional here and optional in" in line


def test_the_core_alone_counts_in_points_and_hours(tmp_path):
    top = "# Lab 1: Halves\n#\n# 0 points; about 0 hours, and 3 bonus points"
    header = HEADER.replace("# Lab 1: Halves", top).replace("3 points**", "3 points · optional**")
    contract = CONTRACT.replace('"1.1"', '"1.1", optional=True')
    path = course(tmp_path, header=header, contract=contract)
    lab, _ = build.load(path, tmp_path)
    words = [
        "#",
        "Lab",
        "1:",
        "Halves",
        "0",
        "points;",
        "about",
        "0",
        "hours,",
        "and",
        "3",
        "bonus",
        "points",
    ]
    assert build.hours(lab) == pytest.approx(len(words) / build.WORDS_PER_MINUTE / 60)
    path.write_text(path.read_text().replace("3 bonus points", "2 bonus points"))
    (line,) = problems(tmp_path)
    assert "announces 2 bonus points, its optional questions 3 together" in line


def test_answers_that_try_the_tests(tmp_path):
    course(tmp_path, contract=GRADED)
    answers = tmp_path / "tests/labs/lab01/answers"
    (answers / "1.1.txt").write_text("keeps right\nx = 1\n")
    (answers / "1.2.txt").write_text("loses gone · gone\nx = 1\n")
    found = build.check(tmp_path)
    assert any(
        "no wrong answer tries the tests of question 1.1" in line and line.startswith("solutions/")
        for line in found
    )
    assert "tests/labs/lab01/answers/1.2.txt:1: an answer to 1.2, which solutions/lab01_halves.py does not ask: delete it, or correct the number" in found  # fmt: skip
    assert not any("no right answer" in line for line in found)
    assert len(found) == 4  # beside the notebooks, which are not built
    # a lab that is being written can be built
    build.load(tmp_path / "solutions" / "lab01_halves.py", tmp_path)


def test_a_removed_question_is_named_wherever_it_is_left(tmp_path):
    """Its column would stand empty in the table of points."""
    path = course(tmp_path, contract=GRADED)
    path.write_text(HEADER[: HEADER.index("# %% [markdown]\n# ### 1.1")] + "# %%\nprint(1)\n")
    for name in ("visible.py:6", "course_lib/labs/lab01.py:5", "1.1.txt:1", "1.1.txt:4"):
        assert any(name in line and "1.1" in line for line in build.check(tmp_path)), name


def test_work_in_labs_is_kept(tmp_path):
    course(tmp_path)
    build.build(tmp_path, execute=False, echo=lambda line: None)
    path = tmp_path / "labs" / "lab01_halves.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells[3].source = "def half(x): return x / 2  # mine"
    nbformat.write(notebook, path)
    assert any("cell 4 is not as in the source" in line for line in build.check(tmp_path))
    said: list[str] = []
    assert build.build(tmp_path, execute=False, echo=said.append) == [path]
    assert "# mine" in (tmp_path / "labs" / "lab01_halves.edited-1.ipynb").read_text()
    assert "# mine" not in path.read_text()
    assert any("worked in" in line for line in said)
    assert not any(line.startswith("labs/") for line in build.check(tmp_path))
    path.write_text("{")
    assert any("cannot be read" in line for line in build.check(tmp_path))


def test_orphans(tmp_path):
    course(tmp_path)
    (tmp_path / "tests" / "labs" / "lab05").mkdir()
    (tmp_path / "labs" / "lab05_gone.ipynb").write_text("{}")
    found = build.check(tmp_path)
    assert any(
        line.startswith("tests/labs/lab05:1: claims of a lab that is not there") for line in found
    )
    assert any(
        line.startswith("labs/lab05_gone.ipynb:1: there is no solutions/lab05_gone.py")
        for line in found
    )
