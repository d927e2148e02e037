"""A student's work in a corrected release: every kind of edit, every kind of
correction, and not a line lost.
"""

from __future__ import annotations

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
from course_lib.authoring import handout as handouts
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


NEAR = "return round(x, {})"


@pytest.mark.parametrize(
    ("mine", "release", "corrections", "how_it_stands"),
    [
        (None, None, ["text"], update.WHOLE),
        (None, None, ["docstring", "helper", "signature"], update.MERGED),
        # both changed the docstring, or the helper; both alike
        (("of cuorse", "which 1.2 needs"), None, ["docstring"], update.BOTH),
        ((NEAR.format(1), NEAR.format(3)), None, ["helper"], update.BOTH),
        ((NEAR.format(1), NEAR.format(3)), None, ["docstring"], update.MERGED),
        ((NEAR.format(1), NEAR.format(2)), None, ["helper", "docstring"], update.MERGED),
        # the release asks for one more step, below the line that the student replaced
        (None, (HALF, f"{HALF}\n{HALF.replace('half:', 'half, a second step:')}"), [], update.BOTH),
        # a cell that does not parse goes over whole
        (("return 0.5 * x ", "return 0.5 * (x "), None, ["docstring"], update.BOTH),
        (("return 0.5 * x ", "return 0.5 * (x "), None, ["text"], update.WHOLE),
        (("def near", "%%time\ndef near"), None, ["text"], update.WHOLE),
    ],
)
def test_an_answer_in_a_cell_that_the_release_changed(mine, release, corrections, how_it_stands):
    old, new = written(handout()), handout(corrected(*corrections))
    if mine is not None:
        edit(old, *mine)
    if release is not None:
        edit(new, *release)
        new.metadata["course"]["version"] = "another"
    before, theirs = one(old, "0.5 *"), one(new, "def half")
    made, carried = update.merge(old, new)
    assert "half, third" not in how(carried) or how(carried)["half, third"] == how_it_stands
    assert how_it_stands in how(carried).values()
    i = at(made, "0.5 *")
    if how_it_stands == update.BOTH:
        assert texts(made)[i - 2] == theirs and "compare them" in texts(made)[i - 1]
    assert (texts(made)[i] == before) == (how_it_stands != update.MERGED)
    if how_it_stands == update.MERGED:
        assert {line for line in theirs.split("\n") if "write this" not in line} <= {
            *texts(made)[i].split("\n"),
            *([f"    {NEAR.format(1)}"] if mine else []),
        }
    if "* (x" not in before:
        assert works(made) == works(old)


def test_a_function_gets_the_releases_docstring_and_keeps_its_body():
    old = written(handout())
    made, _ = update.merge(old, handout(corrected("docstring", "helper", "signature")))
    cell = one(made, "def half")
    assert cell == (
        'def near(x: float) -> float:\n    """A handout\'s helper."""\n    return round(x, 2)\n\n\n'
        'def half(x: float) -> float:\n    """Half of x, of course.\n\n    Raises nothing."""\n'
        "    # by shifting\n    return 0.5 * x  # mine\n\n\n"
        'def third(x: float, /, sign: int = 1) -> float:\n    """A third of x."""\n    # mind the sign\n    y = x\n    return y / 3'
    )


def test_what_both_added_at_one_place_stands_there_twice():
    old = handout()
    edit(old, "import math", "import math\nimport cmath")
    made, _ = update.merge(old, handout(corrected("set-up")))
    assert one(made, "import math").startswith("import math\nimport warnings\nimport cmath\n\nfrom")


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


def test_of_two_definitions_the_later_one_stays_the_later_one():
    old = written(handout())
    old.cells.insert(at(old, "### 1.2"), new_code_cell("def half(x):\n    return x / 2 + 0.25"))
    # the handout's own cell, moved behind it
    old.cells.append(old.cells.pop(at(old, "0.5 * x  # mine")))
    for names in (("text",), ("docstring",)):
        made, _ = update.merge(old, handout(corrected(*names)))
        assert works(made)["half"] == works(old)["half"] == 3.0


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


def test_renumbered_questions():
    old = written(handout())
    old.cells.append(
        new_code_cell('skip("1.2")\nskip( "1.1" )\nprint(prediction_1_2, answer_1_3b, "1.3")')
    )
    made, carried = update.merge(old, handout(corrected("renumbered")))
    names = ("prediction_1_1", "prediction_1_2", "prediction_1_3", "answer_1_4a", "answer_1_4b")
    assert works(made, names) == dict(zip(names, ("same", ..., 12, "b", 5), strict=True))
    last = 'skip("1.3")\nskip( "1.1" )\nprint(prediction_1_3, answer_1_4b, "1.3")'
    assert texts(made)[-1] == last
    assert how(carried)["answer_1_4a, answer_1_4b"] == f"{update.WHOLE}, renumbered from 1.3"


def test_an_answer_never_goes_to_another_question_of_the_same_number():
    """1.2 is gone, and 1.3 is 1.2 now."""
    old = written(handout())
    old.cells.insert(at(old, 'check("1.2")'), new_markdown_cell("Because of b."))
    start, end = LAB.index("# %% [markdown]\n# ### 1.2"), LAB.index("# %% [markdown]\n# ### 1.3")
    later = LAB[end:].replace("1.3", "1.2").replace("1_3", "1_2")
    made, carried = update.merge(old, handout(LAB[:start] + later))
    names = ("prediction_1_2", "answer_1_2a", "answer_1_2b")
    assert works(made, names) == dict(zip(names, (None, "b", 5), strict=True))
    first, *end = texts(made)[at(made, update.HEADING_AT_END) :]
    assert end[0] == "prediction_1_2_earlier = 12" and "return half(x) + 0" in end[1]
    said = how(carried)
    assert said["Because of b."] == update.OWN and said[end[0]].startswith(update.END)


def test_cells_pasted_into_a_fresh_notebook_stand_below_what_asks_for_them():
    pasted = ["import numpy\n\n\ndef half(x):\n    return x - 3", "prediction_1_1 = 4", "mine = 1"]
    made, _ = update.merge(new_notebook(cells=list(map(new_code_cell, pasted))), handout())
    assert works(made)["half"] == 3.0 and works(made)["prediction_1_1"] == 4
    assert texts(made).index(pasted[0]) == at(made, "1.1 half") + 1 < at(made, 'check("1.1")')
    assert "mine = 1" in texts(made)


FIRST, *OTHERS = sorted((ROOT / "solutions").glob("lab*.py"))


@pytest.mark.parametrize(
    "path",
    [FIRST, *(pytest.param(path, marks=pytest.mark.long) for path in OTHERS)],
    ids=lambda path: path.stem[:5],
)
def test_a_whole_lab_whose_every_docstring_was_corrected(path):
    text = path.read_text()
    old = handout(text, path.stem)
    for cell, solved in zip(
        old.cells, nbformat.read(path.with_suffix(".ipynb"), 4).cells, strict=True
    ):
        cell.source = re.sub(r"^ *### .* SOLUTION\n?", "", solved.source, flags=re.M)
    new = handout(re.sub(r'^( +""")(?=[A-Z])', r"\1Corrected. ", text, flags=re.M), path.stem)
    made, carried = update.merge(old, new)
    docstrings = {line for line in lines(old) if '"""' in line}
    assert not lines(old) - lines(new) - lines(made) - docstrings
    assert str(texts(made)).count('"""Corrected. ') >= str(texts(new)).count('"""Corrected. ') > 5
    assert {row.how for row in carried} <= {update.WHOLE, update.MERGED, update.BOTH}
    assert [cell.id for cell in made.cells] == [cell.id for cell in new.cells]
    # every answer is the student's
    code = [cell.source for cell in made.cells if cell.cell_type == "code"]
    answered = {name for source in code for name in handouts.answered(source)}
    assert answered >= set(load(path.stem[:5]).graded)


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


def test_out_and_a_zip(places, tmp_path):
    mine, release = places
    before = mine.read_bytes()
    with zipfile.ZipFile(tmp_path / "release.zip", "w") as archive:
        archive.write(release / "labs" / "lab01_halves.ipynb", "pruning/labs/lab01_halves.ipynb")
    first = update.update(mine, tmp_path / "release.zip", tmp_path).path
    assert first == tmp_path / "lab01_halves.ipynb"
    other = update.update(mine, release, tmp_path / "b.ipynb").path
    assert texts(nbformat.read(first, 4)) == texts(nbformat.read(other, 4))
    assert mine.read_bytes() == before
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


def test_an_old_format_and_broken_metadata(places):
    mine, release = places
    notebook = nbformat.read(mine, as_version=4)
    notebook.cells[0].metadata["tags"] = "not a list"
    notebook.cells[0].source += "\nmine"
    for cell in notebook.cells:  # as Colab writes them
        cell.metadata["id"] = cell.pop("id")
    notebook.nbformat_minor = 0
    mine.write_text(nbformat.writes(notebook, version=nbformat.NO_CONVERT))
    update.update(mine, release)
    made = nbformat.read(mine, as_version=4)
    nbformat.validate(made)
    assert works(made) == ANSWERED
    assert one(made, "def half").count("def ") == 3


CELL = '{"cells": [%s], "nbformat": 4, "nbformat_minor": 5, "metadata": {%s}}'


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("", "no notebook"),
        ("[1, 2]", "no cells"),
        ('{"cells": 3}', "no cells"),
        (CELL % ('{"cell_type": "code"}', ""), "no notebook"),
        (CELL % ("", '"course": {"lab": "lab07"}'), "lab07.*it has lab01"),
    ],
)
def test_what_is_no_notebook_of_this_lab(places, content, names):
    mine, release = places
    mine.write_text(content)
    with pytest.raises(ValueError, match=f"lab01_halves.ipynb is .*{names}"):
        update.update(mine, release)
    assert mine.read_text() == content and len(list(mine.parent.iterdir())) == 1


def test_releases_that_will_not_do(places, tmp_path):
    mine, release = places
    (tmp_path / "bad.zip").write_text("no zip")
    (tmp_path / "empty").mkdir()
    nbformat.write(new_notebook(), tmp_path / "homework.ipynb")
    worked_in = tmp_path / "worked_in" / "lab01_halves.ipynb"
    worked_in.parent.mkdir()
    nbformat.write(written(handout(corrected("text"))), worked_in)
    for arguments, kind, names in (
        ((tmp_path / "homework.ipynb", release), ValueError, "homework.ipynb does not say"),
        ((tmp_path / "no.ipynb", release), FileNotFoundError, "no.ipynb"),
        ((mine,), FileNotFoundError, "--release"),
        ((mine, tmp_path / "nowhere"), FileNotFoundError, "nowhere"),
        ((mine, tmp_path / "bad.zip"), ValueError, "bad.zip"),
        ((mine, tmp_path / "empty"), ValueError, "empty"),
        ((mine, mine.parent), ValueError, "is itself in"),
        ((mine, worked_in.parent), ValueError, "worked in"),
    ):
        with pytest.raises(kind, match=names):
            update.update(*arguments)


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
    arguments = ["update", str(mine), str(other), "--release", str(release), "--out"]
    said = CliRunner().invoke(app, [*arguments, str(tmp_path / "out")])
    assert said.exit_code == 0, said.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {mine.name, other.name}
    said = CliRunner().invoke(app, [*arguments, "one.ipynb"])
    assert isinstance(said.exception, NotADirectoryError)


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
