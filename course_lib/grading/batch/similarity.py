"""``course similarity``: a class's code as files, compared by copydetect.

copydetect (https://copydetect.readthedocs.io) compares by winnowing as MOSS does, with names
replaced and the code of the handout left out. MOSS and JPlag read the same folders. Extra
``[similarity]``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from course_lib.grading.batch.collect import Submission, code, handout


def compare(submissions: Iterable[Submission], lab: str, out: Path) -> Path:
    """Write each submission's code into ``out/submissions``, the handout's into ``out/handout``,
    and the page with the pairs that share most; the page.

    Raises:
        RuntimeError: if copydetect is missing. The files are written then.
        ValueError: if fewer than two submissions hold code.
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
    _put(out / "handout" / f"{lab}.py", "\n\n".join(code(given) if (given := handout(lab)) else []))
    if count < 2:
        raise ValueError(f"{count} submissions hold code: two or more are compared")
    try:
        from copydetect import CopyDetector
    except ImportError:
        raise RuntimeError(
            f"{out / 'submissions'} is written, and copydetect, which compares, is not installed:"
            ' pip install "pruning-course[similarity]"'
        ) from None
    detector = CopyDetector(
        test_dirs=[str(out / "submissions")],
        boilerplate_dirs=[str(out / "handout")],
        extensions=["py"],
        out_file=str(out / "similarity.html"),
        autoopen=False,
        silent=True,
    )
    detector.run()
    detector.generate_html_report()
    return out / "similarity.html"


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="replace")
