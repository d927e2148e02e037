"""The same batch on a Dask cluster: the same marks, though a worker dies; and what
cannot be used is said before anything is graded.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from small_lab import ANSWERS, RIGHT, claim, contents, hand_in

from course_lib.grading.batch import cluster
from course_lib.grading.batch import run as batch

distributed = pytest.importorskip(
    "distributed", reason='dask.distributed is not installed: pip install "pruning-course[cluster]"'
)
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm")]
STUDENTS = [*ANSWERS, RIGHT + "import os\ndef threshold_mask(weight, a): os._exit(1)"]


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    """A scheduler and two workers, each a process, one thread each."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs="CRITICAL",
    ) as cluster:
        yield cluster


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "submissions"
    folder.mkdir()
    claim(tmp_path)
    for i in range(20):
        hand_in(folder, f"student {i:02}", STUDENTS[i % len(STUDENTS)])
    (folder / "torn.ipynb").write_text("torn")
    return tmp_path


def test_a_worker_killed_midway_costs_nobody_anything(local: Any, place: Path) -> None:
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

    there = batch.grade(
        "lab01", place / "submissions", place / "there", tests=place / "lab01", seed=7,
        scheduler=local.scheduler_address, progress=progress,
    )  # fmt: skip
    assert len(killed) == 1
    assert started, "it had no warm process of its own"
    assert psutil.wait_procs(started, timeout=60)[1] == [], "its processes outlived it"
    assert sorted(finished) == sorted(there.graded) == sorted({*there.graded})
    assert len(finished) == 21
    here = batch.grade(
        "lab01", place / "submissions", place / "here", tests=place / "lab01", seed=7
    )
    assert here.layer == there.layer
    assert contents(there.report) == contents(here.report)
    again = batch.grade(
        "lab01",
        place / "submissions",
        place / "there",
        tests=place / "lab01",
        scheduler=local.scheduler_address,
    )
    assert (len(again.kept), again.graded) == (21, [])


def test_workers_with_other_software_are_refused(
    local: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "software", lambda: "course_lib of tomorrow")
    with pytest.raises(
        RuntimeError, match="other software: course_lib .* instead of course_lib of tomorrow"
    ):
        batch.grade(
            "lab01",
            place / "submissions",
            place / "report",
            tests=place / "lab01",
            scheduler=local.scheduler_address,
        )
    assert contents(place / "report") == {}


def test_a_cluster_that_goes_leaves_what_is_finished(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1.0)
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs="CRITICAL",
    ) as going:

        def progress(id: str, done: int, all: int) -> None:
            if done == 3:
                going.scale(0)

        with pytest.raises(
            RuntimeError,
            match="all workers of .* have gone: start some, and give the same command again",
        ):
            batch.grade(
                "lab01", place / "submissions", place / "report", tests=place / "lab01", seed=7,
                scheduler=going.scheduler_address, progress=progress,
            )  # fmt: skip
    done = len(list((place / "report" / "results").glob("*.json")))
    assert 3 <= done < 21
    assert len((place / "report" / "grades.csv").read_text().splitlines()) == done + 1


def test_a_scheduler_that_goes_is_said(place: Path) -> None:
    going = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs="CRITICAL",
    )

    def progress(id: str, done: int, all: int) -> None:
        if done == 3:
            going.close()

    with pytest.raises(
        RuntimeError,
        match="the scheduler .* has gone .*: start it, and give the same command again",
    ):
        batch.grade(
            "lab01", place / "submissions", place / "report", tests=place / "lab01", seed=7,
            scheduler=going.scheduler_address, progress=progress,
        )  # fmt: skip
    assert len(list((place / "report" / "results").glob("*.json"))) >= 3


def test_without_dask_the_remedy_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RuntimeError, match=r'pip install "pruning-course\[cluster\]"'):
        batch.grade(
            "lab01",
            place / "submissions",
            place / "report",
            tests=place / "lab01",
            scheduler="tcp://127.0.0.1:9",
        )
    assert contents(place / "report") == {}
