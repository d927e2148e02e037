"""Pages go back to their students: named as each system takes them, and for people to
read where none does.
"""

from __future__ import annotations

import csv
import re
import zipfile
from pathlib import Path

import pytest
from small_lab import RIGHT, Course, claim, notebook, put
from typer.testing import CliRunner

from course_lib import cli
from course_lib.grading.batch import handback, platforms
from course_lib.grading.batch import upload as lms

pytestmark = pytest.mark.usefixtures("warm")
CANVAS = [
    "doejane_LATE_12345_900_lab01-1.ipynb",
    "doejane_12345_80_lab01.ipynb",
    "anon_7xQ2b_67890_lab01.ipynb",
    "roejohn_12346_81_torn.zip",
]
MOODLE = [
    "Zoë D'Arc_7_assignsubmission_file_/lab01.ipynb",
    "Bo_Ng_8_assignsubmission_file_lab01.ipynb",
]
OTHERS = ["amy lee.ipynb", "b?d.ipynb", "學生.ipynb", "AMY LEE.ipynb"]


@pytest.fixture
def report(course: Course) -> Path:
    for name in [*CANVAS, *MOODLE, *OTHERS]:
        course.put(name, "torn" if "torn" in name else notebook(RIGHT))
    return course.grade(jobs=2).report


def pages(report: Path) -> dict[str, str]:
    """What ``feedback.zip`` holds."""
    with zipfile.ZipFile(report / "feedback.zip") as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


def canvas_reads(name: str) -> tuple[str, str]:
    """User and attachment, as Canvas finds them:
    ``infer_comment_context_from_filename``.
    """
    parts = [part for part in name.split("_") if part != "LATE"]
    if parts[0] == "anon":
        return parts[1], parts[2]
    return tuple([part for part in parts if re.fullmatch(r"\d+", part)][:2])  # type: ignore[return-value]


def moodle_reads(path: str) -> str:
    """The participant, as Moodle finds them: ``is_valid_filename_for_import``."""
    part = path.split("/")[0].split("_", 4)
    assert part[2:4] == ["assignsubmission", "file"]
    return part[1]


def test_every_page_goes_to_its_student(report: Path) -> None:
    handback.write(report)
    found = pages(report)
    heading = r"<h1>lab01: <bdi>(.*)</bdi>"
    ids = {name: re.search(heading, page)[1] for name, page in found.items()}  # type: ignore[index]
    assert len(found) == len(list((report / "feedback").glob("*.html"))) == 9
    canvas = {
        ids[name]: canvas_reads(name) for name in found if re.match(r"doejane|anon|roejohn", name)
    }
    assert canvas == {
        "doejane_12345": ("12345", "900"),
        "anon_7xQ2b": ("7xQ2b", "67890"),
        "roejohn_12346": ("12346", "81"),
    }
    moodle = {ids[name]: moodle_reads(name) for name in found if "/" in name}
    assert moodle == {"Zoë D&#39;Arc_7": "7", "Bo_Ng_8": "8"}
    others = {name for name in found if ids[name] in ("amy lee", "AMY LEE", "b?d", "學生")}
    assert {name.lower() for name in others} == {
        "amy lee.html",
        "amy lee (2).html",
        "b_d.html",
        "學生.html",
    }
    assert "doejane_LATE_12345_900_lab01 feedback.html" in found
    assert "Zoë D'Arc_7_assignsubmission_file_/lab01 feedback.html" in found
    for name in found:  # what we write, we read as the same student's
        if "/" in name or platforms.read_name(name, "").known:
            read = platforms.read_name(name.split("/")[0], "").id
            assert read.replace("'", "&#39;").replace(" Ng", "_Ng") == ids[name]
    data = (report / "feedback.zip").read_bytes()
    handback.write(report)
    assert (report / "feedback.zip").read_bytes() == data
    # the table says which page is whose
    with open(report / "grades.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9
    for row in rows:
        page = (report / row["feedback"]).read_text(encoding="utf-8")
        assert f"<bdi>{row['id'].replace(chr(39), '&#39;')}</bdi>" in page
    # a roster tells Moodle who is who
    roster = put(
        report / "roster.csv",
        "Identifier,Full name,Email address,submission\n"
        "Participant 5,Amy Lee-Roe,amy@x,b?d\nParticipant 7,Zoë D'Arc,z@x,\n",
    )
    lms.write(report, ["moodle"], roster)
    assert "Amy Lee-Roe_5_assignsubmission_file_/lab01 feedback.html" in pages(report)


def test_nobody_gets_anothers_page(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("Jane_7", "x_7"):
        course.hand_in(f"{name}_assignsubmission_file_lab01", RIGHT)
    claim(tmp_path / "tests" / "labs")
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))
    command = ["grade", "lab01", str(course.submissions), "--out", str(course.report)]
    said = CliRunner().invoke(cli.app, command)
    assert said.exit_code == 0 and "feedback.zip" in said.output, said.output
    assert sorted(pages(course.report)) == ["Jane_7.html", "x_7.html"]  # a person has to look
