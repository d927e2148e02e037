"""The labs' bold sentences: computed, printed, or refused."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from course_lib import experiments
from course_lib.authoring import build, claims, slides, source
from course_lib.authoring.errors import AuthoringError
from tests.unit.authoring.test_build import HALF, course, line_of, quiet

ROOT = Path(__file__).parents[3]
ROW = {
    "id": "01.1",
    "kind": "greater",
    "sentence": "Up is better than down.",
    "experiment": "half: up minus |down|",
    "table": "lab01_x_digits/all",
    "by": "method",
    "measure": "accuracy",
    "method": "up",
    "against": "down",
    "where": "sparsity=0.5",
    "function": "",
    "unit": "points",
    "real": "",
}
TEXT = "\n# %% [markdown]\n# {{claim 01.1}}\n"
UP = (84.0, 86.0, 85.0)
Write = Callable[..., Path]


def table(up: tuple[float, ...] = UP, down: tuple[float, ...] = (80.0, 80.5, 81.0)) -> pd.DataFrame:
    """Accuracies on 200 images of two arms at 50 %, a worse row at 90 %, a dense one."""
    rows = [(seed, "up", 0.5, value, 0.1) for seed, value in enumerate(up)]
    rows += [(seed, "down", 0.5, value, 0.1) for seed, value in enumerate(down)]
    rows += [(seed, "up", 0.9, 10.5, 0.1) for seed in range(len(up))] + [(0, "dense", None, 99, 1)]
    return pd.DataFrame(rows, columns=["seed", "method", "sparsity", "accuracy", "macs"])


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A course of one lab whose text calls one claim, with its table."""

    def made(text: str = TEXT, row: dict[str, str] | None = None, **tables: pd.DataFrame) -> Path:
        course(tmp_path, HALF + text)
        for name, frame in ({"digits": table()} | tables).items():
            (tmp_path / f"data/results/lab01_x_{name}").mkdir(parents=True, exist_ok=True)
            frame.to_csv(tmp_path / f"data/results/lab01_x_{name}/all.csv", index=False)
        with (tmp_path / claims.FILE).open("w", newline="") as file:
            writer = csv.DictWriter(file, ROW, lineterminator="\n")
            writer.writeheader()
            writer.writerow(ROW | (row or {}))
        claims._table.cache_clear()
        return tmp_path

    return made


def test_a_claim_becomes_its_sentence_difference_runs_and_real_data(write):
    mnist = table((84.0, 80.0, 82.0), (90.0, 90.5, 90.0))
    one = table((90.0,), (80.0,))
    root = write(row={"real": "lab01_x_mnist; lab01_x_sst2 sparsity=0.5"}, mnist=mnist, sst2=one)
    build.build(root, execute=False, echo=quiet)
    notebook = (root / "labs" / "lab01_halves.ipynb").read_text()
    for said in (
        "> **Up is better than down.**",
        "> half: up minus |down| = +4.5 ± 2.2 points (digits, 3 runs).",
        "> **MNIST does not confirm this:** −8.2 ± 5.6 points (MNIST, 3 runs): does not hold.",
        "> Real data: +10.0 points (SST-2, 1 run): as stated, one run.",
    ):
        assert said in notebook
    lab = source.read(root / "solutions" / "lab01_halves.py", root)
    assert set(lab.cells[-1].lines) == {line_of(lab.path, "{{claim 01.1}}")}
    page = (root / claims.PAGE).read_text()
    assert "| half: up minus \\|down\\| (points) | +4.5 ± 2.2 (digits, 3 runs) |" in page
    row = page.splitlines()[-1]
    assert row.startswith("| 01.1 | Up is better than down. |")
    assert "−8.2 ± 5.6 (MNIST, 3 runs): **does not hold**; +10.0 (SST-2, 1 run): as" in row


def test_no_difference_says_what_it_would_have_detected(write):
    """With a t-test of three pairs, power 80 %, by hand: 5.3 of the interval's 4.3 standard
    errors.
    """
    level = {"kind": "no difference", "sentence": "We could not detect a difference."}
    root = write(row=level, digits=table((80.0, 81.0, 80.5), (80.5, 80.0, 81.0)))
    (*_, last) = source.read(root / "solutions" / "lab01_halves.py", root).cells
    found = re.search(r"± ([\d.]+) points .* detect ([\d.]+) points", last.source)
    assert found and 1.2 < float(found[2]) / float(found[1]) < 1.35


def test_a_value_lies_in_its_interval(write):
    row = {"kind": "value", "sentence": "Up has 85 %.", "against": "85"}
    (*_, last) = source.read(write(row=row) / "solutions" / "lab01_halves.py", write(row=row)).cells
    assert "= 85.0 ± 2.5 points" in last.source


def test_windows_of_a_text_can_be_the_pairs(write):
    root = write()
    claim = claims.read(root)["01.1"]._replace(function="by_window", unit="in log perplexity")
    table = pd.DataFrame({"seed": [0, 1], "window": [5, 5], "layers": ["2 3", "4"], "nll": [1, 2]})
    paired = claims.by_window(table)
    assert paired["seed"].tolist() == [5, 5]
    assert paired.drop(columns="seed").equals(table.drop(columns="seed"))
    found = claims.Finding("WikiText-2", 0.154, 0.022, 64, "holds")
    assert found.text(claim) == "+0.15 ± 0.02 in log perplexity (WikiText-2, 64 windows)"


def test_an_interval_is_at_least_one_test_image(write):
    """200 images: half a point; differences that vary by less than that show nothing."""
    close = table((80.4, 80.9, 81.4), (80.0, 80.5, 81.0))
    close.loc[0, "accuracy"] += 1e-4
    images = table((80.5, 80.5, 81.5), (80.0, 80.5, 81.0))
    root = write(row={"kind": "no difference"}, digits=images)
    assert claims.find(claims.read(root)["01.1"], root)[0].half > 0.5
    assert claims._one_image(images["accuracy"]) == 0.5
    assert claims._one_image(close["accuracy"] + 0.00731) == 0


@pytest.mark.parametrize(
    ("row", "frame", "said"),
    [
        ({}, table(UP, UP[::-1]), "not shown"),
        ({}, table((70.0, 70.5, 71.5)), "does not hold"),
        ({"kind": "no difference"}, table(), "a difference"),
        ({"kind": "value", "against": "90"}, table(), "does not hold"),
        ({}, table(UP[:2], (80.0, 80.5)), "three runs"),
        ({"against": ""}, table(), "no rival"),
        ({"against": "sideways"}, table(), "sideways"),
        ({}, table((84.0, 84.5, 85.0)), "equal in all seeds"),
        ({}, table((*UP, 84.0)), "runs differ"),
        ({}, table().assign(macs=lambda t: 0.1 + 0.1 * (t["method"] == "up")), "macs differs"),
        ({"kind": "better"}, table(), "kind"),
        ({"function": "eval"}, table(), "function"),
        ({"measure": "speed"}, table(), "speed"),
        ({"where": "share=1"}, table(), "share"),
        ({"table": "lab01_y_digits/all"}, table(), "lab01_y_digits"),
        ({"id": "1.1"}, table(), "id"),
    ],
)
def test_a_row_that_its_table_does_not_show_stops_the_build(write, row, frame, said):
    root = write(row=row, digits=frame)
    with pytest.raises(AuthoringError) as caught:
        build.build(root, execute=False, echo=quiet)
    assert re.search(rf"data/claims\.csv:2: .*{said}", str(caught.value)), str(caught.value)
    assert not list((root / "labs").glob("*.ipynb"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT + "# **Sideways is\n# better still.**\n", "better"),
        (TEXT + "# It is **no higher** than that.\n", "higher"),
        (TEXT + '\n# %%\nprint(f"**{1} is worse.**")\n', "worse"),
        ("", "{{claim 01.1}} once"),
        (TEXT + TEXT, "{{claim 01.1}} once"),
        (TEXT + "# {{claim 01.2}}\n", "no claim 01.2"),
    ],
)
def test_other_bold_text_and_missing_calls_stop_the_build(write, text, said):
    root = write(text)
    with pytest.raises(
        AuthoringError, match=rf"solutions/lab01_halves\.py:\d+: .*{re.escape(said)}"
    ):
        build.build(root, execute=False, echo=quiet)


def test_bold_text_that_does_not_compare_may_stand(write):
    text = (
        TEXT + "# **Is this better?** A **mask**, *better* so. `**a, b**` and **lower bound**s.\n"
    )
    root = write(text.replace("lower bound", "limit"))
    assert build.build(root, execute=False, echo=quiet)


def test_a_lab_has_six_claims_at_most(write):
    root = write()
    lines = (root / claims.FILE).read_text().splitlines()
    more = [lines[1].replace("01.1", f"01.{number}", 1) for number in range(2, 8)]
    (root / claims.FILE).write_text("\n".join([*lines, *more]) + "\n")
    with pytest.raises(AuthoringError, match="claims.csv:8: .*more than 6"):
        claims.read(root)


def test_a_course_whose_page_is_old_is_told(write):
    root = write()
    build.build(root, execute=False, echo=quiet)
    assert not [problem for problem in build.check(root) if "real_data" in problem]
    (root / claims.PAGE).write_text("old")
    assert [problem for problem in build.check(root) if "docs/real_data.md:1" in problem]


def test_the_courses_own_claims_hold_in_results_that_can_be_made_again():
    found = claims.read(ROOT)
    assert {claim.id[:2] for claim in found.values()} == {f"{lab:02d}" for lab in range(13)}
    for claim in found.values():
        claims.find(claim, ROOT)
        assert claim.table.partition("/")[0] in experiments.registered(), "course remake makes it"
        assert claim.table.startswith(f"lab{claim.id[:2]}_")
    assert (ROOT / claims.PAGE).read_text(encoding="utf-8") == claims.page(ROOT)


def test_a_deck_prints_the_same_claim(write, monkeypatch):
    root = write()
    deck = root / "slides" / "lab01_halves.py"
    deck.parent.mkdir()
    deck.write_text("# %% [markdown]\n# # Halves\n#\n# {{claim 01.1}}\n")
    monkeypatch.setattr(slides, "run", lambda *_: [])
    notebook, _ = slides._executed(deck, root, root, quiet, 1.0)
    assert (
        "> **Up is better than down.**\n>\n> half: up minus |down| = +4.5"
        in notebook.cells[0].source
    )
    deck.write_text("# %% [markdown]\n# # Halves\n#\n# {{claim 01.7}}\n")
    with pytest.raises(AuthoringError, match=r"slides/lab01_halves\.py:4: there is no claim 01\.7"):
        slides._executed(deck, root, root, quiet, 1.0)
