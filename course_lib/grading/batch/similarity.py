"""``course similarity``: a class's code as files, for a tool that compares them.

The comparing itself is copydetect's (https://copydetect.readthedocs.io: winnowing, names
replaced, code of the handout left out, a page with the passages side by side); MOSS and JPlag
read the same folders.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from course_lib.grading.batch.collect import Submission, code, handout


def write(submissions: Iterable[Submission], lab: str, out: Path) -> tuple[int, str]:
    """Write each submission's code into ``out/submissions`` and the handout's into
    ``out/handout``; how many, and the command that compares them.
    """
    count = 0
    for s in submissions:
        own = [
            data.decode("utf-8", "replace")
            for data in s.files.values()
            if isinstance(data, bytes) and b"\0" not in data
        ]
        if s.cells:
            _put(out / "submissions" / f"{s.file_name}.py", "\n\n".join([*s.cells, *own]))
            count += 1
    _put(out / "handout" / f"{lab}.py", "\n\n".join(code(handout(lab))))
    return count, (
        f"copydetect -t {out / 'submissions'} -b {out / 'handout'} -e py -O {out / 'similarity'}"
    )


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="replace")
