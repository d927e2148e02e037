"""Nothing to gain by cheating, nothing lost to those who do: every attack among honest
submissions, behind every layer of isolation.

What an attack is and what it may earn stands in its file (:mod:`hostile`); how the
batches are graded and watched in :mod:`battle`.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from battle import BEST, HONEST, LABS, LAYERS, Battle, chosen
from hostile import LAB, Attack, attacks
from kinds import SAMPLE

from course_lib.grading import sandbox

Battles = Callable[[str, str], Battle]
ATTACKS = [(layer, a) for layer in LAYERS for lab in LABS for a in attacks() if a.lab == lab
           and (a in chosen(lab, layer) or a.needs_sandbox and not sandbox.Isolation(layer).is_sandbox)]  # fmt: skip
BATTLES = [(lab, layer) for layer in LAYERS for lab in LABS if chosen(lab, layer)]


def points(result: dict[str, Any], key: str = "score") -> dict[str, float]:
    """Earned, by question; with ``"max_score"`` what there was to earn."""
    found: dict[str, float] = {}
    for test in result["tests"]:
        found[test["number"]] = found.get(test["number"], 0) + test[key]
    return found


def core(result: dict[str, Any]) -> float:
    """The points of the questions that are not optional: a bonus adds up to them."""
    return sum(t["max_score"] for t in result["tests"] if "optional" not in t.get("tags", ()))


def said(result: dict[str, Any], question: str = "") -> list[str]:
    """What the student is told about a question, or about all and the submission."""
    told = [
        t["output"]
        for t in result["tests"]
        if t["status"] == "failed" and t["number"].startswith(question)
    ]
    return told if question else [*told, result["output"]]


@pytest.mark.parametrize(
    ("layer", "attack"),
    ATTACKS,
    ids=lambda p: p if isinstance(p, str) else f"{p.lab}-{p.path.stem}",
)
def test_what_an_attack_earns(layer: str, attack: Attack, battles: Battles) -> None:
    if attack.needs_sandbox and not sandbox.Isolation(layer).is_sandbox:
        pytest.skip(
            f"{layer}: no sandbox separates submissions from this process; the report says so"
        )
    results = battles(attack.lab, layer).results
    for id in attack.ids:
        result = results[id]
        expected = points(result, "max_score")
        if attack.points is not None:
            expected |= {q: attack.points for q in expected if attack.question in ("", q)}
        assert points(result) == expected, said(result)
        assert result["score"] == min(sum(expected.values()), core(result))
        assert result["extra_data"]["status"] == attack.status
        if attack.points is not None:
            assert any(attack.message in text for text in said(result, attack.question)), said(
                result, attack.question
            )


@pytest.mark.parametrize(("lab", "layer"), BATTLES)
@pytest.mark.parametrize("kind", HONEST)
def test_the_honest_are_marked_as_if_alone(
    lab: str, layer: str, kind: str, battles: Battles, alone: Callable[[str], dict[str, Any]]
) -> None:
    expected = alone(lab)[kind]
    total = {
        "solution": core(expected),
        "handout": 0,
        "half": sum(list(points(expected, "max_score").values())[:4]),
    }[kind]
    assert expected["score"] == min(total, core(expected))
    battle = battles(lab, layer)
    assert len(battle.copies[kind]) >= 2
    for id in battle.copies[kind]:
        assert battle.results[id]["tests"] == expected["tests"], id
        status = "unchanged" if kind == "handout" else "graded"
        assert battle.results[id]["extra_data"]["status"] == status, id


def test_the_sample_of_attacks_is_there() -> None:
    assert {a.path.stem for a in attacks() if a.lab == "lab01"} >= SAMPLE


@pytest.mark.skipif(
    LAB not in LABS, reason="only some of the attacks are tried: make test-all tries all"
)
def test_files_that_are_no_honest_notebooks(battles: Battles) -> None:
    battle = battles(LAB, BEST)
    assert battle.expected.keys() <= battle.results.keys()
    wrong = {}
    for id, expected in battle.expected.items():
        result = battle.results[id]
        score, status = result["score"], result["extra_data"]["status"]
        told = any(expected.message in text for text in said(result))
        if (score, status) != (core(result) if expected.full else 0, expected.status) or (
            not expected.full and not told
        ):
            wrong[id] = (score, status, said(result)[-1], expected)
    assert not wrong


@pytest.mark.parametrize(("lab", "layer"), BATTLES)
def test_every_submission_has_one_row(lab: str, layer: str, battles: Battles) -> None:
    battle = battles(lab, layer)
    handed_in = {a for attack in chosen(lab, layer) for a in attack.ids} | battle.expected.keys()
    handed_in |= {id for ids in battle.copies.values() for id in ids}
    assert battle.results.keys() == handed_in
    with open(battle.report / "grades.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(handed_in)
    for kind, ids in battle.copies.items():
        totals = {row["total"] for row in rows if row["id"] in ids}
        # what nobody has answered has no total before a person decides
        assert totals == {f"{battle.results[ids[0]]['score']:g}" if kind != "handout" else ""}, kind


@pytest.mark.parametrize(("lab", "layer"), BATTLES)
def test_the_grader_is_as_it_was_and_nothing_outlives_the_batch(
    lab: str, layer: str, battles: Battles
) -> None:
    battle = battles(lab, layer)
    assert battle.after == battle.before


@pytest.mark.parametrize(("lab", "layer"), BATTLES)
def test_nobody_called_out(lab: str, layer: str, battles: Battles) -> None:
    assert battles(lab, layer).calls == []


@pytest.mark.parametrize(("lab", "layer"), BATTLES)
def test_the_grader_stays_small(lab: str, layer: str, battles: Battles) -> None:
    battle = battles(lab, layer)
    frames = 500  # MB: some of 64 from each worker, as bytes and as tensors
    notebooks = (
        600 if battle.expected else 0
    )  # one at a time: its bytes, its text, what is built of it
    assert battle.megabytes < frames + notebooks


@pytest.mark.parametrize(("lab", "layer"), BATTLES)
def test_the_report_holds_what_the_grader_wrote(lab: str, layer: str, battles: Battles) -> None:
    battle = battles(lab, layer)
    for folder, suffix in (("results", ".json"), ("feedback", ".html")):
        files = list((battle.report / folder).iterdir())
        assert len(files) == len(battle.results)
        assert {f.suffix for f in files} == {suffix}
    for path in battle.report.rglob("*"):
        assert battle.mark not in path.name
        assert path.is_dir() or battle.mark.encode() not in path.read_bytes()
    with zipfile.ZipFile(battle.report / "feedback.zip") as archive:
        assert len(archive.namelist()) == len(battle.results)
        for name in archive.namelist():
            assert battle.mark not in name and battle.mark.encode() not in archive.read(name)
            assert not name.startswith("/") and ".." not in name.split("/") and name.isprintable()


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(("lab", "layer"), BATTLES)
def test_pages_are_harmless(lab: str, layer: str, battles: Battles) -> None:
    battle = battles(lab, layer)

    pages = [Page() for _ in (battle.report / "feedback").iterdir()]
    for page, path in zip(pages, sorted((battle.report / "feedback").iterdir()), strict=True):
        page.feed(path.read_text(encoding="utf-8"))
    plain = Page()
    honest = battle.copies["half"][0]
    plain.feed((battle.report / "feedback" / f"{honest}.html").read_text(encoding="utf-8"))
    allowed = plain.tags | {"div", "p", "br", "span"}
    for page in pages:
        assert page.tags <= allowed
        assert page.attributes <= plain.attributes
    if layer == BEST and (
        lab == LAB or any(a.path.stem == "raises_hostile_text" for a in chosen(lab, layer))
    ):
        text = "".join(page.text for page in pages)
        of_files = (
            "<script>alert(1)",
            '"><img src=x onerror=alert(1)>',
            "{{ 7 * 7 }}",
            "&lt;b&gt;",
        )
        of_code = (
            "</table><script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "{{ 7 * 7 }}",
        )
        for hostile_text in of_files if lab == LAB else of_code:
            assert hostile_text in text, "it should be there, as text"


@pytest.mark.parametrize(("lab", "layer"), BATTLES)
def test_the_summary_is_harmless(lab: str, layer: str, battles: Battles) -> None:
    text = (battles(lab, layer).report / "summary.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert not [name for name in page.attributes if name.startswith("on")]
    assert "<script>alert" not in text
    assert "half" in page.text or "fork_bomb" in page.text, "whom it names, it names as text"


@pytest.mark.parametrize(("lab", "layer"), BATTLES)
def test_tables_hold_no_formulas(lab: str, layer: str, battles: Battles) -> None:
    paths = list(battles(lab, layer).report.glob("*.csv"))
    assert paths
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert len({len(row) for row in rows}) == 1
        assert not [
            cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@", "\t", "\r")
        ]
