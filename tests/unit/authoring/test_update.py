"""A student's work in a corrected release: every kind of edit, every kind of
correction, and not a line lost.
"""

from __future__ import annotations

import ast
import copy
import random
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from typer.testing import CliRunner

from course_lib.authoring import build, source, student, update
from course_lib.authoring.handout import asking
from course_lib.cli import app
from course_lib.labs import load
from course_lib.student_code.cells import run

ROOT = Path(__file__).parents[3]
LAB = '''# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Lab 1: Halves
#
# What the lab is about.

# %%
import math

from course_lib.grading import check, skip

DATA = "digits"  # or "mnist"

# %% [markdown]
# ## Part 1

# %% [markdown]
# ### 1.1 Half of it
# **4 minutes · 3 points**
#
# Halve, and thrid.

# %%
### BEGIN SOLUTION
prediction_1_1 = "less"
### END SOLUTION

# %%
def near(x: float) -> float:
    """A handout's helper."""
    return round(x, 1)


def half(x: float) -> float:
    """Half of x, of cuorse."""
    ### BEGIN SOLUTION
    return x / 2
    ### END SOLUTION


def third(x: float) -> float:
    """A third of x."""
    # mind the sign
    ### BEGIN SOLUTION
    return x / 3
    ### END SOLUTION

# %%
check("1.1")

# %% [markdown]
# #### Experiment

# %%
steps = 10
rate = 0.1
values = [half(rate * i) for i in range(steps)]
print(values)

# %% [markdown]
# ### 1.2 A class
# **4 minutes · 1 point · needs 1.1**
#
# Now a class.

# %%
### BEGIN SOLUTION
prediction_1_2 = "more"
### END SOLUTION

# %%
class Halver:
    """Halves."""

    def __call__(self, x: float) -> float:
        """Half of x."""
        ### BEGIN SOLUTION
        return half(x)
        ### END SOLUTION

# %%
check("1.2")

# %% [markdown]
# ### 1.3 Which one?
# **2 minutes · 1 point**
#
# a or b?

# %%
### BEGIN SOLUTION
answer_1_3a = "b"
answer_1_3b = 4
### END SOLUTION

# %%
check("1.3")

# %% [markdown]
# ## The end
'''
NAMES = (
    "half",
    "third",
    "Halver",
    "prediction_1_1",
    "prediction_1_2",
    "answer_1_3a",
    "answer_1_3b",
)
CORRECTIONS = {
    "text": ("Halve, and thrid.", "Halve, and third."),
    "docstring": ("Half of x, of cuorse.", "Half of x, of course.\n\n    Raises nothing."),
    "signature": (
        "def third(x: float) -> float:",
        "def third(x: float, /, sign: int = 1) -> float:",
    ),
    "helper": ("return round(x, 1)", "return round(x, 2)"),
    "comment": ("# mind the sign", "# mind its sign"),
    "experiment": ("print(values)", "print(values, sum(values))"),
    "set-up": ("import math\n", "import math\nimport warnings\n"),
    "class": ('    """Halves."""', '    """Halves whatever comes."""'),
    "removed": ("# %% [markdown]\n# ### 1.3 Which one?", "REMOVED"),
    "renumbered": (
        "# %% [markdown]\n# ### 1.2 A class",
        '# %% [markdown]\n# ### 1.2 New\n# **1 minute · 1 point**\n\n# %%\n### BEGIN SOLUTION\nprediction_1_2 = "no"\n'
        '### END SOLUTION\n\n# %%\ncheck("1.2")\n\n# %% [markdown]\n# ### 1.2 A class',
    ),
    "added": (
        "# %% [markdown]\n# ## The end",
        "# %% [markdown]\n# Read on.\n\n# %%\nprint(3)\n\n# %% [markdown]\n# ## The end",
    ),
}


def corrected(*names: str) -> str:
    """The lab's source with some corrections."""
    text = LAB
    for name in sorted(names, key=list(CORRECTIONS).index):
        old, new = CORRECTIONS[name]
        assert old in text
        if name == "removed":
            text = text[: text.index(old)] + text[text.index("# %% [markdown]\n# ## The end") :]
        else:
            text = text.replace(old, new)
        if name == "renumbered":  # from the second 1.2 on
            head, tail = text.split("### 1.2 A class")
            tail = (
                re.sub(r"(?<!\d)1([._])3", r"1\g<1>4", tail)
                .replace("1.2", "1.3")
                .replace("1_2", "1_3")
            )
            text = f"{head}### 1.3 A class{tail}"
    return text


_made: dict[str, Any] = {}


def handout(text: str = LAB, name: str = "lab01_halves") -> Any:
    """The student notebook of a lab's source."""
    if text not in _made:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.py"
            path.write_text(text)
            lab = source.read(path, Path(folder))
        _made[text] = build.student_notebook(lab, student.strip(lab))
    return copy.deepcopy(_made[text])


def at(notebook: Any, text: str) -> int:
    return next(i for i, cell in enumerate(notebook.cells) if text in cell.source)


def edit(notebook: Any, old: str, new: str) -> Any:
    """Change a cell in place, as a student does."""
    cell = notebook.cells[at(notebook, old)]
    cell.source = cell.source.replace(old, new)
    return cell


HALF = '    raise NotImplementedError("1.1 half: write this function")'
THIRD = '    raise NotImplementedError("1.1 third: write this function")'
CALL = '        raise NotImplementedError("1.2 Halver.__call__: write this method")'


def written(notebook: Any) -> Any:
    """A student's notebook with everything answered."""
    edit(notebook, HALF, "    # by shifting\n    return 0.5 * x  # mine")
    edit(notebook, THIRD, "    y = x\n    return y / 3")
    edit(notebook, CALL, "        return half(x) + 0")
    for name, value in (
        ("prediction_1_1", '"same"'),
        ("prediction_1_2", "12"),
        ("answer_1_3a", '"b"'),
        ("answer_1_3b", "5"),
    ):
        edit(notebook, f"{name} = ...", f"{name} = {value}")
    return notebook


def texts(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells]


def one(notebook: Any, text: str) -> str:
    """The only cell with this text."""
    (found,) = [cell.source for cell in notebook.cells if text in cell.source]
    return found


def lines(notebook: Any) -> set[str]:
    return {
        line.rstrip() for cell in notebook.cells for line in cell.source.split("\n") if line.strip()
    }


def how(carried: list[update.Carried]) -> dict[str, str]:
    return {row.what: row.how for row in carried}


def works(notebook: Any, names: tuple[str, ...] = NAMES) -> dict[str, Any]:
    """What the grader finds in a notebook: the answers' values, the functions' at 6."""
    got = run([cell.source for cell in notebook.cells if cell.cell_type == "code"], names).namespace
    found: dict[str, Any] = {}
    for name in names:
        value = got.get(name)
        try:
            value = (
                value()(6.0)
                if isinstance(value, type)
                else value(6.0)
                if callable(value)
                else value
            )
        except Exception as error:
            value = type(error).__name__
        found[name] = value
    return found


ANSWERED = {
    "half": 3.0, "third": 2.0, "Halver": 3.0, "prediction_1_1": "same", "prediction_1_2": 12, "answer_1_3a": "b", "answer_1_3b": 5,
}  # fmt: skip


def test_the_answers_go_over_and_the_release_stays():
    new = handout(corrected("text", "experiment", "set-up", "added"))
    made, carried = update.merge(written(handout()), new)
    nbformat.validate(made)
    assert works(made) == ANSWERED
    assert len(made.cells) == len(new.cells)
    for mine, theirs in zip(made.cells, new.cells, strict=True):
        assert mine.id == theirs.id and mine.metadata == theirs.metadata
        assert (
            mine.source == theirs.source or "..." in theirs.source or "write this" in theirs.source
        )
    assert {row.what: (row.question, row.how) for row in carried} == {
        "half, third": ("1.1", update.WHOLE), "Halver": ("1.2", update.WHOLE), "prediction_1_1": ("1.1", update.WHOLE),
        "prediction_1_2": ("1.2", update.WHOLE), "answer_1_3a, answer_1_3b": ("1.3", update.WHOLE),
    }  # fmt: skip
    assert made.metadata["course"] == new.metadata["course"]


def test_a_function_gets_the_releases_docstring_and_keeps_its_body():
    old = written(handout())
    made, carried = update.merge(old, handout(corrected("docstring", "helper", "signature")))
    cell = one(made, "def half")
    assert cell == (
        'def near(x: float) -> float:\n    """A handout\'s helper."""\n    return round(x, 2)\n\n\n'
        'def half(x: float) -> float:\n    """Half of x, of course.\n\n    Raises nothing."""\n'
        "    # by shifting\n    return 0.5 * x  # mine\n\n\n"
        'def third(x: float, /, sign: int = 1) -> float:\n    """A third of x."""\n    # mind the sign\n    y = x\n    return y / 3'
    )
    assert how(carried)["half, third"] == update.MERGED


def test_where_both_changed_a_docstring_the_students_function_stands_behind_the_releases():
    old = written(handout())
    edit(old, "of cuorse", "which is what 1.2 needs")
    made, carried = update.merge(old, handout(corrected("docstring")))
    i = at(made, "def half")
    theirs, note, mine = texts(made)[i : i + 3]
    assert "of course." in theirs and HALF in theirs
    assert "compare them" in note
    assert (
        mine == one(old, "def half")
        and "which is what 1.2 needs" in mine
        and "0.5 * x  # mine" in mine
    )
    assert works(made) == ANSWERED
    assert how(carried)["half, third"] == update.BOTH


def test_a_class_whose_text_the_release_changed():
    made, carried = update.merge(written(handout()), handout(corrected("class")))
    cell = one(made, "class Halver")
    assert '"""Halves whatever comes."""' in cell and "return half(x) + 0" in cell
    assert works(made) == ANSWERED
    assert how(carried)["Halver"] == update.MERGED


def test_helpers_imports_and_comments_beside_an_answer_come_along():
    old = written(handout())
    edit(old, "def near", "import cmath\n\nSHARE = 0.5\n\n\ndef near")
    edit(
        old,
        "def half",
        "# my way\ndef helper(x):\n    return x * SHARE\n\n\n@staticmethod\ndef half",
    )
    edit(old, "return 0.5 * x  # mine", "return helper(x)")
    edit(old, "    return y / 3", "    return y / 3\n\n\nprint(half(3))  # looks right")
    made, _ = update.merge(old, handout(corrected("docstring", "helper")))
    cell = one(made, "def half")
    order = [
        "import cmath",
        "SHARE = 0.5",
        "def near",
        "round(x, 2)",
        "# my way",
        "def helper",
        "@staticmethod\ndef half",
    ]
    order += [
        "Half of x, of course",
        "return helper(x)",
        "def third",
        "print(half(3))  # looks right",
    ]
    places = [cell.index(text) for text in order]
    assert places == sorted(places)
    assert works(made) == ANSWERED


def test_a_helper_that_both_changed_stands_there_twice_to_compare():
    old = written(handout())
    edit(old, "return round(x, 1)", "return round(x, 3)")
    edit(old, "return 0.5 * x  # mine", "return near(0.5 * x)")
    # the release left the helper alone
    same, carried = update.merge(old, handout(corrected("docstring")))
    assert "round(x, 3)" in one(same, "def half") and "round(x, 1)" not in one(same, "def half")
    assert how(carried)["half, third"] == update.MERGED
    made, carried = update.merge(old, handout(corrected("helper")))
    assert at(made, "round(x, 2)") + 2 == at(made, "round(x, 3)")
    assert one(made, "round(x, 3)") == one(old, "round(x, 3)")
    assert works(made) == ANSWERED
    assert how(carried)["half, third"] == update.BOTH


def test_a_correction_that_the_student_has_made_too_is_none():
    old = written(handout())
    edit(old, "return round(x, 1)", "return round(x, 2)")
    made, carried = update.merge(old, handout(corrected("helper", "docstring")))
    assert one(made, "def near").count("round(x, 2)") == 1
    assert how(carried)["half, third"] == update.MERGED


def test_what_both_added_at_one_place_stands_there_twice():
    old = handout()
    edit(old, "import math", "import math\nimport cmath")
    made, _ = update.merge(old, handout(corrected("set-up")))
    assert one(made, "import math").startswith("import math\nimport warnings\nimport cmath\n\nfrom")


def test_an_answer_that_the_release_asks_for_anew_is_not_put_behind_its_placeholder():
    """The release gives a line of the solution away and asks for the rest, on the line
    that the student replaced.
    """
    given = '    y = float(x)\n    raise NotImplementedError("1.1 half: write this last line")'
    new = handout()
    edit(new, HALF, given)
    new.metadata["course"]["version"] = "another"
    made, carried = update.merge(written(handout()), new)
    assert how(carried)["half, third"] == update.BOTH
    assert at(made, given) < at(made, "0.5 * x  # mine")
    assert works(made) == ANSWERED


def test_cells_of_the_students_own_stay_at_their_places():
    old = written(handout())
    picture = {"cat.png": {"image/png": "aGk="}}
    old.cells.insert(0, new_markdown_cell("# Ada Lovelace, group 3"))
    old.cells.insert(at(old, 'check("1.1")'), new_code_cell("half(12)"))
    old.cells.insert(
        at(old, "half(12)") + 1, new_markdown_cell("![](attachment:cat.png)", attachments=picture)
    )
    old.cells.insert(at(old, "Experiment") + 1, new_code_cell("def plot(v):\n    return v"))
    old.cells.append(new_markdown_cell("I learned a lot."))
    old.cells.append(new_code_cell("   "))
    made, carried = update.merge(old, handout(corrected("text", "experiment", "docstring")))
    said = texts(made)
    assert said[0] == "# Ada Lovelace, group 3"
    assert said[-1] == "I learned a lot."
    i = said.index("half(12)")
    assert "def half" in said[i - 1] and said[i + 1 : i + 3] == [
        "![](attachment:cat.png)",
        'check("1.1")',
    ]
    assert made.cells[i + 1].attachments == picture
    assert said[said.index("#### Experiment") + 1] == "def plot(v):\n    return v"
    assert [row.how for row in carried].count(update.OWN) == 5


def test_a_changed_experiment():
    old = handout()
    edit(old, "rate = 0.1", "rate = 0.7  # steeper")
    old.cells[at(old, "rate")].outputs = [nbformat.v4.new_output("stream", text="[1]\n")]
    old.cells[at(old, "rate")].execution_count = 3
    edit(old, "a or b?", "a or b? I think b.")
    made, carried = update.merge(old, handout(corrected("docstring")))
    cell = made.cells[at(made, "rate = 0.7  # steeper")]
    assert (cell.outputs, cell.execution_count) == ([], None)
    assert one(made, "I think b.").startswith("### 1.3")
    assert [row.how for row in carried] == [update.WHOLE, update.WHOLE]
    made, carried = update.merge(old, handout(corrected("experiment", "docstring")))
    assert one(made, "rate = 0.7  # steeper").endswith("print(values, sum(values))")
    assert carried[0] == update.Carried("steps = 10", "1.1", update.MERGED)
    edit(old, "print(values)", "print(values[:3])")
    made, carried = update.merge(old, handout(corrected("experiment", "docstring")))
    i = at(made, "rate = 0.7  # steeper")
    assert "From your earlier notebook" in made.cells[i - 1].source
    assert made.cells[i - 2].source.endswith("print(values, sum(values))")
    assert carried[0] == update.Carried("steps = 10", "1.1", update.BOTH)


def test_a_function_that_exists_twice():
    old = written(handout())
    old.cells.insert(
        at(old, 'check("1.1")'),
        new_code_cell("def half(x):\n    return x / 2 + 0.25  # second thought"),
    )
    for names in ((), ("docstring",), ("docstring", "renumbered")):
        made, _ = update.merge(old, handout(corrected(*names, "text")))
        assert works(made)["half"] == 3.25
        assert "0.5 * x  # mine" in one(made, "def third")


def test_of_two_definitions_the_later_one_stays_the_later_one():
    old = written(handout())
    old.cells.insert(at(old, "### 1.2"), new_code_cell("def half(x):\n    return x / 2 + 0.25"))
    # the handout's own cell, moved behind it
    old.cells.append(old.cells.pop(at(old, "0.5 * x  # mine")))
    for names in (("text",), ("docstring",)):
        made, _ = update.merge(old, handout(corrected(*names)))
        assert works(made)["half"] == works(old)["half"] == 3.0


def test_a_question_that_the_release_moves_takes_its_answers_along():
    start, next_, end = (
        LAB.index(f"# %% [markdown]\n# {text}") for text in ("### 1.2", "### 1.3", "## The end")
    )
    swapped = LAB[:start] + LAB[next_:end] + LAB[start:next_] + LAB[end:]
    swapped = (
        swapped.replace("1.2 A class", "1.3 A class")
        .replace("1.3 Which", "1.2 Which")
        .replace("1_2", "1_x")
    )
    swapped = (
        swapped.replace("1_3", "1_2")
        .replace("1_x", "1_3")
        .replace('check("1.2")', "CHECK")
        .replace('check("1.3")', 'check("1.2")')
    )
    made, carried = update.merge(
        written(handout()), handout(swapped.replace("CHECK", 'check("1.3")'))
    )
    names = ("prediction_1_3", "Halver", "answer_1_2a", "answer_1_2b")
    assert works(made, names) == dict(zip(names, (12, 3.0, "b", 5), strict=True))
    assert at(made, "answer_1_2a") < at(made, "return half(x) + 0")
    assert update.END not in how(carried).values()


def test_an_answer_written_in_another_cell_than_the_handouts():
    old = handout()
    old.cells.insert(
        at(old, "def half"), new_code_cell("def half(x):\n    return x - 3\n\nprediction_1_1 = 4")
    )
    # before the placeholder, which must not undo it
    made, _ = update.merge(old, handout(corrected("text")))
    assert works(made)["half"] == 3.0
    assert "1.1 half" not in str(texts(made)) and "1.1 third" in one(made, "def third")
    space: dict[str, Any] = {}
    for cell in made.cells:
        if cell.cell_type == "code" and "check" not in cell.source and "values" not in cell.source:
            exec(cell.source, space)
    assert (space["half"](6.0), space["prediction_1_1"]) == (3.0, 4)

    old = handout()  # its own cell deleted, everything in one cell at the end
    for text in ("def half", "class Halver", "prediction_1_1"):
        del old.cells[at(old, text)]
    old.cells.append(
        new_code_cell(
            "import os\ndef half(x): return x - 3\nclass Halver:\n    __call__ = lambda s, x: 7\nprediction_1_1 = 4"
        )
    )
    made, _ = update.merge(old, handout(corrected("docstring")))
    assert {**works(made), "third": 0} == {
        **works(handout()),
        "half": 3.0,
        "Halver": 7,
        "prediction_1_1": 4,
        "third": 0,
    }
    assert "import os" in lines(made)


def test_a_cell_split_and_cells_merged():
    old = written(handout())
    i = at(old, "def half")
    head, tail = old.cells[i].source.split("\n\n\ndef third")
    old.cells[i].source = head
    old.cells.insert(i + 1, new_code_cell("def third" + tail))
    old.cells[at(old, "prediction_1_2")].source += (
        "\n" + old.cells.pop(at(old, "class Halver")).source
    )
    for names in (("text",), ("docstring",), ("class", "helper"), ("renumbered",)):
        new = handout(corrected(*names))
        made, _ = update.merge(old, new)
        right = {
            name: value
            for name, value in ANSWERED.items()
            if not name.endswith(("1_2", "3a", "3b"))
        }
        assert works(made, tuple(right)) == right
        assert not any(
            cell.source.count("def third") and "write this" in cell.source for cell in made.cells
        )


@pytest.mark.parametrize("names", [("text",), ("docstring",), ("renumbered",)])
def test_a_cell_that_does_not_parse_goes_over_whole(names):
    old = written(handout())
    broken = edit(old, "return 0.5 * x  # mine", "return 0.5 * (x  # mine").source
    old.cells.append(new_code_cell("for i in\n  !!"))
    made, carried = update.merge(old, handout(corrected(*names)))
    assert broken in texts(made) and "for i in\n  !!" in texts(made)
    assert len(carried) == 6
    assert (
        works(made, ("prediction_1_1", "prediction_1_2"))
        == {"prediction_1_1": "same", "prediction_1_2": 12}
        or "renumbered" in names
    )
    if "docstring" in names:  # the release's own text is there too
        assert "of course" in made.cells[texts(made).index(broken) - 2].source


def test_magics_stay_and_count_as_answers():
    old = written(handout())
    cell = old.cells[at(old, "def half")]
    cell.source = "%%time\n" + cell.source
    mine = cell.source
    edit(old, "prediction_1_2 = 12", "%matplotlib inline\n!ls\nprediction_1_2 = 12")
    made, _ = update.merge(old, handout(corrected("docstring", "renumbered")))
    assert one(made, "%%time") == mine.replace("of cuorse.", "of course.\n\n    Raises nothing.")
    assert works(made)["half"] == 3.0
    assert {"%matplotlib inline", "!ls", "prediction_1_3 = 12"} <= lines(made)
    assert "1.1 half" not in str(texts(made))


def test_renumbered_questions():
    old = written(handout())
    old.cells.append(
        new_code_cell('skip("1.2")\nskip( "1.1" )\nprint(prediction_1_2, answer_1_3b, "1.3")')
    )
    made, carried = update.merge(old, handout(corrected("renumbered")))
    names = ("prediction_1_1", "prediction_1_2", "prediction_1_3", "answer_1_4a", "answer_1_4b")
    assert works(made, names) == dict(zip(names, ("same", ..., 12, "b", 5), strict=True))
    assert (
        texts(made)[-1] == 'skip("1.3")\nskip( "1.1" )\nprint(prediction_1_3, answer_1_4b, "1.3")'
    )
    said = {row.what: (row.question, row.how) for row in carried}
    assert said["prediction_1_3"] == ("1.3", f"{update.WHOLE}, renumbered from 1.2")
    assert said["answer_1_4a, answer_1_4b"][1].endswith("renumbered from 1.3")


def test_an_answer_never_goes_to_another_question_of_the_same_number():
    old = written(handout())
    text = (
        corrected("renumbered")
        .replace("### 1.4 Which one?", "### 1.4 Of a and b, which?")
        .replace("### 1.2 New", "### 1.3 New")
    )
    text = text.replace(
        '### BEGIN SOLUTION\nprediction_1_2 = "no"', '### BEGIN SOLUTION\nanswer_1_3a = "no"'
    )
    text = text.replace('check("1.2")', 'check("1.3")', 1).replace(
        "### 1.3 A class", "### 1.2 A class"
    )
    text = text.replace("prediction_1_3", "prediction_1_2")
    new = handout(
        text.replace("### 1.3 New", "### 1.3 Half of it").replace(
            "### 1.1 Half of it", "### 1.1 Halves"
        )
    )
    made, carried = update.merge(old, new)
    assert 'answer_1_3_earliera = "b"' in lines(made)
    assert works(made, ("answer_1_3a",)) == {"answer_1_3a": ...}


def test_a_question_that_is_gone_goes_to_the_end():
    old = written(handout())
    old.cells.insert(at(old, "answer_1_3a") + 1, new_markdown_cell("Because of b."))
    made, carried = update.merge(old, handout(corrected("removed")))
    end = texts(made)[at(made, update.HEADING_AT_END) :]
    assert end[1:] == ['answer_1_3a = "b"\nanswer_1_3b = 5', "Because of b."]
    assert how(carried)["Because of b."] == update.END
    nothing = new_notebook(cells=[new_markdown_cell("Only mine."), new_code_cell("mine = 1")])
    made, _ = update.merge(nothing, handout())
    assert texts(made)[-3:] == [
        f"{update.HEADING_AT_END}\n\n{update._END}",
        "Only mine.",
        "mine = 1",
    ]


def test_a_fresh_notebook_with_pasted_cells():
    old = new_notebook(
        cells=[
            new_code_cell("import numpy as np\ndef half(x):\n    return x - 3"),
            new_code_cell("prediction_1_1 = 4"),
        ]
    )
    made, _ = update.merge(old, handout())
    assert works(made)["half"] == 3.0 and works(made)["prediction_1_1"] == 4
    assert "1.1 half" not in str(texts(made))
    assert at(made, "import numpy") < at(made, 'check("1.1")')


@pytest.mark.parametrize(
    "path", sorted((ROOT / "solutions").glob("lab*.py")), ids=lambda path: path.stem[:5]
)
def test_a_whole_lab_whose_every_docstring_was_corrected(path):
    text = path.read_text()
    old = handout(text, path.stem)
    solved = {
        cell.id: cell.source
        for cell in nbformat.read(path.with_suffix(".ipynb"), as_version=4).cells
    }
    for cell in old.cells:
        cell.source = "\n".join(
            line for line in solved[cell.id].split("\n") if not line.strip().startswith("### ")
        )
    new = handout(re.sub(r'^( +""")(?=[A-Z])', r"\1Corrected. ", text, flags=re.M), path.stem)
    made, carried = update.merge(old, new)
    assert (
        not lines(old) - lines(new) - lines(made) - {line for line in lines(old) if '"""' in line}
    )
    assert str(texts(made)).count('"""Corrected. ') >= str(texts(new)).count('"""Corrected. ') > 5
    assert not [row for row in carried if row.how not in (update.WHOLE, update.MERGED, update.BOTH)]
    assert [cell.id for cell in made.cells] == [cell.id for cell in new.cells]
    graded = [name for name in load(path.stem[:5]).graded if load(path.stem[:5]).function(name)]
    # the definition that counts has the student's body and the release's docstring
    for name in graded:
        last = [
            cell.source
            for cell in made.cells
            if re.search(rf"^(def|class) {name}\b", cell.source, re.M)
        ][-1]
        tree = ast.parse(last)
        mine = [node for node in tree.body if getattr(node, "name", "") == name][-1]
        assert not asking(mine)


# The same for edits and corrections of every kind at once


def _own_function(notebook: Any, rng: random.Random, tag: str) -> None:
    name = rng.choice(["half", "third", f"helper_{tag}"])
    text = f'def {name}(x):\n    """Doc {tag}."""\n    return "{tag}"'
    notebook.cells.insert(rng.randrange(len(notebook.cells) + 1), new_code_cell(text))


def _fill(notebook: Any, rng: random.Random, tag: str) -> None:
    old = rng.choice([HALF, THIRD, CALL])
    if any(old in cell.source for cell in notebook.cells):
        indent = old[: -len(old.lstrip())]
        edit(notebook, old, f"{indent}# why {tag}\n{indent}y = 1\n\n{indent}return '{tag}'")


def _value(notebook: Any, rng: random.Random, tag: str) -> None:
    name = rng.choice(NAMES[3:])
    if any(f"{name} = ..." in cell.source for cell in notebook.cells):
        edit(notebook, f"{name} = ...", f"{name} = '{tag}'")


def _note(notebook: Any, rng: random.Random, tag: str) -> None:
    kind = rng.choice([new_markdown_cell, new_code_cell, nbformat.v4.new_raw_cell])
    notebook.cells.insert(
        rng.randrange(len(notebook.cells) + 1), kind(f"# note {tag}\nx_{tag} = 1")
    )


def _add_lines(notebook: Any, rng: random.Random, tag: str) -> None:
    cell = rng.choice(notebook.cells)
    said = cell.source.split("\n")
    said.insert(
        rng.choice([0, len(said), rng.randrange(len(said) + 1)]),
        rng.choice([f"# line {tag}", f"z_{tag} = 2", f"import z_{tag}"]),
    )
    cell.source = "\n".join(said)


def _break(notebook: Any, rng: random.Random, tag: str) -> None:
    cell = rng.choice(notebook.cells)
    cell.source += f"\n(broken {tag}"


def _delete(notebook: Any, rng: random.Random, tag: str) -> None:
    del notebook.cells[rng.randrange(len(notebook.cells))]


def _move(notebook: Any, rng: random.Random, tag: str) -> None:
    cell = notebook.cells.pop(rng.randrange(len(notebook.cells)))
    notebook.cells.insert(rng.randrange(len(notebook.cells) + 1), cell)


def _double(notebook: Any, rng: random.Random, tag: str) -> None:
    cell = copy.deepcopy(rng.choice(notebook.cells))
    if rng.random() < 0.5:
        cell["id"] = f"copy{tag}"
    notebook.cells.insert(rng.randrange(len(notebook.cells) + 1), cell)


def _split(notebook: Any, rng: random.Random, tag: str) -> None:
    i = rng.randrange(len(notebook.cells))
    blocks = notebook.cells[i].source.split("\n\n\n")
    cut = rng.randrange(len(blocks))
    if cut:
        tail = copy.deepcopy(notebook.cells[i])
        notebook.cells[i].source, tail.source, tail["id"] = (
            "\n\n\n".join(blocks[:cut]),
            "\n\n\n".join(blocks[cut:]),
            f"tail{tag}",
        )
        notebook.cells.insert(i + 1, tail)


def _join(notebook: Any, rng: random.Random, tag: str) -> None:
    i = rng.randrange(len(notebook.cells) - 1)
    if notebook.cells[i].cell_type == notebook.cells[i + 1].cell_type:
        notebook.cells[i].source += "\n\n\n" + notebook.cells.pop(i + 1).source


def _lose_ids(notebook: Any, rng: random.Random, tag: str) -> None:
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"{tag}{i}"


def _lose_metadata(notebook: Any, rng: random.Random, tag: str) -> None:
    notebook.metadata = nbformat.NotebookNode()
    for cell in notebook.cells:
        cell.metadata = nbformat.NotebookNode()


EDITS = [
    _own_function, _fill, _fill, _fill, _value, _value, _note, _add_lines, _add_lines, _break, _delete, _move, _double, _split, _join,
    _lose_ids, _lose_metadata,
]  # fmt: skip


def _plain(line: str) -> str:
    """A line without the numbers of questions, which may become others."""
    return re.sub(r"1([._])\d(_earlier)?", r"1\1N", line.rstrip())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(EDITS), max_size=12),
    st.sets(st.sampled_from(sorted(CORRECTIONS))),
    st.integers(0, 2**32),
)
def test_nothing_that_a_student_wrote_is_lost(edits, corrections, seed):
    rng = random.Random(seed)
    old, first = handout(), lines(handout())
    for i, change in enumerate(edits):
        if len(old.cells) > 2:
            change(old, rng, f"t{i}")
    new = handout(corrected(*corrections))
    before = copy.deepcopy(old)
    made, carried = update.merge(old, new)
    assert old == before and new == handout(corrected(*corrections))
    nbformat.validate(made)
    # every line of the student's is there
    lost = {_plain(line) for line in lines(old) - first} - {_plain(line) for line in lines(made)}
    assert not lost
    # every cell of the release is there, in order: as it is, or with the student's work
    # in it
    ids = [cell.id for cell in made.cells]
    places = [ids.index(cell.id) for cell in new.cells]
    assert places == sorted(places)
    # what the grader finds is what it would have found
    if not corrections & {"renumbered", "removed"}:
        assert {n: v for n, v in works(old).items() if _meant(v)} == {
            n: v for n, v in works(made).items() if _meant(v)
        }
    # once more into the same release changes nothing; into the next one, nothing is
    # lost either
    again, _ = update.merge(made, new)
    assert texts(again) == texts(made)
    later, _ = update.merge(made, handout(corrected(*corrections ^ {"docstring", "experiment"})))
    assert not {_plain(line) for line in lines(old) - first} - {
        _plain(line) for line in lines(later)
    }


def _meant(value: Any) -> bool:
    """Is it one of the tags that the edits write?"""
    return isinstance(value, str) and re.fullmatch(r"t\d+", value) is not None


# Files and the command


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A student's notebook, and the folder of a new release."""
    monkeypatch.delenv("COURSE_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine" / "lab01_halves.ipynb"
    mine.parent.mkdir()
    nbformat.write(written(handout()), mine)
    labs = tmp_path / "release" / "labs"
    labs.mkdir(parents=True)
    nbformat.write(handout(corrected("docstring", "text")), labs / "lab01_halves.ipynb")
    return mine, tmp_path / "release"


def test_the_notebook_is_backed_up_and_replaced(places):
    mine, release = places
    before = mine.read_bytes()
    done = update.update(mine, release)
    assert (done.path, done.backup) == (mine, mine.with_name("lab01_halves.before-update.ipynb"))
    assert done.backup.read_bytes() == before
    assert works(nbformat.read(mine, as_version=4)) == ANSWERED
    assert "of course" in mine.read_text()
    again = update.update(mine, release)
    assert again.current and again.backup is None and len(list(mine.parent.iterdir())) == 2
    nbformat.write(handout(corrected("text")), release / "labs" / "lab01_halves.ipynb")
    assert update.update(mine, release).backup == mine.with_name(
        "lab01_halves.before-update-2.ipynb"
    )
    assert done.backup.read_bytes() == before


def test_out_and_a_zip_and_one_notebook(places, tmp_path):
    mine, release = places
    before = mine.read_bytes()
    with zipfile.ZipFile(tmp_path / "release.zip", "w") as archive:
        archive.write(release / "labs" / "lab01_halves.ipynb", "pruning/labs/lab01_halves.ipynb")
    results = [
        update.update(mine, given, out).path
        for given, out in (
            (tmp_path / "release.zip", tmp_path / "a.ipynb"),
            (release / "labs" / "lab01_halves.ipynb", tmp_path),
            (release, tmp_path / "b.ipynb"),
        )
    ]
    assert results[1] == tmp_path / "lab01_halves.ipynb"
    assert len({texts_of(path) for path in results}) == 1
    assert mine.read_bytes() == before
    there = results[0].read_bytes()
    assert update.update(mine, release, results[0]).backup.read_bytes() == there
    # into the new folder itself, twice: the clean notebook stays beside as the backup
    for _ in range(2):
        done = update.update(mine, release, release / "labs")
        assert works(nbformat.read(done.path, as_version=4)) == ANSWERED


def test_a_notebook_of_this_release_is_only_copied(places, tmp_path):
    """A release of the next week: the labs of the last one come with their answers, and
    with what they printed.
    """
    mine, release = places
    nbformat.write(handout(), release / "labs" / "lab01_halves.ipynb")
    clean = (release / "labs" / "lab01_halves.ipynb").read_bytes()
    done = update.update(mine, release, release / "labs")
    assert (done.current, done.written, done.backup.read_bytes()) == (True, True, clean)
    assert done.path.read_bytes() == mine.read_bytes()
    again = update.update(mine, release, release / "labs")
    assert (again.current, again.written, again.backup) == (True, False, None)


def texts_of(path: Path) -> tuple[str, ...]:
    return tuple(texts(nbformat.read(path, as_version=4)))


def test_an_old_format_and_broken_metadata(places):
    mine, release = places
    notebook = nbformat.read(mine, as_version=4)
    notebook.metadata["authors"] = [{"name": "Ada"}]
    notebook.cells[0].metadata["tags"] = "not a list"
    notebook.cells[0].source += "\nmine"
    for cell in notebook.cells:  # as Colab writes them
        cell.metadata["id"] = cell.pop("id")
    notebook.nbformat_minor = 0
    mine.write_text(nbformat.writes(notebook, version=nbformat.NO_CONVERT))
    update.update(mine, release)
    made = nbformat.read(mine, as_version=4)
    nbformat.validate(made)
    assert works(made) == ANSWERED and made.metadata["authors"] == [{"name": "Ada"}]
    assert one(made, "def half").count("def ") == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is no notebook that can be read"),
        ("[1, 2]", "it has no cells"),
        ('{"cells": 3}', "it has no cells"),
        ('{"cells": [{"cell_type": "code"}], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "is no notebook that can be read"),
        ('{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {"course": {"lab": "lab07"}}}', "is of lab07, which is not in .*it has lab01"),
    ],
)  # fmt: skip
def test_what_is_no_notebook_of_this_lab(places, content, says):
    mine, release = places
    mine.write_text(content)
    with pytest.raises(ValueError, match=says):
        update.update(mine, release)
    assert mine.read_text() == content and len(list(mine.parent.iterdir())) == 1


def test_releases_that_will_not_do(places, tmp_path):
    mine, release = places
    unnamed = tmp_path / "homework.ipynb"
    nbformat.write(new_notebook(), unnamed)
    with pytest.raises(ValueError, match="does not say of which lab it is"):
        update.update(unnamed, release)
    with pytest.raises(FileNotFoundError, match="give the notebook you worked in"):
        update.update(tmp_path / "no.ipynb", release)
    with pytest.raises(FileNotFoundError, match="which release"):
        update.update(mine)
    with pytest.raises(FileNotFoundError, match="give the folder of the new release"):
        update.update(mine, tmp_path / "nowhere")
    (tmp_path / "bad.zip").write_text("no zip")
    with pytest.raises(ValueError, match="is no zip"):
        update.update(mine, tmp_path / "bad.zip")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="give the folder with labs/"):
        update.update(mine, tmp_path / "empty")
    with pytest.raises(ValueError, match="is itself in"):
        update.update(mine, mine.parent)
    worked_in = release / "labs" / "lab01_halves.ipynb"
    nbformat.write(written(nbformat.read(worked_in, as_version=4)), worked_in)
    with pytest.raises(ValueError, match="has been worked in: unpack the release anew"):
        update.update(mine, release)


def test_the_command(places, monkeypatch):
    mine, release = places
    monkeypatch.setenv("COLUMNS", "160")
    said = CliRunner().invoke(app, ["update", str(mine), "--release", str(release)])
    assert said.exit_code == 0, said.output
    assert "half, third" in said.output and update.MERGED in said.output
    assert "lab01_halves.before-update.ipynb" in said.output.replace("\n", "")
    said = CliRunner().invoke(app, ["update", str(mine), "--release", str(release)])
    assert "already" in said.output


def test_the_command_takes_all_labs_at_once(places, tmp_path):
    mine, release = places
    other = mine.with_name("lab02_other.ipynb")
    nbformat.write(handout(LAB.replace("1.", "2.").replace("_1_", "_2_"), "lab02_other"), other)
    nbformat.write(nbformat.read(other, as_version=4), release / "labs" / other.name)
    (tmp_path / "out").mkdir()
    said = CliRunner().invoke(
        app,
        [
            "update",
            str(mine),
            str(other),
            "--release",
            str(release),
            "--out",
            str(tmp_path / "out"),
        ],
    )
    assert said.exit_code == 0, said.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {mine.name, other.name}
    said = CliRunner().invoke(
        app, ["update", str(mine), str(other), "--release", str(release), "--out", "one.ipynb"]
    )
    assert "is no folder: several notebooks go into one" in str(said.exception)


def test_a_notebook_that_lost_its_metadata_is_compared_with_the_release(places):
    mine, release = places
    notebook = nbformat.read(mine, as_version=4)
    del notebook.metadata["course"]
    nbformat.write(notebook, mine)
    said = CliRunner().invoke(app, ["update", str(mine), "--release", str(release)])
    assert "no longer says which handout it began as" in said.output
    made = nbformat.read(mine, as_version=4)
    assert works(made) == ANSWERED
    assert "third." in one(made, "### 1.1")  # a cell that was left alone is known by its id
