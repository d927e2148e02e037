"""``course gradescope lab01``: an autograder for Gradescope, with the isolated grader
inside.

The zip holds what students get (:mod:`course_lib.authoring.release`: library, data, no
solutions) with all tests of the lab in place of the visible ones, ``setup.sh`` and
``run_autograder``. Gradescope builds a container from it once, and runs
``run_autograder`` for each submission: the student's files are in ``submission``, the
marks go to ``results/results.json``. Students see visible claims at once and the hidden
ones when the instructor publishes the grades.

The form is that of https://gradescope-autograders.readthedocs.io/en/latest/specs/.
Gradescope's containers refuse the jail (user namespaces) as a rule; the grader takes
the strongest layer that works there and prints its name where only instructors see it.
``--require-isolation`` makes it refuse to grade behind mere limits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from course_lib.authoring import release
from course_lib.grading import sandbox
from course_lib.grading.batch.collect import read_single_submission
from course_lib.grading.batch.report import write_text
from course_lib.grading.batch.result import ClaimResult
from course_lib.grading.claims.question import texts_in
from course_lib.grading.marking.lab import GradingSpec, Lab
from course_lib.grading.marking.marker import total
from course_lib.grading.marking.pool import Judges

SETUP = """#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the autograder.
# Choose the newest Ubuntu as the base image.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# the sandboxes for a submission; where the container refuses the first, the second is tried,
# then limits alone
apt-get install -y -qq --no-install-recommends bubblewrap libseccomp2
# the course needs Python 3.11 to 3.14: the first that is here or can be had
for version in 3.12 3.11 3.13 3.14; do
    if apt-get install -y -qq --no-install-recommends "python$version" "python$version-venv"; then
        break
    fi
done
# an environment in .venv with the small PyTorch for CPUs, as for everybody else
"python$version" /autograder/source/course_lib/install.py
# for the build's log: which of the layers works here
/autograder/source/.venv/bin/course doctor || true
"""

RUN = """#!/usr/bin/env bash
# Gradescope runs this for every submission; what it prints is shown to instructors only.
set -euo pipefail
autograder="${{AUTOGRADER:-/autograder}}"
python="${{COURSE_PYTHON:-$autograder/source/.venv/bin/python}}"
export COURSE_ROOT="$autograder/source"
export PYTHONPATH="$autograder/source" HF_HUB_OFFLINE=1
cd "$autograder/source"
exec "$python" -m course_lib.grading.batch.gradescope {lab} "$autograder" --seed {seed}{more}
"""


def write(
    root: Path, lab: str, out: Path, *, seed: int | None = None, require_isolation: bool = False
) -> Path:
    """Write the autograder of a lab as a zip.

    Args:
        root: the course. lab: "lab01". out: the zip.
        seed: from which all submissions' inputs are drawn; by default a fresh one.
        require_isolation: should it refuse to grade where no sandbox can be put round a
            submission?

    Raises:
        FileNotFoundError: if the lab has no tests. FileExistsError: if ``out`` is there.
        AuthoringError: if the labs cannot be released as they are.
    """
    tests = root / "tests" / "labs" / lab
    texts = texts_in(tests)
    if out.exists():
        raise FileExistsError(f"{out} is there: move it away, or name another file with --out")
    seed = secrets.randbelow(1 << 63) if seed is None else seed
    more = " --require-isolation" if require_isolation else ""
    files = {
        name: content
        for name, content in release.contents(root).items()
        if not name.startswith(("labs/", "tests/"))
        or name.startswith((f"labs/{lab}_", f"tests/labs/{lab}/"))
    }
    files |= {
        (tests / name).relative_to(root).as_posix(): (text.encode(), False) for name, text in texts
    }
    files["setup.sh"] = (SETUP.encode(), True)
    files["run_autograder"] = (RUN.format(lab=lab, seed=seed, more=more).encode(), True)
    out.parent.mkdir(parents=True, exist_ok=True)
    release.write_zip(out, files)
    return out


# --- inside Gradescope's container ----------------------------------------------------


def run(
    lab: str, autograder: Path, *, seed: int, require_isolation: bool = False
) -> dict[str, Any]:
    """Mark the one submission in ``autograder/submission`` and write
    ``autograder/results/results.json``.

    Args:
        seed: the autograder's. Every upload is marked on inputs of its own: a student
            who hands in ten times learns nothing of the next ones from the messages of
            the last.

    Returns:
        The results.

    Raises:
        RuntimeError: if isolation is required and there is none, or the grader itself
            fails. Then there are no results, and Gradescope says that the autograder
            failed, to be run again; a student is not given a zero for it.
    """
    target = autograder / "results" / "results.json"
    target.unlink(missing_ok=True)
    tests = autograder / "source" / "tests" / "labs" / lab
    drawn = _seed(seed, autograder / "submission_metadata.json")
    marking = Lab(GradingSpec.read(tests, drawn, lab))
    layer = sandbox.required() if require_isolation else sandbox.best()
    print(layer.sentence)
    submission = read_single_submission(autograder / "submission", lab, beside=marking.known.files)
    judges = Judges(layer)
    try:
        marked = judges.mark_or_set_aside(marking, submission.task())
    finally:
        judges.stop()
    if marked.status == "grader failed":
        raise RuntimeError("; ".join(marked.notes))
    notes = [*marked.notes, *filter(None, [submission.choice, submission.remark])]
    about = {"status": marked.status, "notebook": submission.notebook, "digest": submission.digest}
    results = {
        "score": total(marked.outcomes),
        "output": "\n".join(notes),
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [ClaimResult.of(outcome).to_json() for outcome in marked.outcomes],
        # instructors see the seed: with it a grading can be repeated
        "extra_data": {**about, "seed": drawn},
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, json.dumps(results, indent=1) + "\n")
    return results


def _seed(seed: int, metadata: Path) -> int:
    """Of one upload: the same whenever that upload is graded again."""
    try:
        said = json.loads(metadata.read_text(encoding="utf-8"))
        upload = f"{said.get('id')}·{said.get('created_at')}"
    except (OSError, ValueError, AttributeError):
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}·{upload}".encode()).digest()[:7], "big")


def main(arguments: Sequence[str] | None = None) -> int:
    """What ``run_autograder`` calls."""
    parser = argparse.ArgumentParser(description="Grade the submission in Gradescope's container.")
    parser.add_argument("lab")
    parser.add_argument(
        "autograder",
        type=Path,
        help="Gradescope's folder, with source, submission and results in it",
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--require-isolation", action="store_true")
    asked = parser.parse_args(arguments)
    try:
        results = run(
            asked.lab, asked.autograder, seed=asked.seed, require_isolation=asked.require_isolation
        )
    except (RuntimeError, OSError, ValueError) as error:
        print(f"not graded: {error}", file=sys.stderr)
        return 1
    print(f"{results['extra_data']['status']}: {results['score']:g} points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
