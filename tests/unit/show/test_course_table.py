"""The course's table as it is shipped: a row for every lab that compresses, papers
beside their methods, a picture of all.
"""

import json

import pytest

from course_lib.show import course_table
from course_lib.show.output import alt_of


def row(lab, model, method, bits, accuracy, ms=1.0):
    return {
        "lab": lab,
        "model": model,
        "method": method,
        "bits": bits,
        "macs": 1,
        "ms": ms,
        "accuracy": accuracy,
    }


ROWS = [
    row("04", "convnet", "dense", 1000, [99.0, 98.0, 99.0]),
    row("04", "convnet", "slimming 70%, fine-tuned", 100, [98.0, 98.0, 98.0], 0.4),
    row("04", "convnet", "random channels, fine-tuned", 100, [90.0, 91.0, 92.0], 0.4),
    row("07", "bert-small", "dense", 1000, [98.0] * 3),
    row("07", "bert-small", "I_h, half of the heads", 800, [97.0] * 3),
]


def test_every_lab_that_measures_has_rows_and_every_paper_a_row():
    shipped = course_table.rows()
    assert {r["lab"] for r in shipped} == {f"{n:02d}" for n in range(13)}
    said = {course_table.find_paper(r) for r in shipped}
    assert set(course_table.PAPERS.values()) <= said
    assert all(len(r["accuracy"]) >= 3 for r in shipped if r["lab"] < "11")
    assert json.loads(json.dumps(shipped)) == shipped


def test_a_papers_figure_stands_behind_its_method():
    lines = course_table.text(ROWS).splitlines()
    assert sum(line.startswith("model") for line in lines) == 2
    (slim,) = [line for line in lines if "slimming" in line]
    (chance,) = [line for line in lines if "random" in line]
    assert slim.endswith(course_table.PAPERS["04", "slimming"]) and chance.rstrip().endswith("3")


def test_a_model_is_compared_with_the_dense_one_of_its_lab():
    table = course_table.against_dense(ROWS).set_index("method")
    slim = table.loc["slimming 70%, fine-tuned"]
    assert slim["size"] == 10 and slim["lost"] == pytest.approx(2 / 3) and slim["faster"]
    assert not table["faster"].iloc[-1]


def test_the_picture_names_every_method_and_tells_baselines_apart():
    fig = course_table.picture(ROWS)
    digits, transformers = fig.axes
    names = [text.get_text() for text in digits.get_yticklabels()]
    assert [name.split("  ")[0] for name in names] == [
        "random channels, fine-tuned",
        "slimming 70 %, fine-tuned",
    ]
    points = [line for line in digits.lines if line.get_marker() in ("o", "X")]
    assert [point.get_marker() for point in points] == ["X", "o"]
    assert points[0].get_xdata()[0] == pytest.approx(98.667 - 91, abs=0.01)
    assert points[0].get_markerfacecolor() == points[0].get_color(), "faster than dense"
    assert [x.get_markerfacecolor() for x in transformers.lines if x.get_marker() == "o"] == [
        "white"
    ]
    assert "random channels, fine-tuned · 04: 10 %, 7.7 points." in alt_of(fig)


def test_without_the_table_it_is_said_what_makes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(course_table, "path", lambda: tmp_path / "course_ledger.json")
    with pytest.raises(FileNotFoundError, match="course ledger --remake"):
        course_table.rows()
