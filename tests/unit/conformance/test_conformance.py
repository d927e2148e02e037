"""Every operation on a small model of every family does what it says, or is refused as
docs/families.md says. With ``FAMILIES=write`` in the environment, and one process, what is
found is written into that page.

A failure names what is wrong with the family's rows in course_lib/models/families.py.
"""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

from course_lib.models import families
from course_lib.models.families import FAMILIES, TABLE
from unit.conformance.models import SMALL
from unit.conformance.operations import OPERATIONS, try_operation

PAGE = Path(__file__).parents[3] / "docs" / "families.md"
BEGIN, END = "<!-- families: begin -->", "<!-- families: end -->"
WORKS = "works"
# one of each kind; `make test` leaves the others out
FIRST = ("bert", "albert", "gpt2", "gpt_neox", "qwen2", "mixtral", "t5", "beit", "swin")


@pytest.fixture(scope="module")
def listed():
    """What the page says, by family and operation; what is changed is written back."""
    before, text, after = parts()
    said = read(text)
    yield said
    if os.environ.get("FAMILIES") == "write":
        PAGE.write_text(f"{before}\n\n{table(said)}\n\n{after}", encoding="utf-8")


def parts():
    """The page before, within and after the table."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    text, end, after = rest.partition(END)
    assert end, f"{PAGE.name} has no place for the table, between {BEGIN} and {END}"
    return before + begin, text, end + after


def read(text):
    notes = dict(re.findall(r"^(\d+)\. Refused: (.*)\.$", text, re.MULTILINE))
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {
        family: {
            operation: WORKS if cell == "✓" else notes[cell.strip("()")]
            for operation, cell in zip(rows[0][1:], cells, strict=True)
        }
        for families, *cells in rows[1:]
        for family in families.split(", ")
    }


def table(found):
    """As Markdown, a row for the families that are alike, with the reasons as numbered
    notes.
    """
    reasons = sorted({said for row in found.values() for said in row.values()} - {WORKS})
    lines = [f"| families | {' | '.join(OPERATIONS)} |", f"|---|{':-:|' * len(OPERATIONS)}"]
    alike = {}
    for family in SMALL:
        alike.setdefault(tuple(found[family][o] for o in OPERATIONS), []).append(family)
    for said, names in alike.items():
        cells = ("✓" if one == WORKS else f"({reasons.index(one) + 1})" for one in said)
        lines.append(f"| {', '.join(names)} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"{i}. Refused: {said}." for i, said in enumerate(reasons, 1))])


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "family", [f if f in FIRST else pytest.param(f, marks=pytest.mark.long) for f in SMALL]
)
def test_family(family, operation, listed):
    said = try_operation(family, operation).rsplit(": ", 1)[-1]  # without the model's own names
    if os.environ.get("FAMILIES") == "write":
        listed.setdefault(family, {})[operation] = said
    assert said == listed[family][operation]


def test_every_family_of_the_table_has_a_small_model_and_a_row(listed):
    assert {name.split()[0] for name in SMALL} == FAMILIES.keys() - {"torch"}
    assert listed.keys() == SMALL.keys()
    assert table(listed) == parts()[1].strip()


def test_a_wrong_row_is_noticed(monkeypatch):
    """Query and key swapped in the layout change nothing; another order of a fused layer
    does.
    """
    name = "transformers.models.gpt_neox.modeling_gpt_neox.GPTNeoXAttention"
    layout = families.TABLE[name].attention[0]
    monkeypatch.setattr(families, "TABLE", dict(families.TABLE))
    families.register(name, attention=(replace(layout, by_head=False),))
    with pytest.raises(AssertionError, match="gates of 0 and removal"):
        try_operation("gpt_neox", "heads")


@pytest.mark.parametrize("name", [name for name in TABLE if name.startswith("transformers.")])
def test_a_class_of_the_table_is_there(name: str) -> None:
    """A slip in a row's name would make a family refuse what it can do."""
    *module, cls = name.split(".")
    file = Path(transformers.__file__).parent.joinpath(*module[1:]).with_suffix(".py")
    assert re.search(rf"^class {cls}\b", file.read_text(encoding="utf-8"), re.MULTILINE)
