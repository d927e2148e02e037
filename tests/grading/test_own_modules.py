"""Own ``.py`` files handed in together with a notebook: found in every layout, imported in the
sandbox, watched as cells are, and of no use to an attacker.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_lab import RIGHT, TESTS, USES, Course, claim, load_lab, notebook, put_code

from course_lib.grading import Submission
from course_lib.grading.batch import collect as modules
from course_lib.grading.batch.collect import collect
from course_lib.grading.claims.alarm import WorkerLost
from course_lib.grading.marking import check
from course_lib.grading.marking.lab import Task
from course_lib.grading.sandbox import Worker, layers

ANSWERS = f"import torch\n{RIGHT}"
TAKE = "from helpers import magnitude_mask, grouped_mask"
WRITE_TEMPORARY = """
import os, tempfile
def f(place):
    path = os.path.join(place or tempfile.gettempdir(), 'left')
    with open(path, 'x') as file: file.write('x')
    return os.path.getsize(path)
def is_writable(place):
    assert open(os.path.join(place, 'shown')).read() == 'x'
    try:
        return bool(open(os.path.join(place, 'left'), 'x'))
    except OSError:
        return False
"""


@pytest.fixture
def open_with(worker: Worker) -> Iterator[Any]:
    """Opens a submission with own modules: it, and what is said of its definitions."""
    sessions = []

    def open(*cells: str, **files: str) -> tuple[Submission, list[str]]:
        named = {f"{name}.py": text.encode() for name, text in files.items()}
        sessions.append(worker.open(list(cells), ["f"], files=named))
        return Submission(sessions[-1]), sessions[-1].problems

    yield open
    for session in sessions:
        session.close()


# --- collecting -----------------------------------------------------------------------


def own(folder: Path) -> dict[str, dict[str, Any]]:
    return {h.id: h.files for h in collect(folder, "lab01").submissions}


def test_own_files_are_found_in_a_folder_and_in_a_zip(tmp_path: Path) -> None:
    put_code(tmp_path / "ann" / "lab01.ipynb", TAKE)
    put_code(tmp_path / "ann" / "helpers.py", "ann's")
    put_code(tmp_path / "ann" / "tools" / "masks.py", "also ann's")
    put_code(tmp_path / "ann" / "no module" / "x.py", "cannot be imported")
    put_code(tmp_path / "ann" / "Not-a-name.py", "cannot be imported")
    with zipfile.ZipFile(tmp_path / "bob.zip", "w") as archive:
        archive.writestr("all/labs/lab01.ipynb", notebook(TAKE))
        archive.writestr("all/labs/helpers.py", "bob's")
        archive.writestr("all/helpers.py", "further away")
        archive.writestr("all/course_lib/training.py", "the course's")
        archive.writestr("all/.venv/lib/x.py", "hidden")
    put_code(tmp_path / "cy.ipynb", TAKE)
    put_code(tmp_path / "helpers.py", "nobody's")
    assert own(tmp_path) == {
        "ann": {"helpers.py": b"ann's", "tools/masks.py": b"also ann's"},
        "bob": {"helpers.py": b"bob's"},
        "cy": {},
    }


def test_own_files_are_found_among_uploads(tmp_path: Path) -> None:
    put_code(tmp_path / "doejane_12345_800_lab01.ipynb", TAKE)
    put_code(tmp_path / "doejane_12345_810_helpers.py", "old")
    put_code(tmp_path / "doejane_12345_950_helpers-1.py", "new")
    put_code(tmp_path / "roejohn_12346_970_lab01.ipynb", TAKE)
    assert own(tmp_path) == {"doejane_12345": {"helpers.py": b"new"}, "roejohn_12346": {}}


def test_a_file_that_is_no_module_is_refused_by_name(tmp_path: Path) -> None:
    put_code(tmp_path / "ann" / "lab01.ipynb", TAKE)
    (tmp_path / "ann" / "helpers.py").symlink_to("/etc/passwd")
    put_code(tmp_path / "ann" / "large.py", "#" * (modules.MOST_BESIDE[".py"] + 1))
    found = own(tmp_path)["ann"]
    assert "link" in found["helpers.py"] and "root:" not in found["helpers.py"]
    assert "larger than 0.25 MB" in found["large.py"]


def test_of_too_many_files_some_are_left_out_and_it_is_said(tmp_path: Path) -> None:
    put_code(tmp_path / "ann" / "lab01.ipynb", TAKE)
    put_code(tmp_path / "ann" / "zhelpers.py", "near")
    for i in range(modules.MOST_MODULES):
        put_code(tmp_path / "ann" / "deep" / f"m{i}.py", "")
    (ann,) = collect(tmp_path, "lab01").submissions
    assert len(ann.files) == modules.MOST_MODULES and "zhelpers.py" in ann.files
    assert f"Of {modules.MOST_MODULES + 1} .py files" in ann.remark


# --- grading --------------------------------------------------------------------------


@pytest.mark.usefixtures("warm")
def test_an_answer_in_an_own_file_counts_and_is_graded_again_when_it_changes(
    course: Course,
) -> None:
    for name, text in (("ann", ANSWERS), ("bob", ANSWERS.replace(">=", ">"))):
        course.hand_in(f"{name}/lab01", TAKE)
        course.put(f"{name}/helpers.py", text)
    course.hand_in("cy/lab01", TAKE)
    assert sorted(course.grade(seed=1).graded) == ["ann", "bob", "cy"]
    assert course.column("total") == {"ann": "3", "bob": "2", "cy": ""}
    tests = course.result("cy")["tests"]
    assert all("helpers.py was not handed in" in test["output"] for test in tests)
    course.put("bob/helpers.py", ANSWERS)
    assert course.grade().graded == ["bob"]
    assert course.column("total")["bob"] == "3"


def test_an_own_file_may_not_borrow_either(worker: Worker, tmp_path: Path) -> None:
    borrowing = (
        "import torch\nfrom course_lib.pruning import weights\n"
        "def magnitude_mask(w, s): return weights.smallest(w.abs(), s)\n"
        "def grouped_mask(w, a): return weights.smallest(w.abs(), 0.0)\n"
    )
    task = Task("x", (TAKE,), files=(("helpers.py", borrowing.encode()),))
    marked = load_lab(claim(tmp_path)).mark(task, worker)
    assert [o.borrowed for o in marked.outcomes] == [True, True]
    assert sum(o.earned for o in marked.outcomes) == 0


def test_an_earlier_answer_in_an_own_file_is_answered_by_the_library(
    worker: Worker, tmp_path: Path
) -> None:
    """A question is not lost for the fault of another one, in cells or in own files."""
    lab = load_lab(claim(tmp_path, TESTS + USES))
    wrong = (
        "def magnitude_mask(w, s): return w.abs() > 100\n"
        "def global_masks(weights, s): return {k: magnitude_mask(w, s) for k, w in weights.items()}\n"
    )
    for cells, files in (
        ((wrong,), ()),
        (("from helpers import *",), (("helpers.py", wrong.encode()),)),
    ):
        marked = lab.mark(Task("x", cells, files=files), worker)
        assert [o.earned for o in marked.outcomes] == [0, 0, 2], files


# --- hostile files --------------------------------------------------------------------


def test_own_files_shadow_nothing(open_with) -> None:
    raising = "raise SystemExit('shadowed')"
    names = ("json", "torch", "numpy", "course_lib", "IPython")
    submission, said = open_with(
        "import json, torch, numpy\nfrom course_lib.data import images\nimport sitecustomize_\n"
        "def f(): return json.dumps([float(torch.ones(1)), hasattr(images, '__file__')])",
        **dict.fromkeys((*names, "sitecustomize", "conftest", "usercustomize"), raising),
        sitecustomize_="",
    )
    assert submission.f() == "[1.0, true]"
    refused = [line.partition(" ")[0] for line in said]
    # Debian's Python has one of its own, a link into /etc, which the jail does not see
    assert [name for name in refused if name != "sitecustomize.py"] == sorted(
        f"{name}.py" for name in names
    )


def test_a_file_that_raises_or_ends_costs_only_its_own_answers(open_with) -> None:
    submission, said = open_with("import helpers\ndef f(): return 1", helpers="raise SystemExit")
    assert submission.f() == 1 and "SystemExit" in said[0]
    with pytest.raises(WorkerLost):
        open_with("import helpers\ndef f(): return 1", helpers="import os\nos._exit(0)")
    assert open_with("def f(): return 2")[0].f() == 2


def test_a_file_gets_no_further_than_a_cell_when_it_is_imported(open_with, worker: Worker) -> None:
    if not worker.layer.is_sandbox:
        pytest.skip("there is no sandbox here")
    tries = f"""
import os, socket
got = []
def attempt(name, action):
    try:
        action()
        got.append(name)
    except OSError:
        pass
attempt("tests", lambda: os.listdir({str(Path(__file__).parent)!r}))
attempt("passwords", lambda: open("/etc/passwd"))
attempt("network", lambda: socket.create_connection(("127.0.0.1", 9), timeout=1))
attempt("a socket", lambda: socket.socket())
attempt("the warm process", lambda: os.kill(os.getppid(), 0) if os.getppid() else open("/nothing"))
attempt("the course", lambda: open({str(Path(check.__file__).parent / "x.py")!r}, "w"))
"""
    submission, said = open_with("import helpers\ndef f(): return helpers.got", helpers=tries)
    assert submission.f() == [] and not said


def test_temporary_files_have_a_place_that_is_the_submissions_own(open_with, worker) -> None:
    for _ in range(2):  # the second finds nothing of the first
        submission, _ = open_with(WRITE_TEMPORARY)
        assert submission.f("") == 1
    if worker.layer.name == "jail":
        for _ in range(2):
            submission, _ = open_with(WRITE_TEMPORARY)
            assert submission.f("/tmp") == 1


def test_a_course_below_tmp_leaves_tmp_writable(monkeypatch: pytest.MonkeyPatch) -> None:
    if layers.try_layer("jail"):
        pytest.skip(layers.try_layer("jail"))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder, "shown").write_text("x")
        prefixes = layers._prefixes()
        monkeypatch.setattr(layers, "_prefixes", lambda: [*prefixes, folder])
        worker = Worker(layers.Isolation("jail"))
        worker.start()
        try:
            for _ in range(2):
                session = worker.open([WRITE_TEMPORARY], ["f"])
                submission = Submission(session)
                assert submission.f("/tmp") == submission.f("") == 1
                assert submission.is_writable(folder) is False
                session.close()
        finally:
            worker.stop()


# --- what is said, and who reads it ---------------------------------------------------


def test_a_file_that_cannot_be_read_is_said(worker: Worker, tmp_path: Path) -> None:
    lab = load_lab(claim(tmp_path))
    task = Task("x", (TAKE,), files=(("helpers.py", "helpers.py cannot be read (a link)"),))
    assert "helpers.py cannot be read (a link)" in lab.mark(task, worker).notes


def test_check_names_the_files_to_hand_in(tmp_path: Path, monkeypatch, capsys) -> None:
    claim(tmp_path / "tests" / "labs")
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "parity_helpers.py").write_text(f"from parity_inner import x\n{ANSWERS}")
    (tmp_path / "parity_inner.py").write_text("import json\ndef x(): return json")
    (tmp_path / "parity_written.py").write_text("y = 1")

    def said(source: str, **more: Any) -> str:
        exec(f"{source}\ncheck('1.1')", {"check": check.check, "__name__": "__main__", **more})
        return capsys.readouterr().out

    shown = said("from parity_helpers import magnitude_mask")
    assert "parity_helpers.py, parity_inner.py: hand in these files" in shown
    assert "hand" not in said(ANSWERS)
    cell = "%%writefile parity_written.py\ny = 1"
    assert "hand" not in said(f"{ANSWERS}\nimport parity_written", In=["", cell])
