"""The course's figures: each answers one question, in one look for the whole term.

A comparison of methods has an interval over seeds and a random control, or it is
refused. Every function returns a matplotlib ``Figure`` that pyplot does not know about,
so nothing stays open behind it; it appears when ``show`` (in a notebook) or ``save``
(to a file) is called with a sentence for those who cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from course_lib.intervals import interval, to_numpy
from course_lib.show.charts import bars, curves, frontier, scatter
from course_lib.show.labels import (
    name_axes,
    remaining_axis,
    set_title,
    sparsity_axis,
)
from course_lib.show.output import alt, new_figure, save, show, subplots
from course_lib.show.style import (
    BLUE,
    COLOURS,
    GREY,
    INCHES,
    INK,
    LOOKS,
    VERMILLION,
    Look,
    contrast,
    for_slides,
    label,
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
    "remaining_axis",
    "save",
    "scatter",
    "show",
    "sparsity_axis",
    "subplots",
    "use_style",
]


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
        (name, *_picture(name, np.asarray(to_numpy(mask)), max_side))
        for name, mask in masks.items()
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
    table = np.asarray(to_numpy(values), dtype=np.float64)
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


def _axes(ax: Axes | None, height: float = 4.6) -> tuple[Figure, Axes]:
    if ax is not None:
        return ax.figure, ax  # type: ignore[return-value]
    fig = new_figure(height)
    return fig, fig.add_subplot()
