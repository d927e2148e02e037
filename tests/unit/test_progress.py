"""Bars, interrupts and threads while trainings run, in a notebook's kernel and without one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from jupyter_client.manager import start_new_kernel

from course_lib import progress
from course_lib.data import pieces
from course_lib.parallel import side_by_side

SETTINGS = """
import time, torch
from course_lib import training
from course_lib.data import images
from course_lib.models import build
from course_lib.parallel import processes, side_by_side, sweep
data = images.load("digits")
def train(seed, epochs=100, pause=0):
    time.sleep(pause)
    model = build("lenet300", data, 0)
    return training.fit(model, data.train, epochs=epochs, seed=seed).done
"""
# it takes longer than the delay of its bar, on fast machines, too
SLOW_SWEEP = "sweep(lambda seed, epochs: train(seed, epochs, 2), seed=range(3), epochs=[40])"


class Kernel:
    """A notebook's kernel; what a cell shows stays as in a notebook that is saved."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

    def run(self, cell: str, interrupt_after: float | None = None) -> list[dict[str, Any]]:
        """The messages of a cell; interrupted after so many seconds."""
        heard: list[dict[str, Any]] = []
        message = self.client.execute(cell)
        if interrupt_after is not None:
            time.sleep(interrupt_after)
            self.manager.interrupt_kernel()
        while True:
            said = self.client.get_iopub_msg(timeout=120)
            if said["parent_header"].get("msg_id") != message:
                continue
            if said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
                return heard
            heard.append(said)

    def saved(self, heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The displayed data that a notebook would hold after these messages."""
        shown: dict[str, dict[str, Any]] = {}
        for number, said in enumerate(heard):
            if said["msg_type"] in ("display_data", "update_display_data", "execute_result"):
                name = said["content"].get("transient", {}).get("display_id", str(number))
                shown[name] = said["content"]["data"]
        return list(shown.values())


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """side_by_side sets them for the process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    manager, client = start_new_kernel(startup_timeout=120)
    running = Kernel(manager, client)
    assert not [said for said in running.run(SETTINGS) if said["msg_type"] == "error"]
    yield running
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "cell", [pytest.param("train(0, 400)", marks=pytest.mark.long), SLOW_SWEEP]
)
def test_a_finished_bar_leaves_no_widget_and_no_percentage(kernel: Kernel, cell: str) -> None:
    heard = kernel.run(f"seen = {cell}")
    texts = [
        said["content"]["data"].get("text/plain", "") for said in heard if "data" in said["content"]
    ]
    seen = [text for text in texts if "%" in text]
    assert seen, texts  # a bar was there
    if "sweep" in cell:
        assert re.match(
            r"runs \(seed × epochs\): +\d+ %\|.{20}\| \d\.\d of 3, [\d:?]+ left", seen[0]
        )
    assert "widget-view" not in json.dumps(heard, default=str)
    assert [data for data in kernel.saved(heard) if data != {"text/plain": ""}] == []


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        pytest.param("train(0, 2000)", "the model is trained in part", marks=pytest.mark.long),
        ("sweep(lambda seed: train(seed, 2000), seed=range(4))", "0 of 4 runs (seed) were done"),
    ],
)
def test_an_interrupt_is_one_line_within_two_seconds(
    kernel: Kernel, cell: str, sentence: str
) -> None:
    begin = time.monotonic()
    heard = kernel.run(cell, interrupt_after=2)
    assert time.monotonic() - begin < 4
    (said,) = [said["content"] for said in heard if said["msg_type"] == "error"]
    assert len(said["traceback"]) == 1 and sentence in said["traceback"][0]
    # and nothing goes on: the processor time of a second is that of doing nothing
    kernel.run("time.sleep(1)")
    idle = kernel.run("before = time.process_time(); time.sleep(1); time.process_time() - before")
    (result,) = [said for said in idle if said["msg_type"] == "execute_result"]
    assert float(result["content"]["data"]["text/plain"]) < 0.3


@pytest.mark.long
def test_an_interrupt_ends_the_jobs_of_processes_and_not_the_processes(kernel: Kernel) -> None:
    kernel.run("pool = processes(1); pool.submit(abs, -1).result()")
    begin = time.monotonic()
    heard = kernel.run("pool.submit(time.sleep, 60).result()", interrupt_after=1)
    assert time.monotonic() - begin < 4
    assert [said["content"]["ename"] for said in heard if said["msg_type"] == "error"]
    again = kernel.run("pool.submit(abs, -2).result()")
    assert [
        said["content"]["data"]["text/plain"] for said in again if "data" in said["content"]
    ] == ["2"]


@pytest.mark.parametrize("shown", [True, False])
def test_no_bars_of_others_appear_and_the_users_choice_stays(shown: bool, capfd: Any) -> None:
    import datasets

    (datasets.enable_progress_bars if shown else datasets.disable_progress_bars)()
    data = datasets.Dataset.from_dict({"words": [["a", "film"]] * 100})
    try:
        pieces.encode(data, pieces.train_tokenizer(["a film"], vocabulary=20))
        assert datasets.are_progress_bars_disabled() is not shown
    finally:
        datasets.enable_progress_bars()
    assert "%" not in capfd.readouterr().err


def test_bars_of_others_are_off_while_one_of_several_threads_needs_it() -> None:
    import datasets

    def load(seconds: float) -> bool:
        with progress.without_bars():
            time.sleep(seconds)
            return datasets.are_progress_bars_disabled()

    assert side_by_side(load, [(0.1,), (0.3,), (0.1,)]) == [True] * 3
    assert not datasets.are_progress_bars_disabled()


def test_what_is_done_counts_the_steps_of_runs_at_work() -> None:
    runs = [progress.Run() for _ in range(4)]
    assert progress.count_done(runs) == 0
    runs[0].total, runs[0].steps = 100, 25
    assert progress.count_done(runs) == 0.25
    runs[1].ended, runs[1].steps = True, 50  # the usual run is shorter
    assert progress.count_done(runs) == 1.5
    for run in runs:
        run.ended, run.steps = True, 0  # nothing was trained
    assert progress.count_done(runs) == 4


def test_the_first_error_ends_the_other_runs() -> None:
    def run(seed: int) -> None:
        while seed:
            progress.current_run().count_step()  # type: ignore[union-attr]
            time.sleep(0.01)
        raise ZeroDivisionError

    begin = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        side_by_side(run, [(1,), (0,), (1,)])
    assert time.monotonic() - begin < 5


def test_the_courses_commands_and_labs_compute_with_one_thread() -> None:
    code = "from course_lib import cli; cli.app = lambda: None; cli.main(); import torch"
    labs = (
        "import torch; torch.set_num_threads(2); from course_lib import devices; devices.use('cpu')"
    )
    free = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    for source in (code, labs):
        command = [sys.executable, "-c", f"{source}; print(torch.get_num_threads())"]
        done = subprocess.run(command, capture_output=True, text=True, env=free)
        assert done.stdout.strip() == "1", done.stderr
