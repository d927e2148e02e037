"""The course's table as it is shipped: a row for every lab that compresses, papers
beside their methods, a picture of all.
"""

import json

import matplotlib.pyplot as plt
import pytest

from course_lib.show import course_table, plots


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
    assert {r["lab"] for r in shipped} == {f"{n:02d}" for n in range(12)}
    said = {course_table.paper(r) for r in shipped}
    assert set(course_table.PAPERS.values()) <= said
    assert all(len(r["accuracy"]) >= 3 for r in shipped if r["lab"] != "11")
    assert json.loads(json.dumps(shipped)) == shipped


def test_a_papers_figure_stands_behind_its_method():
    lines = course_table.text(ROWS).splitlines()
    assert sum(line.startswith("model") for line in lines) == 2
    (slim,) = [line for line in lines if "slimming" in line]
    (chance,) = [line for line in lines if "random" in line]
    assert slim.endswith(course_table.PAPERS["04", "slimming"]) and chance.rstrip().endswith("3")


def test_the_picture_has_every_method_and_tells_controls_and_faster_ones_apart():
    plots.use_style()
    fig = course_table.picture(ROWS)
    left, right = fig.axes
    points = [line for line in left.lines if len(line.get_xdata()) == 1]
    assert [(p.get_xdata()[0], p.get_marker()) for p in points] == [(10.0, "o"), (10.0, "X")]
    assert points[0].get_markerfacecolor() == "C0" and points[1].get_ydata()[0] == pytest.approx(
        98.667 - 91, abs=0.01
    )
    assert [line.get_markerfacecolor() for line in right.lines if len(line.get_xdata()) == 1] == [
        "white"
    ]
    plt.close(fig)


def test_without_the_table_it_is_said_what_makes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(course_table, "path", lambda: tmp_path / "course_ledger.json")
    with pytest.raises(FileNotFoundError, match="course ledger --remake"):
        course_table.rows()
