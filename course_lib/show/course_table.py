"""The course's one table: every row that the walkthroughs wrote, in one run on
one machine, and the picture of it.

``course ledger`` prints it, ``course ledger --remake`` makes it again: it executes all
walkthroughs in order, from an empty ledger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from course_lib import paths
from course_lib.ledger import FILE, Row, Table, with_one_dense
from course_lib.show import plots
from course_lib.show.style import BLACK, BLUE, GREY, VERMILLION, formula

# lab and how a method's name begins -> what the paper found, on its own models and data
PAPERS: dict[tuple[str, str], str] = {
    ("01", "iterative"): "Han 2015: AlexNet 9, VGG-16 13 times fewer weights, no loss",
    ("01", "filters"): "Li 2017: VGG-16 on CIFAR-10, a third of the MACs less, no loss",
    ("02", "Fisher"): "LeCun 1990 (second derivatives): a digit reader to a quarter of its size",
    ("03", "ticket"): "Frankle 2019: LeNet-300-100 back at the dense accuracy with 3.6 %",
    ("04", "slimming"): "Liu 2017: VGG on CIFAR-10 without 70 % of its channels 93.8, dense 93.8",
    ("05", "columns"): "Kung 2019: a systolic array used some 8 times as well",
    ("06", "by size"): "Gordon 2020: BERT-base, 30–40 % free",
    ("06", "movement"): "Sanh 2020: MNLI at 10 %, 81.2 of 84.5 (distilled)",
    ("06", "reweighted"): "Guo 2019: 59.3 % removed without loss",
    ("06", "low rank"): "Wang 2019: 35 % removed, slightly worse",
    ("07", "I_h"): "Michel 2019: MNLI, 40 % of BERT's heads without noticeable loss",
    ("08", ""): "Voita 2019: 10 of 48 encoder heads, −0.15 BLEU",
    ("09", "half the depth, LayerDrop"): "Fan 2020: any depth from one training, 16 to 8 layers",
    ("10", "tokens by"): "Kim 2022: 2.1 times fewer FLOPs, under 1 % lost",
    ("12", "SparseGPT"): "Frantar 2023: OPT-175B, 60 % with hardly more perplexity",
}


def path() -> Path:
    """Where the shipped table lies."""
    return paths.data_dir() / f"course_{FILE}"


def rows() -> list[Row]:
    """The rows as shipped.

    Raises:
        FileNotFoundError: if they are not there: ``course ledger --remake`` writes them.
    """
    if not path().is_file():
        raise FileNotFoundError(f"{path()} is not there: `course ledger --remake` makes it")
    found: list[Row] = json.loads(path().read_text(encoding="utf-8"))
    return found


def find_paper(row: Row) -> str:
    """What the paper found; "" where the course compares with none."""
    method = str(row["method"])
    starts = {start: said for (lab, start), said in PAPERS.items() if lab == row["lab"]}
    found = (said for start, said in starts.items() if method.startswith(start))
    return "" if method.startswith("dense") else next(found, "")


def text(found: Sequence[Row]) -> str:
    """The table, model by model, as aligned text, with the papers' figures beside it."""
    parts = []
    for model in dict.fromkeys(row["model"] for row in found):
        mine = with_one_dense([row for row in found if row["model"] == model])
        header, *lines = str(Table(mine)).split("\n")
        lines = [
            f"{line}  {find_paper(row)}".rstrip() for line, row in zip(lines, mine, strict=True)
        ]
        parts.append("\n".join([header, *lines]))
    return "\n\n".join(parts)


# -------------------------------------------------------------------------- the picture

PANELS = {
    "networks for digits": ("convnet", "lenet300"),
    "small transformers": ("bert-small",),
}
FAR = 12.0  # points lost; what is further stands at the edge, with its number
_FASTER = 0.85  # of the dense model's latency


def against_dense(found: Sequence[Row]) -> pd.DataFrame:
    """Each compressed model of the table minus the dense model of its lab.

    Returns:
        Columns ``model``, ``lab``, ``method``, ``size`` (% of the dense model's bits),
        ``seeds`` (points lost by each model, a list), ``lost`` (their mean), ``faster`` (bool).
    """
    table = pd.DataFrame(found)
    is_dense = table["method"].str.startswith("dense")
    keys = ["lab", "model"]
    dense = table[is_dense].drop_duplicates(keys, keep="last").set_index(keys)
    rows = table[~is_dense & (table["bits"] > 0)].join(dense, on=keys, rsuffix="_dense")
    rows = rows.dropna(subset=["bits_dense"])
    pairs = zip(rows["accuracy_dense"], rows["accuracy"], strict=True)
    rows["seeds"] = [[fmean(before) - value for value in after] for before, after in pairs]
    return rows[["model", "lab", "method", "seeds"]].assign(
        size=100 * rows["bits"] / rows["bits_dense"],
        lost=rows["seeds"].map(fmean),
        faster=rows["ms"] < _FASTER * rows["ms_dense"],
    )


def picture(found: Sequence[Row]) -> Figure:
    """Points lost by every method of the course, with its size: a row per method, a dot per
    model, random baselines grey. Lab 08 is left out: it measures BLEU; and lab 12: another model.
    """
    table = against_dense(found)
    parts = [
        table[table["model"].str.startswith(models)].sort_values("lost", ascending=False)
        for models in PANELS.values()
    ]
    fig, panels = plots.subplots(
        len(parts), 1, 1.5 + 0.23 * sum(map(len, parts)), sharex=True,
        height_ratios=[max(len(part), 1) for part in parts],
    )  # fmt: skip
    for ax, title, part in zip(panels, PANELS, parts, strict=True):
        rows = part.assign(method=part["method"] + "  ·  " + part["lab"], lost=part["seeds"])
        rows["size"] = rows["size"].map("{:.0f} %".format)
        draw_rows(ax, rows, FAR, np.flatnonzero(part["faster"]).tolist())
        ax.set_title(f"{title} (method · lab; right: size, % of dense)", fontsize=11)
    panels[-1].set_xlabel("accuracy lost against dense (percentage points); left is better")
    fig.legend(
        handles=[
            Line2D([], [], linestyle="", marker=marker, color=colour, mfc=fill, ms=8, label=name)
            for marker, colour, fill, name in (
                ("o", BLUE, "white", "method"),
                ("o", BLUE, BLUE, "method, faster than dense"),
                ("X", GREY, "white", "random baseline"),
            )
        ],
        loc="outside upper center",
        ncols=3,
    )
    fig.set_label("What every method of the course loses against dense, and its size")
    return fig


def draw_rows(ax: Axes, rows: pd.DataFrame, edge: float, filled: Sequence[int]) -> None:
    """Points lost: a row per method, a stroke per model, a mark for the mean; random baselines
    are grey crosses, "yours" is a diamond.

    Args:
        rows: ``method``, ``lost`` (a list, an entry per model), and ``size``, a text
            at the right. edge: larger means are drawn there, with their number.
        filled: the positions of the rows whose mark is filled.
    """
    told = getattr(ax.figure, "course_table", "")
    for y, row in enumerate(rows.to_dict("records")):
        look = ("X", GREY) if re.search("random|scratch", row["method"]) else ("o", BLUE)
        marker, colour = ("D", VERMILLION) if row["method"] == "yours" else look
        at = min(mean := fmean(row["lost"]), edge)
        ax.plot([0, at], [y, y], color=colour, linewidth=1.2, alpha=0.5, zorder=2)
        seeds = [lost for lost in row["lost"] if lost <= edge]
        ax.plot(seeds, [y] * len(seeds), "|", color=colour, markersize=9, alpha=0.7)
        fill = colour if y in filled else "white"
        ax.plot(at, y, marker, color=colour, mfc=fill, ms=8, zorder=3, clip_on=False)
        words = row["size"] + (f" (−{mean:.0f})" if mean > edge else "")
        ax.annotate(
            words, (1, y), xycoords=("axes fraction", "data"), xytext=(8, 0), va="center",
            textcoords="offset points", fontsize=9,
        )  # fmt: skip
        told += f" {row['method']}: {row['size']}, {mean:.1f} points."
    ax.set_yticks(range(len(rows)), rows["method"].map(formula), fontsize=9)
    ax.set(ylim=(-0.7, len(rows) - 0.3), xlim=(-0.05 * edge, 1.03 * edge))
    ax.axvline(0, color=BLACK, linewidth=1, zorder=1)
    ax.grid(axis="y", visible=False)
    ax.figure.course_table = told.strip()  # type: ignore[union-attr]
