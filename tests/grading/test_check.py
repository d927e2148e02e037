"""``check`` and ``skip`` in a notebook: a table, a sentence, never a traceback."""

from __future__ import annotations

import builtins
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_lab
import torch
from IPython.core.interactiveshell import InteractiveShell
from small_lab import TESTS, USES, claim

import course_lib
from course_lib import paths
from course_lib.experiments import lab01 as experiments_of_lab01
from course_lib.experiments import lab07 as experiments_of_lab07
from course_lib.grading import Mistake, Submission
from course_lib.grading.claims.alarm import limited
from course_lib.grading.claims.student import InProcess
from course_lib.grading.claims.typed import expect_choice
from course_lib.grading.marking import check as notebook
from course_lib.labs import Exercise, lab01
from course_lib.labs_folder import write_labs
from course_lib.show.style import contrast

VALUE = """
@question("1.7", points=1, claim="answered")
def test_value(submission, draw):
    if submission.value("answer_1_7a") is ...:
        fail("not answered yet")
"""
HIDDEN = """
from course_lib.grading import fail, question

@question("1.1", points=1, claim="hidden")
def test_hidden(submission, draw):
    fail("never seen in a notebook")
"""
RIGHT = (
    "import torch"
    + small_lab.RIGHT.partition("def grouped_mask")[0]
    + """
def global_masks(weights, sparsity):
    return {k: magnitude_mask(w, sparsity) for k, w in weights.items()}
"""
)


@pytest.fixture(autouse=True)
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = claim(tmp_path / "tests" / "labs", TESTS + USES + VALUE)
    (folder / "hidden.py").write_text(HIDDEN)
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))


def fresh() -> dict:
    """The names of a notebook that has run its first cell."""
    return {
        "check": notebook.check,
        "skip": notebook.skip,
        "lab01": experiments_of_lab01,
        "__name__": "__main__",
    }


def run(source: str, capsys: pytest.CaptureFixture[str]) -> str:
    exec(source, fresh())
    return capsys.readouterr().out


def test_a_right_answer(capsys) -> None:
    said = run(RIGHT + 'check("1.1")', capsys)
    assert "✓ exactly the smaller half goes    2 / 2" in said
    assert "hidden" not in said


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "not run yet: run the cell that defines magnitude_mask"),
        ("def magnitude_masks(w, s): pass", "not defined, but magnitude_masks is: is that it"),
        # an import is nobody's answer
        ("from textwrap import fill as magnitude_masks", "not run yet"),
        (
            'def magnitude_mask(w, s):\n    """Doc."""\n    raise NotImplementedError("1.1 magnitude_mask: write this function")',
            "not written yet",
        ),
        ("def magnitude_mask(w, s): pass", "should be a torch tensor, it is None"),
        ("def magnitude_mask(w): pass", "raised TypeError"),
        ("def magnitude_mask(w, s):\n    x = 1\n    return w.nothing", "line 3 of magnitude_mask"),
        ("def magnitude_mask(w, s): return (w > 0).int()", "dtype bool, it is int32"),
        ("def magnitude_mask(w, s): return (w > 0).flatten()", "shape (4, 6), it has (24,)"),
        (
            "from course_lib.pruning.weights.iterative import cubic\ndef magnitude_mask(w, s): return cubic(s, 3)",
            "asks you to write this yourself",
        ),
        ("magnitude_mask = 3", "is an int and no function"),
    ],
)
def test_a_wrong_answer_gets_a_sentence(answer: str, says: str, capsys) -> None:
    said = run(f"{answer}\ncheck('1.1')", capsys)
    assert says in said
    assert "0 / 2" in said
    assert "Traceback" not in said


def test_a_question_that_rests_on_another(capsys) -> None:
    wrong = RIGHT.replace("round(sparsity * weight.numel())", "5")
    assert "right magnitude_mask in place of yours" in run(wrong + 'check("1.3")', capsys)


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "while True:\n        try: sum(range(1000))\n        except Exception: pass",
    ],
)
def test_an_endless_loop_ends(body: str, capsys, monkeypatch) -> None:
    # torch imports some of itself in the first check: half a second later a slow machine would
    # be in the middle of it, and the import could not be repeated in this process
    assert "✓" in run(f"{RIGHT}\ncheck('1.1')", capsys)
    monkeypatch.setattr("course_lib.grading.claims.student.CHECK_SECONDS", 0.5)
    before = signal.getsignal(signal.SIGALRM)
    said = run(f"def magnitude_mask(weight, sparsity):\n    {body}\ncheck('1.1')", capsys)
    assert "longer than 0 seconds" in said and "endless loop?" in said
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert "✓" in run(f"{RIGHT}\ncheck('1.1')", capsys)


def test_an_alarm_that_rings_all_the_time_rings_inside_only(monkeypatch) -> None:
    """Wherever it rings, at the end of the code and while it is switched off, too."""
    monkeypatch.setattr("course_lib.grading.claims.alarm.AGAIN", 5e-4)
    # where it rings in a collector's callback (hypothesis has one), Python reports it
    # and goes on, as it should
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)

    def grows() -> None:
        numbers = []
        while True:
            numbers.append([0])

    for _ in range(100):
        assert limited(0.001, grows) == (None, True)
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert limited(60, lambda: 3) == (3, False)


def test_skip_binds_the_library_and_scores_nothing(capsys) -> None:
    said = run(
        'skip("1.1")\ncheck("1.1")\nimport torch\nprint(magnitude_mask(torch.arange(4.0), 0.5).tolist())',
        capsys,
    )
    assert "[False, False, True, True]" in said
    assert "0 / 2" in said
    assert "You skipped question 1.1" in said and "magnitude_mask: from the library" in said


def test_a_later_question_may_use_what_was_skipped(capsys) -> None:
    source = 'skip("1.1")\ndef global_masks(ws, s): return {k: magnitude_mask(w, s) for k, w in ws.items()}\ncheck("1.3")'
    assert "✓ uses 1.1" in run(source, capsys)


def test_progress(capsys) -> None:
    said = run(
        RIGHT + "prediction_1_1 = ...\nprediction_1_4 = 'less'\nanswer_1_7a = 'b'\ncheck()", capsys
    )
    assert "lab01: 5 of 6 visible points" in said
    assert "– 1.2 grouped_mask" in said
    assert "– prediction_1_1" in said
    assert "○ prediction_1_4" in said


def test_what_was_not_reached_is_not_run_yet_and_no_mistake(capsys) -> None:
    begun = RIGHT.partition("def grouped_mask")[0]
    said = run(begun + "answer_1_7a = ...\ncheck()\ncheck('1.2')", capsys)
    assert "keep the name" not in said
    (whole,) = [line for line in said.splitlines() if "1.2 grouped_mask" in line]
    assert whole.startswith("  – ") and "run the cell that defines grouped_mask" in whole
    assert "  – a stays    0 / 1  not run yet: run the cell that defines grouped_mask" in said
    assert "✗ 1.7" in said and "not answered yet" in said
    assert "not run yet: run the cell that defines answer_1_7a" in run("check('1.7')", capsys)


def test_a_notebooks_lab_is_that_of_its_first_cell(capsys: pytest.CaptureFixture[str]) -> None:
    names = fresh()
    del names["lab01"]
    exec(RIGHT + 'check("1.1")', names)
    assert "2 / 2" in capsys.readouterr().out  # a script has no first cell
    with pytest.raises(ValueError, match="run the notebook's first cell"):
        exec("check()", names)
    names |= {"lab01": experiments_of_lab01, "lab07": experiments_of_lab07}
    exec('check("1.1")', names)
    with pytest.raises(ValueError, match="experiments of lab 01 and lab 07"):
        exec("check()", names)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('check("13.9")', "no lab"),
        ('check("1.6")', "there are 1.1"),
        ("check(1.1)", 'quotes: "1.1", not 1.1'),
        ("check([1])", r'in quotes, such as "1.3"; got \[1\]'),
        *(
            (
                f"def magnitude_mask(w, s): pass\n{verb}(magnitude_mask)",
                rf'quotes: {verb}\("1.1"\) is for',
            )
            for verb in ("check", "skip")
        ),
        ("skip()", r'name the question to skip: skip\("1.3"\)'),
        ('check("7.1")', "7.1 is a question of lab 07; this is the notebook of lab 01"),
        ('skip("7.1")', "7.1 is a question of lab 07; this is the notebook of lab 01"),
        *(
            (f'check("{name}")', 'named like "1.3"|has no question|there is no lab')
            for name in ("x", "²", "1.²", "", "1.1.1", "١.١")
        ),
        ('skip("1.7")', "1.7 cannot be skipped"),
    ],
)
def test_what_does_not_exist_is_said(call: str, says: str, capsys) -> None:
    with pytest.raises(ValueError, match=says):
        run(call, capsys)


def test_what_a_person_reads_and_what_is_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exercises = lab01.lab._exercises
    monkeypatch.setitem(exercises, "1.12", Exercise((), by_hand=5))
    said = run(RIGHT + 'check("1.12")\ncheck()', capsys)
    assert "1.12: marked by your instructor, up to 5 points" in said
    assert "– 1.12" in said and "… / 5  marked by your instructor" in said
    with pytest.raises(ValueError, match=r"1.12 cannot be skipped.*\(marked by your instructor\)"):
        run('skip("1.12")', capsys)
    monkeypatch.setitem(exercises, "1.3", Exercise((), files=("small.safetensors",)))
    with pytest.raises(ValueError, match=r"1.3 cannot be skipped.*\(small.safetensors\)"):
        run('skip("1.3")', capsys)


def test_a_notebook_shows_the_sentence_and_no_traceback(capsys) -> None:
    shell = InteractiveShell()
    shell.run_cell("from course_lib.grading import check\ncheck(1.1)")
    said = capsys.readouterr()
    assert 'write the question in quotes: "1.1"' in said.out + said.err
    assert "Traceback" not in said.out + said.err


def shown(source: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a notebook shows of a cell."""
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    try:
        notebook.explain_unwritten()  # as the import does in a kernel
        shell.run_cell("from course_lib.grading import check, skip")
        capsys.readouterr()
        for cell in source.split("# %%"):
            shell.run_cell(cell)
        return "".join(capsys.readouterr())
    finally:
        InteractiveShell.clear_instance()


def test_a_function_that_is_not_written_stops_a_cell_with_one_sentence(capsys) -> None:
    placeholder = 'raise NotImplementedError("1.1 magnitude_mask: write this function")'
    source = f"def magnitude_mask(w):\n    {placeholder}\ndef curve(f):\n    return f(1)"
    said = shown(f"{source}\n# %%\ncurve(magnitude_mask)\nprint('after')", capsys)
    assert all(len(line) <= 88 for line in said.splitlines())
    assert " ".join(said.split()) == (
        "This cell stopped: magnitude_mask is not written yet. Write it below question 1.1, run its"
        ' cell, then run this cell and those below it; or give it up with skip("1.1").'
    )
    own = shown("def f():\n    raise NotImplementedError('odd kernels')\n# %%\nf()", capsys)
    assert "Traceback" in own and "odd kernels" in own


def far_from_the_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of another project; the package is nowhere yet."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("COURSE_ROOT")
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path / "site" / "course_lib")
    return tmp_path / "site"


@pytest.mark.parametrize("lies", ["course_lib/_course", "."])  # a wheel, a checkout
def test_check_works_from_any_folder(
    lies: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    site = far_from_the_course(tmp_path, monkeypatch)
    (site / lies / "labs").mkdir(parents=True)
    claim(site / lies / "tests" / "labs")
    (site / "pyproject.toml").write_text('name = "pruning-course"')
    assert "2 / 2" in run(RIGHT + 'check("1.1")\nskip("1.1")', capsys)


def test_without_claims_a_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    far_from_the_course(tmp_path, monkeypatch)
    for call in ('check("1.1")', 'skip("1.1")'):
        said = shown(call, capsys)
        assert said.startswith("the tests of lab01 are neither") and "COURSE_ROOT" in said
        assert "Traceback" not in said and len(said.splitlines()) <= 3
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path / "gone"))
    said = shown('check("1.1")', capsys)
    assert said.startswith("COURSE_ROOT is set to") and "is not a folder" in " ".join(said.split())
    assert "Traceback" not in said and len(said.splitlines()) <= 3


def test_an_installed_package_checks_in_any_folder(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "course_lib"
    shutil.copytree(
        Path(course_lib.__file__).parent,
        package,
        ignore=shutil.ignore_patterns("__pycache__", "_*a", "_course"),
    )
    write_labs(package / "_course")
    (tmp_path / "downloads").mkdir()
    answer = "def magnitude_mask(w, s): return w.abs() > w.abs().median()"
    calls = f'{answer}\ncheck("1.1")\nskip("1.1")\nprint(course_lib.__file__)'
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    del environment["COURSE_ROOT"]
    done = subprocess.run(
        [sys.executable, "-c", f"import course_lib\nfrom course_lib.grading import check, skip\n{calls}"],
        cwd=tmp_path / "downloads", env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1.1: 0 of 1.75 visible points" in done.stdout and "skipped question 1.1" in done.stdout
    assert str(package) in done.stdout


def test_nobody_is_asked_to_type_while_a_claim_is_tried(capsys, monkeypatch) -> None:
    monkeypatch.setattr(builtins, "input", lambda *_: pytest.fail("a box to type in"))
    before = input
    said = run("def magnitude_mask(w, s):\n    return input('sparsity? ')\ncheck('1.1')", capsys)
    assert "EOFError: nobody can type" in said and "line 2 of magnitude_mask" in said
    assert input is before


def test_what_is_shown_can_be_read_on_light_and_dark(capsys) -> None:
    card = notebook.Card("t", [(mark, "c", "0 / 1", "m") for mark in "✓✗○–"], "foot")
    colours = re.findall(r"#[0-9a-fA-F]{3,6}\b", card._repr_html_())
    assert len(colours) == 2  # of signs: words, and the dash, have the colour of their page
    for colour in colours:  # WCAG asks for 3 to 1
        assert min(contrast(colour), contrast(colour, "#111111")) >= 4, colour


def test_the_notebooks_table_is_html_and_escapes(capsys) -> None:
    card = notebook.Card("<1.1>", [("✗", "a < b", "0 / 1", "<script>")])
    page = card._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_check_leaves_the_notebook_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """1.1 is wrong, and the grader answers for it in 1.3: what is left of that must not
    pass for the student's own.
    """
    wrong = RIGHT.replace("weight.numel())]] = False", "weight.numel()) - 1]] = False")
    namespace = fresh()
    exec(wrong, namespace)
    own = dict(namespace)
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    exec('check("1.3")', namespace)
    assert "passes with a right magnitude_mask" in capsys.readouterr().out
    assert {name: namespace[name] for name in own} == own
    assert (
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_rng_state().tolist(),
    ) == before
    exec('check("1.1")', namespace)
    assert "✗ exactly the smaller half goes" in capsys.readouterr().out


def test_a_notebook_whose_default_type_is_another(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        out = run(RIGHT + "\ncheck('1.1')", capsys)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert "✓ exactly the smaller half goes" in out


def test_an_object_that_raises_when_it_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    odd = "class Odd:\n    def __getattr__(self, name): raise RuntimeError('leave me alone')\nanswer_1_7a = Odd()\nmagnitude_mask = Odd()"
    out = run(RIGHT + odd + "\ncheck('1.1')\ncheck('1.7')\ncheck()", capsys)
    assert "✗ exactly the smaller half goes" in out


def test_a_letter_names_an_option_by_its_place() -> None:
    def told(namespace: dict[str, object]) -> str:
        try:
            expect_choice(
                Submission(InProcess(dict(namespace))),
                "answer_1_7a",
                4,
                {0: "no", 1: "no", 3: "no"},
            )
        except Mistake as mistake:
            return str(mistake)
        return ""

    assert told({"answer_1_7a": "C"}) == told({"STUDENT": "amy", "answer_1_7a": " c "}) == ""
    assert all(told({"answer_1_7a": x}) == f"{x} does not fit: no" for x in "ABD")
    for odd in ("E", "", "AB", 3, [], "ß"):
        assert "one of the letters A, B, C, D" in told({"answer_1_7a": odd})
    for nothing in (..., None):
        assert told({"answer_1_7a": nothing}) == "not answered yet"


def test_a_notebook_imports_no_sandbox() -> None:
    said = "from course_lib.grading import check, skip; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    there = {"course_lib.grading.sandbox", "course_lib.sandbox_child", "psutil"}
    assert not there & set(done.stdout.split())
