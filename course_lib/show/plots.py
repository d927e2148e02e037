"""The course's figures: each answers one question, in one look for the whole term.

``curves``, ``bars``, ``scatter`` and ``frontier`` draw long tables (one row per
measurement) with seaborn; a wide table becomes a ``heat_map``, masks a ``grid``. A
comparison of methods over seeds has a random baseline and at least three seeds, or it is
refused.

Every function returns a matplotlib ``Figure`` that pyplot does not know about. A figure
that is the last line of a cell is displayed; ``show`` displays it anywhere else, and
``save`` writes it to a file. Its text alternative is computed from the same table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from course_lib.intervals import SEED, interval, per_seed, require_columns, to_numpy
from course_lib.show.labels import EndLabels, name_axes, remaining_axis, set_title
from course_lib.show.output import alt, new_figure, save, show, subplots  # noqa: F401
from course_lib.show.style import (
    BLACK,
    BLUE,
    COLOURS,  # noqa: F401
    GREY,
    INCHES,
    INK,
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
    use_style,  # noqa: F401
)

_MIN_SEEDS = 3  # seeds that a comparison needs
_MAX_SIDE = 160  # cells of a mask's picture
_TO_100 = ("%", "BLEU")  # in a label: measurements that end at 100


def curves(
    table: pd.DataFrame,
    *,
    x: str,
    y: str,
    by: str = "method",
    title: str,
    xlabel: str | None = None,
    ylabel: str | None = None,
    marks: str | None = None,
    control: str | None = "random",
    panels: str | None = None,
    paper: Mapping[str, tuple[Any, Any]] | None = None,
    xaxis: str | None = None,
    ylim: tuple[float, float] | None = None,
    log: bool = False,
    bars: bool = False,
    note: str = "",
    height: float = 4.6,
    ax: Axes | None = None,
) -> Figure:
    """A line per method: its mean over seeds, with the 95 % t-interval as a band.

    Args:
        table: a long table. With a column ``seed`` the figure compares methods over seeds;
            without it, every row is a point of a line. Rows of the method "dense" whose
            ``x`` is missing (NaN) become a horizontal line.
        x, y: the columns of the axes. by: the column of methods.
        title: the question or the finding.
        xlabel, ylabel: with units; default: the label of the column (``style.AXES``).
        marks: a second column, of what was counted or measured, drawn as marks beside the
            lines, which are formulas then; NaN where there is none.
        control: the method that chooses at random, which a comparison over seeds must
            contain. None: the lines do not compete (formulas, layers, settings).
        panels: a column; one panel per entry, with a common vertical axis.
        paper: published figures, {"Han et al. 2015": (x, y)}: marked points.
        xaxis: "sparsity" writes fractions in per cent; "remaining" is a log-scaled axis
            from 100 % on the left downwards; "log" is log-scaled, with the measured values
            as its ticks; "log2" is log-scaled with a tick per power of 2.
        ylim: default: means and bands; where the label says % or BLEU, within 0 to 100,
            unless a measurement is negative.
        log: the vertical axis is log-scaled.
        bars: draw the intervals as bars, each method a little beside the others: where
            bands would cover each other.
        note: a sentence added to the text alternative.
        height: inches.
        ax: draw into these axes instead of a new figure; with one panel only.

    Raises:
        ValueError: if a column is missing; where methods compete, without the control or
            with fewer than three seeds.
    """
    require_columns(table, [name for name in (x, y, by, panels, marks) if name])
    over_seeds = SEED in table.columns
    if over_seeds and control is not None:
        _check_comparison(table, x, y, by, control)
    chosen = looks([str(name) for name in table[by].unique()])
    xlabel, ylabel = xlabel or title_of(x), ylabel or title_of(y)
    errorbar = _interval_ends if over_seeds else None
    error_look = {"elinewidth": 1.6, "capsize": 3} if bars else {"alpha": 0.17, "linewidth": 0}
    drawn = []
    with mpl.rc_context(style()):
        for part, axes in _panels(table, panels, ax, height):
            drawn.append(axes)
            names = EndLabels(axes) if _is_in_column(axes, "last") else None
            keys = [by, x]
            data = per_seed(part, y, keys) if over_seeds else part[[*keys, y]]
            beside = _point_offsets(data.dropna(subset=[x])[by].nunique())
            for method, rows in data.groupby(by, sort=False):
                look = chosen[str(method)]
                if rows[x].isna().all():
                    _draw_level(
                        axes, names, str(method), rows[y].to_numpy(float), data[x], look, xaxis
                    )
                    continue
                marker = look.marker if rows[x].nunique() <= 25 and not marks else ""
                there = set(axes.get_children())
                sns.lineplot(
                    rows, x=x, y=y, errorbar=errorbar, estimator="mean",
                    color=look.colour, marker=marker or None, linestyle=look.dash,
                    markeredgecolor=look.colour, label=str(method), legend=False, ax=axes,
                    zorder=3, err_style="bars" if bars else "band",
                    err_kws=error_look,
                )  # fmt: skip
                if bars:
                    _shift_artists([*set(axes.get_children()) - there], next(beside))
                means = rows.groupby(x, sort=True)[y].mean().dropna()
                if len(means) and names is not None:
                    end = means.index[0 if xaxis == "remaining" else -1]
                    names.add(str(method), float(end), float(means[end]), look.colour)
            key = _draw_paper(axes, paper or {})
            if marks:
                key += _draw_marks(part, x, marks, by, chosen, axes)
            if key:
                axes.legend(handles=key, loc="best")
            _name_axes(axes, part, panels, title, xlabel, ylabel)
        for axes in drawn:  # limits that panels share are those of all their lines
            _set_scales(axes, table[x].dropna(), table[y], xaxis, ylim, ylabel, log, beside=bars)
    if marks:
        note = f"Lines: formula; marks: {title_of(marks)}. {note}".strip()
    return alt(_figure(axes), _describe(table, x, y, by, title, xlabel, ylabel, note, panels))


def bars(
    table: pd.DataFrame,
    *,
    x: str,
    y: str,
    by: str | None = None,
    title: str,
    xlabel: str = "",
    ylabel: str | None = None,
    fmt: str = "{:.3g}",
    log: bool = False,
    ylim: tuple[float, float] | None = None,
    note: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Bars with their numbers; over seeds, means with 95 % t-intervals, of percentages
    within 0 to 100.

    Args:
        table: a long table, with or without a column ``seed``.
        x: the column of groups; rows without an entry there are not drawn.
        y: the column of heights.
        by: the column of colours, four entries at most; None: one colour.
        fmt: how the number over a bar is written.
        xlabel, ylabel, log, ylim, note, ax: as for :func:`curves`.

    Raises:
        ValueError: if a column is missing, or ``by`` has more than four entries.
    """
    keys = [x, by] if by else [x]
    require_columns(table, [*keys, y])
    ylabel = ylabel or title_of(y)
    table = table.dropna(subset=[x])
    groups = list(dict.fromkeys(table[x].astype(str)))
    names = list(dict.fromkeys(table[by].astype(str))) if by else [""]
    if len(names) > 4:
        raise ValueError(f"by: bars compares at most four things side by side, got {len(names)}")
    colours = (SKY, BLUE, ORANGE, VERMILLION)[: len(names)] if len(names) > 1 else (BLUE,)
    data = table.assign(**{key: table[key].astype(str) for key in keys})
    if SEED in table.columns:
        data = per_seed(data, y, keys)
    percent = "%" in ylabel and data[y].dropna().between(0, 100).all()
    ends = _percent_ends if percent else _interval_ends
    errorbar = ends if SEED in data.columns else None
    with mpl.rc_context(style()):
        fig, axes = _axes(ax, 4.6)
        sns.barplot(
            data, x=x, y=y, hue=by, order=groups, hue_order=names if by else None,
            errorbar=errorbar, saturation=1,
            palette=list(colours) if by else None, color=None if by else BLUE,
            err_kws={"linewidth": 1.6, "color": INK}, ax=axes, zorder=3, legend=bool(by),
        )  # fmt: skip
        size = pt(8.5 if len(names) * len(groups) > 14 else 10)
        for k, (name, container) in enumerate(zip(names, axes.containers, strict=False)):
            for bar in container:  # a group may lack one
                group = groups[round(bar.get_x() + bar.get_width() / 2)]
                if by and k == 0:
                    bar.set_hatch("//")
                of = data[(data[x] == group) & ((data[by] == name) if by else True)][y]
                if not len(of):
                    continue
                top = errorbar(of)[1] if errorbar and len(of) > 1 else float(of.mean())
                at = (bar.get_x() + bar.get_width() / 2, max(top, float(of.mean())))
                axes.annotate(
                    fmt.format(of.mean()), at, xytext=(0, 2), textcoords="offset points",
                    ha="center", va="bottom", fontsize=size,
                )  # fmt: skip
        if log:
            _log_axis(axes)
        # room for what the colours mean, or on a slide for its larger numbers
        axes.margins(y=0.28 if for_slides() else 0.22 if by else 0.12)
        if ylim is not None:
            axes.set_ylim(*ylim)
        if any(unit in ylabel for unit in _TO_100) and not log and data[y].max() <= 100:
            axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 100])
            axes.set_ylim(bottom=min(0, data[y].min()) if ylim is None else ylim[0])
        axes.grid(axis="x", visible=False)
        name_axes(axes, xlabel, ylabel)
        if by:
            _legend_above(axes, len(names) if sum(map(len, names)) <= 52 else 2)
        set_title(axes, title)
    return alt(fig, _describe(table, x, y, by, title, xlabel or title_of(x), ylabel, note))


def scatter(
    table: pd.DataFrame,
    *,
    x: str,
    y: str,
    title: str,
    xlabel: str | None = None,
    ylabel: str | None = None,
    panels: str | None = None,
    diagonal: bool = False,
    log: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """A point per row.

    Args:
        table: a long table. x, y: the columns of the axes.
        panels: a column; one panel per entry.
        diagonal: draw the line y = x.
        log: both axes are log-scaled.
        xlabel, ylabel, ax: as for :func:`curves`.

    Raises:
        ValueError: if a column is missing.
    """
    require_columns(table, [name for name in (x, y, panels) if name])
    xlabel, ylabel = xlabel or title_of(x), ylabel or title_of(y)
    with mpl.rc_context(style()):
        for part, axes in _panels(table, panels, ax, 4.4):
            axes.scatter(part[x], part[y], s=22, color=BLUE, alpha=0.65, linewidths=0, zorder=3)
            if diagonal:
                axes.axline((0, 0), slope=1, color=BLACK, linewidth=1, zorder=1)
            if log:
                axes.set(xscale="log", yscale="log")
            _name_axes(axes, part, panels, title, xlabel, ylabel)
    rho = "; ".join(
        f"rank correlation {part[x].corr(part[y], method='spearman'):.2f}"
        + (f" ({name})" if name else "")
        for name, part in (table.groupby(panels, sort=False) if panels else [("", table)])
    )
    text = f"{title}. {len(table)} points, {ylabel} against {xlabel}; {rho}."
    return alt(_figure(axes), text)


def frontier(
    table: pd.DataFrame,
    *,
    x: str,
    y: str,
    along: str,
    title: str,
    xlabel: str | None = None,
    ylabel: str | None = None,
    xaxis: str | None = None,
) -> Figure:
    """A line per entry of the column ``method``, through points whose two coordinates are
    both measured, such as accuracy against latency along a rising sparsity.

    Args:
        table: a long table with a column ``seed``.
        x, y: the measured columns; y has a 95 % t-interval at each point.
        along: the setting that joins the points of a line, in its order of appearance.
        title, xlabel, ylabel, xaxis: as for :func:`curves`.

    Raises:
        ValueError: if a column is missing.
    """
    by = "method"
    require_columns(table, [x, y, along, by, SEED])
    xlabel, ylabel = xlabel or title_of(x), ylabel or title_of(y)
    chosen = looks([str(name) for name in table[by].unique()])
    across = per_seed(table, x, [by, along]).merge(per_seed(table, y, [by, along]))
    means = across.groupby([by, along], sort=False)[[x, y]].mean().reset_index()
    with mpl.rc_context(style()):
        fig, axes = _axes(None, 4.6)
        names = EndLabels(axes)
        for method, rows in across.groupby(by, sort=False):
            look = chosen[str(method)]
            line = means[means[by] == method]
            half = [interval(part[y])[1] for _, part in rows.groupby(along, sort=False)]
            axes.errorbar(
                line[x], line[y], yerr=half, color=look.colour, marker=look.marker or "o",
                linestyle=look.dash, capsize=3, label=str(method), zorder=3,
            )  # fmt: skip
            end = line.iloc[int(np.argmin(line[x]) if xaxis == "remaining" else np.argmax(line[x]))]
            names.add(str(method), float(end[x]), float(end[y]), look.colour)
        name_axes(axes, xlabel, ylabel)
        _set_scales(axes, means[x], means[y], xaxis, None, ylabel, False)
        set_title(axes, title)
    return alt(fig, _describe(means, x, y, by, title, xlabel, ylabel, ""))


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
    weights = [np.asarray(to_numpy(values), dtype=np.float64).ravel() for values in (before, after)]
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
        for ax, values, name, colour in zip(panels, weights, labels, (GREY, BLUE), strict=True):
            zeros = int((values == 0).sum())
            ax.hist(values[values != 0], bins=edges, color=colour, zorder=3)
            words = f"{name}\n{100 * zeros / len(values):.3g} % are exactly 0" if zeros else name
            look = {"va": "top", "fontweight": "bold", "color": readable(colour)}
            ax.text(0.015, 0.94, words, transform=ax.transAxes, **look)
            name_axes(ax, "", ylabel if ax is panels[0] or not for_slides() else "")
        panels[1].set_xlabel(xlabel)
        set_title(panels[0], title)
    return fig


def grid(masks: Mapping[str, Any], *, title: str, columns: int | None = None) -> Figure:
    """A picture of masks: kept weights dark, pruned ones light, with each one's
    sparsity.

    A convolution's mask (M, C, R, S) shows a filter in each row of kernels and an input
    channel in each column. A mask with more than 160 weights on a side is
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
        (name, *_shade_mask(name, np.asarray(to_numpy(mask)))) for name, mask in masks.items()
    ]
    side = (INCHES - 0.2) / columns - 0.2  # inches
    tallest = [
        max(
            min(p.shape[0] / p.shape[1], 1.6) if not _is_thin(p) else 0.6
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
            aspect = "auto" if _is_thin(picture) else "equal"
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


def _is_thin(picture: np.ndarray) -> bool:
    """So much longer than wide that square cells would be too small to see."""
    return max(picture.shape) > 3 * min(picture.shape)


def _shade_mask(name: str, mask: np.ndarray) -> tuple[np.ndarray, tuple[int, int] | None, float]:
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
        if r * s > 1 and max(m * r, c * s) <= _MAX_SIDE:
            kernel = (r, s)
        mask = mask.transpose(0, 2, 1, 3).reshape(m * r, c * s)
    else:
        mask = mask.reshape(mask.shape[0] if mask.ndim > 1 else 1, -1)
    shade = mask.astype(np.float64)
    for axis, size in enumerate(shade.shape):
        if size > _MAX_SIDE:
            cuts = np.linspace(0, size, _MAX_SIDE + 1).astype(int)
            counts = np.diff(cuts).reshape((-1, 1) if axis == 0 else (1, -1))
            shade = np.add.reduceat(shade, cuts[:-1], axis=axis) / counts
    return shade, kernel, pruned


def heat_map(
    values: pd.DataFrame,
    *,
    title: str,
    xlabel: str | None = None,
    ylabel: str | None = None,
    colour_label: str = "",
    fmt: str = "{:.1f}",
    centre: float | None = None,
) -> Figure:
    """A table as colours, with the numbers in it.

    Args:
        values: a wide table, as ``DataFrame.pivot`` returns it; NaN leaves a cell white.
        xlabel, ylabel: default: the names of the table's columns and index.
        colour_label: what the colours stand for, with its unit. (On a slide it stands
            above, without a colour bar.)
        fmt: how a number is written.
        centre: the value that means "no change": colours then run from vermillion
            (below) over white to blue (above).
    """
    rows = [str(name) for name in values.index]
    columns = [label(values.columns.name, entry) for entry in values.columns]
    xlabel = title_of(str(values.columns.name)) if xlabel is None else xlabel
    ylabel = title_of(str(values.index.name)) if ylabel is None else ylabel
    table = values.to_numpy(dtype=np.float64)
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
        ax.set_xticks(range(len(columns)), columns)
        if max(map(len, columns)) * len(columns) > 85:  # they would overlap
            ax.tick_params(axis="x", rotation=65)
        ax.set_yticks(range(len(rows)), rows)
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
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel, labelpad=4)
        if for_slides():  # the numbers are there, and want the room
            ax.set_title(colour_label)
        else:
            bar = fig.colorbar(image, ax=ax, pad=0.02, aspect=30)
            bar.outline.set_visible(False)
            bar.set_label(colour_label)
    lowest, highest = (
        f"{fmt.format(table.flat[at])} at"
        f" {label(values.index.name, values.index[at // table.shape[1]])},"
        f" {columns[at % table.shape[1]]}"
        for at in (int(np.nanargmin(table)), int(np.nanargmax(table)))
    )
    return alt(
        fig,
        f"{title.rstrip('.?!')}. {colour_label or 'values'}, {ylabel} by {xlabel}:"
        f" from {lowest} to {highest}.",
    )


# ----------------------------------------------------------------- what the figures share
def _check_comparison(table: pd.DataFrame, x: str, y: str, by: str, control: str) -> None:
    there = [str(name) for name in table[by].unique()]
    if control not in there:
        raise ValueError(
            f"no random baseline: the methods are {', '.join(map(repr, there))}, and {control!r} is"
            " not among them. A method shows something only where it beats a random choice: run"
            " that too, name it with control='...', or pass control=None if nothing is compared"
        )
    seeds = table.dropna(subset=[x, y]).groupby(by, sort=False)[SEED].nunique()
    for name, count in seeds.items():
        if count < _MIN_SEEDS:
            raise ValueError(
                f"{name!r} has {count} seed{'s' * (count != 1)}: two runs can differ by luck alone,"
                " and their interval says nothing. Run at least 3 seeds"
            )


def _interval_ends(values: Any) -> tuple[float, float]:
    """The ends of the 95 % t-interval of the mean: an ``errorbar=`` for seaborn."""
    mean, half = interval(np.asarray(values, dtype=float))
    return float(mean - half), float(mean + half)


def _percent_ends(values: Any) -> tuple[float, float]:
    """The same, cut to 0 and 100."""
    low, high = _interval_ends(values)
    return max(low, 0), min(high, 100)


def _point_offsets(methods: int) -> Iterator[float]:
    """How far each method is drawn beside its place, in points."""
    return (3 * (k - (methods - 1) / 2) for k in range(methods))


def _shift_artists(artists: Sequence[Any], points: float) -> None:
    """Draw something of the data beside its place; the limits of the axes stay."""
    for artist in artists:
        offset = ScaledTranslation(points / 72, 0, artist.figure.dpi_scale_trans)
        artist.set_transform(artist.axes.transData + offset)


def _axes(ax: Axes | None, height: float) -> tuple[Any, Axes]:
    if ax is not None:
        return ax.figure, ax
    fig = new_figure(height)
    return fig, fig.add_subplot()


def _panels(
    table: pd.DataFrame, panels: str | None, ax: Axes | None, height: float
) -> Iterator[tuple[pd.DataFrame, Axes]]:
    """The rows and the axes of each panel; of a single one, all rows."""
    if panels is None:
        yield table, _axes(ax, height)[1]
        return
    entries = list(table[panels].unique())
    fig = new_figure(height)
    row = fig.subplots(1, len(entries), sharey=True, sharex=True, squeeze=False)[0]
    for entry, axes in zip(entries, row, strict=True):
        yield table[table[panels] == entry], axes


def _name_axes(
    axes: Axes, part: pd.DataFrame, panels: str | None, title: str, xlabel: str, ylabel: str
) -> None:
    """The axes' labels and the title above the figure; with panels, each panel's entry
    above its axes.
    """
    if panels is None:
        name_axes(axes, xlabel, ylabel)
        set_title(axes, title)
        return
    axes.set(xlabel=xlabel, ylabel=ylabel if _is_in_column(axes, "first") else "")
    axes.set_title(str(part[panels].iloc[0]), fontsize=pt(11.5), fontweight="normal")
    axes.figure.suptitle(title, x=0.01, ha="left", fontsize=pt(13), fontweight="bold", wrap=True)


def _is_in_column(axes: Axes, which: str) -> bool:
    """Whether the axes are in the "first" or in the "last" column of their figure."""
    place = axes.get_subplotspec()
    return place is None or getattr(place, f"is_{which}_col")()


def _figure(axes: Axes) -> Any:
    return axes.figure


def _draw_level(
    axes: Axes,
    names: EndLabels | None,
    name: str,
    values: np.ndarray,
    x: pd.Series,
    look: Look,
    xaxis: str | None,
) -> None:
    """A method that does not depend on x: a horizontal line, with its interval."""
    mean, half = (float(v) for v in interval(values))
    axes.axhline(mean, color=look.colour, linewidth=1.6, linestyle=look.dash, zorder=2.5)
    if len(values) >= _MIN_SEEDS:
        axes.axhspan(mean - half, mean + half, color=look.colour, alpha=0.08, linewidth=0)
    if names is not None:
        names.add(name, float(x.min() if xaxis == "remaining" else x.max()), mean, look.colour)


def _draw_marks(
    part: pd.DataFrame,
    x: str,
    y: str,
    by: str,
    chosen: Mapping[str, Look],
    axes: Axes,
) -> list[Line2D]:
    """The means of a second column as marks; returns a key of lines and marks."""
    look: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 1.8, "linestyle": ""}
    for method, rows in part.dropna(subset=[x, y]).groupby(by, sort=False):
        means, own = rows.groupby(x)[y].mean(), chosen[str(method)]
        axes.plot(means.index, means, marker=own.marker or "o", color=own.colour, zorder=4, **look)
    line = Line2D([], [], color=GREY, label="formula")
    return [line, Line2D([], [], color=GREY, marker="o", label=title_of(y), **look)]


def _legend_above(axes: Axes, columns: int) -> None:
    """The key of colours in one row; on a slide in the line of the vertical axis's name."""
    place: dict[str, Any] = {"loc": "upper right", "borderaxespad": 0.1}
    if for_slides():
        across = blended_transform_factory(axes.figure.transFigure, axes.transAxes)
        place = {"loc": "lower right", "bbox_to_anchor": (1, 1), "bbox_transform": across}
        place |= {"borderaxespad": 0, "borderpad": 0.1}
    sns.move_legend(axes, ncols=columns, title=None, **place)
    legend = axes.get_legend()
    if for_slides() and legend is not None:
        legend.set_in_layout(False)


def _draw_paper(axes: Axes, paper: Mapping[str, tuple[Any, Any]]) -> list[Line2D]:
    """Stars, each label's in a shade of its own."""
    stars: list[Line2D] = []
    for name, (px, py) in paper.items():
        shade = ("white", BLACK, GREY)[len(stars) % 3]
        stars += axes.plot(
            px, py, linestyle="", marker="*", markersize=15, markerfacecolor=shade,
            markeredgecolor=BLACK, markeredgewidth=1.3, zorder=6, label=name,
        )  # fmt: skip
    return stars


def _set_scales(
    axes: Axes,
    x: pd.Series,
    y: pd.Series,
    xaxis: str | None,
    ylim: tuple[float, float] | None,
    ylabel: str,
    log: bool,
    beside: bool = False,
) -> None:
    axes.margins(x=0.04 if beside else 0.02)
    if xaxis == "remaining":
        remaining_axis(axes, sorted(set(x)))
        if beside:
            left, right = axes.get_xlim()
            axes.set_xlim(left * (left / right) ** 0.03, right / (left / right) ** 0.03)
    elif xaxis == "sparsity":
        # "42.5 %" beside "45 %": rounded, a tick would stand where it does not say
        axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g} %")
    elif xaxis == "log":
        axes.set_xscale("log")
        axes.set_xticks(sorted(set(x)), [f"{value:g}" for value in sorted(set(x))])
        axes.minorticks_off()
    elif xaxis == "log2":
        axes.set_xscale("log", base=2)
        powers = 2 ** np.arange(np.ceil(np.log2(x.min())), np.log2(x.max()) + 0.01)
        powers = powers[:: -(-len(powers) // (4 if for_slides() else 8))]
        axes.set_xticks(powers, [f"{power:g}" for power in powers])
    elif pd.api.types.is_numeric_dtype(x) and (x == x.round()).all():
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if log:
        _log_axis(axes)
    if ylim is not None:
        axes.set_ylim(*ylim)
    elif any(unit in ylabel for unit in _TO_100) and not log:
        axes.autoscale(axis="y")  # over all panels so far, which share it
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom if y.min() < 0 else max(bottom, -2), min(top, 102))


def _log_axis(axes: Axes) -> None:
    """A log-scaled vertical axis with plain numbers; with few decades, 2 and 5, too."""
    axes.set_yscale("log")
    bottom, top = axes.get_ylim()
    if top < 1000 * bottom:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _describe(
    table: pd.DataFrame,
    x: str,
    y: str,
    by: str | None,
    title: str,
    xlabel: str,
    ylabel: str,
    note: str,
    panels: str | None = None,
) -> str:
    """What is to be seen, in words: for each line of each panel, its mean at up to four
    places.
    """
    seeds = table[SEED].nunique() if SEED in table.columns else 0
    how = f", means of {seeds} seeds with 95 % intervals" if seeds > 1 else ""
    text = [f"{title.rstrip('.?!')}. {ylabel} against {xlabel}{how}."]
    columns = [column for column in (panels, by) if column]
    for key, rows in table.groupby(columns, sort=False) if columns else [((), table)]:
        name = ", ".join(map(str, key))
        means = rows.groupby(x, sort=False, dropna=False)[y].mean()
        places = sorted({round(k * (len(means) - 1) / 3) for k in range(4)})
        values = ", ".join(
            f"{means.iloc[k]:.3g}"
            + (f" at {_format_place(means.index[k])}" if len(means) > 1 else "")
            for k in places
        )
        text.append(f"{name}: {values}." if name else f"{values}.")
    return " ".join([*text, *([note] if note else [])])


def _format_place(place: Any) -> str:
    return f"{place:.3g}" if isinstance(place, (float, np.floating)) else str(place)
