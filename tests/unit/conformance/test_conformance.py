"""Every operation on a small model of every family does what it says, or is refused as
docs/own_models.md says.

A failure names what is wrong with the family's rows in course_lib/models/families.py.
"""

import re
from pathlib import Path

import pytest
import transformers

from course_lib.conformance import page
from course_lib.conformance.models import SMALL
from course_lib.conformance.operations import OPERATIONS, try_operation
from course_lib.models.families import FAMILIES, TABLE

ROOT = Path(__file__).parents[3]


# one of each kind; `make test` leaves the others out
FIRST = ("bert", "albert", "gpt2", "gpt_neox", "qwen2", "mixtral", "t5", "beit", "swin")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "family", [f if f in FIRST else pytest.param(f, marks=pytest.mark.long) for f in SMALL]
)
def test_family(family, operation):
    assert page.reason(try_operation(family, operation)) == page.read(ROOT)[family][operation]


def test_every_family_of_the_table_has_a_small_model():
    assert {name.split()[0] for name in SMALL} == FAMILIES.keys() - {"torch"}
    assert page.read(ROOT).keys() == SMALL.keys()


def test_the_page_is_read_as_it_is_written(tmp_path):
    found = {
        "one": dict.fromkeys(OPERATIONS, "works") | {"tokens": "it has none"},
        "two": dict.fromkeys(OPERATIONS, "works") | {"tokens": "it is a decoder", "depth": "no"},
    }
    (tmp_path / "docs").mkdir()
    path = tmp_path / page.PAGE
    path.write_text(f"before\n{page.BEGIN}\n{page.END}\nafter\n")
    page.write(tmp_path, found)
    page.write(tmp_path, found)
    assert page.read(tmp_path) == found
    assert path.read_text().startswith("before\n") and path.read_text().endswith("\nafter\n")
    with pytest.raises(ValueError, match="no small model of 'nobody'"):
        page.results(["nobody"])


def test_a_wrong_row_is_noticed(monkeypatch):
    """Query and key swapped in the layout change nothing; another order of a fused layer
    does.
    """
    from dataclasses import replace

    from course_lib.models import families

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


def test_every_operation_that_a_wrong_row_breaks_is_named(monkeypatch) -> None:
    def fail(family: str, operation: str) -> str:
        if operation == "heads":
            raise KeyError("fc2")
        return "works"

    monkeypatch.setattr(page, "try_operation", fail)
    with pytest.raises(RuntimeError) as caught:
        page.results(["bert", "gpt2"])
    first, second, last = str(caught.value).splitlines()
    assert (first, second) == ("bert, heads: KeyError: 'fc2'", "gpt2, heads: KeyError: 'fc2'")
    assert "families.py" in last
