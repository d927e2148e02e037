"""A term with a class of sixty, twenty in each system: collected as they come, late
ones, a person's marks, graded again and again, and everything that goes back read as
the system reads it.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from small_lab import ANSWERS, TESTS, Course, claim, notebook, put, zipped

from course_lib.grading.batch import gradebook, handback, summary

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm")]
COUNT = 20
POINTS = [3.0, 2.0, 1.0, 0.0]  # of small_lab.ANSWERS
NAMES = [f"Student {chr(ord('A') + i)}" for i in range(COUNT)]
LATE = {2, 5, 11}
MARKS = {
    1: ("1.2", "+0.5", 2.5),
    3: ("1.1", "2", 2.0),
    6: ("1.1", "-1", 1.0),
}  # question, points, total then; nothing is less than nothing

Layout = Callable[[Path], tuple[Path, str, Callable[[int], str]]]
# writes what is handed in; what is graded, the roster, a student's id there


def answer(i: int) -> str:
    """Student i's notebook."""
    return notebook(ANSWERS[i % 4])


def canvas(folder: Path) -> tuple[Path, str, Callable[[int], str]]:
    files = {"studentz_799_text.html": "<p>typed"}
    for i in range(COUNT):
        start = f"student{chr(97 + i)}_{'LATE_' * (i in LATE)}{700 + i}_"
        if i % 5 == 0:
            files[f"{start}{80 + i}_lab01.ipynb"] = notebook("x = 1")
        own = "x_7_assignsubmission_file_lab01.ipynb" if i == 7 else "lab01-1.ipynb"
        files[f"{start}{900 + i}_{own}"] = answer(i)
    lines = [f'"{name[-1]}, Student",{700 + i},,s{i},A,,' for i, name in enumerate(NAMES)]
    header = "Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (55),Total"
    roster = "\n".join([header, "    Points Possible,,,,,3,", *lines])
    archive = put(folder / "submissions.zip", zipped(files))
    return archive, roster, lambda i: f"student{chr(97 + i)}_{700 + i}"


def moodle(folder: Path) -> tuple[Path, str, Callable[[int], str]]:
    for i, name in enumerate(NAMES):
        own = f"{name}_{700 + i}_assignsubmission_file_/work/lab01.ipynb"
        put(folder / "in" / own, answer(i))
    put(folder / "in" / "notes.7z", "x")
    header = "ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Bestwertung,Kann geändert werden,Zuletzt,Feedback als Kommentar"
    students = [*((700 + i, name) for i, name in enumerate(NAMES)), (799, "Zoe Z")]
    lines = [f"Teilnehmer/in{n},{name},s{n}@x.edu,Abgegeben,,3.00,Ja,-," for n, name in students]
    return folder / "in", "\n".join([header, *lines]), lambda i: f"{NAMES[i]}_{700 + i}"


def gradescope(folder: Path) -> tuple[Path, str, Callable[[int], str]]:
    export = folder / "in" / "assignment_1_export"
    listed = "---\n"
    for i, name in enumerate(NAMES):
        put(export / f"submission_{100 + i}" / "lab01.ipynb", answer(i))
        listed += (
            f"submission_{100 + i}:\n  :submitters:\n  - :name: {name}\n    :sid: '{700 + i}'\n"
        )
    put(export / "submission_metadata.yml", listed)
    lines = [f"Student,{n[-1]},{700 + i},s{i}@x.edu," for i, n in enumerate(NAMES)]
    roster = "\n".join(["First Name,Last Name,SID,Email,Total Score", *lines])
    return folder / "in", roster, lambda i: f"submission_{100 + i}"


@pytest.mark.parametrize(
    "layout, number, grade, page",
    [  # where the platform finds a student's number and grade, and a page
        (canvas, "ID", r".+ \(55\)", r"studentc_LATE_702_902_"),
        (moodle, "ID", "Bewertung", r"Student C_702_assignsubmission_file_/"),
        (gradescope, "SID", "Total Score", "submission_102"),
    ],
    ids=["canvas", "moodle", "gradescope"],
)
def test_a_term(course: Course, layout: Layout, number: str, grade: str, page: str) -> None:
    course.submissions, text, id = layout(course.root)
    out = course.report
    column = {moodle: "Bewertung", gradescope: "Total Score"}.get(layout, "")
    roster = put(course.root / "roster.csv", text)

    def publish() -> list[str]:
        """The submissions that were marked."""
        done = course.grade(seed=3)
        summary.write(out)
        gradebook.fill(out, roster, column)
        handback.write(out)
        return done.graded

    def uploaded() -> dict[int, float]:
        """Each student's grade, as the platform reads it."""
        rows = course.rows("gradebook.csv")
        (column,) = (heading for heading in rows[0] if re.fullmatch(grade, heading))
        numbers = {re.sub(r"\D", "", row[number]): row[column] for row in rows}
        return {int(n) - 700: float(points) for n, points in numbers.items() if n and points}

    first = publish()
    assert len(first) == COUNT + (layout is not gradescope)  # and who typed into the system
    assert uploaded() == {i: POINTS[i % 4] for i in range(COUNT)}
    # a person's marks: nothing is marked again
    rows = [f"{id(i)},{question},{points},a word" for i, (question, points, _) in MARKS.items()]
    put(out / "marks.csv", "\n".join(["id,question,points,comment", *rows]))
    assert publish() == []
    by_hand = {i: total for i, (_, _, total) in MARKS.items()}
    assert uploaded() == {i: POINTS[i % 4] for i in range(COUNT)} | by_hand

    # the test was too strict, is corrected, and one student is graded again: two
    # regradings, and the marks by hand stay
    claim(course.root, TESTS.replace("!= [True]", "not in ([True], [False])"))
    assert len(publish()) == len(first)
    generous = [3.0, 3.0, 1.0, 0.0]
    corrected = {i: generous[i % 4] for i in range(COUNT)} | {1: 3.0, 3: 2.0, 6: 1.0}
    assert uploaded() == corrected
    assert course.grade(regrade=[id(4)]).graded == [id(4)]
    assert uploaded() == corrected

    # an appeal: half a point more
    rows.append(f"{id(2)},1.1,+0.5,you are right")
    put(out / "marks.csv", "\n".join(["id,question,points,comment", *rows]))
    assert publish() == []
    assert uploaded() == corrected | {2: 1.5}

    # and every page goes to its student
    with zipfile.ZipFile(out / "feedback.zip") as archive:
        pages = {name: archive.read(name).decode() for name in archive.namelist()}
    (mine,) = (name for name, text in pages.items() if "you are right" in text)
    assert mine.startswith(page)
    assert len(pages) == len(first)
    about = json.loads((out / "batch.json").read_text())
    assert not about["left"]
