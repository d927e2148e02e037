"""Points of optional questions are a bonus: they make up for points lost elsewhere, up to
the maximum, in every place where a total is given.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from test_summary import ALL, Page, submission, write

from course_lib.grading.batch import manual_marks, report
from course_lib.grading.batch.result import read
from course_lib.grading.marking.marker import Outcome, maximum, total

CORE, BONUS = 4, 1  # points of 1.1 and 1.2; of 1.10, which is optional here


def optional(outcomes: list[Outcome]) -> list[Outcome]:
    return [replace(o, optional=o.question == "1.10") for o in outcomes]


@pytest.mark.parametrize(
    "right, points",
    [
        (ALL, CORE),  # all, and the bonus adds nothing
        (ALL[:3], CORE),  # the bonus left out
        (["test_half", "test_ties", "test_raises"], 4),  # it makes up for 1.2
        (["test_half", "test_raises"], 3),
        (["test_raises"], BONUS),
        ([], 0),
    ],
)
def test_a_bonus_makes_up_for_lost_points_up_to_the_maximum(
    tmp_path: Path, right: list[str], points: float
) -> None:
    h, outcomes, status = submission(right)
    outcomes = optional(outcomes)
    assert (total(outcomes), maximum(outcomes)) == (points, CORE)
    write(tmp_path, (h, outcomes, status))
    result = read(tmp_path, h.file_name)
    assert result is not None
    assert (result.score, result.max_score, result.optional) == (points, CORE, {"1.10"})
    assert result.points["1.10"][1] == BONUS, "a question keeps its own points"
    said = json.loads((tmp_path / "results" / f"{h.file_name}.json").read_text())
    assert said["score"] == points
    assert [t.get("tags") for t in said["tests"]] == [None, None, None, ["optional"]]
    page = Page((tmp_path / "feedback" / f"{h.file_name}.html").read_text()).text
    assert f"{points:g} of {CORE} points" in page
    assert (
        "1.10 optional" in page
        and "make up for points lost in the others, up to a total of 4" in page
    )
    total_and_maximum = report.build_row(result, [])[1:3]
    assert total_and_maximum == [f"{points:g}", f"{CORE}"]


def test_without_optional_questions_nothing_is_said_of_them(tmp_path: Path) -> None:
    h, outcomes, status = submission(ALL)
    write(tmp_path, (h, outcomes, status))
    assert "tags" not in (tmp_path / "results" / f"{h.file_name}.json").read_text()
    assert "optional" not in (tmp_path / "feedback" / f"{h.file_name}.html").read_text()


def test_a_persons_points_for_an_optional_question_are_a_bonus_too(tmp_path: Path) -> None:
    h, outcomes, status = submission(ALL[:2])
    write(tmp_path, (h, optional(outcomes), status))
    result = read(tmp_path, h.file_name)
    assert result is not None and result.score == 3
    mark = manual_marks.Mark(h.id, "1.10", 1.0, False, "", 2)
    marked = replace(result, entries=tuple(manual_marks.merge(result.entries, [mark], {})))
    assert (marked.score, marked.max_score) == (4, CORE)
