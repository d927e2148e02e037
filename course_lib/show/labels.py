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
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox, IdentityTransform
from scipy.optimize import isotonic_regression

from course_lib.show.style import BESIDE, INCHES, for_slides, formula, pt, readable


def set_title(ax: Axes, text: str) -> None:
    """A title broken into lines as wide as the axes, on a slide as wide as the
    figure.
    """
    text = formula(text)
    if for_slides():
        ax.figure.suptitle(text)
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
    else:
        ax.set_ylabel(ylabel)


def scale_x(ax: Axes, x: Sequence[float], kind: str | None) -> None:
    """The ticks of a horizontal axis on which ``x`` are drawn; ``kind`` as the ``xaxis`` of
    :func:`course_lib.show.plots.curves`.
    """
    places = sorted(set(x))
    if kind == "sparsity":
        # 42.5 beside 45: rounded, a tick would stand where it does not say
        ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g}")
    elif kind == "remaining":
        _scale_remaining(ax, places)
    elif kind == "log":
        ax.set_xscale("log")
        ax.set_xticks(places, [f"{value:g}" for value in places])
        ax.minorticks_off()
    elif kind == "log2":
        ax.set_xscale("log", base=2)
        powers = 2 ** np.arange(np.ceil(np.log2(places[0])), np.log2(places[-1]) + 0.01)
        powers = powers[:: -(-len(powers) // (4 if for_slides() else 8))]
        ax.set_xticks(powers, [f"{power:g}" for power in powers])
    elif all(float(value).is_integer() for value in places):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _scale_remaining(ax: Axes, places: Sequence[float]) -> None:
    """Weights kept in per cent on a log scale, all of them on the left (Frankle & Carbin
    2019, figure 1); of ticks that would collide the later one is left out.
    """
    if not 0 < places[0] <= places[-1] <= 1 + 1e-9:
        raise ValueError(
            'xaxis="remaining" needs fractions of weights kept, in (0, 1];'
            f" got {places[0]:g} to {places[-1]:g}"
        )
    ax.set_xscale("log")
    width = max(math.log(places[-1] / places[0]), 0.1)
    ax.set_xlim(places[-1] * math.exp(0.04 * width), places[0] * math.exp(-0.04 * width))
    inches = ax.get_position().width * ax.figure.get_size_inches()[0]  # type: ignore[union-attr]
    fit = max(inches * (0.9 if for_slides() else 2), 2)  # labels side by side
    ticks: list[float] = []
    for place in reversed(places):
        if not ticks or math.log(ticks[-1] / place) >= width / fit:
            ticks.append(place)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(lambda share, _: f"{float(f'{100 * share:.3g}'):.5g}")
    ax.minorticks_off()


def scale_log_y(ax: Axes) -> None:
    """A log-scaled vertical axis with plain numbers; with few decades, 2 and 5, too."""
    ax.set_yscale("log")
    bottom, top = ax.get_ylim()
    if top < 1000 * bottom:
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def spread(
    wanted: Sequence[float], heights: Sequence[float], low: float, high: float
) -> list[float]:
    """Move label centres apart, as little as can be (least squares), until no label of these
    ``heights`` lies on its neighbour, between ``low`` and ``high``; where there is too little
    room they overlap by the same share each. The labels keep their order.
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
        items: of each name its text, the height of its line's end in data units, and the
            colour.
    """

    def __init__(self, ax: Axes) -> None:
        super().__init__()
        self.items: list[tuple[Text, float, str]] = []
        self._ax = ax
        self.set_zorder(6)
        ax.add_artist(self)
        self.set_clip_on(False)

    def add(self, label: str, y: float, colour: str) -> None:
        """Name the line that ends at the height y."""
        look: Any = {"va": "center", "ha": "left", "fontsize": pt(11), "fontweight": "bold"}
        text = Text(0, 0, formula(label), color=readable(colour), linespacing=1.0, **look)
        text.set_figure(self._ax.figure)
        self.items.append((text, y, colour))

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
        heights = [text.get_window_extent(renderer).height + 1.5 * point for text, *_ in self.items]
        room = 0.35 * max(heights)  # a name may stand a little above or below the axes
        ends = [float(self._ax.transData.transform((1, y))[1]) for _, y, _ in self.items]
        levels = [min(max(y, box.y0), box.y1) for y in ends]
        left = box.x1 + 20 * point
        centres = spread(levels, heights, box.y0 - room, box.y1 + room)
        lines = []
        for (text, _, colour), y, centre in zip(self.items, levels, centres, strict=True):
            text.set_position((left, centre))
            ends_at = (left - 2 * point, centre)
            lines.append((Path([(box.x1 + 5 * point, y), ends_at]), colour))
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
