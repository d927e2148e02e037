"""The page of default and real data: what the files say, and nothing else."""

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from course_lib import cli, experiments
from course_lib.experiments.claims import CLAIMS, Claim, Source
from course_lib.show import real_data

ROOT = Path(__file__).parents[3]


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A course of one lab with two files, and their claims."""
    (tmp_path / "labs").mkdir()
    (tmp_path / "data" / "results").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('name = "pruning-course"')
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))

    def write(name, values, took=None):
        table = pd.DataFrame({"seed": range(len(values)), "values": values})
        experiments.write(name, experiments.Result({"all": table}, {}), took)

    write("lab50_x_digits", [1.0, 2.0, 3.0])
    write("lab50_x_mnist", [-1.0, -2.0, -3.0], took={"cpu_seconds": 1234, "cores": 2})
    write("lab50_x_cifar10", [4.0], took={"cpu_seconds": 5, "cores": 1})

    def of(result):
        return result["values"]

    return [
        Claim(
            "Up is up.",
            "up less |down|",
            tuple(Source(f"lab50_x_{data}/all", of) for data in ("digits", "mnist", "cifar10")),
        )
    ]


def test_a_table_shows_figures_verdicts_and_seconds(made_up, monkeypatch):
    monkeypatch.setattr(real_data, "CLAIMS", made_up)
    head, _, first, second, _, took = real_data.table("50").splitlines()
    assert head == "| the lab says | measured | digits | MNIST or CIFAR-10 | on real data |"
    assert first == (
        "| Up is up. | up less \\|down\\| | +2.0 ± 2.5 | MNIST: -2.0 ± 2.5 | not shown |"
    )
    assert second.endswith("| CIFAR-10: +4.0 | as said, one run |")
    assert took == (
        "`lab50_x_digits`: 3 runs, seconds not recorded · `lab50_x_mnist`: 3 runs, 1,234 s on 2"
        " cores · `lab50_x_cifar10`: 1 run, 5 s on 1 core"
    )


def test_what_is_counted_is_what_was_judged(made_up):
    said = real_data.count_verdicts(made_up)
    assert said.startswith("Of 2 comparisons: 1 *not shown*, 1 *as said, one run*.")
    assert "- 50: Up is up. (MNIST: -2.0 ± 2.5)" in said and "does not hold" not in said


def test_the_page_is_what_the_files_say():
    """In the course itself: who changes a file writes the page anew."""
    assert (ROOT / real_data.PAGE).read_text(encoding="utf-8") == real_data.page(), (
        "run `course results --write`"
    )
    assert (ROOT / real_data.PICTURE).is_file()


def test_the_picture_has_all_that_is_in_points():
    fig = real_data.picture(CLAIMS)
    (ax,) = fig.axes
    in_points = [claim for claim in CLAIMS if claim.points]
    assert len(ax.get_yticklabels()) == len(in_points)
    assert len(ax.containers) == sum(1 + len(claim.real) for claim in in_points)


def test_the_command(made_up, monkeypatch, tmp_path):
    monkeypatch.setattr(real_data, "CLAIMS", made_up)
    monkeypatch.setattr(real_data, "TITLES", {"50": "Made up"})
    printed = CliRunner().invoke(cli.app, ["results"])
    assert printed.exit_code == 0 and "## 50 · Made up" in printed.output
    assert not (tmp_path / real_data.PAGE).exists(), "printing writes nothing"
    written = CliRunner().invoke(cli.app, ["results", "--write"])
    assert written.exit_code == 0, written.output
    assert (tmp_path / real_data.PAGE).read_text().strip() == printed.output.strip()
    assert (tmp_path / real_data.PICTURE).stat().st_size > 1000
