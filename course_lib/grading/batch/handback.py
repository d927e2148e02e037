"""``feedback.zip``: every student's page, named as the platforms take files back in bulk.

Canvas knows a student by the numbers in front, ``doejane_12345_67890_lab01 feedback.html``
(https://github.com/instructure/canvas-lms/blob/master/app/models/abstract_assignment.rb), Moodle
by the folder, ``Jane Doe_1234567_assignsubmission_file_/``
(https://github.com/moodle/moodle/blob/main/mod/assign/feedback/file/importziplib.php). All others
are called by their id, for a person to hand on.
"""

from __future__ import annotations

import re
from pathlib import Path

from course_lib.authoring import release
from course_lib.grading.batch.collect import printable
from course_lib.grading.batch.result import Result, read_all


def write(report: Path) -> Path:
    """Write ``feedback.zip`` into a report's folder."""
    files = {_path(r): ((report / r.page).read_bytes(), False) for r in read_all(report)}
    release.write_zip(report / "feedback.zip", files)
    return report / "feedback.zip"


def _path(result: Result) -> str:
    """Where a submission's page goes."""
    who = result.submitters[0] if len(result.submitters) == 1 else {}
    if "moodle id" in who:  # what follows the first underscore is read as the number
        name = _safe(who["name"]).replace("_", " ")
        return f"{name}_{who['moodle id']}_assignsubmission_file_/{result.lab} feedback.html"
    if result.start:
        return f"{_safe(result.start)}{result.lab} feedback.html"
    return f"{result.file_name}.html"


def _safe(text: str) -> str:
    """For a file's name on any system, and still to be read."""
    return re.sub(r'[\\/:*?"<>|]', "_", printable(text)).strip(" .")[:150]
