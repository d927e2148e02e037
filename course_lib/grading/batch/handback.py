"""``feedback.zip``: every student's page, named as the systems take files back in bulk.

- Canvas ("Upload Submissions" beside the downloaded ones) knows a student by the
  numbers of user and attachment, which stay in front:
  ``doejane_12345_67890_lab01 feedback.html``. See
  ``infer_comment_context_from_filename`` in
  https://github.com/instructure/canvas-lms/blob/master/app/models/abstract_assignment.rb.
- Moodle ("Upload multiple feedback files in a zip") by the folder:
  ``Jane Doe_1234567_assignsubmission_file_/lab01 feedback.html``. See
  https://github.com/moodle/moodle/blob/main/mod/assign/feedback/file/importziplib.php.
- All others are called by their id, for a person to hand on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.authoring import release
from course_lib.grading.batch.names import printable
from course_lib.grading.batch.result import Result, read_all

MOODLE = "{name}_{id}_assignsubmission_file_/{file}"


def write(report: Path, moodle: Mapping[str, list[tuple[str, str]]] | None = None) -> Path:
    """Write ``feedback.zip`` into a report's folder.

    Args:
        moodle: by submission, the name and number of each student whom Moodle knows,
            where a roster says so.

    Raises:
        FileNotFoundError: if the folder holds no report.
    """
    results = list(read_all(report))
    whose: dict[str, list[tuple[str, str]]] = {
        r.id: [(who["name"], who["moodle id"]) for who in r.submitters if who.get("moodle id")]
        for r in results
    } | dict(moodle or {})
    times = Counter(id for students in whose.values() for _, id in students)
    files: dict[str, tuple[bytes, bool]] = {}
    for r in results:
        # one that two submissions are said to be of: a person has to look
        students = [(name, id) for name, id in whose[r.id] if times[id] == 1]
        page = report / r.page
        for path in _paths(r, students) if page.is_file() else []:
            files[_free(path, files)] = (page.read_bytes(), False)
    release.write_zip(report / "feedback.zip", files)
    return report / "feedback.zip"


def _paths(result: Result, moodle: list[tuple[str, str]]) -> list[str]:
    """Where a submission's page goes: to each of its students."""
    file = f"{result.lab} feedback.html"
    if moodle:  # what follows the first underscore is read as the number
        return [
            MOODLE.format(name=_safe(name).replace("_", " "), id=id, file=file)
            for name, id in moodle
        ]
    return [_safe(result.start) + file if result.start else f"{_safe(result.id)}.html"]


def _safe(text: str) -> str:
    """For a file's name on any system, and still to be read."""
    return re.sub(r'[\\/:*?"<>|]', "_", printable(text)).strip(" .")[:150] or "submission"


def _free(path: str, taken: Mapping[str, Any]) -> str:
    """The path, or the first of "… (2).html" that is not taken; upper and lower case
    are one on some systems.
    """
    stem, names, number = path.removesuffix(".html"), {name.lower() for name in taken}, 1
    while path.lower() in names:
        number += 1
        path = f"{stem} ({number}).html"
    return path
