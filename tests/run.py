"""``make test``: every part of the tests in turn, and at the end the seconds each took. ``make test PARTS="unit labs"`` for some."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
TWO = ["-n", "2"]
NBVAL = ["--nbval-lax", "--nbval-cell-timeout=300", "--durations=10"]
PARTS: dict[str, list[list[str]]] = {
    "style": [
        [sys.executable, "-m", "ruff", "check", "."],
        [sys.executable, "-m", "ruff", "format", "--check", "."],
        [sys.executable, "-m", "mypy"],
    ],
    "unit": [[*PYTEST, *TWO, "tests/unit"]],
    "labs": [[*PYTEST, *TWO, "tests/labs"]],
    "mutants": [[*PYTEST, *TWO, "tests/mutants"]],
    "attacks": [[*PYTEST, "tests/attacks/test_attacks.py"]],  # batches, each on both cores
    "class": [[*PYTEST, "tests/attacks/test_three_hundred.py"]],
    "grading": [[*PYTEST, *TWO, "--dist", "loadfile", "--no-loadscope-reorder", "--durations=10", "tests/grading"]],
    "notebooks": [
        [*PYTEST, "tests/notebooks"],
        [sys.executable, "tests/notebooks/shortened.py"],
        [*PYTEST, *TWO, "--dist", "loadscope", *NBVAL, "build/walkthroughs"],
    ],
    "browser": [[*PYTEST, *TWO, "--dist", "worksteal", "-rs", "--durations=10", "tests/browser"]],
}


def main(names: list[str]) -> int:
    """Run the parts named (all of them by default); 0 if everything passed."""
    unknown = [n for n in names if n not in PARTS]
    if unknown:
        print(f"no part {unknown[0]!r}: there are {', '.join(PARTS)}")
        return 2
    # one thread a process: two processes of tests share two cores better than four threads do
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    seconds: dict[str, float] = {}
    failed: list[str] = []
    for name in names or PARTS:
        begin = time.monotonic()
        print(f"\n=== {name}", flush=True)
        for command in PARTS[name]:
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
