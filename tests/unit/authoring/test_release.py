"""What students get, and what a release never destroys."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course_lib.authoring import build, contract
from course_lib.authoring.errors import AuthoringError
from course_lib.authoring.release import release
from course_lib.cli import app

ROOT = Path(__file__).parents[3]
LAB = """# %% [markdown]
# # Lab 2: Thirds

# %% [markdown]
# ### 2.1 A third
# **1 minute · 3 points**

# %%
def third(x):
    ### BEGIN SOLUTION
    return float(x) / 3.0 + 0.0
    ### END SOLUTION
"""
CONTRACT = """from course_lib.labs import Contract
from course_lib.pruning import weights

lab = Contract("lab02")


@lab.asks("2.1")
def third(x):
    return weights.magnitude(x, 3)
"""
VISIBLE = """from course_lib.grading import question


@question("2.1", points=1, claim="a third")
def test_third(submission, draw):
    assert submission.third(3) == 1
"""
HIDDEN = """from course_lib.grading import question

SECRET = 3


@question("2.1", points=2, claim="hidden claim")
def test_secret(submission, draw):
    assert submission.third(9) == SECRET
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "course"
    files = {
        "solutions/lab02_thirds.py": LAB,
        "tests/labs/lab02/visible.py": VISIBLE,
        "tests/labs/lab02/hidden.py": HIDDEN,
        "tests/labs/lab02/answers/2.1.txt": "keeps x\n",
        "tests/labs/conftest.py": "",
        "course_lib/labs/__init__.py": "",
        "course_lib/labs/lab02.py": CONTRACT,
        "data/examples/classroom.yml": "NOTEBOOK: labs/lab02_thirds.ipynb",
        "course_lib/__init__.py": "",
        "course_lib/grading/card.py": "x = 1\n",
        "course_lib/__pycache__/x.cpython-311.pyc": "",
        "data/small.txt": "1\n",
        "data/ledger.json": "[]",
        "pyproject.toml": "[project]\nname = 'pruning-course'\n",
        "Makefile": "lab:\n",
        "LICENSE": "MIT",
        "LICENSE-CC-BY": "CC",
        "README.md": "for teachers",
        "docs/instructors.md": "for teachers",
        "docs/oral_questions.md": "for teachers",
        "docs/own_models.md": "how to",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    build.build(root, execute=False, echo=lambda line: None)
    return root


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_is_in_it_and_what_is_not(root, tmp_path):
    archive = release(root, tmp_path / "out" / "pruning")
    folder = tmp_path / "out" / "pruning"
    assert archive == tmp_path / "out" / "pruning.zip"
    assert names(folder) == {
        "AGENTS.md",
        "LICENSE",
        "LICENSE-CC-BY",
        "Makefile",
        "README.md",
        "course_lib/__init__.py",
        "course_lib/grading/card.py",
        "course_lib/labs/__init__.py",
        "course_lib/labs/lab02.py",
        "data/examples/classroom.yml",
        "data/small.txt",
        "docs/own_models.md",
        "labs/lab02_thirds.ipynb",
        "pyproject.toml",
        "tests/labs/lab02/visible.py",
    }
    everything = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    for word in ("SECRET", "hidden claim", "test_secret", "x) / 3.0", "for teachers"):
        assert word not in everything
    agents = (folder / "AGENTS.md").read_text()
    assert "You may not\n\n- write, complete or correct the code of an exercise" in agents
    assert (
        'the message of `check("1.3")`' in agents
        and "`AGENTS.md`" in (folder / "README.md").read_text()
    )
    readme = (folder / "README.md").read_text()
    assert (
        "- [Lab 2: Thirds](labs/lab02_thirds.ipynb)" in readme
        and "make lab" in readme
        and "$" not in readme
    )
    with zipfile.ZipFile(archive) as inside:
        assert inside.namelist() == sorted(f"pruning/{name}" for name in names(folder))
        assert {info.date_time for info in inside.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert inside.read("pruning/Makefile") == b"lab:\n"


def test_the_zip_is_the_same_every_time(root, tmp_path):
    first = release(root, tmp_path / "a" / "pruning").read_bytes()
    assert release(root, tmp_path / "b" / "pruning").read_bytes() == first


@pytest.mark.parametrize("there", ["out", "out/thesis.txt", "out.zip"])
def test_nothing_that_is_there_is_overwritten(root, tmp_path, there):
    mine = tmp_path / there
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(AuthoringError, match=f"^{tmp_path / there.split('/')[0]}:1: "):
        release(root, tmp_path / "out")
    assert mine.read_text() == "mine"
    assert {name for name in names(tmp_path) if not name.startswith("course/")} == {there}


@pytest.mark.parametrize("folder", [".", "labs/out", "solutions"])
def test_a_release_is_not_written_into_the_course(root, folder):
    with pytest.raises(AuthoringError, match="folder of the course itself"):
        release(root, root / folder)


def test_only_what_is_built_and_complete_goes_out(root, tmp_path):
    (root / "Makefile").unlink()
    (root / "solutions" / "lab02_thirds.py").write_text(LAB.replace("# Lab 2: Thirds", "# Lab 2"))
    with pytest.raises(AuthoringError) as caught:
        release(root, tmp_path / "out")
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [
        "Makefile:1",
        "labs/lab02_thirds.ipynb:1",
    ]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["course_lib/demo/good.py", "data/good.ipynb"])
def test_a_solution_elsewhere_is_not_handed_out(root, tmp_path, name):
    text = "def f():\n    ### BEGIN SOLUTION\n    return 1\n"
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(
        text if name.endswith("py") else json.dumps({"source": text.splitlines(True)}, indent=1)
    )
    with pytest.raises(AuthoringError, match=f"^{name}:\\d+: this holds a solution"):
        release(root, tmp_path / "out")


OWN = """

def helper(x):
    return x / 3.0  # the answer


@lab.asks("2.1")
def third(x):
    return helper(x) + 0.0
"""


def test_an_answer_that_the_library_does_not_have_is_not_handed_out(root, tmp_path):
    path = root / "course_lib/labs/lab02.py"
    path.write_text(CONTRACT[: CONTRACT.index("\n\n@lab")] + OWN)
    with pytest.raises(AuthoringError) as caught:
        release(root, tmp_path / "out")
    assert str(caught.value).startswith(
        "course_lib/labs/lab02.py:12: `third` is written out here and calls nothing of the library"
    )
    assert not (tmp_path / "out").exists()
    path.write_text(
        CONTRACT[: CONTRACT.index("\n\n@lab")] + '\n\nlab.asks("2.1", "third")\n'
    )  # with the hidden claims, say
    release(root, tmp_path / "out")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "solutions").glob("lab*.py")), ids=lambda path: path.stem[:5]
)
def test_nothing_is_written_out_in_the_contracts_of_the_courses_labs(path):
    assert not contract.read(path.stem[:5], ROOT).own


NEXT = (
    LAB.replace("Lab 2: Thirds", "Lab 3: Fourths")
    .replace("2.1", "3.1")
    .replace("third", "fourth")
    .replace("3.0", "4.0")
)


@pytest.fixture
def two(root: Path) -> Path:
    """A course of two labs."""
    (root / "solutions/lab03_fourths.py").write_text(NEXT)
    (root / "tests/labs/lab03").mkdir()
    for name, text in (("visible", VISIBLE), ("hidden", HIDDEN)):
        (root / f"tests/labs/lab03/{name}.py").write_text(
            text.replace("2.1", "3.1").replace("third", "fourth")
        )
    text = CONTRACT.replace("2.1", "3.1").replace("third", "fourth").replace("lab02", "lab03")
    (root / "course_lib/labs/lab03.py").write_text(text)
    build.build(root, execute=False, echo=lambda line: None)
    return root


def test_week_by_week(two, tmp_path):
    folder = tmp_path / "out"
    release(two, folder, ["lab02"])
    whole = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    assert "lab03" not in whole and "fourth" not in whole and "Fourth" not in whole
    first = (folder / "labs/lab02_thirds.ipynb").read_bytes()
    both = tmp_path / "both"
    release(two, both, ["2", "lab03"])
    assert {
        "labs/lab03_fourths.ipynb",
        "tests/labs/lab03/visible.py",
        "course_lib/labs/lab03.py",
    } <= names(both)
    # an answer to the first release is an answer to this one
    assert (both / "labs/lab02_thirds.ipynb").read_bytes() == first
    assert "labs/lab03_fourths.ipynb" in (both / "README.md").read_text()
    release(two, tmp_path / "other", ["lab03"])
    assert not (tmp_path / "other/data/examples").exists()  # it names lab02's notebook
    with pytest.raises(AuthoringError, match="there is no 'lab09': choose among lab02, lab03"):
        release(two, tmp_path / "none", ["lab09"])


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("# **1 minute", "# **1 minute", 0, ""),
        ("**1 minute · 3 points**", "**1 minute · 3 points · needs 2.1**", 5, "3.1 needs 2.1, which is not handed out: name its lab"),
        ("Lab 3: Fourths", "Lab 3: Fourths\n#\n# See [before](lab02_thirds.ipynb#x).", 4, "this link leads to labs/lab02_thirds.ipynb, which is not handed out"),
        ("Lab 3: Fourths", 'Lab 3: Fourths\n#\n# <img alt="" src="../slides/x.png">', 4, "this link leads to slides/x.png, which"),
        ("Lab 3: Fourths", "Lab 3\n#\n# `[a](b)` [c](#d) [e](https://example.org) [f](../data/small.txt) [g](../data) [h](x)", 4, "this link leads to labs/x, "),
        ("Lab 3: Fourths", "Lab 3\n#\n# `[a](b)` [c](#d) [e](https://example.org) [f](../data/small.txt) [g](../data) [h](lab03_fourths.ipynb) $f[i](x)$", 0, ""),
    ],
)  # fmt: skip
def test_what_is_handed_out_leads_to_nothing_that_is_not(two, tmp_path, old, new, line, message):
    (two / "solutions/lab03_fourths.py").write_text(NEXT.replace(old, new))
    build.build(two, execute=False, echo=lambda line: None)
    if not message:
        release(two, tmp_path / "out", ["lab03"])
        return
    with pytest.raises(AuthoringError) as caught:
        release(two, tmp_path / "out", ["lab03"])
    assert str(caught.value).startswith(f"solutions/lab03_fourths.py:{line}: {message}")
    assert not (tmp_path / "out").exists()


def test_the_command_takes_labs_as_they_are_written(two, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_ROOT", str(two))
    both = (["--labs", "lab02", "lab03"], ["--labs", "lab02", "--labs", "3"], [])
    for number, arguments in enumerate(both):
        folder = tmp_path / str(number)
        said = CliRunner().invoke(app, ["release", str(folder), *arguments])
        assert said.exit_code == 0, said.output
        assert len(list((folder / "labs").iterdir())) == 2
    said = CliRunner().invoke(app, ["release", "--labs", "lab02", "lab03", "out"])
    assert "name the folder first" in str(said.exception)
