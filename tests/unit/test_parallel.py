"""Processes: one thread each, from a script without a guard; threads; tables of runs."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from course_lib.parallel import processes, side_by_side, sweep

SCRIPT = """
print("top of the script")
import os, torch
from course_lib.parallel import processes

def here():
    return os.getpid(), torch.get_num_threads()

with processes(1) as pool:
    process, threads = pool.submit(here).result()
    print(process != os.getpid(), threads)
"""


@pytest.mark.parametrize("how", ["script", pytest.param("stdin", marks=pytest.mark.long)])
def test_a_script_without_a_guard_runs_once_and_sends_its_functions(tmp_path, how):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(path) if how == "script" else "-"],
        input=SCRIPT if how == "stdin" else "",
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["top of the script", "True 1"]


def test_no_workers_are_refused():
    with pytest.raises(ValueError, match="workers"):
        processes(0)


def test_threads_take_functions_of_the_notebook_and_keep_the_order() -> None:
    before = torch.get_num_threads()
    try:
        both_there = threading.Barrier(2, timeout=20)

        def run(a: int, b: int) -> int:
            both_there.wait()  # passes only if two are at work at once
            return 10 * a + b

        assert side_by_side(run, [(1, 2), (3, 4), (5, 6), (7, 8)]) == [12, 34, 56, 78]
        assert torch.get_num_threads() == 1
        with pytest.raises(ZeroDivisionError):
            side_by_side(lambda x: 1 / x, [(1,), (0,)])
    finally:
        torch.set_num_threads(before)


def test_a_sweep_is_one_table_of_all_combinations():
    table = sweep(
        lambda seed, method: [{"accuracy": seed + len(method), "part": p} for p in "xy"],
        seed=range(2),
        method=["a", "bb"],
    )
    assert list(table.columns) == ["seed", "method", "accuracy", "part"] and len(table) == 8
    assert table.query("seed == 1 and method == 'bb'").accuracy.tolist() == [3, 3]
    with pytest.raises(ValueError, match="seed.*name of a setting"):
        sweep(lambda seed: {"seed": 1}, seed=[0])
