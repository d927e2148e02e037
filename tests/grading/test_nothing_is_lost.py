"""No mark is lost on the way: which file counts, whose it is, and what becomes of files
that cannot be graded.
"""

from __future__ import annotations

import csv
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from grading.small_lab import RIGHT, Course, contents, notebook, put, zipped

from course_lib.grading.batch import names, summary, upload
from course_lib.grading.batch.collect import collect
from course_lib.grading.batch.submission import Submission

HANDOUT = next((Path(__file__).parents[2] / "labs").glob("lab01_*.ipynb")).read_text("utf-8")
HALF = RIGHT.replace(">=", ">")


def answered(answer: str = RIGHT, handout: str = HANDOUT) -> str:
    """The handout of lab 01 with an answer in a cell of its own."""
    book = json.loads(handout)
    cell = {"cell_type": "code", "source": answer, "metadata": {}, "outputs": []}
    book["cells"].append(cell | {"execution_count": None})
    return json.dumps(book)


def as_run(handout: str = HANDOUT, setting: str = 'DATA = "mnist"') -> str:
    """The handout as it was saved after a run, with another setting and a note."""
    book = json.loads(handout)
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
            cell["source"] = "".join(cell["source"]).replace('DATA = "digits"', setting)
    return json.dumps(book)


def found(folder: Path) -> dict[str, Submission]:
    return {h.id: h for h in collect(folder, "lab01").submissions}


def has_answer(h: Submission, answer: str = RIGHT) -> bool:
    return answer in h.cells


# --- 1. which of several counts -------------------------------------------------------


@pytest.mark.parametrize("mine", ["lab01_bo.ipynb", "Lab1-Cy.ipynb", "x-done.ipynb", "a.ipynb"])
@pytest.mark.parametrize("handout", [HANDOUT, as_run()], ids=["as given", "run, not answered"])
def test_answers_beat_an_untouched_handout(tmp_path: Path, mine: str, handout: str) -> None:
    put(tmp_path / "bo" / mine, answered())
    put(tmp_path / "bo" / "lab01_magnitude_pruning.ipynb", handout)
    put(tmp_path / "doejane_12345_9100002_mysolution.ipynb", answered())
    put(tmp_path / "doejane_12345_9100001_lab01_magnitude_pruning.ipynb", handout)
    put(tmp_path / "roejohn_12346_9100001_mysolution.ipynb", answered())
    put(tmp_path / "roejohn_12346_9100009_lab01_magnitude_pruning.ipynb", handout)
    for h in found(tmp_path).values():
        assert has_answer(h) and not h.versions and not h.status, h.id
        assert "the only one with answers" in h.choice or "number in its name" in h.choice
        assert "(the unchanged handout)" in h.choice


def test_of_two_with_answers_the_better_counts_and_a_person_is_asked(course: Course) -> None:
    course.put("bo/lab01.ipynb", answered(HALF))
    course.put("bo/other.ipynb", answered(RIGHT))
    course.put("cy/lab01.ipynb", HANDOUT.replace("prediction_1_1 = ...", "prediction_1_1 = 3"))
    course.put("cy/scratch.ipynb", notebook("x = 1"))
    course.grade(seed=1)
    assert course.column("total") == {"bo": "3", "cy": "0"}
    # a prediction alone is an answer
    assert course.column("status") == {"bo": "graded", "cy": "graded"}
    about = course.result("bo")["extra_data"]
    assert about["notebook"] == "other.ipynb"
    for said in ("Please look", "other.ipynb counts", "lab01.ipynb 2"):
        assert said in about["choice"]
    before = contents(course.report)
    course.grade()
    assert contents(course.report) == before


# --- 2. and 3. names ------------------------------------------------------------------

PEOPLE = {
    "अनीलकुमारशर्मा": "Hindi", "முருகன்": "Tamil", "สมชาย": "Thai", "مُحَمَّد": "vowelled Arabic",
    "müllerjürgen": "German", "nguyễnthịhồng": "Vietnamese", "łukasz": "Polish", "김철수": "Korean",
    "がくせい": "Japanese", "van_der_berg": "underscores", "": "only other signs",
}  # fmt: skip


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("name", PEOPLE, ids=PEOPLE.values())
def test_every_letter_of_a_name_in_canvas_is_read(tmp_path: Path, name: str, form: Any) -> None:
    written = unicodedata.normalize(form, name)
    put(tmp_path / f"{written}_12345_67890_lab01.ipynb", answered(HALF))
    put(tmp_path / f"{name}_LATE_12345_67999_lab01-1.ipynb", answered())
    (h,) = found(tmp_path).values()
    assert has_answer(h) and h.late is True
    assert h.submitters == [{"canvas id": "12345", "name": unicodedata.normalize("NFC", name)}]
    assert h.start.endswith("_12345_67999_")


def test_marks_that_spell_tell_names_apart_and_accents_do_not() -> None:
    assert names.normalize_name("की") != names.normalize_name("का")
    assert names.normalize_name("José") == names.normalize_name("Jose\u0301") == "jose"
    assert names.printable("نرگس\u200cخانم") == "نرگس\u200cخانم"  # its joiner is part of the name


def unmarked(names: dict[str, bytes], encoding: str) -> bytes:
    """A zip whose names are in a code page, as many tools write it."""
    data = zipped(
        {
            f"{i:04}" + "x" * (len(n.encode(encoding)) - 4): c
            for i, (n, c) in enumerate(names.items())
        }
    )
    for i, name in enumerate(names):
        raw = name.encode(encoding)
        data = data.replace(f"{i:04}".encode() + b"x" * (len(raw) - 4), raw)
    return data


@pytest.mark.parametrize(
    "encoding, people",
    [
        ("utf-8", ["josémuñoz", "张伟", "मीरा"]),
        ("cp850", ["josémuñoz", "jürgengroß", "françoislefèvre"]),
        ("gbk", ["张伟", "李娜", "王秀英"]),
        ("cp932", ["鈴木花子", "山田太郎"]),
        ("cp866", ["иванпетров", "олег"]),
    ],
)
def test_names_in_a_zip_are_read_though_it_does_not_say_how(
    tmp_path: Path, encoding: str, people: list[str]
) -> None:
    files = {
        f"{name}_{12345 + i}_67890_lab01.ipynb": answered().encode()
        for i, name in enumerate(people)
    }
    put(tmp_path / "class.zip", unmarked(files, encoding))
    there = found(tmp_path / "class.zip")
    assert [h.submitters[0]["name"] for h in there.values()] == sorted(people)
    assert all(map(has_answer, there.values()))


# --- 4. what is a notebook, and what is pending ---------------------------------------

LOCKED = zipped({"lab01.ipynb": answered()})
LOCKED = LOCKED.replace(
    b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"
)
RAR, SEVEN = b"Rar!\x1a\x07\x01\x00" + b"x" * 90, b"7z\xbc\xaf\x27\x1c" + b"x" * 90
GOOD = {
    "lab01.ipynb.txt": answered().encode(),
    "lab01.ipynb.json": answered().encode(),
    "lab01": answered().encode(),
    "lab01.ipynb.zip": zipped({"lab01.ipynb": answered()}),
    "deep.zip": zipped({"in/in.zip": zipped({"lab01.ipynb": answered()})}),
    "zip as.ipynb": zipped({"lab01.ipynb": answered()}),
    "utf16.ipynb": answered().encode("utf-16"),
    "marked.ipynb": answered().encode("utf-8-sig"),
}
BAD = {  # name: what it holds, a word of the sentence
    "a.rar": (RAR, "RAR"),
    "a.7z": (SEVEN, "7-Zip"),
    "a.tar.gz": (b"\x1f\x8b" + b"x" * 90, "gzip"),
    "locked.zip": (LOCKED, "password"),
    "empty.ipynb": (b"", "empty"),
    "cut.ipynb": (answered()[:9000].encode(), "cut off"),
    "page.ipynb": (b"<!DOCTYPE html><html>", "web page"),
    "lfs.ipynb": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "git lfs pull"),
    "merge.ipynb": (
        answered().replace('"cells"', '\n<<<<<<< HEAD\n"cells"\n=======\n>>>>>>> main\n').encode(),
        "merge conflict",
    ),
    "print.ipynb": (b"%PDF-1.4", "PDF"),
    "text.ipynb": (b"def magnitude_mask(w, s): ...", "some other text"),
    "deep.zip": (zipped({"a.zip": zipped({"b.zip": zipped({"c.zip": zipped({"d.zip": zipped({"e.zip": zipped({})})})})})}), "in each other"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("place", ["{}", "bo/{}", "Bo_7_assignsubmission_file_/{}", "bo_7_8_{}"])
def test_a_notebook_is_one_by_its_content(tmp_path: Path, name: str, place: str) -> None:
    put(tmp_path / place.format(name), GOOD[name])
    put(tmp_path / "amy.ipynb", answered())
    there = found(tmp_path)
    assert len(there) == 2 and all(map(has_answer, there.values()))


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("place", ["{}", "bo/{}", "bo_7_8_{}"])
def test_what_cannot_be_read_is_pending_with_one_sentence(
    tmp_path: Path, name: str, place: str
) -> None:
    data, word = BAD[name]
    put(tmp_path / place.format(name), data)
    put(tmp_path / "amy.ipynb", answered())
    (bad,) = (h for h in found(tmp_path).values() if h.id != "amy")
    assert bad.status == "pending" and word in bad.problem, bad.problem
    put(tmp_path / place.format(name).replace(name, "x lab01.ipynb"), answered())
    if place != "{}":  # of the same student: nothing is lost by the bad one
        assert all(map(has_answer, found(tmp_path).values()))


def test_nothing_is_exported_as_0_that_a_person_has_not_decided(course: Course) -> None:
    for name, data in {
        "amydoe_101_9001_lab01.ipynb": answered(),
        "bobdoe_102_9002_lab01.7z": SEVEN,
        "cydoe_103_9003_lab01.ipynb": HANDOUT,
        "didoe_104_9004_lab01.ipynb": answered("def magnitude_mask(w, s): return w"),
        "eddoe_105_9005_lab01.ipynb": notebook("x = 1"),
        "xdoe_106_9006_lab01.ipynb": answered(),
        "ydoe_106_9007_lab01.ipynb": answered(),
    }.items():
        course.put(name, data)
    course.grade()
    table = course.table()
    assert {id.split("_")[0]: (row["status"], row["total"]) for id, row in table.items()} == {
        "amydoe": ("graded", "3"), "bobdoe": ("pending", ""), "cydoe": ("unchanged", ""),
        "didoe": ("graded", "0"), "eddoe": ("pending", ""), "xdoe": ("refused", ""),
        "ydoe": ("refused", ""),
    }  # fmt: skip
    for id, row in table.items():
        assert ("Not graded yet" in course.page(id)) == (row["total"] == "")
    first, *said, last = summary.status_sentences(course.report)
    assert first == "7 submissions: 2 graded, 2 pending, 2 refused, 1 unchanged"
    for line, word in zip(
        said, ("7-Zip", "as it was given out", "nothing that lab01", "xdoe", "ydoe"), strict=True
    ):
        assert word in line
    assert "5 of them get no grade" in last
    written = upload.write(course.report, ["canvas", "moodle", "gradescope"])
    rows = [*csv.reader((course.report / "grades-canvas.csv").open(encoding="utf-8"))][2:]
    assert {row[0]: row[5] for row in rows} == {"amydoe": "3", "didoe": "0"}
    assert sum("until a person has looked" in sentence for sentence in written.unmatched) >= 3
    scope = course.rows("grades-gradescope.csv")
    assert {row["Status"] for row in scope if row["Total Score"] == ""} == {"Pending"}
    decided = "id,question,points,comment\nbobdoe_102,all,0,never handed in\ncydoe_103,all,0,\n"
    put(course.report / "marks.csv", decided)
    course.grade()
    assert course.column("total")["bobdoe_102"] == course.column("total")["cydoe_103"] == "0"
    upload.write(course.report, ["canvas"])
    assert "bobdoe" in (course.report / "grades-canvas.csv").read_text(encoding="utf-8")
    assert "3 of them get no grade" in summary.status_sentences(course.report)[-1]
    put(course.report / "marks.csv", "id,question,points,comment\ncydoe_103,all,1,\n")
    with pytest.raises(ValueError, match="line 2: 'all'"):
        course.grade()


# --- 5. groups ------------------------------------------------------------------------


def test_a_member_of_a_group_who_hands_in_again_takes_nothing_from_the_others(
    course: Course,
) -> None:
    al, bo, cy = (f"{{':name': {n}, ':email': {n.lower()}@x.edu}}" for n in ("Al", "Bo", "Cy"))
    listed = ""
    for number, text, who, when in (
        (201, answered(HALF), f"{al}, {bo}", "10:00"),
        (202, answered(RIGHT), al, "11:00"),
        (203, answered(RIGHT), cy, "09:00"),
        (204, HANDOUT, cy, "12:00"),  # Cy's later slip
    ):
        course.put(f"submission_{number}/lab01.ipynb", text)
        listed += (
            f"submission_{number}:\n  :submitters: [{who}]\n  :created_at: 2026-05-01 {when}:00 Z\n"
        )
    course.put("submission_metadata.yml", listed)
    course.grade()
    assert course.column("total") == {
        "submission_201": "2", "submission_202": "3", "submission_203": "3"
    }  # fmt: skip
    upload.write(course.report, ["gradescope"])
    rows = course.rows("grades-gradescope.csv")
    assert {row["Email"]: (row["Total Score"], row["Status"]) for row in rows} == {
        "bo@x.edu": ("2", "Graded"), "al@x.edu": ("3", "Graded"), "cy@x.edu": ("3", "Graded")
    }  # fmt: skip


# --- 9. and 10. layouts ---------------------------------------------------------------

CLASS = {f"{name}.ipynb": answered(RIGHT if name != "bo" else HALF) for name in ("ada", "bo", "cy")}


def wrapped(folder: Path) -> Path:
    for name, text in CLASS.items():
        put(folder / "wrap" / name, text)
    return folder


def deeper(folder: Path) -> Path:
    for name, text in CLASS.items():
        put(folder / "2026" / "downloads" / Path(name).stem / "lab01.ipynb", text)
    return folder


def as_zip(folder: Path) -> Path:
    return put(folder / "class.zip", zipped(CLASS))


def zip_wrapped(folder: Path) -> Path:
    return put(folder / "a.zip", zipped({f"class/{n}": t for n, t in CLASS.items()})).parent


def nbgrader_course(folder: Path) -> Path:
    for name, text in CLASS.items():
        put(folder / "submitted" / Path(name).stem / "lab01" / "lab01.ipynb", text)
    put(folder / "source" / "lab01" / "lab01.ipynb", answered())
    put(folder / "release" / "lab01" / "lab01.ipynb", HANDOUT)
    return folder


def nbgrader_exchange(folder: Path) -> Path:
    for name, text in CLASS.items():
        time = "+lab01+2026-05-01 10:00:00 UTC"
        put(folder / "inbound" / (Path(name).stem + time) / "lab01.ipynb", text)
    put(folder / "outbound" / "lab01" / "lab01.ipynb", HANDOUT)
    return folder


@pytest.mark.parametrize(
    "layout", [wrapped, deeper, as_zip, zip_wrapped, nbgrader_course, nbgrader_exchange]
)
def test_a_class_that_is_wrapped_once_more_is_a_class(
    tmp_path: Path, layout: Callable[[Path], Path]
) -> None:
    there = found(layout(tmp_path / "in"))
    assert sorted(there) == ["ada", "bo", "cy"]
    assert [has_answer(there[id], HALF if id == "bo" else RIGHT) for id in there] == [True] * 3


def test_one_students_folder_is_no_class_and_what_may_be_either_is_asked(tmp_path: Path) -> None:
    put(tmp_path / "in" / "amy" / "lab01.ipynb", answered(HALF))
    put(tmp_path / "in" / "amy" / "lab01 final.ipynb", answered())
    put(tmp_path / "in" / "amy" / "notes on bo.ipynb", notebook("x = 1"))
    (amy,) = found(tmp_path / "in").values()
    assert amy.id == "amy" and len(amy.versions) == 1
    for name in ("bo", "cy"):
        put(tmp_path / "in" / "amy" / f"{name}.ipynb", answered(f"{RIGHT}\n# {name}"))
    with pytest.raises(ValueError, match=r"amy holds 4 notebooks .*several students', give .*amy"):
        collect(tmp_path / "in", "lab01")
    assert len(found(tmp_path / "in" / "amy")) == 5


@pytest.mark.parametrize("student", ["ada", "ada+x@example.edu", "ada.b@example.edu", "a+b+c"])
@pytest.mark.parametrize(
    "time, seconds",
    [
        ("2026-05-01 10:11:12 UTC", 1777630272),
        ("2026-05-01 12:11:12.5 +0200", 1777630272),
        ("2026-05-01 10:11:12 UTC+aGk-_x", 1777630272),
    ],
)
def test_nbgraders_folders_keep_id_and_time(
    tmp_path: Path, student: str, time: str, seconds: int
) -> None:
    put(tmp_path / f"{student}+lab01+{time}" / "lab01.ipynb", answered())
    put(tmp_path / "zoe+lab01+2026-05-01 10:11:12 UTC" / "lab01.ipynb", answered())
    there = found(tmp_path)
    assert sorted(there) == sorted([student, "zoe"]) and there[student].time == seconds


def test_nothing_is_unpacked_and_a_bomb_of_zips_is_refused(tmp_path: Path) -> None:
    layer = zipped({f"{i}.zip": zipped({"x": b"0" * 1000}) for i in range(200)})
    put(tmp_path / "mal.zip", zipped({f"{i}.zip": layer for i in range(200)}))
    put(tmp_path / "amy.ipynb", answered())
    there = found(tmp_path)
    assert there["mal"].status == "pending" and has_answer(there["amy"])
    assert "too many files" in there["mal"].problem
    assert sorted(path.name for path in tmp_path.iterdir()) == ["amy.ipynb", "mal.zip"]
