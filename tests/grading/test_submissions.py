"""What is handed in: whose it is, which of several counts, and what no file can do to
the reader.
"""

from __future__ import annotations

import bz2
import os
import re
import shutil
import socket
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import small_lab
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.grading.batch import entries, ipynb, names, platforms
from course_lib.grading.batch.collect import collect, read_single_submission
from course_lib.grading.batch.submission import Submission, separate_file_names
from course_lib.sandbox_child import frames


def book(text: str = "x = 1") -> str:
    return nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)]))


def put(path: Path, text: str = "x = 1", when: int = 1_700_000_000) -> Path:
    return small_lab.put(path, book(text), when)


def code(data: bytes) -> list[str]:
    return ipynb.code(ipynb.read(data))


def found(folder: Path, lab: str = "lab01") -> dict[str, Submission]:
    return {h.id: h for h in collect(folder, lab).submissions}


# --- names ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, key, id, file",
    [
        ("doejane_12345_67890_lab01.ipynb", ("canvas", "12345"), "doejane_12345", "lab01.ipynb"),
        (
            "doejane_late_12345_67890_lab_01_2.ipynb",
            ("canvas", "12345"),
            "doejane_12345",
            "lab_01_2.ipynb",
        ),
        (
            "doejane_LATE_12345_67890_lab01-1.ipynb",
            ("canvas", "12345"),
            "doejane_12345",
            "lab01-1.ipynb",
        ),
        ("ørstedäöå_1_2_x.zip", ("canvas", "1"), "ørstedäöå_1", "x.zip"),
        ("anon_7xQ2b_67890_lab01.ipynb", ("canvas", "anon_7xq2b"), "anon_7xQ2b", "lab01.ipynb"),
        (
            "LATE_anon_7xQ2b_67890_lab01.ipynb",
            ("canvas", "anon_7xq2b"),
            "anon_7xQ2b",
            "lab01.ipynb",
        ),
        (
            "projectgroup1_LATE_12345_67890_x.ipynb",
            ("canvas", "12345"),
            "projectgroup1_12345",
            "x.ipynb",
        ),
        ("Jane Doe_1234567_assignsubmission_file_", ("moodle", "1234567"), "Jane Doe_1234567", ""),
        ("Jane Doe_1234567_assignsubmission_file", ("moodle", "1234567"), "Jane Doe_1234567", ""),
        ("A_1_B_99_assignsubmission_onlinetext_", ("moodle", "99"), "A_1_B_99", ""),
        ("J D_12_assignsubmission_file_lab01.ipynb", ("moodle", "12"), "J D_12", "lab01.ipynb"),
        ("jdoe+lab01+2024-05-01 10:11:12 UTC", ("nbgrader", "jdoe"), "jdoe", ""),
        ("smith-2.ipynb", ("name", "smith-2.ipynb"), "smith-2", "smith-2.ipynb"),
        (
            "hw_2024_17_final.ipynb",
            ("name", "hw_2024_17_final.ipynb"),
            "hw_2024_17_final",
            "hw_2024_17_final.ipynb",
        ),
        ("lab01_2_3_x.ipynb", ("name", "lab01_2_3_x.ipynb"), "lab01_2_3_x", "lab01_2_3_x.ipynb"),
    ],
)
def test_what_a_name_says(name: str, key: tuple[str, str], id: str, file: str) -> None:
    read = platforms.read_name(name, Path(name).stem)
    assert (read.key, read.id, read.file) == (key, id, file)


def test_another_platform_is_a_function_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_ilias(name: str, folder: bool, metadata: object) -> platforms.Name | None:
        match = re.fullmatch(r"(?P<who>[a-z]+)__(?P<number>\d+)__(?P<file>.+)", name)
        if not match:
            return None
        number = int(match["number"])
        return platforms.Name(("ilias", match["who"]), match["who"], match["file"], number)

    monkeypatch.setattr(platforms, "READERS", [read_ilias, *platforms.READERS])
    for number in (2, 10):  # the later upload counts, though its name comes first
        put(tmp_path / f"amy__{number}__lab01.ipynb", f"upload = {number}")
    put(tmp_path / "doejane_12345_80_lab01.ipynb")
    there = found(tmp_path)
    assert there.keys() == {"amy", "doejane_12345"}
    assert list(there["amy"].cells) == ["upload = 10"]


@pytest.mark.parametrize(
    "earlier, later",
    [
        ("2024-05-01", "2024-05-02"),
        ("2024-05-01T10-11-12", "2024-05-01T10-11-13"),
        ("20240501_1011", "20240501_1012"),
        ("2024-05-01 10:11:12.5 UTC", "2024-05-01 23:00"),
        ("2024-05-01 10:00 +0200", "2024-05-01 09:00"),
        ("2024-05-01 16:00", "2024-05-01 10:00 -0700"),
        ("attempt 2", "attempt 10"),
        ("1700000000", "1700000001000"),
    ],
)
def test_times_in_names(earlier: str, later: str) -> None:
    assert names.parse_timestamp(earlier) < names.parse_timestamp(later)


@pytest.mark.parametrize("text", ["notebooks", "lab01", "2024-02-31", "20240501x", "", "12345"])
def test_no_times_in_other_names(text: str) -> None:
    assert names.parse_timestamp(text) is None


def test_what_cannot_be_printed_is_spelt_out() -> None:
    assert (
        names.printable("a\nb\u202egp.exe\x1b[31m\x00é 學")
        == "a\\nb\\u202egp.exe\\x1b[31m\\x00é 學"
    )


# --- which of several counts ----------------------------------------------------------


def test_a_folder_a_student_and_a_time(tmp_path: Path) -> None:
    put(tmp_path / "ann" / "2024-05-01T10-00-00" / "lab01.ipynb", "first", when=1_900_000_000)
    put(tmp_path / "ann" / "2024-05-02T09-00-00" / "my work.ipynb", "second")
    put(tmp_path / "ann" / "2024-05-03T09-00-00" / "lab00.ipynb", "another lab")
    ann = found(tmp_path)["ann"]
    # what defines nothing of the lab may import it: the last one that does is graded, too
    assert ann.cells == ["second"] and [v.cells for v in ann.versions] == [["first"]]
    assert ann.notebook == "2024-05-02T09-00-00/my work.ipynb"
    assert "3 notebooks were handed in" in ann.choice and "lab00.ipynb (named after" in ann.choice
    put(tmp_path / "ann" / "2024-05-02T09-00-00" / "my work.ipynb", "magnitude_mask = 'second'")
    ann = found(tmp_path)["ann"]
    assert ann.cells == ["magnitude_mask = 'second'"] and not ann.versions
    assert "latest submission" in ann.choice


def test_where_nothing_says_which_is_later_all_with_answers_are_graded(tmp_path: Path) -> None:
    put(tmp_path / "ann" / "lab01.ipynb", "old", when=1_600_000_000)
    put(tmp_path / "ann" / "sub" / "lab01_more.ipynb", "new", when=1_700_000_000)
    put(tmp_path / "ann" / "scratch.ipynb", "scratch", when=1_500_000_000)
    put(tmp_path / "ben" / "lab01 (2).ipynb", "third", when=1_600_000_000)
    put(tmp_path / "ben" / "lab01.ipynb", "first")
    put(tmp_path / "ben" / "lab01-1.ipynb", "second")
    put(tmp_path / "ben" / "copy of lab01.ipynb", "second")
    put(tmp_path / "cas" / "lab00.ipynb", "wrong lab, but all there is")
    for number in range(6):
        put(tmp_path / "dov" / f"lab01 {'abcdef'[number]}.ipynb", str(number))
    there = found(tmp_path)
    ann, ben, dov = (there[id] for id in ("ann", "ben", "dov"))
    assert [h.cells for h in (ann, *ann.versions)] == [["new"], ["old"]]
    assert "nothing says which is the latest" in ann.choice
    assert sorted(h.cells[0] for h in (ben, *ben.versions)) == ["first", "second", "third"]
    assert there["cas"].cells == ["wrong lab, but all there is"] and there["cas"].choice == ""
    assert dov.status == "pending" and "6 notebooks" in dov.problem and not dov.cells


GRADESCOPE = """---
submission_101:
  :submitters:
  - :name: Jane Doe
    :sid: '0042'
    :email: jane@example.edu
  :created_at: 2024-05-01 10:00:00.5 Z
  :score: 3.0
  :results: !ruby/object:Results {stdout: "x"}
submission_102:
  :submitters:
  - {":name": Al, ":sid": "7", ":email": al@example.edu}
  - {":name": Bo, ":sid": "8", ":email": bo@example.edu}
  :created_at: !ruby/object:ActiveSupport::TimeWithZone
    utc: 2024-05-01 10:00:00
submission_103:
  :submitters:
  - {":name": Jane Doe, ":sid": "0042", ":email": jane@example.edu}
  :created_at: 2024-05-02 10:00:00 Z
"""


def pack(path: Path, folder: Path) -> Path:
    """The folder's contents as a zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder).as_posix())
    return path


def canvas(folder: Path) -> dict[str, list[str]]:
    # unzipped with an older time
    put(folder / "doejane_LATE_12345_900_lab01-1.ipynb", "new", when=1_600_000_000)
    put(folder / "doejane_12345_80_lab01.ipynb", "old")
    inner = small_lab.zipped({"lab01.ipynb": book("his")})
    small_lab.put(folder / "roejohn_12346_81_work.zip", small_lab.zipped({"a/work.zip": inner}))
    small_lab.put(folder / "alo_12347_text.html", "<p>I have typed it in")
    return {"doejane_12345": ["new"], "roejohn_12346": ["his"], "alo_12347": []}


def moodle(folder: Path) -> dict[str, list[str]]:
    put(folder / "Jane Doe_7_assignsubmission_file_" / "lab01.ipynb", "hers")
    online = folder / "Jane Doe_7_assignsubmission_onlinetext_" / "onlinetext.html"
    small_lab.put(online, "<p>see the file</p>")
    put(folder / "Bo Ng_8_assignsubmission_file_" / "deep" / "x.ipynb", "his")
    small_lab.put(folder / "Al O_9_assignsubmission_file_" / "lab01.pdf", "%PDF")
    return {"Jane Doe_7": ["hers"], "Bo Ng_8": ["his"], "Al O_9": []}


def gradescope(folder: Path) -> dict[str, list[str]]:
    export = folder / "assignment_5_export"
    for number in (101, 102, 103, 104):
        put(export / f"submission_{number}" / "lab01.ipynb", str(number))
    (export / "submission_metadata.yml").write_text(GRADESCOPE)
    # the second group's, Jane's later one, and one that the list does not have
    return {f"submission_{number}": [f"{number}"] for number in (102, 103, 104)}


def nbgrader(folder: Path) -> dict[str, list[str]]:
    put(folder / "inbound" / "ann+lab01+2024-05-01 10:00:00 UTC" / "lab01.ipynb", "hers")
    put(folder / "inbound" / "bob+lab01+2024-05-01 10:00:00 UTC" / "lab01.ipynb", "his")
    return {"ann": ["hers"], "bob": ["his"]}


KNOWN: dict[Callable[[Path], Any], dict[str, list[dict[str, str]]]] = {
    # by layout, what is known of a submission's students
    canvas: {"doejane_12345": [{"canvas id": "12345", "name": "doejane"}]},
    moodle: {"Jane Doe_7": [{"moodle id": "7", "name": "Jane Doe"}]},
    gradescope: {
        "submission_102": [
            {"name": "Al", "email": "al@example.edu", "sid": "7", "gradescope id": "102"},
            {"name": "Bo", "email": "bo@example.edu", "sid": "8", "gradescope id": "102"},
        ],
        "submission_104": [{"gradescope id": "104"}],
    },
    nbgrader: {"ann": []},
}


@pytest.mark.parametrize("layout", KNOWN)
def test_a_class_is_read_from_its_zip_as_from_its_folder(
    tmp_path: Path, layout: Callable[[Path], Any]
) -> None:
    (tmp_path / "folder").mkdir()
    expected = layout(tmp_path / "folder")
    (tmp_path / "downloads").mkdir()
    archive = pack(tmp_path / "downloads" / "class.zip", tmp_path / "folder")
    before = sorted(tmp_path.rglob("*"))
    said = []
    for place in (tmp_path / "folder", archive, tmp_path / "downloads"):
        there = found(place)
        assert {id: h.cells for id, h in there.items()} == expected
        assert not any(h.versions for h in there.values())  # the latest alone counts
        assert {id: there[id].submitters for id in KNOWN[layout]} == KNOWN[layout]
        said.append(
            [(h.file_name, h.digest, h.choice, h.problem, h.submitters) for h in there.values()]
        )
    assert said[0] == said[1] == said[2]
    if layout is gradescope:
        assert there["submission_103"].time == 1714644000.0 and there["submission_104"].time is None
    if layout is moodle:
        assert "no notebook (lab01.pdf)" in there["Al O_9"].problem
    assert sorted(tmp_path.rglob("*")) == before  # nothing was unpacked


def test_a_broken_list_of_gradescopes_is_said(tmp_path: Path) -> None:
    put(tmp_path / "submission_1" / "lab01.ipynb")
    (tmp_path / "submission_metadata.yml").write_text("a: [1\n")
    with pytest.raises(ValueError, match=r"submission_metadata.yml cannot be read"):
        collect(tmp_path, "lab01")


def test_among_others_a_class_in_a_zip_is_one_students_and_refused(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    canvas(tmp_path / "class")
    pack(tmp_path / "mallory.zip", tmp_path / "class")
    put(tmp_path / "roejohn_12346_81_lab01.ipynb", "his own")
    shutil.rmtree(tmp_path / "class")
    there = found(tmp_path)
    assert there["roejohn_12346"].cells == ["his own"] and len(there) == 2
    assert "several students: unzip it" in there["mallory"].problem


def test_a_students_zip_alone_is_a_students(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "amy.zip", "w") as archive:
        archive.writestr("lab01.ipynb", book("hers"))
        archive.writestr("scratch.ipynb", book("scratch"))
    for place in (tmp_path, tmp_path / "amy.zip"):
        assert {id: h.cells for id, h in found(place).items()} == {"amy": ["hers"]}


def test_what_is_no_submission_is_named_with_why(tmp_path: Path) -> None:
    put(tmp_path / "amy.ipynb")
    for name in (
        "bob.ipynb.txt",
        "cy.html",
        "dan.7z",
        "eve.py",
        ".fay.ipynb",
        "gus",
        "roster.csv",
        ".DS_Store",
        "h.IPYNB.json",
    ):
        (tmp_path / name).write_text("x")
    (tmp_path / "data.json").write_text('{"a": 1}')
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "empty").mkdir()
    there = collect(tmp_path, "lab01")
    # meant as somebody's notebook: no 0, but for a person to look at
    assert {h.id: h.status for h in there.submissions} == {
        "amy": "pending", "bob": "pending", "dan": "pending", "empty": "pending", "h": "pending"
    }  # fmt: skip
    left = dict(there.left)
    assert sorted(left) == [".fay.ipynb", "cy.html", "data.json", "eve.py", "gus", "roster.csv"]
    assert "not the notebook itself" in left["cy.html"] and there.sections == []
    assert "a script" in left["eve.py"] and "hidden" in left[".fay.ipynb"]
    for name in ("amy.ipynb", "bob.ipynb.txt", "dan.7z", "h.IPYNB.json"):
        (tmp_path / name).unlink()
    (tmp_path / "empty").rmdir()
    with pytest.raises(
        FileNotFoundError, match=r"one of these per student is expected; .*cy.html: a page"
    ):
        collect(tmp_path, "lab01")


# --- sections -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files, ids, sections",
    [
        (  # named so
            ["Section A/amy/lab01.ipynb", "Section A/bob/lab01.ipynb", "cy/lab01.ipynb"],
            ["amy", "bob", "cy"], ["Section A"],
        ),
        (["Section A/amy.ipynb", "Tutorial 3/amy.ipynb", "Tutorial 3/bo.zip"], ["Section A/amy", "Tutorial 3/amy", "bo"],
         ["Section A", "Tutorial 3"]),
        (  # of a system's names
            ["Monday/doejane_12345_80_lab01.ipynb", "Tuesday/roejohn_12346_81_lab01.ipynb"],
            ["doejane_12345", "roejohn_12346"], ["Monday", "Tuesday"],
        ),
        (  # made by hand
            ["Monday/amy/lab01.ipynb", "Monday/bob/lab01.ipynb", "Tuesday/cy/lab01.ipynb", "Tuesday/di/x/lab01.ipynb"],
            ["amy", "bob", "cy", "di"], ["Monday", "Tuesday"],
        ),
        # students' own folders
        (["amy/part 1/a.ipynb", "amy/part 2/b.ipynb", "bob/lab01.ipynb"], ["amy", "bob"], []),
        (["amy/old/a.ipynb", "amy/new/b.ipynb", "bob/old/a.ipynb", "bob/new/a.ipynb"], ["amy", "bob"], []),
        (["amy/2024-05-01/a.ipynb", "amy/2024-05-02/b.ipynb"], ["amy"], []),
        (["amy/lab00/a.ipynb", "amy/lab01/b.ipynb", "bob/lab02/a.ipynb", "bob/lab03/a.ipynb"], ["amy", "bob"], []),
        (["Section A/2024-05-01/a.ipynb", "Section A/2024-05-02/a.ipynb"], ["Section A"], []),
        # who puts others' names into an own folder speaks for nobody
        (["mal/doejane_12345_99_lab01.ipynb", "mal/roejohn_12346_98_lab01.ipynb", "doejane/lab01.ipynb"], ["doejane", "mal"], []),
        (["mal/doejane_12345_99_x.ipynb", "doejane_12345_80_lab01.ipynb"], ["doejane_12345", "mal"], []),
    ],
)  # fmt: skip
def test_a_section_is_no_student(
    tmp_path: Path, files: list[str], ids: list[str], sections: list[str]
) -> None:
    for name in files:
        if name.endswith(".zip"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            with zipfile.ZipFile(tmp_path / name, "w") as archive:
                archive.writestr("lab01.ipynb", book(name))
        else:
            put(tmp_path / name, name)
    there = collect(tmp_path, "lab01")
    assert ([h.id for h in there.submissions], there.sections) == (ids, sections)
    assert len({h.file_name for h in there.submissions}) == len(ids) and not there.left


def test_of_one_name_in_two_folders_the_folder_is_named(tmp_path: Path) -> None:
    put(tmp_path / "Jane_7_assignsubmission_file_" / "lab01.ipynb", "old", when=1_600_000_000)
    put(tmp_path / "Jane_7_assignsubmission_file" / "lab01.ipynb", "new")
    (jane,) = collect(tmp_path, "lab01").submissions
    assert jane.cells == ["new"] and jane.notebook == "Jane_7_assignsubmission_file/lab01.ipynb"
    assert [v.notebook for v in jane.versions] == ["Jane_7_assignsubmission_file_/lab01.ipynb"]


def test_no_name_makes_a_submission_disappear(tmp_path: Path) -> None:
    put(tmp_path / "a.ipynb", "file")
    put(tmp_path / "a" / "x.ipynb", "folder")
    put(tmp_path / "doejane_5_6_lab01.ipynb", "canvas")
    put(tmp_path / "doejane_5" / "x.ipynb", "a folder of that name")
    for name in ("a-1.ipynb", "a-2.ipynb"):  # they only look like further uploads
        put(tmp_path / name, name)
    assert sorted(h.cells[0] for h in collect(tmp_path, "lab01").submissions) == sorted(
        ["file", "folder", "canvas", "a folder of that name", "a-1.ipynb", "a-2.ipynb"]
    )


# --- whose is it ----------------------------------------------------------------------


def test_a_students_own_file_name_does_not_speak_for_moodle(tmp_path: Path) -> None:
    put(tmp_path / "Jane Doe_1000001_assignsubmission_file_lab00.ipynb", "hers", when=1_600_000_000)
    put(
        tmp_path
        / "John Roe_1000002_assignsubmission_file_x_1000001_assignsubmission_file_lab00.ipynb",
        "his",
    )
    put(
        tmp_path
        / "Al O_1000003_assignsubmission_file_Jane Doe_1000001_assignsubmission_file_lab00.ipynb",
        "Al's",
    )
    there = found(tmp_path, "lab00")
    assert {id: h.cells for id, h in there.items()} == {
        "Jane Doe_1000001": ["hers"], "John Roe_1000002": ["his"], "Al O_1000003": ["Al's"],
    }  # fmt: skip
    assert not any(h.choice or h.problem for h in there.values())


def test_nor_for_the_other_systems(tmp_path: Path) -> None:
    put(tmp_path / "Jane Doe_7_assignsubmission_file_" / "roejohn_12346_81_lab01.ipynb", "Jane's")
    put(tmp_path / "Bo_8_assignsubmission_file_roejohn_12346_99_lab01.ipynb", "Bo's")
    put(tmp_path / "roejohn_12346_81_lab01.ipynb", "John's")
    put(tmp_path / "aldoe_12347_90_x_7_assignsubmission_file_lab01.ipynb", "Al's")
    put(tmp_path / "cydoe_12348_91_ann+lab01+2030-01-01.ipynb", "Cy's")
    put(tmp_path / "ann+lab01+2024-05-01 10:00:00 UTC" / "lab01.ipynb", "Ann's")
    put(tmp_path / "ann+lab01+2030-01-01.ipynb", "a file of such a name")
    there = found(tmp_path)
    assert sorted(h.cells[0] for h in there.values()) == sorted(
        ["Jane's", "Bo's", "John's", "Al's", "Cy's", "Ann's", "a file of such a name"]
    )
    assert there["ann"].cells == ["Ann's"]


@pytest.mark.parametrize(
    "first, second",
    [
        ("Jane Doe_7_assignsubmission_file_lab01.ipynb", "x_7_assignsubmission_file_lab01.ipynb"),
        ("doejane_12345_80_lab01.ipynb", "x_12345_81_lab01.ipynb"),
    ],
)
def test_two_that_claim_one_person_are_both_refused_by_name(
    tmp_path: Path, first: str, second: str
) -> None:
    put(tmp_path / first, "hers")
    put(tmp_path / second, "whose?")
    put(tmp_path / "bob.ipynb", "his")
    there = found(tmp_path)
    assert len(there) == 3 and there["bob"].cells == ["his"]
    for h in there.values():
        if h.id != "bob":
            assert h.cells == [] and first in h.problem and second in h.problem
            assert "until one of them is taken away or renamed" in h.problem


def test_the_same_person_packed_twice_is_one(tmp_path: Path) -> None:
    put(tmp_path / "Zo\u00eb D_7_assignsubmission_file_lab01.ipynb", "of Linux", when=1_600_000_000)
    put(tmp_path / "Zoe\u0308 D_7_assignsubmission_file_lab01-1.ipynb", "of a Mac")
    (zoe,) = collect(tmp_path, "lab01").submissions
    assert zoe.cells == ["of a Mac"] and "2 notebooks" in zoe.choice


def test_a_name_in_canvas_that_poses_as_another_users_files(tmp_path: Path) -> None:
    """Canvas takes ``_12_`` out of names, but out of ``__12__`` only the outer
    lines.
    """
    put(tmp_path / "doejane_12345_80_lab01.ipynb", "hers")
    put(
        tmp_path / "doejane_12345_999_x_12346_81_lab01.ipynb",
        "his, who calls himself doejane__12345__999__x",
    )
    put(tmp_path / "aldoe_12347_82_lab01.ipynb", "Al's first", when=1_600_000_000)
    put(tmp_path / "aldoe_12347_83_lab01_2024_17_final_20240501_101112_3.ipynb", "Al's last")
    there = found(tmp_path)
    assert there["doejane_12345"].cells == ["hers"] and there["aldoe_12347"].cells == ["Al's last"]
    (odd,) = (h for h in there.values() if h.problem)
    assert (
        odd.id == "doejane_12345_999_x_12346_81_lab01.ipynb"
        and "can be read as Canvas's 12345's" in odd.problem
    )
    assert odd.submitters == []  # so that no table gives it to anybody


def test_people_of_one_name_in_gradescope_are_two_and_a_group_takes_nobody_in(
    tmp_path: Path,
) -> None:
    for number in (1, 2, 3, 4):
        put(tmp_path / f"submission_{number}" / "lab01.ipynb", str(number))
    (tmp_path / "submission_metadata.yml").write_text(
        "submission_1:\n  :submitters: [{':name': Kim Lee}]\n"
        "submission_2:\n  :submitters: [{':name': Kim Lee}]\n"
        "submission_3:\n  :submitters: [{':name': Jane, ':email': J@x.edu}]\n"
        "submission_4:\n  :submitters: [{':name': Mal, ':email': m@x.edu}, {':name': Jane, ':email': j@x.edu}]\n"
    )
    there = found(tmp_path)
    # Jane's later one is the group's, and Gradescope's own list says so
    assert {id: h.cells for id, h in there.items()} == {
        "submission_1": ["1"],
        "submission_2": ["2"],
        "submission_4": ["4"],
    }
    assert [who["name"] for who in there["submission_4"].submitters] == ["Jane", "Mal"]
    assert "Not counted: submission_3/lab01.ipynb" in there["submission_4"].choice


# --- hostile files --------------------------------------------------------------------

unix = pytest.mark.skipif(os.name == "nt", reason="links and pipes of Unix")


@unix
def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret" / "lab01.ipynb", "answers")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "file.ipynb").symlink_to(secret)
    (folder / "folder").symlink_to(secret.parent)
    (folder / "inner").mkdir()
    (folder / "inner" / "lab01.ipynb").symlink_to(secret)
    (folder / "deep").mkdir()
    (folder / "deep" / "more").symlink_to(secret.parent)
    (folder / "round").mkdir()
    (folder / "round" / "and").symlink_to(folder / "round")
    (folder / "dangling.ipynb").symlink_to("nowhere")
    with zipfile.ZipFile(folder / "zip.zip", "w") as archive:
        info = zipfile.ZipInfo("lab01.ipynb")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, str(secret))
    there = found(folder)
    assert all(h.problem and not h.cells for h in there.values())
    assert all("link" in there[id].problem for id in ("file", "folder", "inner", "dangling", "zip"))
    assert sorted(there) == ["dangling", "deep", "file", "folder", "inner", "round", "zip"]


@unix
def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "in a folder").mkdir()
    os.mkfifo(tmp_path / "in a folder" / "lab01.ipynb")
    os.mkfifo(tmp_path / "zipped.zip")
    # an opened one would wait for ever
    assert ["pipe" in h.problem for h in collect(tmp_path, "lab01").submissions] == [True] * 3


def zipped(path: Path, packed: int = zipfile.ZIP_DEFLATED, size: int = 0) -> None:
    with zipfile.ZipFile(path, "w", packed) as archive, archive.open("lab01.ipynb", "w") as file:
        for _ in range(size >> 20):
            file.write(b" " * (1 << 20))


def test_a_zip_that_unpacks_to_more_than_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "MAX_BYTES", 4 << 20)
    zipped(tmp_path / "a.zip", size=64 << 20)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    # both headers now say: 10 bytes
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.index(mark) + offset
        data[at : at + 4] = (10).to_bytes(4, "little")
    (tmp_path / "b.zip").write_bytes(data)
    problems = {id: h.problem for id, h in found(tmp_path).items()}
    assert "larger than 4 MB" in problems["a"]
    assert problems["b"]


def test_a_zip_packed_without_a_limit_on_unpacking_is_not_unpacked(tmp_path: Path) -> None:
    zipped(tmp_path / "a.zip", zipfile.ZIP_BZIP2, size=8 << 20)
    assert len(bz2.compress(b" " * (8 << 20))) < 100  # what makes it dangerous
    assert "unusual way" in found(tmp_path)["a"].problem


def test_a_zip_with_a_million_names(tmp_path: Path) -> None:
    end = b"PK\x05\x06" + b"\0" * 4 + b"\xff\xff" * 2 + (1 << 29).to_bytes(4, "little") + b"\0" * 6
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + b"\0" * 100 + end)
    assert "too many files" in found(tmp_path)["a"].problem


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"PK\x05\x06" + b"\xff" * 18, b"PK\x05\x06" + b"\0" * 18]
)
def test_broken_zips(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    assert found(tmp_path)["a"].problem


def test_a_hundred_thousand_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MAX_FILES", 50)
    for number in range(60):
        (tmp_path / "many" / f"{number}").mkdir(parents=True)
    put(tmp_path / "many" / "lab01.ipynb")
    deep = tmp_path / "deep"
    for _ in range(20):
        deep = deep / "d"
    put(deep / "lab01.ipynb")
    there = found(tmp_path)
    assert "more than 50 files" in there["many"].problem
    assert "deep" in there["deep"].problem


def test_more_code_than_goes_to_the_worker_in_one_piece_is_refused() -> None:
    # JSON spends six bytes on a euro
    for text, size in (("x" * 1_200_000, "1.2"), ("\u20ac" * 200_000, "1.2")):
        assert f"holds {size} MB of code" in str(
            pytest.raises(ipynb.Unreadable, code, book(text).encode()).value
        )
    most = code(book("x" * (ipynb.MAX_CODE - 4)).encode())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reading = threading.Thread(target=frames.receive, args=(theirs,))
        reading.start()
        frames.send(ours, {"cells": most, "graded": [f"function_{n}" for n in range(100)]})
        reading.join()


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_any_bytes_in_a_name(tmp_path: Path) -> None:
    for name in (
        b"\xff\xfe.ipynb",
        b"line\nbreak.ipynb",
        b"\x1b[31m.ipynb",
        "e\u0301.ipynb".encode(),
        "é.ipynb".encode(),
    ):
        (tmp_path / os.fsdecode(name)).write_text(book())
    there = collect(tmp_path, "lab01").submissions
    assert len({h.file_name for h in there}) == len(there) == 5
    for h in there:
        assert h.id.encode() and h.notebook.encode()  # can be written
        assert h.file_name.isascii() and h.file_name.isprintable()


TWINS = (0x1216F, 0x20D83)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_two_results_have_one_file_name(data: st.DataObject) -> None:
    names = st.sampled_from(
        ["Ann", "ann", "ANN", "Ann.", "Ann-1", "CON", "nul.x", "../x", "x" * 81, "x" * 82]
    ) | st.text(min_size=1, max_size=8)
    handed = [Submission(id) for id in data.draw(st.lists(names, max_size=6, unique=True))]
    # names as our own tags make them, of what is there so far
    for _ in range(data.draw(st.integers(0, 3))):
        separate_file_names(handed)
        files = {h.file_name for h in handed} | {h.file_name.swapcase() for h in handed}
        files |= {Submission(h.id, tag=digits).file_name for h in handed for digits in (8, 64)}
        chosen = data.draw(st.lists(st.sampled_from(sorted(files)), max_size=4)) if files else []
        handed += [
            Submission(id) for id in dict.fromkeys(chosen) if id not in {h.id for h in handed}
        ]
    for h in handed:
        h.tag = 0
    separate_file_names(handed)
    files = [h.file_name for h in handed]
    assert len({file.lower() for file in files}) == len(files)
    for file in files:
        assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,118}", file)
        # Windows has other uses for these, and drops a last dot
        assert file.lower() not in {"con", "nul.x"} and not file.endswith(".")


def test_two_names_with_the_same_short_tag() -> None:
    first, second = (Submission(chr(c)) for c in TWINS)
    assert first.file_name == second.file_name  # eight digits of a hash are soon found twice
    separate_file_names([first, second])
    assert first.file_name != second.file_name and len(first.file_name) < 120


def test_one_students_folder_for_the_autograder(tmp_path: Path) -> None:
    put(tmp_path / "submission" / "lab01.ipynb", "hers")
    assert read_single_submission(tmp_path / "submission", "lab01").cells == ["hers"]
    (tmp_path / "empty").mkdir()
    assert "no notebook" in read_single_submission(tmp_path / "empty", "lab01").problem
