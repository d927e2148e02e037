"""Code in a sandbox: it computes, and can do nothing else."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
import torch

from course_lib.data import reviews
from course_lib.grading import Draw, StudentError, Submission
from course_lib.grading.claims.alarm import WorkerLost
from course_lib.grading.claims.student import Proxy
from course_lib.grading.marking.marker import explain
from course_lib.grading.sandbox import usage as watch
from course_lib.grading.sandbox.workers import Seconds, Worker
from course_lib.labs import load

Run = Callable[..., Submission]


def test_every_dtype_can_be_computed_with(run: Run) -> None:
    source = "import torch\ndef f(x): return torch.zeros_like(x).scatter_(0, torch.arange(3), torch.ones(3, dtype=x.dtype))"
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.int8,
        torch.bool,
    ):
        assert run(source).f(torch.zeros(24, dtype=dtype)).sum() == 3


def test_the_device_of_the_notebook_is_the_processor(run: Run) -> None:
    settings = 'import torch\nfrom course_lib import devices\nDEVICE = devices.use("cuda")'
    answer = "def f(): return torch.ones(2, device=DEVICE)"
    assert run(settings, answer, graded=["f"]).f().sum() == 2


def test_a_labs_first_cell_runs(run: Run, worker: Worker) -> None:
    first = (
        "from course_lib import ledger\nfrom course_lib.grading import check, skip\nfrom course_lib.data import images\n"
        "from course_lib.models import LeNet300, build\nfrom course_lib.training import evaluate, fit\n"
        "from course_lib.pruning.weights import masks\nfrom course_lib.cost import encodings\nfrom course_lib.show import plots, tables\n"
        "from course_lib.show.plots import show\nimport matplotlib.pyplot as plt\nimport numpy as np\n"
    )
    session = worker.open([first, "def f(): return 1\ncheck('1.1')"], ["f"])
    assert session.problems == []
    session.close()


def test_generated_texts_have_their_words(run: Run) -> None:
    texts = "from course_lib.data import reviews\ndef f(): return reviews.texts('easy', 1)[0].text"
    assert run(texts, graded=["f"]).f() == reviews.texts("easy", 1)[0].text


def test_what_a_lab_needs_is_imported_before_its_submissions(run: Run, worker: Worker) -> None:
    source = "import sys\ndef f(): return 'wave' in sys.modules"
    assert run(source, graded=["f"]).f() is False
    for _ in range(2):
        assert run(source, graded=["f"], imports=["wave"]).f() is True
    with pytest.raises(RuntimeError, match="no_such_module"):
        worker.open([source], ["f"], ["no_such_module"])
    assert run(source, graded=["f"]).f() is True, (
        "the worker is still there, and what it has imported, too"
    )


def test_a_name_that_is_not_there_has_another_name(run: Run) -> None:
    """Every cell has run, and the answer to another question is none under a wrong name."""
    s = run("def csr_encode(x): pass", graded=["csr_encode", "rle_encode"])
    with pytest.raises(StudentError) as caught:
        s.rle_encode(1)
    said = explain(caught.value, "0.3")
    assert said == "rle_encode is not defined: keep the name that the question gives"


@pytest.mark.parametrize("place", ["course_lib.pruning.heads", "course_lib.models.attention"])
def test_where_heads_are_is_there_and_nothing_else_of_pruning_them(run: Run, place: str) -> None:
    s = run(
        f"from {place} import output_projections\n"
        "from course_lib.pruning.heads import gated, head_importance, slice_heads\n"
        "def f(model): return [tuple(p.weight.shape) for p in output_projections(model)]\n"
        "def g(function): return globals()[function](1, 2)\n",
        graded=["f", "g"],
        imports=load("lab07").imports,
    )
    assert s.f(Draw("bert").bert(3, 4, 2)) == [(8, 8)] * 3
    for function in ("gated", "head_importance", "slice_heads"):
        with pytest.raises(StudentError) as caught:
            s.g(function)
        assert caught.value.kind == "library"


# source -> what is said of a call of f
FATAL = {
    "import os\ndef f(): os._exit(0)": "ended its process",
    "import ctypes\ndef f(): ctypes.string_at(0)": "ended its process",
    "import os\ndef f():\n    os.write(3, b'x' * 100000)\n    return 1": "no plain result",
    "def f():\n    while True: pass": "endless loop",
    "import time\ndef f(): time.sleep(100)": "endless loop",
    # as process 1 of its own namespace it cannot, and returns None; elsewhere it is gone
    "import os, signal\ndef f(): os.kill(os.getpid(), 9)": "ended its process|None",
    "import sys\ndef f(): sys.exit(0)": "SystemExit",
    "def f(): return len([bytearray(1 << 28) for _ in range(64)])": "[Mm]emory",
    "import torch\ndef f(): return torch.zeros(1).expand(1 << 28)": "MB of tensors",
    "import os\ndef f():\n    while True:\n        try: os.fork()\n        except OSError: pass": "",
}


@pytest.mark.parametrize("source", FATAL)
def test_code_that_ends_or_hangs_its_process_costs_only_its_reply(
    run: Run, worker: Worker, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as hasty:
        if FATAL[source] == "endless loop":
            hasty.setattr(worker, "seconds", Seconds(reply=1.0))
        try:
            said = str(run(source).f())
        except (StudentError, WorkerLost) as error:
            said = str(error)
    assert re.search(FATAL[source], said)
    assert run("def g(): return 1").g() == 1
    assert len(list(watch.descendants(worker.warm_pid))) <= 2, "the last two that were opened"


def test_the_graders_own_time_is_not_the_codes(
    run: Run, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow() -> int:
        time.sleep(0.35)
        return 1

    monkeypatch.setattr(worker, "seconds", Seconds(reply=1.0))
    asking = run("def f(g): return g() + g() + g() + g()\ndef for_ever(g):\n    while True: g()")
    assert asking.f(Proxy(slow)) == 4
    begin = time.monotonic()
    with pytest.raises(StudentError, match="took too long on what they were called with"):
        asking.for_ever(Proxy(slow))
    assert asking.f(Proxy(slow)) == 4, "the question goes on"
    assert time.monotonic() - begin < 10, "asking for ever does not help"


SKIP = "from course_lib.grading import check, skip"
NAMES = {"1.1": ["f"], "1.2": ["g", "h"]}


@pytest.mark.parametrize(
    ("cells", "skipped"),
    [
        (['skip("1.1")'], "1.1"),
        (["def f(): return 1", "  skip('1.1')  # later".strip()], "1.1"),
        (['for q in ("1.1", "1.2"):\n    skip(q)'], "1.1 1.2"),
        (["if True:\n    skip('1.2')"], "1.2"),
        (['skip("1.1")', "def f(): return 1"], ""),  # written after all
        (
            [
                'def f():\n    """A hint: skip("1.1") gives it up.\n\n    skip("1.1")\n    """\n    return 1'
            ],
            "",
        ),
        (["if False:\n    skip('1.1')", "def f(): return 1"], ""),
        (["text = '''\nskip('1.1')\n'''", "def f(): return 1"], ""),
        (["def never_called():\n    skip('1.1')", "def f(): return 1"], ""),
        (["# skip('1.1')", "def f(): return 1"], ""),
        (["skip('9.9')", "skip(1.1)", "skip([])"], ""),
    ],
    ids=str,
)
def test_a_question_is_given_up_by_a_call_that_runs(
    worker: Worker, cells: list[str], skipped: str
) -> None:
    session = worker.open([SKIP, *cells], ["f", "g", "h"], names=NAMES)
    session.close()
    assert session.skipped == set(skipped.split())
    assert not session.problems
