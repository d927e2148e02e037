"""Executed solutions: what is kept of a run, when it is run again, and how a failure is
told.
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat import v4
from PIL import Image

from course_lib.authoring import build, execute, stamp
from course_lib.authoring.errors import AuthoringError

LAB = """# %% [markdown]
# # Lab 3

# %%
import os
import sys
import warnings
from pathlib import Path

# %% [markdown]
# ### 3.1 One
# **1 minute · 1 point**

# %%
def one():
    ### BEGIN SOLUTION
    return int("1")
    ### END SOLUTION


# %%
one()

# %%
warnings.warn("mind the gap")
print("\\r 10%|#   | 1/10", end="", file=sys.stderr)
print("at", Path.cwd(), object())

# %%
os.environ["COURSE_DATA"], Path(os.environ["COURSE_ROOT"]) == Path.cwd().parent, sys.executable == os.environ["EXPECTED_PYTHON"]

# %%
Path("ledger.json").write_text("[]")

# %%
# only a comment
"""
TESTS = """from course_lib.grading import question


@question("3.1", points=1, claim="one")
def test_one(submission, draw): ...
"""


def course(root: Path, text: str = LAB) -> Path:
    for folder in ("solutions", "labs", "course_lib/labs", "tests/labs/lab03/answers"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    path = root / "solutions" / "lab03_one.py"
    path.write_text(text)
    (root / "tests/labs/lab03/visible.py").write_text(TESTS)
    (root / "tests/labs/lab03/answers/3.1.txt").write_text(
        "loses a · no\nx = 1\n\nkeeps b\nx = 1\n"
    )
    contract = (
        'from course_lib.labs import Contract\nlab = Contract("lab03")\nlab.asks("3.1", "one")\n'
    )
    (root / "course_lib/labs/lab03.py").write_text(contract)
    return path


def quiet(line: str) -> None:
    """No echo."""


def test_a_lab_is_executed_once(tmp_path, monkeypatch):
    import sys

    monkeypatch.setenv("COURSE_DATA", "/data/for/the/course")
    monkeypatch.setenv("EXPECTED_PYTHON", sys.executable)
    source = course(tmp_path)
    said: list[str] = []
    labs, solutions = (
        tmp_path / "labs" / "lab03_one.ipynb",
        tmp_path / "solutions" / "lab03_one.ipynb",
    )
    (tmp_path / "solutions" / "ledger.json").write_text('[{"lab": "08"}]')
    assert build.build(tmp_path, echo=said.append) == [labs, solutions]
    assert build.check(tmp_path) == []
    stderr = [line for line in said if "stderr" in line]
    at = source.read_text().splitlines().index('warnings.warn("mind the gap")') + 1
    assert (
        len(stderr) == 1
        and stderr[0].startswith(f"solutions/lab03_one.py:{at}: ")
        and "mind the gap" in stderr[0]
    )
    notebook = nbformat.read(solutions, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, 8))
    assert code[2].outputs[0].data["text/plain"] == "1"
    assert [output.name for output in code[3].outputs] == ["stdout"]
    assert code[3].outputs[0].text == "at ./solutions <object object at 0x…>\n"
    assert code[4].outputs[0].data["text/plain"] == "('$COURSE_DATA', True, True)"
    assert "08" not in (tmp_path / "solutions" / "ledger.json").read_text(), "of this lab alone"
    text = solutions.read_text()
    for word in (str(tmp_path), "ipykernel", "iopub", '"version"', "UserWarning"):
        assert word not in text
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (labs, solutions)}

    def never(*args, **kwargs):
        raise AssertionError("executed again")

    monkeypatch.setattr(build, "run", never)
    assert build.build(tmp_path, echo=quiet) == []
    assert before == {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (labs, solutions)
    }

    # Where only text changes, the outputs stay.
    source.write_text(LAB.replace("# # Lab 3", "# # Lab 3, once more"))
    assert any("cell 1 is not as in the source" in line for line in build.check(tmp_path))
    assert build.build(tmp_path, echo=quiet) == [labs, solutions]
    assert build.check(tmp_path) == []
    assert [cell for cell in nbformat.read(solutions, 4).cells if cell.cell_type == "code"] == code

    # So they do where code is laid out in another way, or a comment comes.
    source.write_text(LAB.replace('warn("mind the gap")', 'warn(  # a word\n    "mind the gap"\n)'))
    assert 'mind the gap"\n)' in source.read_text()
    assert build.build(tmp_path, echo=quiet) == [labs, solutions]
    assert build.check(tmp_path) == []
    source.write_text(LAB)
    build.build(tmp_path, echo=quiet)

    # A comment between cells changes the hash and nothing else.
    source.write_text(source.read_text() + "\n\n")
    assert build.check(tmp_path) == [
        "solutions/lab03_one.ipynb:1: its hash is not that of the source: run `course build lab03`"
    ]
    assert build.build(tmp_path, echo=quiet) == [solutions]

    # Outputs cleared or code changed: it is to be executed again.
    for change, wrong in (
        (lambda: change_code(source), "cell 5 is not as in the source"),
        (lambda: cleared(solutions), "cell 2 has not been executed"),
    ):
        change()
        assert any(wrong in line for line in build.check(tmp_path))
        with pytest.raises(AssertionError, match="executed again"):
            build.build(tmp_path, echo=quiet)


def change_code(source: Path) -> None:
    source.write_text(source.read_text().replace("one()\n\n# %%\nw", "one() + 1\n\n# %%\nw"))


def cleared(path: Path) -> None:
    """What "clear all outputs" does."""
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, path)


def test_a_failure_names_lab_cell_line_and_reason(tmp_path):
    text = LAB[: LAB.index("# %%\nwarnings.warn")].replace(
        "one()\n\n", "values = []\nvalues.append(one())\n\n"
    )
    text = text.replace('    return int("1")', '    number = "one"\n    return int(number)')
    source = course(tmp_path, text)
    with pytest.raises(AuthoringError) as caught:
        build.build(tmp_path, echo=quiet)
    at = source.read_text().splitlines().index("    return int(number)") + 1
    assert str(caught.value) == (
        f"solutions/lab03_one.py:{at}: lab03, cell 5 stopped: ValueError: invalid literal for int() with base 10: 'one'"
    )
    assert not (tmp_path / "solutions" / "lab03_one.ipynb").exists()


@pytest.mark.long
def test_a_cell_that_hangs_and_one_that_ends_the_kernel(tmp_path):
    start = LAB[: LAB.index("# %%\none()\n")]
    course(tmp_path, start + "# %%\nwhile True:\n    pass\n")
    with pytest.raises(
        AuthoringError, match=r"^solutions/lab03_one\.py:\d+: lab03, cell 5 took more than 2 s"
    ):
        build.build(tmp_path, echo=quiet, timeout=2)
    course(tmp_path, start + "# %%\nos._exit(3)\n")
    with pytest.raises(
        AuthoringError, match=r"^solutions/lab03_one\.py:\d+: lab03, cell 5 ended the kernel"
    ):
        build.build(tmp_path, echo=quiet)


def cleaned(outputs: list, root: Path) -> tuple[list, list[str], nbformat.NotebookNode]:
    cell = v4.new_code_cell(
        "x", outputs=outputs, metadata={"execution": {"iopub.status.busy": "now"}, "tags": ["a"]}
    )
    notebook = v4.new_notebook(cells=[cell], metadata={"widgets": {"state": {}}})
    said = execute.clean(notebook, [("solutions/lab03_one.py", [7])], root)
    return cell.outputs, said, notebook


def png(side: int) -> str:
    """A picture that no palette makes small."""
    file = io.BytesIO()
    Image.fromarray(
        np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    ).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_widgets_leave_their_static_figure(tmp_path):
    widget = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
        "text/plain": "VBox(children=…)",
    }
    figure = v4.new_output("display_data", data=widget | {"text/html": "<img alt='a'>"})
    outputs, _, notebook = cleaned(
        [v4.new_output("display_data", data=dict(widget)), figure], tmp_path
    )
    assert [dict(output.data) for output in outputs] == [
        {"text/plain": "VBox(children=…)", "text/html": "<img alt='a'>"}
    ]
    assert "widgets" not in notebook.metadata
    assert notebook.cells[0].metadata == {"tags": ["a"]}


def test_an_explorer_leaves_its_first_figure(tmp_path):
    source = (
        "from course_lib.show import plots\n\n\ndef draw(height: int = 1):\n"
        "    fig, ax = plots.subplots(1, 1, 3)\n    fig.suptitle(f'How high is it? {height}')\n"
        "    return fig\n\n\nplots.explore(draw, height=(0, 3))"
    )
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source)])
    where = [("solutions/lab03_one.py", list(range(1, 12)))]
    execute.run(notebook, where, "lab03", tmp_path, tmp_path, 60)
    (output,) = notebook.cells[0].outputs
    assert "How high is it? 1" in output.data["text/html"] and "image/png" in output.data
    assert "widgets" not in notebook.metadata


def test_figures_are_small_pngs(tmp_path):
    large, small = png(500), png(20)
    assert len(base64.b64decode(large)) > execute.LARGEST_FIGURE
    html = f'<img alt="dots" src="data:image/png;base64,{large}"> and <img src="data:image/png;base64,{small}">'
    data = {"image/png": large, "image/svg+xml": "<svg/>", "text/html": html}
    outputs, _, _ = cleaned([v4.new_output("display_data", data=data)], tmp_path)
    data = outputs[0].data
    assert set(data) == {"image/png", "text/html"}
    first = data["text/html"].split("base64,")[1].split('"')[0]
    for picture in (data["image/png"], first):
        raw = base64.b64decode(picture)
        assert len(raw) <= execute.LARGEST_FIGURE
        assert Image.open(io.BytesIO(raw)).format == "PNG"
    assert data["text/html"].startswith('<img alt="dots" src="data:') and small in data["text/html"]


def test_streams_keep_what_a_reader_saw_at_the_end(tmp_path):
    outputs, said, _ = cleaned(
        [
            v4.new_output("stream", name="stdout", text="\r 1/3\r 3/3\nend \x1b[31mred\x1b[0m\r\n"),
            v4.new_output(
                "stream",
                name="stderr",
                text="\r 10%|# | 1/10 [00:01<00:09, 1.0it/s]\r100%|##| 10/10\n",
            ),
            v4.new_output(
                "stream", name="stderr", text=f"{tmp_path}/solutions/x.py:3: UserWarning: careful\n"
            ),
        ],
        tmp_path,
    )
    assert [output.text for output in outputs] == [" 3/3\nend red\n"]
    assert said == [
        "solutions/lab03_one.py:7: wrote to stderr, which no notebook keeps: ./solutions/x.py:3: UserWarning: careful"
    ]


def test_places_of_this_machine_are_told_nowhere(tmp_path, monkeypatch):
    import sysconfig

    monkeypatch.setenv("COURSE_DATA", "/mnt/big/disk")
    site = sysconfig.get_path("purelib")
    text = f"{tmp_path}/data /mnt/big/disk/MNIST {site}/torch/x.py /tmp/ipykernel_12/345.py {Path.home()}/notes"
    outputs, _, _ = cleaned(
        [
            v4.new_output(
                "execute_result", data={"text/plain": text, "text/html": f"<b>{tmp_path}</b>"}
            ),
            v4.new_output(
                "error",
                ename="E",
                evalue=f"in {tmp_path}",
                traceback=[f"\x1b[0mFile {site}/a.py", "E"],
            ),
        ],
        tmp_path,
    )
    assert (
        outputs[0].data["text/plain"]
        == "./data $COURSE_DATA/MNIST [python]/torch/x.py [cell] ~/notes"
    )
    assert outputs[0].data["text/html"] == "<b>.</b>"
    assert (outputs[1].evalue, outputs[1].traceback) == ("in .", ["File [python]/a.py", "E"])
    json.dumps(outputs)


def test_the_stamp_is_the_same_with_every_python(tmp_path):
    """Fields that a Python adds to trees, empty ones, do not count."""
    (tmp_path / "course_lib").mkdir()
    cells = ["def f(x: int = 1) -> str:\n    'What it does.'\n    return f'{x:>3}' + u'a'"]
    assert stamp.stamp(cells, tmp_path) == "cd11c6d9bd0cbfa6"
