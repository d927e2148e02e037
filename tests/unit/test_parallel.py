"""Processes: one thread each, from a script without a guard, and a clear word on what cannot be sent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.parallel import processes

SCRIPT = """
print("top of the script")
import os, sys, torch
from course_lib.parallel import processes

def here():
    return 1

with processes(1) as pool:
    print("threads", pool.submit(torch.get_num_threads).result())
    print("elsewhere", pool.submit(os.getpid).result() != os.getpid())
    try:
        pool.submit(here)
    except ValueError as error:
        print(error)
    print("alive", pool.submit(abs, -1).result())
print(sys.modules["__main__"].here())
"""


@pytest.mark.parametrize("how", ["script", "stdin"])
def test_a_script_without_a_guard_runs_once(tmp_path, how):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(path) if how == "script" else "-"],
        input=SCRIPT if how == "stdin" else "",
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    first, threads, elsewhere, refusal, alive, last = done.stdout.splitlines()
    assert [first, threads, elsewhere, alive, last] == [
        "top of the script",
        "threads 1",
        "elsewhere True",
        "alive 1",
        "1",
    ]
    assert "put it into a module" in refusal


def test_no_workers_are_refused():
    with pytest.raises(ValueError, match="1 or more, got 0"):
        processes(0)
