"""The tests, in two lengths. ``make test``: in minutes, some of everything.
``make test-all``: everything, each test once.

``make test PARTS="unit labs"`` runs some parts, ``make test LAB=07`` what concerns one
lab. ``make rest`` runs what ``make test`` leaves out, ``make test PARTS=walkthroughs``
every cell of every walkthrough in full, as ``course build`` does.

How a part is cut: tests that take long are marked ``long``; of the wrong answers a
fixed sample is taken, of the attacks some of each kind; of what a browser opens, and of
the walkthroughs, the first. What is the same for all labs does not grow with their
number.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CELLS = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
PYTEST = (*CELLS, "-p", "no:nbval")  # importing it takes seconds in each of three processes
# a process without work takes some from the other: the longest tests come last
TWO = ("-n", "2", "--dist", "worksteal")
# a file at a time, since its tests share warm workers; those that take longest first
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")
# a notebook at a time, those named first; --nbval-lax compares the outputs of tagged cells
ONE_KERNEL = ("--dist", "loadscope", "--no-loadscope-reorder")
NBVAL = (*CELLS, *TWO, *ONE_KERNEL, "--nbval-lax", "--nbval-cell-timeout=300")
SITE = "tests/browser/test_site.py"
BROWSER = (*PYTEST, *TWO, "-rs", f"--ignore={SITE}", "tests/browser")
SHORT, LONG = ("-m", "not long"), ("-m", "long")
FIRST = "lab00"  # the walkthrough, explorer and deck that stand for all


@dataclass(frozen=True)
class Run:
    """One command, and what is set for it."""

    command: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)


def grading() -> list[str]:
    """Its files, the longest first."""
    longest = [
        f"tests/grading/test_{name}.py"
        for name in ("resume", "judge", "isolation", "cluster", "worker")
    ]
    there = sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "grading").glob("test_*.py")
    )
    return [*longest, *(path for path in there if path not in longest)]


STYLE = [
    Run((sys.executable, "-m", *words))
    for words in (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",))
]
SHORTENED = (sys.executable, "tests/shortened.py")
TEST: dict[str, list[Run]] = {
    "style": STYLE,
    "unit": [Run((*PYTEST, *TWO, *SHORT, "tests/unit"))],
    "labs": [Run((*PYTEST, *TWO, "tests/labs"), {"ANSWERS": "sample"})],
    # a batch on both cores. Nothing beside it: what is late by seconds loses points
    "attacks": [Run((*PYTEST, "tests/attacks/test_attacks.py"), {"ATTACKS": "sample"})],
    "grading": [Run((*PYTEST, *TWO, *BY_FILE, *SHORT, *grading()), {"FRAMES": "300"})],
    "notebooks": [
        Run((*SHORTENED, FIRST)),
        Run((*NBVAL, "build/walkthroughs", "tests/notebooks")),
    ],
    "browser": [Run((*BROWSER, "-k", f"{FIRST} or student"))],
}
REST: dict[str, list[Run]] = {
    "unit": [Run((*PYTEST, *TWO, *LONG, "tests/unit"))],
    "labs": [Run((*PYTEST, *TWO, "tests/labs/test_answers.py"), {"ANSWERS": "rest"})],
    "attacks": [Run((*PYTEST, "tests/attacks/test_attacks.py"), {"ATTACKS": "rest"})],
    "class": [Run((*PYTEST, "tests/attacks/test_whole_class.py"))],
    "grading": [
        Run((*PYTEST, *TWO, *BY_FILE, *LONG, "--durations=10", *grading()), {"FRAMES": "20000"})
    ],
    # those that were executed with another code than there is now
    "notebooks": [
        Run((*SHORTENED, "stale", f"not-{FIRST}")),
        Run((*NBVAL, "--durations=10", "build/walkthroughs")),
    ],
    "browser": [Run((*BROWSER, "--durations=10", "-k", f"not {FIRST} and not student"))],
    # with the decks that "browser" has built
    "site": [Run((*PYTEST, "-rs", "--durations=5", SITE))],
}
LEFT_OUT = {
    "unit": "tests that take long",
    "labs": "all but two wrong answers of each question, and one right one",
    "attacks": "all but some attacks of each kind; weaker sandboxes; a class of three hundred",
    "grading": "every sandbox tried from inside, a killed grader, a cluster, Gradescope",
    "notebooks": f"walkthroughs but that of {FIRST}",
    "browser": f"explorers and decks but those of {FIRST}, the cheat sheet",
    "site": "the web site, built and opened",
}
WALKTHROUGHS = [Run((*NBVAL, "solutions"))]


def of_lab(lab: str) -> dict[str, list[Run]]:
    """What concerns one lab."""
    return {
        "labs": [Run((*PYTEST, *TWO, "tests/labs", "-k", lab), {"ANSWERS": "all"})],
        "notebooks": [
            Run((*SHORTENED, lab)),
            Run((*NBVAL, "-k", f"{lab} or in_sync", "build/walkthroughs", "tests/notebooks")),
        ],
        "browser": [Run((*BROWSER, "-k", lab))],
    }


def run(parts: dict[str, list[Run]], seconds: dict[str, float]) -> list[str]:
    """Run parts one after the other, and say how long each took; the names of those in
    which something failed.
    """
    # one thread a process: two processes of tests share two cores better than four
    # threads do
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    # hundreds of processes would each compile the course
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    failed = []
    for name, runs in parts.items():
        begin = time.monotonic()
        print(f"\n=== {name}", flush=True)
        for one in runs:
            settings = environment | one.settings
            if "--nbval-lax" in one.command:
                settings.pop("MPLBACKEND")  # notebooks show their figures inline
                if one.command[-1] == "build/walkthroughs" and not list(
                    (ROOT / "build" / "walkthroughs").glob("*.ipynb")
                ):
                    print("every walkthrough is as it was executed last")
                    continue
            if (
                subprocess.run(one.command, cwd=ROOT, env=settings).returncode
                and name not in failed
            ):
                failed.append(name)
        seconds[name] = seconds.get(name, 0) + time.monotonic() - begin
    return failed


def main(arguments: list[str] | None = None) -> int:
    """0 if everything passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("length", choices=["test", "rest", "test-all"])
    parser.add_argument(
        "parts", nargs="*", help=f"of {', '.join([*REST, 'style', 'walkthroughs'])}"
    )
    parser.add_argument("--lab", default="", help="07")
    asked = parser.parse_args(arguments)
    lengths = {"test": [TEST], "rest": [REST], "test-all": [TEST, REST]}[asked.length]
    if asked.lab:
        lengths = [of_lab(f"lab{int(asked.lab.removeprefix('lab')):02d}")]
    unknown = [
        name
        for name in asked.parts
        if name != "walkthroughs" and not any(name in length for length in (TEST, REST))
    ]
    if unknown:
        print(f"no part {unknown[0]!r}: there are {', '.join([*REST, 'style', 'walkthroughs'])}")
        return 2
    seconds: dict[str, float] = {}
    failed: list[str] = []
    for length in lengths:
        failed += run(
            {name: runs for name, runs in length.items() if not asked.parts or name in asked.parts},
            seconds,
        )
    if "walkthroughs" in asked.parts:
        failed += run({"walkthroughs": WALKTHROUGHS}, seconds)
    took = ", ".join(f"{name} {s:.0f}" for name, s in seconds.items())
    print(f"\nseconds: {took}, all {sum(seconds.values()):.0f}")
    if asked.length == "test" and not asked.parts and not asked.lab:
        print("\nleft out, and run by `make rest` (both: `make test-all`):")
        for name, what in LEFT_OUT.items():
            print(f"  {name}: {what}")
    print("\nfailed: " + ", ".join(dict.fromkeys(failed)) if failed else "\nevery part passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
