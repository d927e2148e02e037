"""The course's figures: each answers one question, in one look for the whole term.

``curves``, ``bars`` and ``scatter`` draw long tables (one row per measurement);
``histograms`` draw values, ``grid`` draws matrices: a wide table, masks, maps. Over seeds
a figure shows each seed and the mean; intervals are drawn of differences only. A
comparison of methods over seeds has a random baseline and at least three seeds, or it is
refused.

Every function returns a matplotlib ``Figure`` that pyplot does not know about. A figure
that is the last line of a cell is displayed; ``show`` displays it anywhere else, and
``save`` writes it to a file. Its text alternative is its title and its table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from course_lib.intervals import SEED, interval, per_seed, require_columns, to_numpy
from course_lib.show.labels import EndLabels, name_axes, scale_log_y, scale_x, set_title
from course_lib.show.output import explore, new_figure, save, show, subplots  # noqa: F401
from course_lib.show.style import (
    BLACK,
    BLUE,
    COLOURS,  # noqa: F401
    GREY,
    INCHES,
    INK,
    PURPLE,
    VERMILLION,
    Look,
    contrast,
    count_of,
    for_slides,
    formula,
    is_random,
    label,
    looks,
    minus_sign,
    pt,
    readable,
    style,
    title_of,
    use_style,  # noqa: F401
)

_MIN_SEEDS = 3  # seeds that a comparison needs
_MAX_SIDE = 160  # cells of a mask's picture
_FEW = 9  # places on x up to which seeds are dots, and not lines
_KEPT = LinearSegmentedColormap.from_list("kept", ["#E6ECF1", BLUE])
_CHANGE = LinearSegmentedColormap.from_list("change", [VERMILLION, "#F7F7F7", BLUE])


def curves(
    table: pd.DataFrame,
    *,
    x: str,
    y: str,
    by: str = "method",
    title: str,
    along: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    marks: str | None = None,
    control: str | None = "random",
    difference: bool = False,
    panels: str | None = None,
    paper: Mapping[str, tuple[Any, Any]] | None = None,
    guess: tuple[Any, Any] | None = None,
    constant: float | None = None,
    xaxis: str | None = None,
    ylim: tuple[float, float] | None = None,
    log: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """A line per method: its mean over seeds, and each seed as a dot or a thin line.

    Args:
        table: a long table. With a column ``seed`` the figure compares methods over seeds;
            without it, every row is a point of a line. Rows of the method "dense" whose
            ``x`` is missing (NaN) become a horizontal line.
        x, y: the columns of the axes. by: the column of methods.
        title: the question or the finding.
        along: where x is measured, too: the setting that joins the points of a line, in
            its order of appearance.
        xlabel, ylabel: with units; default: the label of the column (``style.AXES``).
        marks: a second column, of what was counted or measured, drawn as marks beside the
            lines, which are formulas then; NaN where there is none.
        control: the method that chooses at random, which a comparison over seeds must
            contain. None: the lines do not compete (formulas, layers, settings).
        difference: y is a difference between methods: 95 % t-intervals in place of seeds.
        panels: a column; one panel per entry, with a common vertical axis.
        paper: published figures, {"Han et al. 2015": (x, y)}: marked points.
        guess: the student's, (x, y), drawn as a star; None for one of them puts the star
            on the other's axis, and ``...`` draws none.
        constant: what the constant answer scores: a dotted line.
        xaxis: "sparsity" writes fractions in per cent; "remaining" is a log-scaled axis
            from 100 % on the left downwards; "log" is log-scaled, with the measured values
            as its ticks; "log2" is log-scaled with a tick per power of 2.
        ylim: default: all that is drawn.
        log: the vertical axis is log-scaled.
        ax: draw into these axes instead of a new figure; with one panel only.

    Raises:
        ValueError: if a column is missing; where methods compete, without the control or
            with fewer than three seeds.
    """
    require_columns(table, [name for name in (x, y, by, along, panels, marks) if name])
    over_seeds = SEED in table.columns
    if over_seeds and control is not None:
        _check_comparison(table, x, y, by, control)
    chosen = looks([str(name) for name in table[by].unique()])
    xlabel, ylabel = xlabel or title_of(x), ylabel or title_of(y)
    if xaxis in ("sparsity", "remaining") and "%" not in xlabel:
        xlabel += " (%)"
    keys = [by, along or x]
    drawn = []
    with mpl.rc_context(style()):
        for part, axes in _panels(table, panels, ax):
            drawn.append(axes)
            names = EndLabels(axes) if _is_in_column(axes, "last") else None
            columns = [*dict.fromkeys([*keys, x, y])]
            data = part[columns]
            if over_seeds:
                data = per_seed(part, y, keys)
                data = data.merge(per_seed(part, x, keys)) if along else data
            lines = data.dropna(subset=[x])[by].nunique()
            few = data[keys[1]].nunique() <= _FEW
            for k, (method, rows) in enumerate(data.groupby(by, sort=False)):
                beside = 3 * (k - (lines - 1) / 2) if few and over_seeds and not along else 0
                look, axis = chosen[str(method)], (keys[1], x, y)
                end = _draw_line(axes, rows, axis, str(method), look, few, beside, difference)
                if names is not None and len(end):
                    names.add(str(method), end[0 if xaxis == "remaining" else -1], look.colour)
            if constant is not None:
                axes.axhline(constant, color=GREY, linestyle=":", linewidth=1.4, zorder=2)
                if names is not None:
                    names.add("constant answer", constant, GREY)
            key = _draw_marks(part, x, marks, by, chosen, axes) if marks else []
            key += _draw_paper(axes, paper or {}) + draw_guess(axes, guess)
            if key:
                axes.legend(handles=key, loc="best")
            _name_axes(axes, part, panels, title, xlabel, ylabel)
        for axes in drawn:  # limits that panels share are those of all their lines
            _set_limits(axes, table[y], ylim, ylabel, log)
            axes.margins(x=0.04)
            scale_x(axes, table[x].dropna().tolist(), xaxis)
    return _tell(axes, table, x, y, by, title, xlabel, ylabel, panels)


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
    difference: bool = False,
    guess: tuple[Any, Any] | None = None,
    constant: float | None = None,
    log: bool = False,
    ylim: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Bars with their numbers: means over seeds, and each seed as a dot. What is called
    "dense" is a black line, random baselines are grey.

    Args:
        table: a long table, with or without a column ``seed``.
        x: the column of groups; rows without an entry there are not drawn.
        y: the column of heights.
        by: the column of colours, four entries at most; None: one colour.
        fmt: how the number over a bar is written.
        guess: the student's, (group, y), drawn as a star; ``...`` draws none.
        xlabel, ylabel, difference, constant, log, ylim, ax: as for :func:`curves`.

    Raises:
        ValueError: if a column is missing, or ``by`` has more than four entries.
    """
    keys = [x, by] if by else [x]
    require_columns(table, [*keys, y])
    ylabel = ylabel or title_of(y)
    table = table.dropna(subset=[x])
    data = table.assign(**{key: table[key].map(str) for key in keys})
    data = per_seed(data, y, keys) if SEED in table.columns else data
    groups = list(data[x].unique())
    names = list(data[by].unique()) if by else [""]
    if len(names) > 4:
        raise ValueError(f"by: bars compares at most four things side by side, got {len(names)}")
    level = data[data[x] == "dense"] if not by and len(groups) > 1 else data[:0]
    groups = [group for group in groups if not (len(level) and group == "dense")]
    beside = [name for name in names if name != "dense" or len(names) == 1]
    width = 0.84 / max(len(beside), 1)
    chosen = looks(names if by else groups)
    with mpl.rc_context(style()):
        axes = ax or new_figure(4.6).add_subplot()
        size = pt(8.5 if len(beside) * len(groups) > 14 else 10)
        for k, name in enumerate(names):
            at = (
                np.arange(len(groups)) + (beside.index(name) - (len(beside) - 1) / 2) * width
                if name in beside
                else np.arange(len(groups))
            )
            mine = data[data[by] == name] if by else data
            values = [mine.loc[mine[x] == group, y].to_numpy(float) for group in groups]
            heights = [float(np.nanmean(of)) if len(of) else np.nan for of in values]
            if name not in beside:
                axes.hlines(heights, at - 0.45, at + 0.45, color=BLACK, label=name, zorder=5)
                continue
            grey = [GREY if is_random(name if by else group) else BLUE for group in groups]
            axes.bar(
                at, heights, 0.94 * width, label=formula(name), zorder=2.5,
                color=chosen[name].colour if by else grey, hatch=("", "//", "..", "xx")[k],
            )  # fmt: skip
            for place, of, mean in zip(at, values, heights, strict=True):
                if not len(of):
                    continue
                top = mean
                if len(of) > 1 and difference:
                    half = float(interval(of)[1])
                    axes.errorbar(place, mean, half, color=INK, capsize=3, linewidth=1.6, zorder=4)
                    top = max(mean + half, 0)
                elif len(of) > 1:
                    apart = np.linspace(-0.3, 0.3, len(of)) * width
                    axes.plot(place + apart, of, "o", color=INK, ms=3.5, alpha=0.7, mew=0, zorder=4)
                    top = float(np.nanmax(of))
                axes.annotate(
                    minus_sign(fmt.format(mean)), (place, max(top, 0)), xytext=(0, 3), ha="center",
                    va="bottom", fontsize=size, textcoords="offset points",
                )  # fmt: skip
        lines = [(float(level[y].mean()), "dense", BLACK, "-")] if len(level) else []
        lines += [(constant, "constant answer", GREY, ":")] if constant is not None else []
        for value, name, colour, dash in lines:
            axes.axhline(value, color=colour, linestyle=dash, linewidth=1.6, zorder=3)
            axes.annotate(
                f"{name} {minus_sign(fmt.format(value))}", (1, value), ha="left", va="center",
                xycoords=("axes fraction", "data"), xytext=(4, 0), fontsize=size,
                textcoords="offset points", color=readable(colour),
            )  # fmt: skip
        axes.set_xticks(range(len(groups)), [formula(group) for group in groups])
        if guess is not None:
            if str(guess[0]) not in groups:
                raise ValueError(f"guess: a guess is for one of {groups}, got {guess[0]!r}")
            draw_guess(axes, (groups.index(str(guess[0])), guess[1]))
        if log:
            scale_log_y(axes)
        # room for what the colours mean, or on a slide for its larger numbers
        axes.margins(x=0.02, y=0.28 if for_slides() else 0.22 if by else 0.12)
        if ylim is not None:
            axes.set_ylim(*ylim)
        elif not log and data[y].min() >= 0:
            axes.set_ylim(bottom=0)
        if "%" in ylabel and not log and data[y].max() <= 100:
            axes.set_yticks([tick for tick in axes.get_yticks() if tick <= 100])
        axes.grid(axis="x", visible=False)
        name_axes(axes, xlabel, ylabel)
        if by or guess is not None:
            _legend_above(axes, len(names) if sum(map(len, names)) <= 52 else 2)
        set_title(axes, title)
    return _tell(axes, table, x, y, by, title, xlabel or title_of(x), ylabel)


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
    """A point per row, and the rank correlation.

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
    words = []
    with mpl.rc_context(style()):
        for part, axes in _panels(table, panels, ax):
            axes.scatter(part[x], part[y], s=22, color=BLUE, alpha=0.65, linewidths=0, zorder=3)
            if diagonal:
                axes.axline((0, 0), slope=1, color=BLACK, linewidth=1, zorder=1)
            if log:
                axes.set(xscale="log", yscale="log")
            _name_axes(axes, part, panels, title, xlabel, ylabel)
            rho = part[x].corr(part[y], method="spearman")
            named = f" ({part[panels].iloc[0]})" if panels else ""
            words.append(f"{len(part)} points, rank correlation {rho:.2f}{named}")
    return _set_table(axes, f"{title}. {ylabel} against {xlabel}: {'; '.join(words)}")


def histograms(
    values: Mapping[str, Any],
    *,
    title: str,
    xlabel: str = "weight",
    ylabel: str = "weights per bin",
    bins: int = 101,
) -> Figure:
    """Histograms with common axes, one below the other, and in words how many values are
    exactly 0: their bar would hide all others.

    Args:
        values: name -> tensor or array of any shape.
        bins: of the common range; an odd number has a bin around 0.
    """
    flat = {name: np.asarray(to_numpy(of), float).ravel() for name, of in values.items()}
    reach = max(float(np.abs(of).max()) for of in flat.values())
    low = 0.0 if all((of >= 0).all() for of in flat.values()) else -reach
    words = []
    with mpl.rc_context(style()):
        fig = new_figure(1.2 + 1.8 * len(flat))
        panels = fig.subplots(len(flat), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for ax, (name, of) in zip(panels, flat.items(), strict=True):
            colour = BLUE if ax is panels[-1] else GREY
            ax.hist(of[of != 0], bins=np.linspace(low, reach, bins + 1), color=colour, zorder=3)
            zeros = 100 * float((of == 0).mean())
            said = f"{name}\n{zeros:.3g} % are exactly 0" if zeros else name
            look = {"va": "top", "fontweight": "bold", "color": readable(colour)}
            place = (0.3, 0.94) if low == 0 else (0.015, 0.94)
            ax.text(*place, said, transform=ax.transAxes, **look)
            name_axes(ax, "", ylabel if ax is panels[0] or not for_slides() else "")
            words.append(f"{said}, half of the values within {np.median(np.abs(of)):.2g} of 0")
        panels[-1].set_xlabel(xlabel)
        set_title(panels[0], title)
    return _set_table(panels[0], f"{title}. {xlabel}: {'; '.join(words)}".replace("\n", ", "))


def grid(
    pictures: pd.DataFrame | Mapping[str, Any],
    *,
    title: str,
    columns: int | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    colour_label: str = "",
    fmt: str = "{:.1f}",
    centre: float | None = None,
) -> Figure:
    """Matrices as colours on one scale: masks, maps, or a wide table with its numbers.

    Of boolean masks kept is dark, and the share pruned is written above. A convolution's
    mask (M, C, R, S) shows a filter in each row of kernels and an input channel in each
    column; one with more than 160 weights on a side is averaged in blocks.

    Args:
        pictures: a wide table, as ``DataFrame.pivot`` returns it, or {name: tensor, array
            or wide table}; NaN leaves a cell white. A tensor of other than 2 or 4
            dimensions is shown with its first one downwards and all others across.
        columns: pictures in a row; default: up to four.
        xlabel, ylabel: default: the names of a table's columns and index.
        colour_label: what the colours stand for, with its unit.
        fmt: how a number is written.
        centre: the value that means "no change": colours then run from vermillion
            (below) over white to blue (above).

    Raises:
        ValueError: if there is nothing to draw.
    """
    if isinstance(pictures, pd.DataFrame):
        pictures = {"": pictures}
    if not pictures or not all(np.size(to_numpy(values)) for values in pictures.values()):
        raise ValueError(f"pictures: there is nothing to draw in {', '.join(pictures) or 'them'}")
    found = {name: _Picture(values) for name, values in pictures.items()}
    columns = min(columns or 4, len(found))
    rows = math.ceil(len(found) / columns)
    every = np.concatenate([picture.cells.ravel() for picture in found.values()])
    masks = all(picture.is_mask for picture in found.values())
    low, high = (0.0, 1.0) if masks else (float(np.nanmin(every)), float(np.nanmax(every)))
    if centre is not None:
        reach = max(abs(low - centre), abs(high - centre)) or 1.0
        low, high = centre - reach, centre + reach
    colours = _KEPT if masks else "cividis" if centre is None else _CHANGE
    shades: dict[str, Any] = {"cmap": colours, "norm": Normalize(low, high)}
    side = (INCHES - 0.2) / columns - 0.2  # inches
    tall = [
        max(picture.height(side) for picture in list(found.values())[r : r + columns])
        for r in range(0, len(found), columns)
    ]
    with mpl.rc_context(style()):
        fig = new_figure(min(0.8 + sum(0.5 + inches for inches in tall), 9))
        panels = fig.subplots(rows, columns, squeeze=False, height_ratios=[0.3 + t for t in tall])
        for ax in panels.flat[len(found) :]:
            ax.set_visible(False)
        for ax, (name, picture) in zip(panels.flat, found.items(), strict=False):
            image = picture.draw(ax, shades, fmt, pt(8.5 if picture.cells.shape[1] > 12 else 10.5))
            named = (
                f"{name}\n{picture.pruned}" if picture.is_mask and picture.table is None else name
            )
            ax.set_title(named, fontsize=pt(11), fontweight="normal", pad=5)
            ax.set(xlabel=picture.title(1, xlabel), ylabel=picture.title(0, ylabel))
        fig.suptitle(title)
        fig.set_layout_engine("constrained", wspace=0.05)
        if not masks and not for_slides():
            bar = fig.colorbar(image, ax=panels, pad=0.02, aspect=30, label=colour_label)
            bar.outline.set_visible(False)
        elif not masks and colour_label:
            panels[0, 0].set_title(" ".join([*filter(None, [next(iter(found))]), colour_label]))
    words = "; ".join(f"{name} {picture.told(fmt)}".strip() for name, picture in found.items())
    key = colour_label or ("kept is dark" if masks else "values")
    return _set_table(panels[0, 0], f"{title}. {key}: {words}")


class _Picture:
    """A matrix to be drawn by :func:`grid`.

    Attributes:
        cells: (rows, columns), what the colours stand for; of a mask the share kept.
        table: with the texts of rows and columns, or None.
    """

    def __init__(self, values: Any) -> None:
        self.table = values if isinstance(values, pd.DataFrame) else None
        cells = np.asarray(to_numpy(values))
        self.is_mask, self.kernel = cells.dtype == bool, (0, 0)
        self.pruned = f"{100 - 100 * cells.mean():.3g} % pruned" if self.is_mask else ""
        if cells.ndim == 4:
            m, c, r, s = cells.shape
            cells = cells.transpose(0, 2, 1, 3).reshape(m * r, c * s)
            self.kernel = (r, s) if r * s > 1 and max(cells.shape) <= _MAX_SIDE else (0, 0)
        elif cells.ndim == 2 and max(cells.shape) <= 16:
            self.kernel = (1, 1)
        cells = cells.reshape(cells.shape[0] if cells.ndim > 1 else 1, -1).astype(float)
        for axis, size in enumerate(cells.shape):
            if size > _MAX_SIDE:
                cuts = np.linspace(0, size, _MAX_SIDE + 1).astype(int)
                counts = np.diff(cuts).reshape((-1, 1) if axis == 0 else (1, -1))
                cells = np.add.reduceat(cells, cuts[:-1], axis=axis) / counts
        self.cells = cells
        # so much longer than wide that square cells would be too small to see
        self.thin = self.table is not None or max(cells.shape) > 3 * min(cells.shape)

    def height(self, side: float) -> float:
        """In inches, where it is ``side`` wide."""
        if self.table is not None:
            return 0.7 + 0.42 * len(self.table)
        rows, columns = self.cells.shape
        return side * (0.5 if self.thin else min(rows / columns, 1.6))

    def title(self, axis: int, given: str | None) -> str:
        """Of the rows (0) or the columns (1)."""
        name = None if self.table is None else self.table.axes[axis].name
        return given if given is not None else title_of(str(name or ""))

    def draw(self, ax: Axes, shades: Any, fmt: str, size: float) -> Any:
        image = ax.imshow(self.cells, aspect="auto" if self.thin else "equal", **shades)
        ax.set_anchor("NW")
        ax.grid(visible=False)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        for k in range(self.kernel[0], self.cells.shape[0], max(self.kernel[0], 1)):
            ax.axhline(k - 0.5, color="white", linewidth=2)
        for k in range(self.kernel[1], self.cells.shape[1], max(self.kernel[1], 1)):
            ax.axvline(k - 0.5, color="white", linewidth=2)
        if self.table is None:
            return image
        rows, columns = ([label(axis.name, e) for e in axis] for axis in self.table.axes)
        ax.set_xticks(range(len(columns)), columns)
        if max(map(len, columns)) * len(columns) > 85:  # they would overlap
            ax.tick_params(axis="x", rotation=65)
        ax.set_yticks(range(len(rows)), rows)
        ax.tick_params(length=0)
        for i, j in zip(*np.nonzero(np.isfinite(self.cells)), strict=True):
            cell = image.cmap(image.norm(self.cells[i, j]))[:3]
            ink = INK if contrast(INK, cell) >= contrast("white", cell) else "white"
            text = "" if self.is_mask else minus_sign(fmt.format(self.cells[i, j]))
            ax.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)
        return image

    def told(self, fmt: str) -> str:
        if self.table is None:
            return self.pruned or " × ".join(map(str, self.cells.shape))
        columns = [label(self.table.columns.name, entry) for entry in self.table.columns]
        return "; ".join(
            f"{label(self.table.index.name, name)}: "
            + ", ".join(f"{c} {fmt.format(v)}" for c, v in zip(columns, line, strict=True))
            for name, line in zip(self.table.index, self.cells, strict=True)
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


def _draw_line(
    axes: Axes,
    rows: pd.DataFrame,
    columns: tuple[str, str, str],
    name: str,
    look: Look,
    few: bool,
    beside: float,
    difference: bool,
) -> list[float]:
    """The mean of one method and its seeds, ``beside`` points from their place; a method
    without x is a horizontal line. Returns the means from left to right.
    """
    key, x, y = columns
    seeds = [part for _, part in rows.groupby(SEED)] if SEED in rows.columns else []
    thin: Any = {"color": look.colour, "linewidth": 0.9, "alpha": 0.45, "zorder": 2.4}
    if rows[x].isna().all():
        mean = float(rows[y].mean())
        for value in rows[y] if len(seeds) > 1 else ():
            axes.axhline(value, **{**thin, "linewidth": 0.6})
        axes.axhline(mean, color=look.colour, linewidth=1.8, linestyle=look.dash, zorder=2.5)
        return [mean]
    means = rows.groupby(key, sort=key == x)[[*{x, y} - {key}]].mean().dropna(subset=[y])
    means = means.reset_index()
    there = set(axes.get_children())
    marker = look.marker if len(means) <= 25 else ""
    line = {"color": look.colour, "marker": marker, "linestyle": look.dash, "label": name}
    axes.plot(means[x], means[y], zorder=3, **line)  # type: ignore[arg-type]
    if difference and seeds:
        half = [float(interval(rows.loc[rows[key] == at, y])[1]) for at in means[key]]
        axes.errorbar(means[x], means[y], half, fmt="none", color=look.colour, capsize=3)
    elif len(seeds) > 1 and few:
        dots = {"ms": 5 if for_slides() else 3.5, "alpha": 0.6, "zorder": 2.4}
        axes.plot(rows[x], rows[y], "o", mew=0, color=look.colour, **dots)  # type: ignore[arg-type]
    else:
        for part in seeds if len(seeds) > 1 else ():
            axes.plot(part[x], part[y], **thin)
    for artist in set(axes.get_children()) - there if beside else ():
        offset = ScaledTranslation(beside / 72, 0, axes.figure.dpi_scale_trans)
        artist.set_transform(axes.transData + offset)
    return means.sort_values(x)[y].tolist()


def _panels(
    table: pd.DataFrame, panels: str | None, ax: Axes | None
) -> Iterator[tuple[pd.DataFrame, Axes]]:
    """The rows and the axes of each panel; of a single one, all rows."""
    if panels is None:
        yield table, ax or new_figure(4.6).add_subplot()
        return
    entries = list(table[panels].unique())
    row = new_figure(4.6).subplots(1, len(entries), sharey=True, sharex=True, squeeze=False)[0]
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
    axes.figure.suptitle(title)


def _is_in_column(axes: Axes, which: str) -> bool:
    """Whether the axes are in the "first" or in the "last" column of their figure."""
    place = axes.get_subplotspec()
    return place is None or getattr(place, f"is_{which}_col")()


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


def _draw_paper(axes: Axes, paper: Mapping[str, tuple[Any, Any]]) -> list[Line2D]:
    """Published points as diamonds, each paper's in a shade of its own."""
    points: list[Line2D] = []
    look: dict[str, Any] = {"linestyle": "", "marker": "D", "ms": 9, "zorder": 6}
    for name, (px, py) in paper.items():
        fill = ("white", BLACK, GREY)[len(points) % 3]
        points += axes.plot(px, py, markerfacecolor=fill, color=BLACK, label=name, **look)
    return points


def draw_guess(axes: Axes, guess: tuple[Any, Any] | None) -> list[Line2D]:
    """The student's guess as a star; see :func:`curves`.

    Raises:
        ValueError: if it is not a number.
    """
    if guess is None or ... in guess:
        return []
    if not all(value is None or isinstance(value, (int, float)) for value in guess):
        raise ValueError(f"guess: a guess is a number, such as 0.7, got {guess!r}")
    x, y = guess
    across = blended_transform_factory(
        axes.transAxes if x is None else axes.transData,
        axes.transAxes if y is None else axes.transData,
    )
    look: dict[str, Any] = {"linestyle": "", "marker": "*", "ms": 17, "zorder": 6}
    place = (0.02 if x is None else x), (0.03 if y is None else y)
    return axes.plot(
        *place, transform=across, color=PURPLE, markeredgecolor=BLACK, clip_on=False,
        label="your guess", **look,
    )  # fmt: skip


def _legend_above(axes: Axes, columns: int) -> None:
    """The key of colours in one row; on a slide in the line of the vertical axis's name."""
    place: dict[str, Any] = {"loc": "upper right", "borderaxespad": 0.1}
    if for_slides():
        across = blended_transform_factory(axes.figure.transFigure, axes.transAxes)
        place = {"loc": "lower right", "bbox_to_anchor": (1, 1), "bbox_transform": across}
        place |= {"borderaxespad": 0, "borderpad": 0.1}
    if axes.get_legend_handles_labels()[0]:
        axes.legend(ncols=columns, **place).set_in_layout(not for_slides())


def _set_limits(
    axes: Axes, y: pd.Series, ylim: tuple[float, float] | None, ylabel: str, log: bool
) -> None:
    if log:
        scale_log_y(axes)
    if ylim is not None:
        axes.set_ylim(*ylim)
    elif ("%" in ylabel or "BLEU" in ylabel) and not log:
        axes.autoscale(axis="y")  # over all panels so far, which share it
        bottom, top = axes.get_ylim()
        high = 102 if y.max() <= 100 else top
        axes.set_ylim(bottom if y.min() < 0 else max(bottom, -2), min(top, high))


def _set_table(axes: Axes, text: str) -> Figure:
    """What the text alternative of the axes' figure says, after what it said before."""
    fig: Any = axes.figure
    fig.course_table = f"{getattr(fig, 'course_table', '')} {text}.".strip()
    return fig


def _tell(
    axes: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    by: str | None,
    title: str,
    xlabel: str,
    ylabel: str,
    panels: str | None = None,
) -> Figure:
    """The table of the figure as text: for each line of each panel, its mean at up to four
    places.
    """
    columns = [column for column in (panels, by) if column]
    lines = table.groupby(columns or (lambda row: 0))
    seeds = set(lines[SEED].nunique()) if SEED in table.columns else {0}
    how = f", means of {count_of(seeds, 'seeds')}" if max(seeds) > 1 else ""
    words = []
    for key, rows in table.groupby(columns, sort=False) if columns else [((), table)]:
        means = rows.groupby(x, sort=False, dropna=False)[y].mean()
        places = sorted({round(k * (len(means) - 1) / 3) for k in range(4)})
        where = [f" at {label(None, means.index[k])}" if len(means) > 1 else "" for k in places]
        values = ", ".join(f"{means.iloc[k]:.3g}{at}" for k, at in zip(places, where, strict=True))
        words.append(": ".join([*filter(None, [", ".join(map(str, key))]), values]))
    title = title.rstrip(".?!")
    return _set_table(axes, f"{title}. {ylabel} by {xlabel}{how}. {'. '.join(words)}")
