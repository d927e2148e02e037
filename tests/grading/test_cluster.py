"""The same batch on a Dask cluster: the same marks, though a worker dies; and what
cannot be used is said before anything is graded.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from small_lab import ANSWERS, RIGHT, Course, contents

from course_lib.grading.batch import cluster

distributed = pytest.importorskip(
    "distributed", reason='dask.distributed is not installed: pip install "pruning-course[cluster]"'
)
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm")]
STUDENTS = [*ANSWERS, RIGHT + "import os\ndef grouped_mask(weight, a): os._exit(1)"]


SETTINGS = {"processes": True, "dashboard_address": ":0", "silence_logs": "CRITICAL"}


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    """A scheduler and two workers, each a process, one thread each."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def full(course: Course) -> Course:
    """A course in which twenty notebooks and a broken one are handed in."""
    for i in range(20):
        course.hand_in(f"student {i:02}", STUDENTS[i % len(STUDENTS)])
    course.put("torn.ipynb", "torn")
    return course


def test_a_worker_killed_midway_costs_nobody_anything(local: Any, full: Course) -> None:
    killed: list[int] = []
    started: list[psutil.Process] = []
    finished: list[str] = []

    def progress(id: str, done: int, all: int) -> None:
        finished.append(id)
        if done == 6:
            with distributed.Client(local.scheduler_address, set_as_default=False) as client:
                killed.append(next(iter(client.run(os.getpid).values())))
            started.extend(psutil.Process(killed[0]).children(recursive=True))
            os.kill(killed[0], signal.SIGKILL)

    there = full.grade("there", seed=7, scheduler=local.scheduler_address, progress=progress)
    assert len(killed) == 1
    assert started, "it had no warm process of its own"
    assert psutil.wait_procs(started, timeout=60)[1] == [], "its processes outlived it"
    assert sorted(finished) == sorted(there.graded) == sorted({*there.graded})
    assert len(finished) == 21
    here = full.grade("here", seed=7, jobs=2)
    assert here.layer == there.layer
    assert contents(there.report) == contents(here.report)
    again = full.grade("there", scheduler=local.scheduler_address)
    assert (len(again.kept), again.graded) == (21, [])


def test_workers_with_other_software_are_refused(
    local: Any, full: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "software", lambda: "course_lib of tomorrow")
    with pytest.raises(RuntimeError, match="course_lib .* instead of course_lib of tomorrow"):
        full.grade(scheduler=local.scheduler_address)
    assert contents(full.report) == {}


@pytest.mark.parametrize(
    "leave, named",
    [
        (lambda going: going.scale(0), "all workers of"),
        (lambda going: going.close(), "the scheduler"),
    ],
    ids=["workers", "scheduler"],
)
def test_a_cluster_that_goes_leaves_what_is_finished(
    full: Course, monkeypatch: pytest.MonkeyPatch, leave: Callable[[Any], None], named: str
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1.0)
    going = distributed.LocalCluster(n_workers=1, threads_per_worker=1, **SETTINGS)

    def progress(id: str, done: int, all: int) -> None:
        if done == 3:
            leave(going)

    with pytest.raises(RuntimeError, match=f"{named} .*gone.* the same command again"):
        full.grade(seed=7, scheduler=going.scheduler_address, progress=progress)
    going.close()
    done = len(list((full.report / "results").glob("*.json")))
    assert 3 <= done < 21
    assert len(full.table()) == done


def test_without_dask_the_remedy_is_said(full: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RuntimeError, match=r'pip install "pruning-course\[cluster\]"'):
        full.grade(scheduler="tcp://127.0.0.1:9")
    assert contents(full.report) == {}
