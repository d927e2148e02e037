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
from course_lib.grading.batch import report as reports
from course_lib.grading.batch.names import shown

MOODLE = "{name}_{id}_assignsubmission_file_/{file}"


def write(report: Path, moodle: Mapping[str, list[tuple[str, str]]] | None = None) -> Path:
    """Write ``feedback.zip`` into a report's folder.

    Args:
        moodle: by submission, the name and number of each student whom Moodle knows,
            where a roster says so.

    Raises:
        FileNotFoundError: if the folder holds no report.
    """
    whose: dict[str, list[tuple[str, str]]] = dict(moodle or {})
    for result in reports.results(report):
        people = result["extra_data"].get("submitters") or []
        theirs = [(w["name"], w["moodle id"]) for w in people if w.get("moodle id")]
        whose.setdefault(result["extra_data"]["id"], theirs)
    times = Counter(id for students in whose.values() for _, id in students)
    files: dict[str, tuple[bytes, bool]] = {}
    for name, result in reports.named_results(report):
        page = report / "feedback" / f"{name}.html"
        students = [
            (name, id) for name, id in whose[result["extra_data"]["id"]] if times[id] == 1
        ]  # else a person has to look
        for path in _paths(result["extra_data"], students) if page.is_file() else []:
            files[_free(path, files)] = (page.read_bytes(), False)
    release.write_zip(report / "feedback.zip", files)
    return report / "feedback.zip"


def _paths(about: dict[str, Any], moodle: list[tuple[str, str]]) -> list[str]:
    """Where a submission's page goes: to each of its students."""
    file = f"{about['lab']} feedback.html"
    if moodle:  # what follows the first underscore is read as the number
        return [
            MOODLE.format(name=_safe(name).replace("_", " "), id=id, file=file)
            for name, id in moodle
        ]
    return [_safe(about["start"]) + file if about.get("start") else f"{_safe(about['id'])}.html"]


def _safe(text: str) -> str:
    """For a file's name on any system, and still to be read."""
    return re.sub(r'[\\/:*?"<>|]', "_", shown(text)).strip(" .")[:150] or "submission"


def _free(path: str, taken: Mapping[str, Any]) -> str:
    """The path, or the first of "… (2).html" that is not taken; upper and lower case
    are one on some systems.
    """
    stem, names, number = path.removesuffix(".html"), {name.lower() for name in taken}, 1
    while path.lower() in names:
        number += 1
        path = f"{stem} ({number}).html"
    return path
