"""Figures of long tables: one call per figure, drawn with seaborn in the course's look.

Each function takes a table (one row per measurement), names its columns, and returns a
figure with a text alternative that is composed from the same table. A figure that is the
last line of a cell is displayed; ``plots.show(figure)`` displays it anywhere else.

A comparison of methods over seeds has a random baseline and at least three seeds, or it
is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from course_lib.intervals import SEED, interval, per_seed, require_columns
from course_lib.show.labels import EndLabels, name_axes, set_title
from course_lib.show.labels import remaining_axis as remaining_ticks
from course_lib.show.labels import sparsity_axis as sparsity_ticks
from course_lib.show.output import alt, new_figure
from course_lib.show.style import (
    BLACK,
    BLUE,
    GREY,
    INK,
    ORANGE,
    SKY,
    VERMILLION,
    Look,
    for_slides,
    looks,
    pt,
    style,
    title_of,
)
from course_lib.show.words import ends

_SEVERAL = 3  # seeds that a comparison needs
_TO_100 = ("%", "BLEU")  # in a label: measurements that end at 100


def t95(values: Any) -> tuple[float, float]:
    """The ends of the 95 % t-interval of the mean: an ``errorbar=`` for seaborn."""
    mean, half = interval(np.asarray(values, dtype=float))
    return float(mean - half), float(mean + half)


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
    require_columns(table, [x, y, by, *([panels] if panels else []), *([marks] if marks else [])])
    over_seeds = SEED in table.columns
    if over_seeds and control is not None:
        _can_compare(table, x, y, by, control)
    chosen = looks([str(name) for name in table[by].unique()])
    xlabel, ylabel = xlabel or title_of(x), ylabel or title_of(y)
    drawn = []
    with mpl.rc_context(style()):
        for part, axes in _panels(table, panels, ax, height):
            drawn.append(axes)
            names = EndLabels(axes) if _rightmost(axes) else None
            keys = [by, x]
            data = per_seed(part, y, keys) if over_seeds else part[[*keys, y]]
            beside = _beside(data.dropna(subset=[x])[by].nunique())
            for method, rows in data.groupby(by, sort=False):
                look = chosen[str(method)]
                if rows[x].isna().all():
                    _level(axes, names, str(method), rows[y].to_numpy(float), data[x], look, xaxis)
                    continue
                marker = look.marker if rows[x].nunique() <= 25 and not marks else ""
                there = set(axes.get_children())
                sns.lineplot(
                    rows, x=x, y=y, errorbar=t95 if over_seeds else None, estimator="mean",
                    color=look.colour, marker=marker or None, linestyle=look.dash,
                    markeredgecolor=look.colour, label=str(method), legend=False, ax=axes,
                    zorder=3, err_style="bars" if bars else "band",
                    err_kws=(
                        {"elinewidth": 1.6, "capsize": 3}
                        if bars
                        else {"alpha": 0.17, "linewidth": 0}
                    ),
                )  # fmt: skip
                if bars:
                    _shift([*set(axes.get_children()) - there], next(beside))
                means = rows.groupby(x, sort=True)[y].mean().dropna()
                if len(means) and names is not None:
                    end = means.index[0 if xaxis == "remaining" else -1]
                    names.add(str(method), float(end), float(means[end]), look.colour)
            key = _paper(axes, paper or {})
            if marks:
                key += _marks(part, x, marks, by, chosen, axes)
            if key:
                axes.legend(handles=key, loc="best")
            _name_axes(axes, xlabel, ylabel, panels)
            _heading(axes, panels, part, title)
        for axes in drawn:  # limits that panels share are those of all their lines
            _scale(axes, table[x].dropna(), table[y], xaxis, ylim, ylabel, log, beside=bars)
    if marks:
        note = f"Lines: formula; marks: {title_of(marks)}. {note}".strip()
    return alt(_figure(axes), _words(table, x, y, by, title, xlabel, ylabel, note, panels))


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
    height: float = 4.6,
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
        xlabel, ylabel, log, ylim, note, height, ax: as for :func:`curves`.

    Raises:
        ValueError: if a column is missing, or ``by`` has more than four entries.
    """
    require_columns(table, [x, y, *([by] if by else [])])
    ylabel = ylabel or title_of(y)
    table = table.dropna(subset=[x])
    groups = list(dict.fromkeys(table[x].astype(str)))
    names = list(dict.fromkeys(table[by].astype(str))) if by else [""]
    if len(names) > 4:
        raise ValueError(f"by: bars compares at most four things side by side, got {len(names)}")
    colours = (SKY, BLUE, ORANGE, VERMILLION)[: len(names)] if len(names) > 1 else (BLUE,)
    data = table.assign(**{x: table[x].astype(str)})
    if by:
        data[by] = data[by].astype(str)
    if SEED in table.columns:
        data = per_seed(data, y, [x, *([by] if by else [])])
    percent = "%" in ylabel and data[y].dropna().between(0, 100).all()
    errorbar = (ends if percent else t95) if SEED in data.columns else None
    with mpl.rc_context(style()):
        fig, axes = _axes(ax, height)
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
        if _ends_at_100(ylabel) and not log and data[y].max() <= 100:
            axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 100])
            axes.set_ylim(bottom=min(0, data[y].min()) if ylim is None else ylim[0])
        axes.grid(axis="x", visible=False)
        name_axes(axes, xlabel, ylabel)
        if by:
            _legend_above(axes, len(names) if sum(map(len, names)) <= 52 else 2)
        set_title(axes, title)
    return alt(fig, _words(table, x, y, by, title, xlabel or title_of(x), ylabel, note))


def scatter(
    table: pd.DataFrame,
    *,
    x: str,
    y: str,
    by: str | None = None,
    title: str,
    xlabel: str | None = None,
    ylabel: str | None = None,
    panels: str | None = None,
    diagonal: bool = False,
    log: bool = False,
    share_x: bool = True,
    note: str = "",
    height: float = 4.4,
    ax: Axes | None = None,
) -> Figure:
    """A point per row.

    Args:
        table: a long table. x, y: the columns of the axes.
        by: the column of colours; None: one colour.
        panels: a column; one panel per entry. share_x: with a common horizontal axis.
        diagonal: draw the line y = x.
        log: both axes are log-scaled.
        note: what is to be seen, for the text alternative.
        xlabel, ylabel, height, ax: as for :func:`curves`.

    Raises:
        ValueError: if a column is missing.
    """
    require_columns(table, [x, y, *([by] if by else []), *([panels] if panels else [])])
    xlabel, ylabel = xlabel or title_of(x), ylabel or title_of(y)
    chosen = looks([str(name) for name in table[by].unique()]) if by else {"": Look(BLUE)}
    with mpl.rc_context(style()):
        for part, axes in _panels(table, panels, ax, height, share_x):
            for name, look in chosen.items():
                rows = part[part[by].astype(str) == name] if by else part
                axes.scatter(
                    rows[x], rows[y], s=22, color=look.colour, marker=look.marker or "o",
                    alpha=0.65, linewidths=1 if look.marker == "x" else 0, label=name, zorder=3,
                )  # fmt: skip
            if diagonal:
                axes.axline((0, 0), slope=1, color=BLACK, linewidth=1, zorder=1)
            if log:
                axes.set(xscale="log", yscale="log")
            if by and _leftmost(axes):
                axes.legend(loc="best")
            _name_axes(axes, xlabel, ylabel, panels)
            _heading(axes, panels, part, title)
    rho = "; ".join(
        f"rank correlation {part[x].corr(part[y], method='spearman'):.2f}"
        + (f" ({name})" if name else "")
        for name, part in (table.groupby(panels, sort=False) if panels else [("", table)])
    )
    text = f"{title}. {len(table)} points, {ylabel} against {xlabel}; {rho}."
    return alt(_figure(axes), f"{text} {note}".strip())


def frontier(
    table: pd.DataFrame,
    *,
    x: str,
    y: str,
    along: str,
    by: str = "method",
    title: str,
    xlabel: str | None = None,
    ylabel: str | None = None,
    xaxis: str | None = None,
    note: str = "",
    height: float = 4.6,
    ax: Axes | None = None,
) -> Figure:
    """A line per method through points whose two coordinates are both measured, such as
    accuracy against latency along a rising sparsity.

    Args:
        table: a long table with a column ``seed``.
        x, y: the measured columns; y has a 95 % t-interval at each point.
        along: the setting that joins the points of a line, in its order of appearance.
        by, title, xlabel, ylabel, xaxis, note, height, ax: as for :func:`curves`.

    Raises:
        ValueError: if a column is missing.
    """
    require_columns(table, [x, y, along, by, SEED])
    xlabel, ylabel = xlabel or title_of(x), ylabel or title_of(y)
    chosen = looks([str(name) for name in table[by].unique()])
    across = per_seed(table, x, [by, along]).merge(per_seed(table, y, [by, along]))
    means = across.groupby([by, along], sort=False)[[x, y]].mean().reset_index()
    with mpl.rc_context(style()):
        fig, axes = _axes(ax, height)
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
        _scale(axes, means[x], means[y], xaxis, None, ylabel, False)
        set_title(axes, title)
    return alt(fig, _words(means, x, y, by, title, xlabel, ylabel, note))


# ----------------------------------------------------------------- what the figures share
def _can_compare(table: pd.DataFrame, x: str, y: str, by: str, control: str) -> None:
    there = [str(name) for name in table[by].unique()]
    if control not in there:
        raise ValueError(
            f"no random baseline: the methods are {', '.join(map(repr, there))}, and {control!r} is"
            " not among them. A method shows something only where it beats a random choice: run"
            " that too, name it with control='...', or pass control=None if nothing is compared"
        )
    seeds = table.dropna(subset=[x, y]).groupby(by, sort=False)[SEED].nunique()
    for name, count in seeds.items():
        if count < _SEVERAL:
            raise ValueError(
                f"{name!r} has {count} seed{'s' * (count != 1)}: two runs can differ by luck alone,"
                " and their interval says nothing. Run at least 3 seeds"
            )


def _beside(methods: int) -> Iterator[float]:
    """How far each method is drawn beside its place, in points."""
    return (3 * (k - (methods - 1) / 2) for k in range(methods))


def _shift(artists: Sequence[Any], points: float) -> None:
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
    table: pd.DataFrame, panels: str | None, ax: Axes | None, height: float, share_x: bool = True
) -> Iterator[tuple[pd.DataFrame, Axes]]:
    """The rows and the axes of each panel; of a single one, all rows."""
    if panels is None:
        yield table, _axes(ax, height)[1]
        return
    entries = list(table[panels].unique())
    fig = new_figure(height)
    row = fig.subplots(1, len(entries), sharey=True, sharex=share_x, squeeze=False)[0]
    for entry, axes in zip(entries, row, strict=True):
        yield table[table[panels] == entry], axes


def _name_axes(axes: Axes, xlabel: str, ylabel: str, panels: str | None) -> None:
    if panels is None:
        name_axes(axes, xlabel, ylabel)
    else:  # above its axes stands the panel's entry
        axes.set(xlabel=xlabel, ylabel=ylabel if _leftmost(axes) else "")


def _leftmost(axes: Axes) -> bool:
    place = axes.get_subplotspec()
    return place is None or place.is_first_col()


def _rightmost(axes: Axes) -> bool:
    place = axes.get_subplotspec()
    return place is None or place.is_last_col()


def _figure(axes: Axes) -> Any:
    return axes.figure


def _heading(axes: Axes, panels: str | None, part: pd.DataFrame, title: str) -> None:
    """The title above the figure; with panels, each panel's entry above its axes."""
    if panels is None:
        set_title(axes, title)
        return
    axes.set_title(str(part[panels].iloc[0]), fontsize=pt(11.5), fontweight="normal")
    axes.figure.suptitle(title, x=0.01, ha="left", fontsize=pt(13), fontweight="bold", wrap=True)


def _level(
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
    if len(values) >= _SEVERAL:
        axes.axhspan(mean - half, mean + half, color=look.colour, alpha=0.08, linewidth=0)
    if names is not None:
        names.add(name, float(x.min() if xaxis == "remaining" else x.max()), mean, look.colour)


def _marks(
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


def _paper(axes: Axes, paper: Mapping[str, tuple[Any, Any]]) -> list[Line2D]:
    """Stars, each label's in a shade of its own."""
    stars: list[Line2D] = []
    for label, (px, py) in paper.items():
        if np.size(px) != np.size(py):
            raise ValueError(f"paper[{label!r}] has {np.size(px)} places and {np.size(py)} values")
        shade = ("white", BLACK, GREY)[len(stars) % 3]
        stars += axes.plot(
            px, py, linestyle="", marker="*", markersize=15, markerfacecolor=shade,
            markeredgecolor=BLACK, markeredgewidth=1.3, zorder=6, label=label,
        )  # fmt: skip
    return stars


def _scale(
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
        remaining_ticks(axes, sorted(set(x)))
        if beside:
            left, right = axes.get_xlim()
            axes.set_xlim(left * (left / right) ** 0.03, right / (left / right) ** 0.03)
    elif xaxis == "sparsity":
        sparsity_ticks(axes)
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
    elif _ends_at_100(ylabel) and not log:
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


def _ends_at_100(ylabel: str) -> bool:
    return any(unit in ylabel for unit in _TO_100)


def _words(
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
            f"{means.iloc[k]:.3g}" + (f" at {_short(means.index[k])}" if len(means) > 1 else "")
            for k in places
        )
        text.append(f"{name}: {values}." if name else f"{values}.")
    return " ".join([*text, *([note] if note else [])])


def _short(place: Any) -> str:
    return f"{place:.3g}" if isinstance(place, (float, np.floating)) else str(place)
