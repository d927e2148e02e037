"""The course's one table: every row that the twelve walkthroughs wrote, in one run on
one machine, and the picture of it.

``course ledger`` prints it, ``course ledger --remake`` makes it again: it executes all
walkthroughs in order, from an empty ledger.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from course_lib import paths
from course_lib.ledger import FILE, Row, Table, with_one_dense
from course_lib.show import plots
from course_lib.show.style import BLACK, BLUE, ORANGE, style

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
    if not path().is_file():
        raise FileNotFoundError(
            f"{path()} is not there: `course ledger --remake` makes it, in some minutes"
        )
    found: list[Row] = json.loads(path().read_text(encoding="utf-8"))
    return found


def find_paper(row: Row) -> str:
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
    "small transformers": ("bert-small", "marian-small"),
}
FAR = 12.0  # points lost; what is further stands at the edge, with its number
_FASTER = 0.85  # of the dense model's latency


def against_dense(found: Sequence[Row]) -> pd.DataFrame:
    """Each compressed model of the table minus the dense model of its lab.

    Returns:
        Columns ``model``, ``lab``, ``method``, ``size`` (% of the dense model's bits),
        ``lost`` (points of accuracy), ``faster`` (bool), and ``random``: the weights were
        chosen, or the training was begun, at random.
    """
    table = pd.DataFrame(found)
    table["mean"] = table["accuracy"].map(fmean)
    is_dense = table["method"].str.startswith("dense")
    keys = ["lab", "model"]
    dense = table[is_dense].drop_duplicates(keys, keep="last").set_index(keys)
    rows = table[~is_dense & (table["bits"] > 0)].join(dense, on=keys, rsuffix="_dense")
    rows = rows.dropna(subset=["bits_dense"])
    return rows[["model", "lab", "method"]].assign(
        size=100 * rows["bits"] / rows["bits_dense"],
        lost=rows["mean_dense"] - rows["mean"],
        faster=rows["ms"] < _FASTER * rows["ms_dense"],
        random=rows["method"].str.contains("random|scratch"),
    )


def picture(found: Sequence[Row]) -> Figure:
    """Points of accuracy lost by every method of the course, with its size: a row per
    method, random baselines as crosses.
    """
    table = against_dense(found)
    parts = {
        title: table[table["model"].str.startswith(models)].sort_values("lost", ascending=False)
        for title, models in PANELS.items()
    }
    with mpl.rc_context(style()):
        fig = plots.new_figure(1.5 + 0.23 * len(table))
        heights = [max(len(part), 1) for part in parts.values()]
        panels = fig.subplots(len(parts), 1, sharex=True, height_ratios=heights)
        for ax, (title, part) in zip(panels, parts.items(), strict=True):
            _panel(ax, title, part)
        _example(panels[0], next(iter(parts.values())))
        panels[-1].set_xlabel("accuracy lost (percentage points; left is better)")
        fig.legend(handles=_key(), loc="outside upper center", ncols=3, frameon=False)
    rows = table.to_dict("records")
    words = [f"{r['method']}: {r['size']:.0f} %, {r['lost']:.1f} points." for r in rows]
    return plots.alt(
        fig,
        "Points of accuracy lost and size in per cent of the dense model, for every method of the"
        " course; random baselines are crosses. " + " ".join(words),
    )


def _panel(ax: Axes, title: str, part: pd.DataFrame) -> None:
    for place, row in enumerate(part.to_dict("records")):
        colour = ORANGE if row["random"] else BLUE
        at = min(row["lost"], FAR)
        ax.plot([0, at], [place, place], color=colour, linewidth=1.2, alpha=0.5, zorder=2)
        marker, fill = "X" if row["random"] else "o", colour if row["faster"] else "white"
        ax.plot(at, place, marker, color=colour, markerfacecolor=fill, markersize=8, zorder=3)
        if row["lost"] > FAR:
            ax.annotate(
                f"{row['lost']:.0f} points", (at, place), xytext=(-8, 0), ha="right", va="center",
                textcoords="offset points", fontsize=9,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip
        ax.annotate(
            f"{row['size']:.0f} %", (1, place), xycoords=("axes fraction", "data"),
            xytext=(38, 0), textcoords="offset points", ha="right", va="center", fontsize=9,
        )  # fmt: skip
    ax.annotate(
        "size vs dense", (1, len(part) - 0.2), xycoords=("axes fraction", "data"), xytext=(38, 0),
        textcoords="offset points", ha="right", va="bottom", fontsize=9, fontweight="bold",
    )  # fmt: skip
    names = [f"{row['method']}  ·  {row['lab']}" for row in part.to_dict("records")]
    ax.set_yticks(range(len(part)), names, fontsize=9)
    ax.set_ylim(-0.7, len(part) - 0.3)
    ax.set_xlim(-0.6, FAR + 0.3)
    ax.axvline(0, color=BLACK, linewidth=1, zorder=1)
    ax.grid(axis="y", visible=False)
    ax.set_title(f"{title} (method · lab)", fontsize=11)


def _example(ax: Axes, part: pd.DataFrame) -> None:
    """How to read a row: the smallest fast model that loses little."""
    example = part[~part["random"] & part["faster"] & (part["lost"] < 2)].sort_values("size")
    if len(example):
        best = example.iloc[0]
        place = part.index.get_loc(best.name)
        ax.annotate(
            f"{best['size']:.0f} % of the size, {best['lost']:.1f} points lost, and faster",
            (best["lost"], place), xytext=(FAR / 3, place - 1.2), fontsize=9.5, va="center",
            arrowprops={"arrowstyle": "->", "color": BLACK, "shrinkB": 6},
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip


def _key() -> list[Line2D]:
    looks = [
        ("o", BLUE, "white", "method"),
        ("o", BLUE, BLUE, "method, faster than dense"),
        ("X", ORANGE, "white", "random baseline"),
    ]
    return [
        Line2D([], [], linestyle="", marker=m, color=c, markerfacecolor=f, markersize=8, label=n)
        for m, c, f, n in looks
    ]
