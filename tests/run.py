"""``make test``: every part of the tests in turn, and at the end the seconds each took. ``make test PARTS="unit labs"`` for some.

``make test PARTS=walkthroughs`` runs every cell of the walkthroughs in full, as ``course build`` did; it is no part of the others,
which run them with fewer images and epochs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CELLS = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
PYTEST = [*CELLS, "-p", "no:nbval"]  # importing it takes seconds in each of three processes
TWO = ["-n", "2"]
NBVAL = ["--nbval-lax", "--nbval-cell-timeout=300", "--durations=10"]
# a file at a time, since its tests share warm workers; those that take longest first
BY_FILE = ["--dist", "loadfile", "--no-loadscope-reorder"]
LONGEST = [f"tests/grading/test_{name}.py" for name in ("resume", "cluster", "nbgrader", "worker", "isolation")]
OTHERS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "grading").glob("test_*.py"))
GRADING = [*LONGEST, *(path for path in OTHERS if path not in LONGEST)]
PARTS: dict[str, list[list[str]]] = {
    "style": [
        [sys.executable, "-m", "ruff", "check", "."],
        [sys.executable, "-m", "ruff", "format", "--check", "."],
        [sys.executable, "-m", "mypy"],
    ],
    "unit": [[*PYTEST, *TWO, "tests/unit"]],
    "labs": [[*PYTEST, *TWO, "tests/labs"]],
    # batches, each on both cores. Nothing beside them: what is late by seconds loses points
    "attacks": [[*PYTEST, "tests/attacks/test_attacks.py"]],
    "class": [[*PYTEST, "tests/attacks/test_three_hundred.py"]],
    "grading": [[*PYTEST, *TWO, *BY_FILE, "--durations=10", *GRADING]],
    "notebooks": [
        [*PYTEST, "tests/notebooks"],
        [sys.executable, "tests/shortened.py"],
        [*CELLS, *TWO, "--dist", "loadscope", *NBVAL, "build/walkthroughs"],
    ],
    "browser": [[*PYTEST, *TWO, "--dist", "worksteal", "-rs", "--durations=10", "tests/browser"]],
}
LONGER: dict[str, list[list[str]]] = {"walkthroughs": [[*CELLS, *TWO, "--dist", "loadscope", *NBVAL, "solutions"]]}


def main(names: list[str]) -> int:
    """Run the parts named (all but the longer ones by default); 0 if everything passed."""
    commands = PARTS | LONGER
    unknown = [n for n in names if n not in commands]
    if unknown:
        print(f"no part {unknown[0]!r}: there are {', '.join(commands)}")
        return 2
    # one thread a process: two processes of tests share two cores better than four threads do
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would each compile the course
    seconds: dict[str, float] = {}
    failed: list[str] = []
    for name in names or PARTS:
        begin = time.monotonic()
        print(f"\n=== {name}", flush=True)
        for command in commands[name]:
            part = dict(environment)
            if "--nbval-lax" in command:
                part.pop("MPLBACKEND")  # notebooks show their figures inline
            if subprocess.run(command, cwd=ROOT, env=part).returncode and name not in failed:
                failed.append(name)
        seconds[name] = time.monotonic() - begin
    print(
        "\nseconds: "
        + ", ".join(f"{name} {s:.0f}" for name, s in seconds.items())
        + f", all {sum(seconds.values()):.0f}"
    )
    print("failed: " + ", ".join(failed) if failed else "every part passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
