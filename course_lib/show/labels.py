"""Words inside figures: names at the ends of lines, axes in per cent, titles that fit.

Names are placed when the figure is drawn. So they stay where they belong when limits or
sizes change after.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox, IdentityTransform
from scipy.optimize import isotonic_regression

from course_lib.show.style import BESIDE, INCHES, for_slides, pt, readable


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
        ax.set_title(ylabel, wrap=True)
        ax.set_ylabel("")  # seaborn writes the column's name there
    else:
        ax.set_ylabel(ylabel)


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
            '`xaxis="remaining"` needs fractions of weights kept, in (0, 1];'
            f" got {span[1]:g} to {span[0]:g}"
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

    def percent(fraction: float, _: Any) -> str:
        """51.2, 8.6, 0.35: one decimal, or two digits below 1 %; no trailing zeros."""
        value = 100 * fraction
        return (f"{value:.1f}" if value >= 1 else f"{value:.2g}").removesuffix(".0")

    ax.xaxis.set_major_formatter(percent)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())


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
    if not len(wanted):
        return []
    order = np.lexsort((range(len(wanted)), wanted))
    tall = np.asarray(heights, float)[order]
    offsets = np.cumsum([0, *(tall[:-1] + tall[1:]) / 2])  # of each centre from the first
    low, high = low + tall[0] / 2, high - tall[-1] / 2
    if offsets[-1] > (room := max(high - low, 0.0)):
        placed = low + room * offsets / offsets[-1]
    else:
        # with its offset taken off, "far enough apart" becomes "not decreasing"
        pulled = np.clip(np.asarray(wanted, float)[order], low, high) - offsets
        placed = np.clip(isotonic_regression(pulled).x, low, high - offsets[-1]) + offsets
    return list(placed[np.argsort(order)])


class EndLabels(Artist):
    """Names to the right of the axes, each at the height of its line's end, moved apart
    where they would overlap: placed whenever the figure is drawn.

    Attributes:
        items: of each name its text, the end of its line in data units, and the colour.
    """

    def __init__(self, ax: Axes) -> None:
        super().__init__()
        self.items: list[tuple[Text, tuple[float, float], str]] = []
        self._ax = ax
        self.set_zorder(6)
        ax.add_artist(self)
        self.set_clip_on(False)

    def add(self, label: str, x: float, y: float, colour: str) -> None:
        """Name the line that ends at (x, y) in data units."""
        look: Any = {"va": "center", "ha": "left", "fontsize": pt(11), "fontweight": "bold"}
        text = Text(0, 0, label, color=readable(colour), linespacing=1.0, **look)
        text.set_figure(self._ax.figure)
        self.items.append((text, (x, y), colour))

    def _place(self, renderer: Any) -> list[tuple[Path, str]]:
        """Give each text its position in pixels; returns the lines from the ends to the
        texts, with their colours.
        """
        if not self.items:
            return []
        box, point = self._ax.bbox, renderer.points_to_pixels(1.0)
        narrow = for_slides() and self._ax.figure.get_size_inches()[0] <= BESIDE  # type: ignore[union-attr]
        for text, *_ in self.items:
            text.set_text(textwrap.fill(text.get_text(), 12 if narrow else 18))
        ends = [self._ax.transData.transform(end) for _, end, _ in self.items]
        heights = [text.get_window_extent(renderer).height + 1.5 * point for text, *_ in self.items]
        room = 0.35 * max(heights)  # a name may stand a little above or below the axes
        levels = [min(max(float(y), box.y0), box.y1) for _, y in ends]
        left = box.x1 + 20 * point
        centres = spread(levels, heights, box.y0 - room, box.y1 + room)
        lines = []
        for (text, _, colour), (x, _), y, centre in zip(
            self.items, ends, levels, centres, strict=True
        ):
            text.set_position((left, centre))
            start = (max(float(x), box.x1) + 5 * point, y)
            lines.append((Path([start, (left - 2 * point, centre)]), colour))
        return lines

    def draw(self, renderer: Any) -> None:
        gc = renderer.new_gc()
        gc.set_linewidth(renderer.points_to_pixels(0.9))
        for line, colour in self._place(renderer):
            gc.set_foreground(colour)
            renderer.draw_path(gc, line, IdentityTransform())
        gc.restore()
        for text, *_ in self.items:
            text.draw(renderer)
        self.stale = False

    def get_window_extent(self, renderer: Any = None) -> Bbox:
        """Constrained layout leaves this room for the names."""
        figure: Any = self._ax.figure
        renderer = renderer or figure._get_renderer()
        self._place(renderer)
        boxes = [text.get_window_extent(renderer) for text, *_ in self.items]
        return Bbox.union(boxes) if boxes else Bbox.null()
