"""``course similarity``: a class's code as files, compared by copydetect.

copydetect (https://copydetect.readthedocs.io) compares by winnowing as MOSS does, with names
replaced and the code of the handout left out. MOSS and JPlag read the same folders. Extra
``[similarity]``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from course_lib.grading.batch.collect import Submission, code, handout

# pairs on the page, which holds the code of both: with every pair above copydetect's third of
# common code, the page of a class of 150 had 290 MB
SHOWN = 50


def compare(submissions: Iterable[Submission], lab: str, out: Path) -> Path:
    """Write each submission's code into ``out/submissions``, the handout's into ``out/handout``,
    and the page with the :data:`SHOWN` pairs that share most; the page.

    Raises:
        RuntimeError: if copydetect is missing. The files are written then.
        ValueError: if fewer than two submissions hold code.
    """
    paths = []
    for s in submissions:
        own = [
            data.decode("utf-8", "replace")
            for data in s.files.values()
            if isinstance(data, bytes) and b"\0" not in data
        ]
        if s.cells:
            text = "\n\n".join([*s.cells, *own])
            paths.append(_write(out / "submissions" / f"{s.file_name}.py", text))
    text = "\n\n".join(code(given) if (given := handout(lab)) else [])
    boilerplate = _write(out / "handout" / f"{lab}.py", text)
    if len(paths) < 2:
        raise ValueError(f"{len(paths)} submissions hold code: two or more are compared")
    try:
        from copydetect import CopyDetector
    except ImportError:
        raise RuntimeError(
            f"{out / 'submissions'} is written, and copydetect, which compares, is not installed:"
            ' pip install "pruning-course[similarity]"'
        ) from None
    detector = CopyDetector(out_file=str(out / "similarity.html"), autoopen=False, silent=True)
    for path in paths:  # not the folder: it may hold files of an earlier run
        detector.add_file(str(path))
    detector.add_file(str(boilerplate), "boilerplate")
    detector.run()
    shares = detector.similarity_matrix[:, :, 0]
    pairs = np.sort(np.maximum(shares, shares.T)[np.triu_indices(len(paths), 1)])
    detector.conf.display_t = max(0.0, float(pairs[-SHOWN:][0]) - 1e-9)  # listed: what is above
    detector.generate_html_report()
    return out / "similarity.html"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="replace")
    return path
