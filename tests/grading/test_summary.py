"""The class's page and a student's: what they say, that nothing in them runs, and that
they need no network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from course_lib.grading.batch import report, summary
from course_lib.grading.batch.collect import Submission
from course_lib.grading.batch.result import ClaimResult, Result
from course_lib.grading.claims.question import Test
from course_lib.grading.marking.lab import GradingResult, GradingSpec
from course_lib.grading.marking.marker import Outcome, outcome

TESTS = [
    Test("1.1", 2, True, "the smaller half goes", lambda s, d: None, "test_half"),
    Test("1.1", 1, False, "ties: the first <one> goes", lambda s, d: None, "test_ties"),
    Test("1.2", 1, True, "a stays", lambda s, d: None, "test_stays"),
    Test("1.10", 1, True, "raises", lambda s, d: None, "test_raises"),
]
HOSTILE = '<script>alert(1)</script>"\n\u202e=cmd|x'


class Page(HTMLParser):
    """What is on a page: its visible text, tags with attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def submission(
    right: Iterable[str], id: str = "ann", messages: str = "wrong by {i}", **extra: str
) -> tuple[Submission, list[Outcome], str]:
    """One that passes the tests named in ``right``."""
    h = Submission(id, choice=extra.get("choice", ""))
    outcomes = [
        outcome(t, t.name in right, "" if t.name in right else messages.format(i=i))
        for i, t in enumerate(TESTS)
    ]
    return h, outcomes, extra.get("status", "graded")


def write(out: Path, *submissions: tuple[Submission, list[Outcome], str]) -> Path:
    for folder in ("results", "feedback"):
        (out / folder).mkdir(parents=True)
    for h, outcomes, status in submissions:
        notes = ["it ended <b>early</b>"] if status != "graded" else []
        graded = GradingResult(tuple(outcomes), status, tuple(notes), "plain")
        result = report.build_result(h, graded, GradingSpec("lab01", [], "", 7), "")
        report.save(out, report.add_manual_marks(result, h))
    files = [h.file_name for h, _, _ in submissions]
    (out / "batch.json").write_text(json.dumps({"lab": "lab01", "seed": 7, "files": files}))
    return out


ALL = [t.name for t in TESTS]


def test_the_page_says_how_the_class_did(tmp_path: Path) -> None:
    out = write(
        tmp_path,
        submission(ALL[:3], "ann"),
        submission(ALL[:1], "bob", "wrong at {i}: 0.5 instead of 1"),
        submission(
            ALL[:1],
            "cem",
            "wrong at 17: 0.25 instead of 1",
            choice="2 notebooks were handed in; b counts.",
        ),
        submission([], "dan", "not written yet"),
        submission([], "eve", "it ended <b>early</b>", status="stopped"),
    )
    page = Page(summary.write(out).read_text(encoding="utf-8"))
    assert "5 submissions 2 of 5 median 2.0 mean 4 graded 1 stopped" in page.text
    assert "Nobody has all points of 1.10 ." in page.text.replace("1.10.", "1.10 .")
    assert "1.1 magnitude_mask 1 2 1 1.75 of 3" in page.text
    # in the order of questions
    assert page.text.index("1.2 grouped_mask 1 0 3") < page.text.index("1.10 0 0 4")
    failed = (
        "ties: the first <one> goes hidden 3 wrong at 1: 0.5 instead of 1 2 × not written yet 1 ×"
    )
    assert failed in page.text and "Of the 4 submissions that ran" in page.text
    assert "eve stopped – it ended <b>early</b>" in page.text
    eve = Page((out / "feedback" / "eve.html").read_text(encoding="utf-8")).text
    assert eve.count("it ended <b>early</b>") == 1  # of the whole submission, so said once
    assert "cem 2 notebooks were handed in; b counts." in page.text
    assert "Seed 7." in page.text and "WITHOUT a sandbox" in page.text


@pytest.mark.parametrize("count", [0, 1, 500])
def test_any_number_of_submissions(tmp_path: Path, count: int) -> None:
    out = write(tmp_path, *(submission(ALL[: i % 5], f"student {i}") for i in range(count)))
    path = summary.write(out)
    page = Page(path.read_text(encoding="utf-8"))
    assert (
        len({a["href"] for a in page.all("a")} - {"#questions", "#claims", "#look", "#all"})
        == count
    )
    assert path.stat().st_size < 600_000


def test_links_lead_to_pages_that_are_there(tmp_path: Path) -> None:
    out = write(
        tmp_path, *(submission([], id) for id in ("Ann Doe", HOSTILE, "a#b?c%d&e", "..", "é"))
    )
    page = Page(summary.write(out).read_text(encoding="utf-8"))
    links = {a["href"] for a in page.all("a") if not a["href"].startswith("#")}
    assert len(links) == 5
    for link in links:
        assert (out / link).is_file() and re.fullmatch(r"feedback/[A-Za-z0-9._-]+\.html", link)


def test_nothing_on_the_pages_runs_or_is_fetched(tmp_path: Path) -> None:
    h, outcomes, status = submission(
        [], HOSTILE, f"{HOSTILE} <img src=http://x>", choice=HOSTILE, status="stopped"
    )
    out = write(tmp_path, (h, outcomes, status))
    for path in (summary.write(out), out / "feedback" / f"{h.file_name}.html"):
        text = path.read_text(encoding="utf-8")
        page = Page(text)
        assert "alert(1)" in page.text  # shown, as text
        assert not {tag for tag, _ in page.tags} & {
            "script",
            "iframe",
            "link",
            "object",
            "form",
            "input",
        }
        assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
        assert not [k for _, attributes in page.tags for k in attributes if k.startswith("on")]
        assert not re.search(r"(src|href)=.?https?:", text) or "&lt;img src=http://x&gt;" in text
        assert not re.search(r"url\(|@import", text)
        assert "default-src 'none'" in next(
            m["content"] for m in page.all("meta") if "http-equiv" in m
        )
    assert "\u202e" not in (out / "summary.html").read_text(encoding="utf-8")


def test_a_students_page_has_every_claim_message_and_the_choice(tmp_path: Path) -> None:
    out = write(
        tmp_path,
        submission(
            ALL[:2], "ann", "wrong by {i}", choice="2 notebooks were handed in; b counts (…)."
        ),
    )
    page = Page((out / "feedback" / "ann.html").read_text(encoding="utf-8"))
    assert "Lab 01 · Magnitude pruning ann 3 of 5 points Graded on 2" in page.text
    assert "2 notebooks were handed in; b counts (…)." in page.text
    assert (
        "1.1 Prune the smallest weights 3 / 3 ✓ holds the smaller half goes 2 / 2 ✓ holds ties:"
        " the first <one> goes not in check() 1 / 1" in page.text
    )
    assert "✗ does not hold a stays wrong by 2 0 / 1" in page.text
    assert [a["href"] for a in page.all("a")] == ["#q1.1", "#q1.2", "#q1.10"]


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    many = [submission(ALL[: i % 5], f"s{i}", f"wrong by {i}.{{i}}") for i in range(20)]
    one, two = (summary.write(write(tmp_path / name, *many)).read_bytes() for name in ("a", "b"))
    assert one == two


def test_results_of_submissions_that_are_gone_do_not_count(tmp_path: Path) -> None:
    out = write(tmp_path, submission(ALL, "ann"), submission([], "left the course"))
    (out / "batch.json").write_text(json.dumps({"lab": "lab01", "seed": 7, "files": ["ann"]}))
    text = Page(summary.write(out).read_text(encoding="utf-8")).text
    assert (
        "1 submission 5 of 5 median" in text
        and "No claim failed" in text
        and "left the" not in text
    )


def page_of(out: Path, *entries: ClaimResult, **about: Any) -> str:
    for folder in ("results", "feedback"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    report.save(out, Result("s1", "s1", entries, lab="lab01", **about))
    return (out / "feedback" / "s1.html").read_text(encoding="utf-8")


def test_a_students_page_is_read_without_the_notebook(tmp_path: Path) -> None:
    cause = "PrunedLinear is not defined: keep the name that the question gives"
    failed = [ClaimResult("1.5", f"1.5 c{i}", 0, 1, "failed", cause) for i in range(3)]
    letters = ClaimResult("1.8", "1.8 a is one of the letters", 0, 0, "passed")
    text = page_of(
        tmp_path, *failed, letters, name="Ada Ahmadi", notebook="ada.ipynb",
        contact="Ask ta@example.edu until 20 October",
    )  # fmt: skip
    page = Page(text)
    assert "Lab 01 · Magnitude pruning Ada Ahmadi 0 of 3 points Graded on 20" in page.text
    assert ": ada.ipynb ( s1 )" in page.text and "Ask ta@example.edu until 20 October" in page.text
    assert "1.5 The backward pass of a pruned layer 0 / 3" in page.text
    assert page.text.count(cause) == 1 and "c0 c1 c2" in page.text
    assert "one of the letters" not in page.text


def test_a_mark_by_a_person_replaces_the_sentence_that_it_contradicts(tmp_path: Path) -> None:
    said = "1.4 asks you to write this yourself: your code called `x.y`, so the question scores 0"
    failed = ClaimResult("1.4", "1.4 c", 0, 2, "failed", said)
    hand = ClaimResult("1.4", "1.4 by a person", 2, 0, "marked", "by permission", by_hand=True)
    alone, marked = page_of(tmp_path, failed), page_of(tmp_path, failed, hand)
    assert "so the question scores 0" in alone and "so the question scores 0" not in marked
    assert "<code>x.y</code>" in marked and "by permission" in marked


def test_a_comment_on_all_questions_is_said_once(tmp_path: Path) -> None:
    hand = [
        ClaimResult(q, f"{q} by a person", 0, 0, "marked", "never handed in", by_hand=True)
        for q in ("1.1", "1.2", "1.3")
    ]
    failed = [ClaimResult(q, f"{q} c", 0, 1, "failed", "no notebook") for q in ("1.1", "1.2")]
    text = page_of(tmp_path, *failed, *hand, problem="no notebook", status="pending")
    assert text.count("never handed in") == 1
    waiting = page_of(tmp_path, *failed, hand[0], problem="no notebook", undecided=True)
    assert "never handed in" in waiting and "Not graded yet" in waiting


def test_an_answer_in_a_text_cell_is_not_said_to_have_another_name(tmp_path: Path) -> None:
    remark = "f, g: written in a markdown or raw cell, which is not run"
    failed = [
        ClaimResult("1.1", f"1.1 {name}", 0, 1, "failed", f"{name} is not defined: keep the name")
        for name in ("f", "h")
    ]
    text = page_of(tmp_path, *failed, remark=remark)
    assert "f is not defined" not in text and "h is not defined" in text and remark in text


def test_nobody_decided_the_points_of_an_unread_file(tmp_path: Path) -> None:
    unread = Result("s", "s", (ClaimResult("1.1", "1.1 c", 0, 1, "failed"),), status="pending")
    cells = report.build_row(replace(unread, undecided=True), ["1.1"])
    assert cells[:5] == ["s", "", "", "1", "pending"]
    assert report.build_row(unread, ["1.1"])[1:3] == ["0", "0"]


def test_of_a_file_that_nobody_could_read_no_claim_is_listed(tmp_path: Path) -> None:
    failed = ClaimResult("1.4", "1.4 c of mine", 0, 2, "failed", "it holds no notebook")
    text = page_of(tmp_path, failed, problem="it holds no notebook", status="pending")
    assert "c of mine" not in text
