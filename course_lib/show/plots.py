"""The course's figures: each answers one question, in one look for the whole term.

A comparison of methods has an interval over seeds and a random control, or it is
refused. Every function returns a matplotlib ``Figure`` that pyplot does not know about,
so nothing stays open behind it; it appears when ``show`` (in a notebook) or ``save``
(to a file) is called with a sentence for those who cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import blended_transform_factory

from course_lib.intervals import interval, plain
from course_lib.show import charts
from course_lib.show.charts import frontier, scatter
from course_lib.show.labels import (
    EndLabels,
    Notes,
    name_axes,
    remaining_axis,
    set_title,
    sparsity_axis,
)
from course_lib.show.output import alt, new_figure, save, show, subplots
from course_lib.show.style import (
    BLACK,
    BLUE,
    COLOURS,
    GREY,
    INCHES,
    INK,
    LOOKS,
    ORANGE,
    SKY,
    VERMILLION,
    Look,
    contrast,
    for_slides,
    label,
    looks,
    pt,
    readable,
    style,
    title_of,
    use_style,
)

__all__ = [
    "COLOURS",
    "LOOKS",
    "Look",
    "alt",
    "bars",
    "curves",
    "frontier",
    "grid",
    "heat_map",
    "histogram_before_after",
    "interval",
    "method_curves",
    "remaining_axis",
    "save",
    "scatter",
    "show",
    "sparsity_axis",
    "subplots",
    "use_style",
]

XAxis = Literal["sparsity", "remaining"] | None


def method_curves(
    x: Any,
    results: Mapping[str, Any],
    *,
    control: str = "random",
    xlabel: str,
    ylabel: str,
    title: str,
    dense: Any = None,
    paper: Mapping[str, tuple[Any, Any]] | None = None,
    xaxis: XAxis = None,
    ylim: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Methods against each other: the mean over seeds, its 95 % t-interval as a band,
    and a random control always.

    Args:
        x: (n,) what is varied, such as sparsity as a fraction.
        results: {method: (seeds, n)} in the units of ``ylabel``; at least three seeds,
            NaN for a missing run.
        control: the method that chooses at random; it must be among the results.
        xlabel, ylabel, title: with units; the title is the finding or the question.
        dense: the unpruned model's value, or one value per seed: a black line.
        paper: published figures, {"Han et al. 2015": (x, y)} with numbers or sequences:
            marked points.
        xaxis: "sparsity" labels fractions in per cent; "remaining" is log-scaled, from
            100 % on the left downwards.
        ylim: default: means and bands, within 0 to 100 where ``ylabel`` says %.
        ax: draw into these axes instead of a new figure.

    Returns:
        The figure; give it to ``show(fig, alt="...")``.

    Raises:
        ValueError: without the control, with fewer than three seeds, or where shapes do
            not fit.
    """
    x = _vector(x)
    runs = {name: np.asarray(plain(values), dtype=np.float64) for name, values in results.items()}
    if control not in runs:
        raise ValueError(
            f"no random control: the results are {', '.join(map(repr, runs)) or 'empty'}, and"
            f" {control!r} is not among them. A method shows something only where it beats choosing"
            " at random: run that too, or say under which name it is there, control='...'"
        )
    for name, values in runs.items():
        if values.ndim != 2 or values.shape[1] != len(x):
            raise ValueError(
                f"results[{name!r}] has the shape {values.shape}; wanted (seeds, {len(x)}): a row"
                " for each seed, a column for each entry of x"
            )
        if len(values) < 3:
            raise ValueError(
                f"results[{name!r}] holds {len(values)} seed{'s' * (len(values) != 1)}: two runs"
                " can differ by luck alone, and their interval says nothing. Run at least 3 seeds"
            )
    with mpl.rc_context(style()):
        fig, ax = _axes(ax)
        names = EndLabels(ax)
        for (name, values), look in zip(runs.items(), looks(list(runs)).values(), strict=True):
            mean, half = interval(values)
            ax.fill_between(
                x, mean - half, mean + half, color=look.colour, alpha=0.17, linewidth=0, zorder=2
            )
            ax.plot(
                x,
                mean,
                color=look.colour,
                marker=look.marker,
                linestyle=look.dash,
                label=name,
                zorder=3,
            )
            _name_end(names, name, x, mean, look, xaxis)
        if dense is not None:
            _dense_line(
                ax, names, np.atleast_1d(np.asarray(plain(dense), dtype=np.float64)), x, xaxis
            )
        if paper:
            _paper_points(ax, paper)
        _finish(ax, x, xlabel, ylabel, title, xaxis)
        if ylim is not None:
            ax.set_ylim(*ylim)
        elif "%" in ylabel:
            bottom, top = ax.get_ylim()
            ax.set_ylim(max(bottom, -2), min(top, 102))
    return fig


def curves(table: Any, *args: Any, **options: Any) -> Figure:
    """:func:`course_lib.show.charts.curves` of a table; of arrays, :func:`array_curves`."""
    if isinstance(table, pd.DataFrame):
        return charts.curves(table, *args, **options)
    return array_curves(table, *args, **options)


def array_curves(
    x: Any,
    series: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    points: Mapping[str, Any] | None = None,
    key: tuple[str, str] = ("formula", "measured"),
    xaxis: XAxis = None,
    log: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Lines that are no contest between methods: formulas beside what was measured, or
    how sensitive each layer is.

    Args:
        x: (n,) shared by all lines.
        series: {name: (n,)}; NaN breaks a line.
        points: measured values, drawn as marks without a line: {name: (n,)} at ``x``,
            or {name: (x, y)}, a tuple of two sequences. A name that is in ``series``
            too has its colour.
        key: what a line and what a mark stands for, where there are points.
        log: the vertical axis is log-scaled.
        xlabel, ylabel, title, xaxis, ax: as for ``method_curves``.

    Returns:
        The figure; give it to ``show(fig, alt="...")``.

    Raises:
        ValueError: where shapes do not fit.
    """
    x = _vector(x)
    lines = {name: np.asarray(plain(values), dtype=np.float64) for name, values in series.items()}
    for name, values in lines.items():
        if values.shape != x.shape:
            raise ValueError(
                f"series[{name!r}] has the shape {values.shape}; wanted ({len(x)},), a value for"
                " each x"
            )
    marks: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, given in (points or {}).items():
        at, values = given if isinstance(given, tuple) else (x, given)
        marks[name] = _vector(at), _vector(values)
        if len(marks[name][0]) != len(marks[name][1]):
            raise ValueError(
                f"points[{name!r}] has {len(marks[name][1])} values at {len(marks[name][0])}"
                " places; give a value for each x, or a tuple (x, y)"
            )
    with mpl.rc_context(style()):
        fig, ax = _axes(ax)
        names = EndLabels(ax)
        chosen = looks([*lines, *(name for name in marks if name not in lines)])
        for name, values in lines.items():
            look = chosen[name]
            marker = "" if marks or len(x) > 25 else look.marker
            ax.plot(
                x,
                values,
                color=look.colour,
                marker=marker,
                linestyle=look.dash,
                label=name,
                zorder=3,
            )
            _name_end(names, name, x, values, look, xaxis)
        for name, (at, values) in marks.items():
            look = chosen[name]
            ax.plot(
                at,
                values,
                linestyle="",
                marker=look.marker or "o",
                color=look.colour,
                markerfacecolor="white",
                markeredgewidth=1.8,
                markersize=7.5,
                zorder=4,
            )
            if name not in lines:
                _name_end(names, name, at, values, look, xaxis)
        if log:
            ax.set_yscale("log")
        if marks and lines:
            line = Line2D([], [], color=GREY, label=key[0])
            mark = Line2D(
                [],
                [],
                color=GREY,
                linestyle="",
                marker="o",
                markerfacecolor="white",
                markeredgewidth=1.8,
                markersize=7.5,
                label=key[1],
            )
            ax.legend(handles=[line, mark], loc="best")
        _finish(ax, x, xlabel, ylabel, title, xaxis)
    return fig


def bars(table: Any, *args: Any, **options: Any) -> Figure:
    """:func:`course_lib.show.charts.bars` of a table; of nested dicts, :func:`dict_bars`."""
    if isinstance(table, pd.DataFrame):
        return charts.bars(table, *args, **options)
    return dict_bars(table, *args, **options)


def dict_bars(
    values: Mapping[str, Mapping[str, float]],
    *,
    ylabel: str,
    title: str,
    errors: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    fmt: str = "{:.3g}",
    log: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Bars side by side, with their numbers: for each thing, what the formula says and
    what was measured.

    Args:
        values: {"formula": {"bitmap": 12.0, ...}, "measured": {"bitmap": 12.1, ...}}: a
            colour for each outer name (four at most), a group of bars for each inner
            one.
        errors: (low, high) ends of an interval, nested like ``values``, where there is
            one.
        fmt: how the number over a bar is written.
        log: the vertical axis is log-scaled.
        ylabel, title, ax: as for ``method_curves``.

    Raises:
        ValueError: if the inner names differ, or there are no bars or more than four
            colours.
    """
    names = list(values)
    if not 1 <= len(names) <= 4:
        raise ValueError(f"bars compares one to four things side by side, got {len(names)}")
    groups = list(values[names[0]])
    for name in names:
        if list(values[name]) != groups:
            raise ValueError(
                f"{names[0]!r} has bars for {groups}, {name!r} for {list(values[name])}: give both"
                " the same"
            )
    with mpl.rc_context(style()):
        fig, ax = _axes(ax)
        width = 0.8 / len(names)
        colours = (SKY, BLUE, ORANGE, VERMILLION) if len(names) > 1 else (BLUE,)
        small = len(names) * len(groups) > 14
        for k, name in enumerate(names):
            heights = [float(values[name][group]) for group in groups]
            places = np.arange(len(groups)) + (k - (len(names) - 1) / 2) * width
            ax.bar(
                places, heights, width * 0.94, color=colours[k], label=name, zorder=3,
                hatch="//" if k == 0 and len(names) > 1 else "", linewidth=0,
            )  # fmt: skip
            for group, place, height in zip(groups, places, heights, strict=True):
                top = height
                if errors and group in errors.get(name, {}):
                    low, top = errors[name][group]
                    ax.plot([place, place], [low, top], color=INK, linewidth=1.6, zorder=4)
                ax.annotate(
                    fmt.format(height),
                    (place, max(top, height)),
                    xytext=(0, 2),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    fontsize=pt(8.5 if small else 10),
                )
        if log:
            ax.set_yscale("log")
        ax.margins(y=0.22 if len(names) > 1 else 0.1)  # room for the legend above the highest bar
        ax.set_xticks(np.arange(len(groups)), groups)
        ax.grid(axis="x", visible=False)
        name_axes(ax, "", ylabel)
        if len(names) > 1:
            # in the line of the vertical axis's name, up to the figure's right edge
            if for_slides():
                ax.set_title(ylabel or " ")
                at = blended_transform_factory(fig.transFigure, ax.transAxes)
                beside = {
                    "bbox_to_anchor": (1, 1),
                    "bbox_transform": at,
                    "borderaxespad": 0,
                    "borderpad": 0.1,
                }
                ax.legend(loc="lower right", ncols=len(names), **beside).set_in_layout(False)
            else:
                ax.legend(loc="upper right", ncols=len(names), borderaxespad=0.1)
        set_title(ax, title)
    return fig


def histogram_before_after(
    before: Any,
    after: Any,
    *,
    title: str,
    xlabel: str = "weight",
    ylabel: str = "weights per bin",
    labels: tuple[str, str] = ("before", "after"),
    bins: int = 81,
) -> Figure:
    """Where the weights were and where they are: two histograms on the same axes.

    Exact zeros are counted in words instead of drawn: their spike would flatten all
    else.

    Args:
        before, after: tensors or arrays of any shape; NaN and infinite entries are left
            out.
        labels: what the upper and the lower histogram show.

    Raises:
        ValueError: if one of them has no finite value.
    """
    weights = [np.asarray(plain(values), dtype=np.float64).ravel() for values in (before, after)]
    weights = [values[np.isfinite(values)] for values in weights]
    if not all(len(values) for values in weights):
        raise ValueError(
            "a histogram of nothing: before and after need at least one finite weight each"
        )
    reach = max(float(np.abs(values).max()) for values in weights) or 1.0
    edges = np.linspace(-reach, reach, bins + 1)
    with mpl.rc_context(style()):
        fig = new_figure(4.8)
        panels = fig.subplots(2, 1, sharex=True, sharey=True)
        for ax, values, label, colour in zip(panels, weights, labels, (GREY, BLUE), strict=True):
            zeros = int((values == 0).sum())
            ax.hist(values[values != 0], bins=edges, color=colour, zorder=3)
            words = f"{label}\n{100 * zeros / len(values):.3g} % are exactly 0" if zeros else label
            ax.text(
                0.015,
                0.94,
                words,
                transform=ax.transAxes,
                va="top",
                fontweight="bold",
                color=readable(colour),
            )
            name_axes(ax, "", ylabel if ax is panels[0] or not for_slides() else "")
        panels[1].set_xlabel(xlabel)
        set_title(panels[0], title)
    return fig


def grid(
    masks: Mapping[str, Any], *, title: str, columns: int | None = None, max_side: int = 160
) -> Figure:
    """A picture of masks: kept weights dark, pruned ones light, with each one's
    sparsity.

    A convolution's mask (M, C, R, S) shows a filter in each row of kernels and an input
    channel in each column. A mask with more than ``max_side`` weights on a side is
    averaged in blocks, so that a shade is the share kept there.

    Args:
        masks: {name: bool tensor}, True = kept; a mask with another number of
            dimensions than 2 or 4 is shown with its first dimension downwards and all
            others across.
        columns: pictures in a row; default: up to four.

    Raises:
        ValueError: without masks, or if one is not boolean or is empty.
    """
    if not masks:
        raise ValueError("no masks to draw: give a dict of name -> bool tensor")
    columns = columns or min(len(masks), 4)
    rows = math.ceil(len(masks) / columns)
    pictures = [
        (name, *_picture(name, np.asarray(plain(mask)), max_side)) for name, mask in masks.items()
    ]
    side = (INCHES - 0.2) / columns - 0.2  # inches
    tallest = [
        max(
            min(p.shape[0] / p.shape[1], 1.6) if not _thin(p) else 0.6
            for _, p, _, _ in pictures[r : r + columns]
        )
        for r in range(0, len(pictures), columns)
    ]
    shades = LinearSegmentedColormap.from_list("kept", ["#E6ECF1", BLUE])
    with mpl.rc_context(style()):
        height = 0.6 + sum(0.6 + side * min(ratio, 1.6) for ratio in tallest)
        fig = new_figure(height)
        panels = fig.subplots(
            rows, columns, squeeze=False, height_ratios=[0.3 + ratio for ratio in tallest]
        )
        for ax in panels.flat[len(pictures) :]:
            ax.set_visible(False)
        for ax, (name, picture, kernel, share) in zip(panels.flat, pictures, strict=False):
            aspect = "auto" if _thin(picture) else "equal"
            ax.imshow(picture, cmap=shades, vmin=0, vmax=1, interpolation="nearest", aspect=aspect)
            ax.set_anchor("NW")
            ax.grid(visible=False)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set_visible(False)
            if kernel:
                for k in range(kernel[0], picture.shape[0], kernel[0]):
                    ax.axhline(k - 0.5, color="white", linewidth=2)
                for k in range(kernel[1], picture.shape[1], kernel[1]):
                    ax.axvline(k - 0.5, color="white", linewidth=2)
            ax.set_title(
                f"{name}\n{100 * share:.3g} % pruned", fontsize=pt(11), fontweight="normal", pad=5
            )
        fig.suptitle(title, x=0.01, ha="left", fontsize=pt(13), fontweight="bold", wrap=True)
    return fig


def _thin(picture: np.ndarray) -> bool:
    """So much longer than wide that square cells would be too small to see."""
    return max(picture.shape) > 3 * min(picture.shape)


def _picture(
    name: str, mask: np.ndarray, max_side: int
) -> tuple[np.ndarray, tuple[int, int] | None, float]:
    """(share kept in each cell, (R, S) if kernels are to be set apart, share
    pruned).
    """
    if mask.dtype != bool:
        raise ValueError(f"mask {name!r} has the type {mask.dtype}; a mask is boolean, True = kept")
    if not mask.size:
        raise ValueError(f"mask {name!r} is empty, its shape is {mask.shape}")
    pruned = 1 - float(mask.mean())
    kernel = None
    if mask.ndim == 4:
        m, c, r, s = mask.shape
        if r * s > 1 and max(m * r, c * s) <= max_side:
            kernel = (r, s)
        mask = mask.transpose(0, 2, 1, 3).reshape(m * r, c * s)
    else:
        mask = mask.reshape(mask.shape[0] if mask.ndim > 1 else 1, -1)
    shade = mask.astype(np.float64)
    for axis, size in enumerate(shade.shape):
        if size > max_side:
            cuts = np.linspace(0, size, max_side + 1).astype(int)
            counts = np.diff(cuts).reshape((-1, 1) if axis == 0 else (1, -1))
            shade = np.add.reduceat(shade, cuts[:-1], axis=axis) / counts
    return shade, kernel, pruned


def heat_map(
    values: Any,
    *,
    rows: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str,
    colour_label: str = "",
    fmt: str = "{:.1f}",
    centre: float | None = None,
) -> Figure:
    """A table as colours, with the numbers in it.

    Args:
        values: (len(rows), len(columns)), or a wide table (as ``DataFrame.pivot`` returns
            it), which brings the names and the labels of its axes along; NaN leaves a cell
            white.
        rows, columns: their names.
        xlabel, ylabel: default: the names of the table's columns and index.
        colour_label: what the colours stand for, with its unit. (On a slide it stands
            above, without a colour bar.)
        fmt: how a number is written.
        centre: the value that means "no change": colours then run from vermillion
            (below) over white to blue (above).

    Raises:
        ValueError: where the shape does not fit the names.
    """
    if isinstance(values, pd.DataFrame):
        rows = list(values.index) if rows is None else rows
        if columns is None:
            columns = [label(values.columns.name, entry) for entry in values.columns]
        xlabel = title_of(str(values.columns.name)) if xlabel is None else xlabel
        ylabel = title_of(str(values.index.name)) if ylabel is None else ylabel
    if rows is None or columns is None:
        raise ValueError("rows and columns are the names of an array's rows and columns: give both")
    table = np.asarray(plain(values), dtype=np.float64)
    if table.shape != (len(rows), len(columns)):
        raise ValueError(
            f"values has the shape {table.shape}, but there are {len(rows)} rows and {len(columns)}"
            " columns"
        )
    if centre is None:
        colours: dict[str, Any] = {"cmap": "cividis"}
    else:
        finite = np.abs(table[np.isfinite(table)] - centre)
        reach = float(finite.max(initial=0)) or 1.0
        ramp = LinearSegmentedColormap.from_list("change", [VERMILLION, "#F7F7F7", BLUE])
        colours = {"cmap": ramp, "vmin": centre - reach, "vmax": centre + reach}
    with mpl.rc_context(style()):
        fig, ax = _axes(None, height=min(1.7 + 0.42 * len(rows), 9))
        image = ax.imshow(table, aspect="auto", **colours)
        ax.grid(visible=False)
        ax.set_xticks(range(len(columns)), [str(name) for name in columns])
        if max(len(str(name)) for name in columns) * len(columns) > 85:  # they would overlap
            ax.tick_params(axis="x", rotation=65)
        ax.set_yticks(range(len(rows)), [str(name) for name in rows])
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        for i, j in np.ndindex(*table.shape):
            if not np.isfinite(table[i, j]):
                continue
            cell = image.cmap(image.norm(table[i, j]))[:3]
            ink = INK if contrast(INK, cell) >= contrast("white", cell) else "white"
            written = fmt.format(table[i, j])
            if float(table[i, j]) < 0 and not written.strip("-0.,% "):
                written = fmt.format(0.0)  # "-0.0" would look like a loss
            size = pt(10.5 if len(columns) <= 12 else 8.5)
            ax.text(j, i, written, ha="center", va="center", fontsize=size, color=ink)
        set_title(ax, title)  # before the colour bar takes its share of the width
        ax.set(xlabel=xlabel or "")
        ax.set_ylabel(ylabel or "", labelpad=4)
        if for_slides():  # the numbers are there, and want the room
            ax.set_title(colour_label)
        else:
            bar = fig.colorbar(image, ax=ax, pad=0.02, aspect=30)
            bar.outline.set_visible(False)
            bar.set_label(colour_label)
    if isinstance(values, pd.DataFrame):
        lowest, highest = (
            f"{label(values.index.name, rows[at // table.shape[1]])},"
            f" {columns[at % table.shape[1]]}"
            for at in (int(np.nanargmin(table)), int(np.nanargmax(table)))
        )
        alt(
            fig,
            f"{title.rstrip('.?!')}. {colour_label or 'values'}, {ylabel} by {xlabel}:"
            f" from {fmt.format(np.nanmin(table))} at {lowest} to {fmt.format(np.nanmax(table))}"
            f" at {highest}.",
        )
    return fig


# What the figures share


def _vector(values: Any) -> np.ndarray:
    vector = np.asarray(plain(values), dtype=np.float64)
    if vector.ndim != 1 or not len(vector):
        raise ValueError(f"wanted a sequence of numbers, got the shape {vector.shape}")
    return vector


def _axes(ax: Axes | None, height: float = 4.6) -> tuple[Figure, Axes]:
    if ax is not None:
        return ax.figure, ax  # type: ignore[return-value]
    fig = new_figure(height)
    return fig, fig.add_subplot()


def _name_end(
    names: EndLabels, name: str, x: np.ndarray, y: np.ndarray, look: Look, xaxis: XAxis
) -> None:
    there = np.flatnonzero(np.isfinite(y))
    if len(there):
        # the end on the right of the page: on an axis of weights remaining that is the
        # smallest x
        end = there[np.argmin(x[there])] if xaxis == "remaining" else there[np.argmax(x[there])]
        names.add(name, x[end], y[end], look.colour)


def _dense_line(
    ax: Axes, names: EndLabels, values: np.ndarray, x: np.ndarray, xaxis: XAxis
) -> None:
    mean, half = (float(v) for v in interval(values))
    ax.axhline(mean, color=BLACK, linewidth=1.6, zorder=2.5, label="dense")
    if len(values) >= 3:
        ax.axhspan(mean - half, mean + half, color=BLACK, alpha=0.08, linewidth=0, zorder=1)
    names.add("dense", x.min() if xaxis == "remaining" else x.max(), mean, BLACK)


def _paper_points(ax: Axes, paper: Mapping[str, tuple[Any, Any]]) -> None:
    notes = Notes(ax)
    for source, (px, py) in paper.items():
        px, py = (np.atleast_1d(np.asarray(plain(p), dtype=np.float64)) for p in (px, py))
        if px.shape != py.shape:
            raise ValueError(f"paper[{source!r}] has {len(px)} places and {len(py)} values")
        ax.plot(
            px,
            py,
            linestyle="",
            marker="*",
            markersize=15,
            markerfacecolor="white",
            markeredgecolor=BLACK,
            markeredgewidth=1.3,
            zorder=6,
            label=source,
        )
        notes.add(source, px[0], py[0])


def _finish(ax: Axes, x: np.ndarray, xlabel: str, ylabel: str, title: str, xaxis: XAxis) -> None:
    name_axes(ax, xlabel, ylabel)
    ax.margins(x=0.02)
    if xaxis == "remaining":
        remaining_axis(ax, x)
    elif xaxis == "sparsity":
        sparsity_axis(ax)
    set_title(ax, title)
