"""The course's one table: every row that the twelve walkthroughs wrote, in one run on
one machine, and the picture of it.

``course ledger`` prints it, ``course ledger --remake`` makes it again: it executes all
walkthroughs in order, from an empty ledger.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib import paths
from course_lib.ledger import FILE, Row, Table, interval
from course_lib.show import plots

# lab and how a method's name begins -> what the paper found, on its own models and data
PAPERS: dict[tuple[str, str], str] = {
    ("01", "iterative"): "Han 2015: AlexNet 9, VGG-16 13 times fewer weights, no loss",
    ("01", "filters"): "Li 2017: VGG-16 on CIFAR-10, a third of the MACs less, no loss",
    (
        "02",
        "Fisher",
    ): "LeCun 1990 (second derivatives): a digit reader to a quarter of its parameters",
    ("03", "ticket"): "Frankle 2019: LeNet-300-100 back at the dense accuracy with 3.6 %",
    ("04", "slimming"): "Liu 2017: VGG on CIFAR-10 without 70 % of its channels 93.8, dense 93.8",
    ("05", "2:4"): "Mishra 2021: large networks keep their accuracy",
    ("05", "columns"): "Kung 2019: a systolic array used some 8 times as well",
    ("06", "by size"): "Gordon 2020: BERT-base, 30–40 % free",
    ("06", "movement"): "Sanh 2020: MNLI at 10 %, 81.2 of 84.5 (distilled)",
    ("06", "reweighted"): "Guo 2019: 59.3 % removed without loss",
    ("06", "low rank"): "Wang 2019: 35 % removed, slightly worse",
    ("07", "I_h"): "Michel 2019: MNLI, 40 % of BERT's heads without noticeable loss",
    ("08", ""): "Voita 2019: 10 of 48 encoder heads, −0.15 BLEU",
    ("09", "half the depth, LayerDrop"): "Fan 2020: any depth from one training, 16 to 8 layers",
    ("10", "tokens"): "Kim 2022: 2.1 times fewer FLOPs, under 1 % lost",
}


def path() -> Path:
    """Where the shipped table lies."""
    return paths.data_dir() / f"course_{FILE}"


def rows() -> list[Row]:
    """The rows as shipped.

    Raises:
        FileNotFoundError: if they are not there: ``course ledger --remake`` writes
            them.
    """
    try:
        found: list[Row] = json.loads(path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path()} is not there: `course ledger --remake` makes it, in some minutes"
        ) from None
    return found


def paper(row: Row) -> str:
    """What the paper found; "" where the course compares with none, and for dense
    models.
    """
    if str(row["method"]).startswith("dense"):
        return ""
    for (lab, start), said in PAPERS.items():
        if row["lab"] == lab and str(row["method"]).startswith(start):
            return said
    return ""


def text(found: Sequence[Row]) -> str:
    """The table, model by model, with the papers' figures beside it, as aligned
    text.
    """
    parts = []
    for model in dict.fromkeys(row["model"] for row in found):
        mine = [row for row in found if row["model"] == model]
        lines = str(Table(list(mine))).split("\n")
        parts.append(
            "\n".join(
                [
                    lines[0],
                    *(
                        f"{line}  {paper(row)}".rstrip()
                        for line, row in zip(lines[1:], mine, strict=True)
                    ),
                ]
            )
        )
    return "\n\n".join(parts)


# -------------------------------------------------------------------------- the picture

PANELS = (
    ("networks for digits", ("convnet", "lenet300")),
    ("small transformers", ("bert-small", "marian-small")),
)


def picture(found: Sequence[Row]) -> Figure:
    """Points of accuracy lost against size, for every method learned, with the number
    of its lab; random controls as crosses.
    """
    fig = plots.new_figure(5.4)
    drawn: list[str] = []
    for ax, (title, models) in zip(fig.subplots(1, 2), PANELS, strict=True):
        _panel(ax, title, [row for row in found if row["model"].startswith(models)], drawn)
    fig.legend(*_key(fig.axes[0]), loc="outside lower center", ncols=3, frameon=False)
    plots.alt(
        fig,
        "Points of accuracy lost against size in per cent of the dense model, for every method of"
        " the course; random controls are crosses. " + " ".join(drawn),
    )
    return fig


def _panel(ax: Axes, title: str, found: Sequence[Row], drawn: list[str]) -> None:
    dense: dict[str, Row] = {}
    for row in found:
        key = _start(row)
        if str(row["method"]).startswith("dense"):
            dense[key] = row
            continue
        whole = dense.get(key)
        if whole is None or not row["bits"]:
            continue
        size = 100 * row["bits"] / whole["bits"]
        lost = interval(whole["accuracy"])[0] - interval(row["accuracy"])[0]
        chance = "random" in row["method"] or "scratch" in row["method"]
        faster = bool(row["ms"] and whole["ms"] and row["ms"] < 0.85 * whole["ms"])
        ax.plot(
            size,
            lost,
            "X" if chance else "o",
            ms=9,
            color="C1" if chance else "C0",
            mfc=("C1" if chance else "C0") if faster else "white",
        )
        ax.annotate(
            row["lab"],
            (size, lost),
            xytext=(6, 5),
            textcoords="offset points",
            fontsize=9,
            color="0.3",
        )
        drawn.append(f"{row['model']}, {row['method']}: {size:.0f} %, {lost:.1f} points.")
    ax.set(xlabel="size (% of the dense model's bits)", title=title)
    ax.set_ylabel("accuracy lost (points)")
    ax.set_xscale("log")
    ax.set_xlim(3, 125)
    ticks = (3, 10, 30, 100)
    ax.set_xticks(ticks, [str(t) for t in ticks])
    ax.set_xticks([], minor=True)
    ax.set_yscale("symlog", linthresh=3)
    ax.set_yticks((-1, 0, 1, 3, 10, 50), ("−1", "0", "1", "3", "10", "50"))
    ax.set_yticks([], minor=True)
    ax.axhline(0, color="0.6", lw=1, zorder=0)
    ax.invert_yaxis()


def _start(row: Row) -> str:
    """Rows of one lab and one model have one dense row to be compared with."""
    return f"{row['lab']} {row['model']}"


def _key(ax: Axes) -> tuple[list[Any], list[str]]:
    handles = [
        ax.plot([], [], "o", color="C0", mfc="white", ms=9)[0],
        ax.plot([], [], "o", color="C0", ms=9)[0],
        ax.plot([], [], "X", color="C1", mfc="white", ms=9)[0],
    ]
    return handles, ["method (number: its lab)", "faster, too", "control, at random or fresh"]
