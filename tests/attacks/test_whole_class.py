"""A class of three hundred, shuffled: right answers and other right ones, wrong,
half-done, broken and hostile, each several times.

What each must get is known: full marks, none, what a header says. And whatever it is,
it gets the same claim by claim, word by word, whether three hundred are graded in any
order on all cores, or each kind once, in another order, one after the other.
"""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hostile
import pytest
from bank import answers
from battle import BEST, grade, results_of

from course_lib.grading.marking.judge import Limits

LAB = "lab00"  # its tests take half the time of lab01's
CLASS = 300
LIMITS = Limits()  # an instructor's: three processes on two cores are slow, and none may be late
# no sandboxes to try, nothing to wait for: what those do to others is in test_attacks.py
HOSTILE = [a for a in hostile.attacks() if a.lab == LAB]


def kinds() -> dict[str, bytes]:
    """The different submissions there are, by name."""
    right = hostile.solution(LAB)
    variants = [a for a in answers(LAB) if a.code and a.says is None][::3]
    mutants = [a for a in answers(LAB) if a.code and a.says][::8]
    texts = {
        "solution": hostile.notebook(right),
        "handout": hostile.notebook(hostile.handout(LAB)),
        "half": hostile.notebook(hostile.half(LAB)),
        "broken-syntax": hostile.notebook([*right, "def conv_cost(:", "%%time\n)("]),
        "broken-order": hostile.notebook(right[::-1]),
        "broken-empty": hostile.notebook([]),
        "broken-torn": hostile.notebook(right)[:3000],
        "broken-text": "My laptop broke, sorry",
    }
    texts |= {f"variant-{a.name}": hostile.notebook([*right, a.code]) for a in variants}
    texts |= {f"mutant-{a.name}": hostile.notebook([*right, a.code]) for a in mutants}
    texts |= {
        f"hostile-{a.path.stem}": hostile.notebook([*right, a.path.read_text()]) for a in HOSTILE
    }
    return {name: text.encode() for name, text in texts.items()}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """By kind: the result of one alone, and the results of all copies in the class."""
    folder = tmp_path_factory.mktemp("class")
    made = kinds()
    (folder / "alone").mkdir()
    (folder / "class").mkdir()
    for number, name in enumerate(sorted(made, reverse=True)):
        (folder / "alone" / f"{number:03}-{name}.ipynb").write_bytes(made[name])
    seats = [name for _, name in zip(range(CLASS), list(made) * CLASS, strict=False)]
    random.Random(0).shuffle(seats)
    for number, name in enumerate(seats):
        (folder / "class" / f"{number:03}.ipynb").write_bytes(made[name])
    # a second batch, which leaves the first no core to itself
    with ThreadPoolExecutor(1) as beside:
        one_by_one = beside.submit(
            grade, LAB, BEST, folder / "alone", folder / "report alone", jobs=1, limits=LIMITS
        )
        together = results_of(
            grade(LAB, BEST, folder / "class", folder / "report class", limits=LIMITS)
        )
        alone = results_of(one_by_one.result())
    assert len(together) == CLASS
    copies: dict[str, list[Any]] = {name: [] for name in made}
    for number, name in enumerate(seats):
        copies[name].append(together[f"{number:03}"])
    return {id[4:]: result for id, result in alone.items()}, copies


def lost(result: dict[str, Any]) -> set[str]:
    return {t["number"] for t in result["tests"] if t["score"] < t["max_score"]}


def test_each_gets_the_marks_it_must(graded: tuple[dict[str, Any], dict[str, list[Any]]]) -> None:
    alone, _ = graded
    # a bonus adds up to the points of the questions that are not optional
    full = sum(
        t["max_score"] for t in alone["solution"]["tests"] if "optional" not in t.get("tags", ())
    )
    for name, result in alone.items():
        kind, _, stem = name.partition("-")
        if kind in ("solution", "variant") or name in ("broken-syntax", "broken-order"):
            assert result["score"] == full, name
        elif kind in ("handout", "broken"):
            assert result["score"] == 0, name
        elif kind == "mutant":
            answer = next(a for a in answers(LAB) if a.name == stem)
            assert lost(result) == {answer.question}, name
        elif kind == "hostile":
            attack = next(a for a in HOSTILE if a.path.stem == stem)
            of_question = [t["score"] for t in result["tests"] if t["number"] == attack.question]
            assert lost(result) == {attack.question}, name
            assert sum(of_question) == attack.points, name
    assert 0 < alone["half"]["score"] < full


def test_a_class_is_marked_as_each_is_alone(
    graded: tuple[dict[str, Any], dict[str, list[Any]]],
) -> None:
    alone, copies = graded
    for name, results in copies.items():
        assert len(results) >= CLASS // len(copies) >= 3
        for result in results:
            assert json.dumps(result["tests"]) == json.dumps(alone[name]["tests"]), name
            assert result["score"] == alone[name]["score"], name
            assert result["extra_data"]["status"] == alone[name]["extra_data"]["status"], name
