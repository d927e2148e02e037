"""What is handed in: whose it is, which of several counts, and what no file can do to the
reader. No mark is lost on the way.
"""

from __future__ import annotations

import bz2
import csv
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_lab import RIGHT, Course, notebook, put, zipped

from course_lib.grading.batch import collect as collecting
from course_lib.grading.batch import gradebook, summary
from course_lib.grading.batch.collect import (
    Submission,
    code,
    collect,
    handout,
    owner_of,
    read_single_submission,
)

HANDOUT = next((Path(__file__).parents[2] / "labs").glob("lab01_*.ipynb")).read_text("utf-8")
HALF = RIGHT.replace(">=", ">")


def answered(answer: str = RIGHT, handout: str = HANDOUT) -> str:
    """The handout of lab 01 with an answer in a cell of its own."""
    book = json.loads(handout)
    cell = {"cell_type": "code", "source": answer, "metadata": {}, "outputs": []}
    book["cells"].append(cell | {"execution_count": None})
    return json.dumps(book)


def mine(who: str) -> str:
    """A notebook that answers the lab, and says whose it is."""
    return notebook(f"magnitude_mask = {who!r}")


def found(folder: Path) -> dict[str, Submission]:
    return {h.id: h for h in collect(folder, "lab01").submissions}


def whose(folder: Path) -> dict[str, str]:
    """By id, what :func:`mine` has written; "" where nothing is graded."""
    return {
        id: "" if h.problem else "".join(h.cells).partition("'")[2].rstrip("'")
        for id, h in found(folder).items()
    }


# --- whose is it ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, key, id, file",
    [
        ("doejane_12345_67890_lab01.ipynb", ("canvas", "12345"), "doejane_12345", "lab01.ipynb"),
        ("doejane_LATE_12345_67890_lab01-1.ipynb", ("canvas", "12345"), "doejane_12345", "lab01-1.ipynb"),
        ("अनीलकुमार_12345_678_x.zip", ("canvas", "12345"), "अनीलकुमार_12345", "x.zip"),
        ("van_der_berg_12345_678_x.zip", ("canvas", "12345"), "van_der_berg_12345", "x.zip"),
        ("doejane_12345_text.html", ("canvas", "12345"), "doejane_12345", ""),
        ("LATE_anon_7xQ2b_67890_lab01.ipynb", ("canvas", "anon_7xq2b"), "anon_7xQ2b", "lab01.ipynb"),
        ("Jane Doe_1234567_assignsubmission_file_", ("moodle", "1234567"), "Jane Doe_1234567", ""),
        ("A_1_B_99_assignsubmission_onlinetext_", ("moodle", "99"), "A_1_B_99", ""),
        ("J D_12_assignsubmission_file_lab01.ipynb", ("moodle", "12"), "J D_12", "lab01.ipynb"),
        ("al_127_900_x_7_assignsubmission_file_a.ipynb", ("canvas", "127"), "al_127", "x_7_assignsubmission_file_a.ipynb"),
        ("Bo_8_assignsubmission_file_roe_126_999_a.ipynb", ("moodle", "8"), "Bo_8", "roe_126_999_a.ipynb"),
        ("smith-2.ipynb", ("", "smith-2.ipynb"), "smith-2", ""),
        ("hw_2024_1700_final.ipynb", ("", "hw_2024_1700_final.ipynb"), "hw_2024_1700_final", ""),
        ("lab01_2_3_x.ipynb", ("", "lab01_2_3_x.ipynb"), "lab01_2_3_x", ""),
    ],
)  # fmt: skip
def test_what_a_name_says(name: str, key: tuple[str, str], id: str, file: str) -> None:
    owner = owner_of(name)
    assert (owner.key, owner.id, owner.file) == (key, id, file)


def canvas(folder: Path) -> dict[str, str]:
    put(folder / "doejane_LATE_12345_900_lab01-1.ipynb", mine("new"), when=1_600_000_000)
    put(folder / "doejane_12345_800_lab01.ipynb", mine("old"))
    put(
        folder / "roejohn_12346_810_work.zip",
        zipped({"a/b.zip": zipped({"lab01.ipynb": mine("his")})}),
    )
    put(folder / "alo_12347_text.html", "<p>I have typed it in")
    return {"doejane_12345": "new", "roejohn_12346": "his", "alo_12347": ""}


def moodle(folder: Path) -> dict[str, str]:
    put(folder / "Jane Doe_7_assignsubmission_file_" / "lab01.ipynb", mine("hers"))
    put(folder / "Jane Doe_7_assignsubmission_onlinetext_" / "onlinetext.html", "<p>see the file")
    put(folder / "Bo Ng_8_assignsubmission_file_" / "deep" / "x.ipynb", mine("his"))
    put(folder / "Al O_9_assignsubmission_file_" / "lab01.pdf", "%PDF")
    return {"Jane Doe_7": "hers", "Bo Ng_8": "his", "Al O_9": ""}


def gradescope(folder: Path) -> dict[str, str]:
    for number in ("102", "103"):
        put(folder / "export" / f"submission_{number}" / "lab01.ipynb", mine(number))
    listed = (
        "submission_102:\n  :submitters:\n  - {':name': Al, ':sid': '7', ':email': al@x.edu}\n"
        "  - {':name': Bo, ':sid': '8', ':email': bo@x.edu}\n  :results: !ruby/object:R {a: 1}\n"
        "submission_103:\n  :submitters: [{':name': Jane, ':email': j@x.edu}]\n"
        "  :created_at: 2024-05-02 10:00:00 Z\n"
    )
    put(folder / "export" / "submission_metadata.yml", listed)
    return {"submission_102": "102", "submission_103": "103"}


@pytest.mark.parametrize("layout", [canvas, moodle, gradescope])
def test_a_class_is_read_from_its_zip_as_from_its_folder(
    tmp_path: Path, layout: Callable[[Path], dict[str, str]]
) -> None:
    expected = layout(tmp_path / "folder")
    (tmp_path / "downloads").mkdir()
    with zipfile.ZipFile(tmp_path / "downloads" / "class.zip", "w") as archive:
        for file in sorted((tmp_path / "folder").rglob("*")):
            archive.write(file, file.relative_to(tmp_path / "folder").as_posix())
    before = sorted(tmp_path.rglob("*"))
    said = []
    for place in ("folder", "downloads/class.zip", "downloads"):
        assert whose(tmp_path / place) == expected
        said.append(
            [(h.digest, h.problem, h.submitters, h.time) for h in found(tmp_path / place).values()]
        )
    assert said[0] == said[1] == said[2]
    assert sorted(tmp_path.rglob("*")) == before  # nothing was unpacked
    if layout is gradescope:
        al_and_bo, jane = found(tmp_path / "folder").values()
        assert [who["email"] for who in al_and_bo.submitters] == ["al@x.edu", "bo@x.edu"]
        assert jane.time == 1714644000.0


def test_a_students_own_file_name_speaks_for_nobody(tmp_path: Path) -> None:
    put(tmp_path / "Jane_1001_assignsubmission_file_lab01.ipynb", mine("Jane"))
    put(
        tmp_path / "John_1002_assignsubmission_file_x_1001_assignsubmission_file_a.ipynb",
        mine("John"),
    )
    put(tmp_path / "Bo_8_assignsubmission_file_roejohn_12346_999_lab01.ipynb", mine("Bo"))
    put(tmp_path / "roejohn_12346_810_lab01.ipynb", mine("Roe"))
    put(tmp_path / "aldoe_12347_900_x_7_assignsubmission_file_lab01.ipynb", mine("Al"))
    put(tmp_path / "mal" / "roejohn_12346_999_lab01.ipynb", mine("Mal"))
    put(tmp_path / "roejohn_12346" / "lab01.ipynb", mine("a folder of that name"))
    assert sorted(whose(tmp_path).values()) == sorted(
        ["Jane", "John", "Bo", "Roe", "Al", "Mal", "a folder of that name"]
    )


@pytest.mark.parametrize(
    "first, second",
    [
        ("Jane_7_assignsubmission_file_lab01.ipynb", "x_7_assignsubmission_file_lab01.ipynb"),
        ("doejane_12345_800_lab01.ipynb", "x_12345_810_lab01.ipynb"),
        # who calls himself doejane__12345__999__x: Canvas takes _12_ out of names only
        ("doejane_12345_800_lab01.ipynb", "doejane_12345_999_x_12346_810_lab01.ipynb"),
    ],
)
def test_two_that_claim_one_person_are_both_refused(
    tmp_path: Path, first: str, second: str
) -> None:
    put(tmp_path / first, mine("hers"))
    put(tmp_path / second, mine("whose?"))
    put(tmp_path / "bob.ipynb", mine("his"))
    there = found(tmp_path)
    assert len(there) == 3 and there["bob"].status == ""
    for h in there.values():
        if h.id != "bob":
            assert h.status == "refused" and first in h.problem and second in h.problem
            assert not h.submitters and not h.cells  # so that no table gives it to anybody


def test_the_same_person_packed_twice_is_one(tmp_path: Path) -> None:
    put(
        tmp_path / "Zo\u00eb D_7_assignsubmission_file_" / "2024-05-01" / "lab01.ipynb", mine("old")
    )
    put(
        tmp_path / "Zoe\u0308 D_7_assignsubmission_file_" / "2024-05-02" / "lab01.ipynb",
        mine("new"),
    )
    assert list(whose(tmp_path).values()) == ["new"]


# --- which of several counts ----------------------------------------------------------


@pytest.mark.parametrize("handout", [HANDOUT, HANDOUT.replace('"digits\\"', '"mnist\\"')])
def test_answers_beat_an_untouched_handout(tmp_path: Path, handout: str) -> None:
    put(tmp_path / "bo" / "a.ipynb", answered())
    put(tmp_path / "bo" / "lab01_magnitude_pruning.ipynb", handout)
    put(tmp_path / "doejane_12345_9100002_mysolution.ipynb", answered())
    put(tmp_path / "doejane_12345_9100001_lab01.ipynb", handout)
    put(tmp_path / "roejohn_12346_9100001_mysolution.ipynb", answered())
    put(tmp_path / "roejohn_12346_9100009_lab01.ipynb", handout)
    put(tmp_path / "cy.ipynb", handout)
    there = found(tmp_path)
    assert there.pop("cy").status == "unchanged"
    for h in there.values():
        assert RIGHT in h.cells and not h.status and "2 notebooks were handed in" in h.choice


def test_the_latest_counts_and_where_nothing_says_which_a_person_decides(tmp_path: Path) -> None:
    put(tmp_path / "ann" / "2024-05-01T10-00-00" / "lab01.ipynb", mine("first"), when=1_900_000_000)
    put(tmp_path / "ann" / "2024-05-02T09-00-00" / "my work.ipynb", mine("second"))
    put(tmp_path / "ann" / "2024-05-03T09-00-00" / "scratch.ipynb", notebook("x = 1"))
    put(tmp_path / "bo" / "attempt 2" / "lab01.ipynb", mine("second"))
    put(tmp_path / "bo" / "attempt 10" / "lab01.ipynb", mine("tenth"))
    put(tmp_path / "cy" / "lab01.ipynb", mine("old"), when=1_600_000_000)
    put(tmp_path / "cy" / "lab01 (2).ipynb", mine("new"), when=1_700_000_000)
    put(tmp_path / "di" / "lab01.ipynb", mine("twice"))
    put(tmp_path / "di" / "copy of lab01.ipynb", mine("twice"))
    assert whose(tmp_path) == {"ann": "second", "bo": "tenth", "cy": "", "di": "twice"}
    cy = found(tmp_path)["cy"]
    assert (
        cy.status == "pending" and "lab01 (2).ipynb" in cy.problem and "keep the one" in cy.problem
    )


# --- what is a notebook, and what is pending ------------------------------------------

GOOD = {
    "lab01.ipynb.txt": answered().encode(),
    "lab01": answered().encode(),
    "lab01.ipynb.zip": zipped({"lab01.ipynb": answered()}),
    "deep.zip": zipped({"in/in.zip": zipped({"lab01.ipynb": answered()})}),
    "marked.ipynb": answered().encode("utf-8-sig"),
}
LOCKED = zipped({"lab01.ipynb": answered()}).replace(
    b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"
)
ZIPS = zipped(
    {"a.zip": zipped({"b.zip": zipped({"c.zip": zipped({"d.zip": zipped({"e": b""})})})})}
)
BAD = {  # name: what it holds, a word of the sentence
    "a.rar": (b"Rar!\x1a\x07", "no notebook"),
    "locked.zip": (LOCKED, "locked"),
    "empty.ipynb": (b"", "empty"),
    "cut.ipynb": (answered()[:9000].encode(), "no readable notebook"),
    "page.ipynb": (b"<!DOCTYPE html><html>", "no readable notebook"),
    "list.ipynb": (b"[1]", "no notebook"),
    "nested.ipynb": (b"[" * 1_000_000, "no readable notebook"),
    "deep.zip": (ZIPS, "no notebook"),
    "broken.zip": (b"PK\x05\x06" + b"\xff" * 18, "cannot be read"),
    "code.ipynb": (notebook("x" * 1_200_000).encode(), "1 MB of code"),
}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("place", ["{}", "bo/{}", "Bo_7_assignsubmission_file_/{}"])
def test_a_notebook_is_one_by_its_content(tmp_path: Path, name: str, place: str) -> None:
    put(tmp_path / place.format(name), GOOD[name])
    put(tmp_path / "amy.ipynb", answered())
    there = found(tmp_path)
    assert len(there) == 2 and all(RIGHT in h.cells and not h.status for h in there.values())


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("place", ["{}", "bo/{}", "bodoe_77_888_{}"])
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
        assert all(RIGHT in h.cells for h in found(tmp_path).values())


def test_what_is_no_submission_is_named(tmp_path: Path) -> None:
    put(tmp_path / "amy.ipynb", mine("hers"))
    for name in ("cy.html", "eve.py", "gus", "roster.csv"):
        (tmp_path / name).write_text("x")
    (tmp_path / "empty").mkdir()
    there = collect(tmp_path, "lab01")
    assert [h.id for h in there.submissions] == ["amy", "empty"]
    assert [name for name, _ in there.left] == ["cy.html", "eve.py", "gus", "roster.csv"]
    assert len(there.remarks) == 4
    shutil.rmtree(tmp_path / "empty")
    (tmp_path / "amy.ipynb").unlink()
    with pytest.raises(FileNotFoundError, match="one of these per student is expected"):
        collect(tmp_path, "lab01")


def test_nothing_is_exported_as_0_that_a_person_has_not_decided(course: Course) -> None:
    for name, data in {
        "amydoe_101_9001_lab01.ipynb": answered(),
        "bobdoe_102_9002_lab01.7z": b"7z",
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
    first, *said, last = summary.status_sentences(course.report)
    assert first == "7 submissions: 2 graded, 2 pending, 2 refused, 1 unchanged" and len(said) == 5
    assert "5 of them get no grade" in last
    lines = ["Student,ID,Lab 1 (55)", *(f"x,{100 + i},9" for i in range(1, 8))]
    exported = put(course.root / "canvas.csv", "\n".join(lines))

    def uploaded() -> dict[str, str]:
        path, _ = gradebook.fill(course.report, exported, overwrite=True)
        return {row["ID"]: row["Lab 1 (55)"] for row in csv.DictReader(path.open())}

    kept = dict.fromkeys(map(str, range(101, 108)), "9")  # who gets nothing keeps what is there
    assert uploaded() == kept | {"101": "3", "104": "0"}
    decided = "id,question,points,comment\nbobdoe_102,all,0,never handed in\n"
    put(course.report / "marks.csv", decided)
    course.grade()
    assert uploaded() == kept | {"101": "3", "104": "0", "102": "0"}


# --- hostile files --------------------------------------------------------------------

unix = pytest.mark.skipif(os.name == "nt", reason="links and pipes of Unix")


@unix
def test_links_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret" / "lab01.ipynb", mine("answers"))
    folder = tmp_path / "in"
    for name in ("inner", "deep", "round", "pipe"):
        (folder / name).mkdir(parents=True)
    (folder / "file.ipynb").symlink_to(secret)
    (folder / "folder").symlink_to(secret.parent)
    (folder / "inner" / "lab01.ipynb").symlink_to(secret)
    (folder / "deep" / "more").symlink_to(secret.parent)
    (folder / "round" / "and").symlink_to(folder / "round")
    (folder / "dangling.ipynb").symlink_to("nowhere")
    os.mkfifo(folder / "pipe" / "lab01.ipynb")  # an opened one would wait for ever
    os.mkfifo(folder / "zipped.zip")
    with zipfile.ZipFile(folder / "zip.zip", "w") as archive:
        info = zipfile.ZipInfo("lab01.ipynb")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, str(secret))
    there = collect(folder, "lab01")
    assert all(h.problem and not h.cells for h in there.submissions)
    assert sorted(h.id for h in there.submissions) == sorted(
        ["dangling", "deep", "file", "folder", "inner", "pipe", "round", "zip", "zipped"]
    )
    assert not there.left


def test_zips_that_unpack_to_more_than_they_say(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(collecting, "MOST_NOTEBOOK", 4 << 20)
    monkeypatch.setattr(collecting, "MOST_FILES", 2000)
    spaces = b" " * (64 << 20)
    put(tmp_path / "a.zip", zipped({"lab01.ipynb": spaces}))
    data = bytearray((tmp_path / "a.zip").read_bytes())
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):  # both headers: 10 bytes
        at = data.index(mark) + offset
        data[at : at + 4] = (10).to_bytes(4, "little")
    put(tmp_path / "b.zip", bytes(data))
    with zipfile.ZipFile(tmp_path / "c.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("lab01.ipynb", spaces)
    assert len(bz2.compress(spaces)) < 200  # what makes it dangerous
    layer = zipped({f"{i}.zip": zipped({"x": b"0" * 100}) for i in range(200)})
    put(tmp_path / "d.zip", zipped({f"{i}.zip": layer for i in range(200)}))
    problems = {id: h.problem for id, h in found(tmp_path).items()}
    assert "larger than 4 MB" in problems["a"] and problems["b"] and "unusual" in problems["c"]
    assert "more than 2000 files" in problems["d"]


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_any_bytes_in_a_name(tmp_path: Path) -> None:
    for name in (
        b"\xff\xfe.ipynb",
        b"line\nbreak.ipynb",
        b"\x1b[31m.ipynb",
        "e\u0301.ipynb".encode(),
    ):
        (tmp_path / os.fsdecode(name)).write_text(mine("x"))
    there = collect(tmp_path, "lab01").submissions
    assert len({h.file_name for h in there}) == len(there) == 4
    assert all(h.file_name.isascii() and h.file_name.isprintable() for h in there)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["Ann", "ann", "Ann.", "CON", "../x", "x" * 81])
        | st.text(min_size=1, max_size=8),
        unique=True,
    )
)
def test_no_two_results_have_one_file_name(ids: list[str]) -> None:
    files = [Submission(id).file_name for id in ids]
    files += [Submission(file).file_name for file in files if file not in ids]
    assert len({file.lower() for file in files}) == len(files)
    assert all(0 < len(file) < 120 and not file.startswith(".") for file in files)


def test_one_students_folder_for_the_autograder(tmp_path: Path) -> None:
    put(tmp_path / "submission" / "lab01.ipynb", mine("hers"))
    assert "hers" in read_single_submission(tmp_path / "submission", "lab01").cells[1]
    (tmp_path / "empty").mkdir()
    assert "no notebook" in read_single_submission(tmp_path / "empty", "lab01").problem


CLASS = {f"{who}/lab01.ipynb": notebook(RIGHT, f"x = {i}") for i, who in enumerate(["ada", "bo"])}


@pytest.mark.parametrize("outer", ["lab01-submissions/", "a/b/", "submitted/", "__MACOSX/../z/"])
@pytest.mark.parametrize("kind", ["zip", "zip in a folder", "folder"])
def test_a_class_in_enclosing_folders_is_a_class(tmp_path: Path, outer: str, kind: str) -> None:
    files = {outer.rpartition("../")[2] + name: text for name, text in CLASS.items()}
    if kind == "folder":
        for name, text in files.items():
            put(tmp_path / "in" / name, text)
    else:
        put(tmp_path / "in" / "class.zip", zipped(files))
    place = tmp_path / "in" / ("class.zip" if kind == "zip" else "")
    assert [s.id for s in collect(place, "lab01").submissions] == ["ada", "bo"]


def test_names_of_sections_and_clones_are_students(tmp_path: Path) -> None:
    names = ["adams_sec2", "Ada Class", "pruning-course-lab01-ada", "Bo Berg"]
    for name in names:
        put(tmp_path / name / "lab01.ipynb", notebook(RIGHT))
    found = [s.id for s in collect(tmp_path, "lab01").submissions]
    assert sorted(found) == ["Ada Class", "Bo Berg", "ada", "adams_sec2"]


def test_an_answer_in_a_markdown_cell_is_said_to_stand_there(tmp_path: Path) -> None:
    raw = json.loads(notebook("grouped_mask = 1"))
    raw["cells"].append({"cell_type": "markdown", "metadata": {}, "source": RIGHT})
    put(tmp_path / "ada.ipynb", json.dumps(raw))
    [ada] = collect(tmp_path, "lab01").submissions
    assert ada.remark.startswith("magnitude_mask: written in a markdown or raw cell")


def test_a_handout_pasted_below_the_answers_undoes_nothing(tmp_path: Path) -> None:
    cells = code(handout("lab01"))
    answer = RIGHT.partition("def grouped_mask")[0]
    put(tmp_path / "ada.ipynb", notebook(answer, *cells))
    [ada] = collect(tmp_path, "lab01").submissions
    assert [cell for cell in ada.cells if "def magnitude_mask" in cell] == [answer]


def test_code_that_reaches_out_is_named(tmp_path: Path) -> None:
    put(tmp_path / "ada.ipynb", notebook(RIGHT, "import socket\ntry: os.fork()\nexcept: pass"))
    put(tmp_path / "bo.ipynb", notebook(RIGHT))
    ada, bo = collect(tmp_path, "lab01").submissions
    assert (ada.look, bo.look) == ("socket, os.fork", "")


def test_an_answer_that_no_test_judges_has_a_page_with_a_box(course: Course) -> None:
    course.put("ada.ipynb", answered(RIGHT + '\nprediction_1_2 = "about <b>60</b> %"'))
    put(course.report / "marks.csv", "id,question,points\nada,prediction_1_2,0.5\n")
    course.grade()
    page = (course.report / "written" / "prediction_1_2.html").read_text(encoding="utf-8")
    assert "about &lt;b&gt;60&lt;/b&gt; %" in page and 'data-id="ada" value="0.5"' in page
    assert course.result("ada")["tests"][-1]["score"] == 0.5
