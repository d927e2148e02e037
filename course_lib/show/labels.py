"""Words inside figures: names at the ends of lines, notes at points, axes in per cent,
titles that fit.

Names and notes are placed when the figure is drawn. So they stay where they belong when
limits or sizes change after.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    NullFormatter,
    NullLocator,
)
from matplotlib.transforms import Bbox, IdentityTransform

from course_lib.show.style import BESIDE, BLACK, INCHES, for_slides, pt, readable


def set_title(ax: Axes, text: str) -> None:
    """A title broken into lines as wide as the axes, on a slide as wide as the
    figure.
    """
    if for_slides():
        ax.figure.suptitle(text, x=0.005, ha="left", wrap=True)
        return
    share = ax.get_position().width / 0.775  # of a figure with one plot
    columns = int(62 * share * ax.figure.get_size_inches()[0] / INCHES)  # type: ignore[union-attr]
    ax.set_title(textwrap.fill(text, max(columns, 18)))


def name_axes(ax: Axes, xlabel: str, ylabel: str) -> None:
    """What the axes show. On a slide the vertical one's name stands above it: there it
    has room, and stands upright.
    """
    ax.set_xlabel(xlabel)
    if for_slides():
        ax.set_ylabel("")  # seaborn has written the column's name there
        ax.set_title(ylabel, wrap=True)
        ax.set_ylabel("")  # seaborn writes the column's name there
    else:
        ax.set_ylabel(ylabel)


def sparsity_axis(ax: Axes) -> None:
    """Label a horizontal axis that holds fractions in [0, 1] in per cent: 0.9 reads 90
    %.
    """
    # "42.5 %" beside "45 %": rounded, a tick would stand where it does not say
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g} %")


def remaining_axis(ax: Axes, x: Sequence[float] | np.ndarray | None = None) -> None:
    """A log-scaled axis of weights remaining in per cent, all of them on the left
    (Frankle & Carbin 2019, figure 1).

    Args:
        ax: axes whose horizontal data are fractions remaining, in (0, 1].
        x: where ticks may stand, such as the measured points; those that would collide
            are left out. Default: 100, 50, 20, 10 ... as far as the data reach.

    Raises:
        ValueError: if a fraction is outside (0, 1]: with nothing left there is no place
            on a log scale.
    """
    if x is None:
        low, high = ax.dataLim.intervalx
        wanted = [
            m * 10.0**e
            for e in range(0, -7, -1)
            for m in (1, 0.5, 0.2)
            if low <= m * 10.0**e * 1.001
        ]
        span = (max(high, wanted[0]), low)
    else:
        wanted = sorted({float(v) for v in x}, reverse=True)
        span = (wanted[0], wanted[-1])
    if not 0 < span[1] <= span[0] <= 1 + 1e-9:
        raise ValueError(
            f"weights remaining are fractions in (0, 1], got {span[1]:g} to {span[0]:g}"
        )
    ax.set_xscale("log")
    width = max(math.log(span[0] / span[1]), 0.1)
    ax.set_xlim(span[0] * math.exp(0.02 * width), span[1] * math.exp(-0.02 * width))
    fit = 5 if for_slides() else 13  # labels side by side
    ticks: list[float] = []
    for v in wanted:
        if not ticks or math.log(ticks[-1] / v) >= width / fit:
            ticks.append(v)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _percent(v)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())


def _percent(fraction: float) -> str:
    """51.2, 8.6, 0.35: one decimal, or two digits below 1 %; no trailing zeros."""
    value = 100 * fraction
    text = f"{value:.1f}" if value >= 1 else f"{value:.2g}"
    return text.removesuffix(".0")


def spread(
    wanted: Sequence[float], heights: Sequence[float], low: float, high: float
) -> list[float]:
    """Move label centres apart, as little as can be, until no label lies on its
    neighbour.

    Args:
        wanted: where the centres would like to be, in any order (pixels).
        heights: of the labels with their margins.
        low, high: the room for the labels; where it is too small for all of them they
            overlap by the same share each.

    Returns:
        The centres, in the order of ``wanted``: least squares, and the labels keep
        their order.
    """
    n = len(wanted)
    if n == 0:
        return []
    order = sorted(range(n), key=lambda i: (wanted[i], i))
    steps = [(heights[i] + heights[j]) / 2 for i, j in pairwise(order)]  # from a centre to the next
    offsets = [0.0, *accumulate(steps)]
    low, high = low + heights[order[0]] / 2, high - heights[order[-1]] / 2
    room = max(high - low, 0.0)
    if offsets[-1] > room:
        placed = [low + room * offset / offsets[-1] for offset in offsets]
    else:
        # With its offset taken off, "far enough apart" becomes "not decreasing":
        # isotonic regression. Labels that collide pool into a block that stands at the
        # mean of what its members want.
        blocks: list[tuple[float, int]] = []  # (sum of what the members want, how many)
        for offset, i in zip(offsets, order, strict=True):
            total, members = min(max(wanted[i], low), high) - offset, 1
            while blocks and blocks[-1][0] / blocks[-1][1] > total / members:
                earlier = blocks.pop()
                total, members = total + earlier[0], members + earlier[1]
            blocks.append((total, members))
        starts = [total / members for total, members in blocks for _ in range(members)]
        placed = [
            min(max(start, low), high - offsets[-1]) + offset
            for offset, start in zip(offsets, starts, strict=True)
        ]
    centres = [0.0] * n
    for centre, i in zip(placed, order, strict=True):
        centres[i] = centre
    return centres


class _Placed(Artist):
    """Texts of one axes that get their places at drawing time."""

    def __init__(self, ax: Axes) -> None:
        super().__init__()
        self.axes = self._ax = ax
        self.set_figure(ax.figure)
        self.set_zorder(6)
        # text, the point it names in data units, colour
        self.items: list[tuple[Text, float, float, str]] = []
        ax.add_artist(self)
        self.set_clip_on(False)

    def _add(self, text: Text, x: float, y: float, colour: str) -> None:
        text.set_figure(self._ax.figure)
        self.items.append((text, float(x), float(y), colour))

    def place(self, renderer: Any) -> list[tuple[tuple[float, float], tuple[float, float], str]]:
        """Give each text its position in pixels; returns the leaders to draw: from, to,
        colour.
        """
        raise NotImplementedError

    def draw(self, renderer: Any) -> None:
        if not self.get_visible():
            return
        leaders = self.place(renderer)
        gc = renderer.new_gc()
        gc.set_linewidth(renderer.points_to_pixels(0.9))
        for start, end, colour in leaders:
            gc.set_foreground(colour)
            renderer.draw_path(gc, Path([start, end]), IdentityTransform())
        gc.restore()
        for text, *_ in self.items:
            text.draw(renderer)
        self.stale = False

    def get_window_extent(self, renderer: Any = None) -> Bbox:
        figure: Any = self._ax.figure
        renderer = renderer or figure._get_renderer()
        self.place(renderer)
        boxes = [text.get_window_extent(renderer) for text, *_ in self.items]
        return Bbox.union(boxes) if boxes else Bbox.null()

    def get_tightbbox(self, renderer: Any = None) -> Bbox:
        # this is how constrained layout leaves room for the names
        return self.get_window_extent(renderer)


class EndLabels(_Placed):
    """Names to the right of the axes, each at the height of its line's end, moved apart
    where they would overlap.
    """

    def add(self, label: str, x: float, y: float, colour: str) -> None:
        """Name the line that ends at (x, y) in data units."""
        text = Text(
            0,
            0,
            label,
            color=readable(colour),
            va="center",
            ha="left",
            fontsize=pt(11),
            fontweight="bold",
        )
        text.set_linespacing(1.0)
        self._add(text, x, y, colour)

    def place(self, renderer: Any) -> list[tuple[tuple[float, float], tuple[float, float], str]]:
        if not self.items:
            return []
        box, point = self._ax.bbox, renderer.points_to_pixels(1.0)
        narrow = for_slides() and self._ax.figure.get_size_inches()[0] <= BESIDE  # type: ignore[union-attr]
        for text, *_ in self.items:
            text.set_text(textwrap.fill(text.get_text(), 12 if narrow else 18))
        ends = [self._ax.transData.transform((x, y)) for _, x, y, _ in self.items]
        heights = [text.get_window_extent(renderer).height + 1.5 * point for text, *_ in self.items]
        room = 0.35 * max(heights)  # a name may stand a little above or below the axes
        levels = [min(max(float(end[1]), box.y0), box.y1) for end in ends]
        leaders = []
        left = box.x1 + 20 * point
        centres = spread(levels, heights, box.y0 - room, box.y1 + room)
        for (text, _, _, colour), end, y, centre in zip(
            self.items, ends, levels, centres, strict=True
        ):
            text.set_position((left, centre))
            leaders.append(
                ((max(float(end[0]), box.x1) + 5 * point, y), (left - 2 * point, centre), colour)
            )
        return leaders


class Notes(_Placed):
    """Words beside marked points, on the side where they cover the fewest lines."""

    # where the text's nearest corner or edge goes, as (horizontal, vertical) steps from
    # the point
    SIDES = ((1, 0), (-1, 0), (1, -1), (-1, -1), (1, 1), (-1, 1), (0, -1), (0, 1))

    def add(self, label: str, x: float, y: float) -> None:
        """Put ``label`` beside the point (x, y) in data units."""
        text = Text(
            0, 0, textwrap.fill(label, 26), color=BLACK, va="center", ha="left", fontsize=pt(10.5)
        )
        text.set_fontstyle("italic")
        text.set_bbox(
            {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        )
        self._add(text, x, y, BLACK)

    def place(self, renderer: Any) -> list[tuple[tuple[float, float], tuple[float, float], str]]:
        room = np.array(self._ax.bbox)  # two corners, in pixels
        point = renderer.points_to_pixels(1.0)
        in_the_way = self._line_pixels()
        leaders = []
        for text, x, y, colour in self.items:
            at = self._ax.transData.transform((x, y))
            extent = text.get_window_extent(renderer)
            half = np.array([extent.width / 2, extent.height / 2])
            # the text's centre on each side, 11, 24 or 44 points away from the point
            trials = [
                (far, at + np.array(side) * (far * point + half))
                for far in (11, 24, 44)
                for side in self.SIDES
            ]
            costs = [
                _cost(centre, half + 2 * point, in_the_way, room) + far / 10
                for far, centre in trials
            ]
            far, centre = trials[int(np.argmin(costs))]
            text.set_position((centre[0] - half[0], centre[1]))
            if far > 11:
                edge = np.clip(at, centre - half, centre + half)
                leaders.append(
                    ((float(at[0]), float(at[1])), (float(edge[0]), float(edge[1])), colour)
                )
            steps = np.linspace(-1, 1, 15)
            own = centre + half * np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
            in_the_way = np.concatenate([in_the_way, own])  # the next note keeps off this one
        return leaders

    def _line_pixels(self) -> np.ndarray:
        """Points every few pixels along all lines and at all markers of the axes, (n,
        2).
        """
        dots = [np.empty((0, 2))]
        for line in self._ax.lines:
            pixels = _pixels(line)
            dots.append(pixels)
            if line.get_linestyle() not in ("None", "", " ") and len(pixels) > 1:
                for a, b in zip(pixels[:-1], pixels[1:], strict=True):
                    steps = min(int(np.hypot(*(b - a)) / 4) + 1, 400)
                    dots.append(a + (b - a) * np.linspace(0, 1, steps)[:, None])
        return np.concatenate(dots)


def _cost(centre: np.ndarray, half: np.ndarray, busy: np.ndarray, room: np.ndarray) -> float:
    """How much a text would cover, and how far it would stick out of the axes; all in
    pixels.
    """
    covered = (np.abs(busy - centre) <= half).all(axis=1).sum()
    outside = max(
        0.0, float((room[0] + half - centre).max()), float((centre + half - room[1]).max())
    )
    return float(covered) + 5 * outside


def _pixels(line: Line2D) -> np.ndarray:
    pixels = line.get_transform().transform(line.get_xydata())
    return pixels[np.isfinite(pixels).all(axis=1)]
