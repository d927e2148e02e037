"""Figures of the course: one look for the whole term, an interval and a random control always, a text alternative always.

Every function here answers one question and returns a matplotlib ``Figure`` that pyplot does not know about: nothing
stays open behind it, and nothing is drawn until ``show`` (in a notebook) or ``save`` (to a file) is called with a
sentence for those who cannot see it.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator, PercentFormatter
from matplotlib.transforms import Bbox
from scipy.special import stdtrit

# Okabe & Ito 2008, "Color Universal Design": told apart with every common form of colour blindness.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
GREY = "#7F7F7F"
INK = "#222222"

WIDTH = 800  # a figure's width on the page, in CSS pixels
_INCHES = 8.0  # ... and in inches, so that 1 pt of text is 100/72 px on the page
_DPI = 150  # 1200 real pixels for those 800: sharp on a laptop's screen, small in the notebook
_MAX_BYTES = 300_000


@dataclass(frozen=True)
class Look:
    """How one method is drawn, all term: a colour, and a marker and a dash so that colour is never the only sign."""

    colour: str
    marker: str = "o"
    dash: str = "-"


# A name not listed here gets the next combination that its figure does not use yet.
LOOKS: dict[str, Look] = {
    # the two that are in almost every figure
    "dense": Look(BLACK, "", "-"),
    "random": Look(GREY, "x", "--"),
    # criteria
    "magnitude": Look(BLUE, "o"),
    "I_h": Look(VERMILLION, "s"),
    "first-order": Look(VERMILLION, "s"),
    "fisher": Look(GREEN, "^"),
    "obd": Look(PURPLE, "D"),
    "input-aware": Look(ORANGE, "v"),
    "L1": Look(SKY, "P"),
    "movement": Look(VERMILLION, "s"),
    # lab 01: when the weights go, what goes together, what is repaired
    "one-shot": Look(ORANGE, "v"),
    "fine-tuned": Look(SKY, "P"),
    "iterative": Look(BLUE, "o"),
    "recalibrated": Look(GREEN, "^"),
    "global": Look(PURPLE, "D"),
    "element": Look(BLUE, "o"),
    "row": Look(GREEN, "^"),
    "kernel": Look(ORANGE, "v"),
    "filter": Look(VERMILLION, "s"),
    # lab 00: formats
    "bitmap": Look(BLUE, "o"),
    "RLE": Look(ORANGE, "v"),
    "COO": Look(GREEN, "^"),
    "CSR": Look(VERMILLION, "s"),
    "CSC": Look(PURPLE, "D"),
    # lab 03
    "ticket": Look(BLUE, "o"),
    "reinit": Look(ORANGE, "v"),
    "random mask": Look(GREY, "x", "--"),
}
COLOURS: dict[str, str] = {name: look.colour for name, look in LOOKS.items()}
_SPARE = [
    Look(colour, marker, dash)
    for dash in ("-", ":", "-.")
    for colour, marker in zip(
        (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY), ("o", "s", "^", "v", "D", "P"), strict=True
    )
]

_STYLE: dict[str, Any] = {
    "figure.figsize": (_INCHES, 4.6),
    "figure.dpi": 100,
    "savefig.dpi": _DPI,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same picture on every machine
    "font.size": 11.5,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 11.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#666666",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": mpl.cycler(color=[BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK]),
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.2,
    "lines.markersize": 6.5,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 11,
    "image.cmap": "cividis",
}


def use_style() -> None:
    """Set the course's matplotlib style for figures of your own; the functions of this module use it by themselves."""
    mpl.rcParams.update(_STYLE)


def look(name: str, used: Sequence[Look] = ()) -> Look:
    """The fixed look of a method, or for an unknown name the next one that is not in ``used``."""
    if name in LOOKS:
        return LOOKS[name]
    taken = {(u.colour, u.dash) for u in used}
    return next((s for s in _SPARE if (s.colour, s.dash) not in taken), _SPARE[len(used) % len(_SPARE)])


def _looks(names: Sequence[str]) -> dict[str, Look]:
    """Looks for all names of one figure. Two names with the same fixed look would be one line to the eye, so the
    second gets a spare one."""
    chosen: dict[str, Look] = {}
    for name in sorted(names, key=lambda n: n not in LOOKS):  # fixed looks first, so that spares avoid them
        wanted = look(name, list(chosen.values()))
        if wanted in chosen.values():
            taken = {(u.colour, u.dash) for u in chosen.values()}
            wanted = next((s for s in _SPARE if (s.colour, s.dash) not in taken), wanted)
        chosen[name] = wanted
    return {name: chosen[name] for name in names}


def _readable(colour: str) -> str:
    """The colour, darkened until text in it stands out from white by 4.5 to 1 (WCAG 2.2, level AA)."""
    rgb = np.array(to_rgb(colour))

    def contrast(c: np.ndarray) -> float:
        linear = np.where(c <= 0.03928, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        return 1.05 / (float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05)

    while contrast(rgb) < 4.5:
        rgb = rgb * 0.95
    return to_hex(rgb)


# ---------------------------------------------------------------------------------------------------------------------
# Text alternatives, and how a figure gets onto a page


def alt(fig: Figure, text: str) -> Figure:
    """Give a figure its text alternative: a sentence that says what is to be seen. Returns the same figure.

    Raises:
        ValueError: if ``text`` is no sentence (fewer than three words).
    """
    fig.course_alt = _checked_alt(text)  # type: ignore[attr-defined]
    return fig


def _checked_alt(text: str | None) -> str:
    if not isinstance(text, str) or len(text.split()) < 3:
        raise ValueError(
            "this figure needs a text alternative, for readers who cannot see it: pass alt= a sentence that says what "
            "is plotted and what is to be seen, for example alt='Accuracy against sparsity: magnitude stays at 97 % "
            f"up to 80 % sparsity, random pruning falls from 50 % on.' (got {text!r})"
        )
    return " ".join(text.split())


def png(fig: Figure) -> bytes:
    """The figure as PNG bytes, at most 300 kB; its colours are reduced to 256, which for plots is not to be seen."""
    dpi = _DPI
    while True:
        buffer = io.BytesIO()
        with mpl.rc_context(_STYLE):
            fig.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
        data = _fewer_colours(buffer.getvalue())
        if len(data) <= _MAX_BYTES or dpi <= 60:
            return data
        dpi = int(dpi * 0.8)


def _fewer_colours(data: bytes) -> bytes:
    from PIL import Image  # matplotlib depends on it

    buffer = io.BytesIO()
    image = Image.open(io.BytesIO(data)).convert("RGB")
    image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        buffer, format="PNG", optimize=True
    )
    return buffer.getvalue()


def img_tag(fig: Figure, text: str, css_class: str = "course-figure") -> str:
    """The figure as one HTML ``<img>``, picture included, with ``text`` as its alt attribute."""
    return _img(base64.b64encode(png(fig)).decode(), _size(fig), text, css_class)


def _size(fig: Figure) -> tuple[int, int]:
    inches = fig.get_size_inches()
    return round(inches[0] * WIDTH / _INCHES), round(inches[1] * WIDTH / _INCHES)


def _img(encoded: str, size: tuple[int, int], text: str, css_class: str) -> str:
    # width and height keep the page still while the picture is replaced; decoding="sync" keeps it from flashing white.
    return (
        f'<img class="{css_class}" alt="{html.escape(text)}" width="{size[0]}" height="{size[1]}" decoding="sync" '
        f'style="max-width:100%;height:auto;background:white" src="data:image/png;base64,{encoded}">'
    )


def mimebundle(fig: Figure, text: str, css_class: str = "course-figure") -> tuple[dict[str, Any], dict[str, Any]]:
    """The figure as a notebook output: (data, metadata).

    JupyterLab's renderer of image/png has no alt attribute and ignores one in the metadata, so it is given text/html;
    code hosts that show stored notebooks take image/png where they clean HTML away; text/plain is the alternative.
    """
    encoded = base64.b64encode(png(fig)).decode()
    size = _size(fig)
    data = {"text/html": _img(encoded, size, text, css_class), "image/png": encoded, "text/plain": text}
    return data, {"image/png": {"width": size[0], "height": size[1], "alt": text, "needs_background": "light"}}


def _close(fig: Figure) -> None:
    # Only pyplot's own figures are registered anywhere. Left open, the inline backend would show them once more.
    import sys

    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(fig)


def show(fig: Figure, alt: str | None = None) -> None:
    """Display a figure in the notebook as a PNG whose HTML alt attribute is ``alt``, and close it.

    Args:
        fig: any matplotlib figure, from this module or your own.
        alt: a sentence that says what is to be seen; not needed if ``plots.alt(fig, text)`` gave one before.

    Raises:
        ValueError: if there is no text alternative; the message says what to write.
    """
    from IPython.display import display

    text = _checked_alt(alt if alt is not None else getattr(fig, "course_alt", None))
    data, metadata = mimebundle(fig, text)
    _close(fig)
    display(data, metadata=metadata, raw=True)


def save(fig: Figure, path: str | Path, alt: str | None = None) -> Path:
    """Write a figure to ``path`` (PNG; SVG or PDF by the ending) with ``alt`` as its description, and close it.

    Raises:
        ValueError: if there is no text alternative.
    """
    text = _checked_alt(alt if alt is not None else getattr(fig, "course_alt", None))
    path = Path(path)
    if path.suffix.lower() in ("", ".png"):
        from PIL import Image, PngImagePlugin

        info = PngImagePlugin.PngInfo()
        info.add_itxt("Description", text)
        with Image.open(io.BytesIO(png(fig))) as image:
            image.save(path, format="PNG", pnginfo=info, optimize=True)
    else:
        key = "Subject" if path.suffix.lower() == ".pdf" else "Description"
        with mpl.rc_context(_STYLE):
            fig.savefig(path, metadata={key: text})
    _close(fig)
    return path


# ---------------------------------------------------------------------------------------------------------------------
# Axes


def sparsity_axis(ax: Axes) -> None:
    """Label a horizontal axis that holds fractions in [0, 1] in per cent: 0.9 reads 90 %."""
    span = abs(ax.get_xlim()[1] - ax.get_xlim()[0])
    ax.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0 if span > 0.04 else 1, symbol=" %"))


def remaining_axis(ax: Axes, x: Sequence[float] | np.ndarray | None = None) -> None:
    """A log-scaled axis of weights remaining, all of them on the left, as in the lottery ticket paper.

    Args:
        ax: axes whose horizontal data are fractions remaining, in (0, 1].
        x: where to put the ticks; the measured points, thinned where they would collide. Default: 100, 50, 20, 10 ...
    """
    low, high = sorted(ax.get_xlim())
    if x is None:
        wanted = [m * 10.0**e for e in range(0, -7, -1) for m in (1, 0.5, 0.2)]
    else:
        wanted = sorted((float(v) for v in x if v > 0), reverse=True)
    ax.set_xscale("log")
    data = [v for v in wanted if low <= v <= high] or wanted
    left, right = max(data), min(data)
    ax.set_xlim(left * 1.04, right / 1.04)  # from much to little: training goes on to the right
    room = (math.log(left) - math.log(right)) / 13 if right < left else 0  # about 13 labels side by side at 800 px
    ticks: list[float] = []
    for v in data:
        if not ticks or math.log(ticks[-1]) - math.log(v) >= room:
            ticks.append(v)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.3g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())


# ---------------------------------------------------------------------------------------------------------------------
# Labels at the ends of lines


def spread(wanted: Sequence[float], height: float, low: float, high: float) -> list[float]:
    """Move label centres apart, as little as can be, so that neighbours are at least ``height`` apart.

    Args:
        wanted: where the labels would like to be, any order (pixels).
        height: of one label, with its margin.
        low, high: the room; where it is too small for all labels they are spaced evenly across it.

    Returns:
        The centres, in the order of ``wanted``.
    """
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    low, high = low + height / 2, high - height / 2
    if (len(wanted) - 1) * height > high - low:  # no room: even spacing is the best that can be had
        step = (high - low) / max(len(wanted) - 1, 1)
        placed = [low + k * step for k in range(len(wanted))]
    else:
        # Pool neighbours that collide into one block at the mean of what its members want (isotonic regression of
        # the positions less k * height), then push blocks back inside the room.
        blocks: list[list[float]] = []  # [sum of wanted - k * height, members]
        for k, i in enumerate(order):
            blocks.append([min(max(wanted[i], low), high) - k * height, 1])
            while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
                total, members = blocks.pop()
                blocks[-1][0] += total
                blocks[-1][1] += members
        starts = [total / members for total, members in blocks for _ in range(int(members))]
        top = high - (len(order) - 1) * height
        placed = [min(max(start, low), top) + k * height for k, start in enumerate(starts)]
    centres = [0.0] * len(wanted)
    for centre, i in zip(placed, order, strict=True):
        centres[i] = centre
    return centres


class _EndLabels(Artist):
    """Names beside the right end of each line, moved apart where they would overlap, with a thin leader to the line.

    They are placed when the figure is drawn, so they stay right when limits or the size change after.
    """

    GAP, LEADER = 6.0, 14.0  # points: axes to leader, leader to text

    def __init__(self, ax: Axes) -> None:
        super().__init__()
        self.texts: list[tuple[Text, float, float, str]] = []  # (text, x, y of the line's end in data units, colour)
        self.set_figure(ax.figure)
        self.axes = ax
        self.set_zorder(5)

    def add(self, label: str, x: float, y: float, colour: str) -> None:
        text = Text(0, 0, label, color=_readable(colour), va="center", ha="left", fontsize=11, fontweight="bold")
        text.set_figure(self.axes.figure)
        self.texts.append((text, x, y, colour))

    def place(self, renderer: Any) -> list[tuple[tuple[float, float], tuple[float, float], str]]:
        """Set the texts' positions (pixels); returns leaders as (from, to, colour)."""
        box = self.axes.bbox
        point = renderer.points_to_pixels(1.0)
        ends = [self.axes.transData.transform((x, y)) for _, x, y, _ in self.texts]
        heights = [text.get_window_extent(renderer).height for text, *_ in self.texts]
        room = 0.35 * max(heights, default=0)  # a label may stand a little above or below the axes
        wanted = [min(max(end[1], box.y0), box.y1) for end in ends]
        centres = spread(wanted, max(heights, default=0) + 1.5 * point, box.y0 - room, box.y1 + room)
        leaders = []
        for (text, _, _, colour), end, centre in zip(self.texts, ends, centres, strict=True):
            left = box.x1 + (self.GAP + self.LEADER) * point
            text.set_position((left, centre))
            start = (max(end[0], box.x1) + 0.5 * point, min(max(end[1], box.y0), box.y1))
            leaders.append((start, (left - 3 * point, centre), colour))
        return leaders

    def draw(self, renderer: Any) -> None:
        gc = renderer.new_gc()
        gc.set_linewidth(renderer.points_to_pixels(0.9))
        for start, end, colour in self.place(renderer):
            gc.set_foreground(colour)
            renderer.draw_path(gc, mpl.path.Path([start, end]), mpl.transforms.IdentityTransform())
        gc.restore()
        for text, *_ in self.texts:
            text.draw(renderer)
        self.stale = False

    def get_window_extent(self, renderer: Any = None) -> Bbox:
        renderer = renderer or self.axes.figure._get_renderer()
        self.place(renderer)
        boxes = [text.get_window_extent(renderer) for text, *_ in self.texts]
        return Bbox.union(boxes) if boxes else Bbox.null()

    def get_tightbbox(self, renderer: Any = None) -> Bbox:
        return self.get_window_extent(renderer)


def _end_labels(ax: Axes) -> _EndLabels:
    for artist in ax.artists:
        if isinstance(artist, _EndLabels):
            return artist
    labels = _EndLabels(ax)
    ax.add_artist(labels)
    labels.set_clip_on(False)
    return labels


def _axes(ax: Axes | None, height: float = 4.6) -> tuple[Figure, Axes]:
    if ax is not None:
        return ax.figure, ax  # type: ignore[return-value]
    fig = Figure(figsize=(_INCHES, height), layout="constrained", facecolor="white")
    return fig, fig.add_subplot()


# ---------------------------------------------------------------------------------------------------------------------
# Figures


def interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and half-width of its 95 % t-interval over the first axis (seeds); NaN entries are left out, one by one."""
    values = np.asarray(values, dtype=np.float64)
    n = np.sum(~np.isnan(values), axis=0)
    mean = np.nanmean(values, axis=0) if values.size else values.mean(axis=0)
    spread_ = np.nanstd(values, axis=0, ddof=1)
    return mean, stdtrit(np.maximum(n - 1, 1), 0.975) * spread_ / np.sqrt(n)


def method_curves(
    x: Sequence[float] | np.ndarray,
    results: Mapping[str, Any],
    *,
    control: str = "random",
    xlabel: str,
    ylabel: str,
    title: str,
    dense: float | Sequence[float] | None = None,
    paper: Mapping[str, tuple[Any, Any]] | None = None,
    xaxis: Literal["sparsity", "remaining"] | None = None,
    ylim: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Methods against each other: the mean over seeds, its 95 % t-interval as a band, and the random control always.

    Args:
        x: (len(x),) the setting that is varied, such as sparsity as a fraction.
        results: for each method an array (seeds, len(x)) in the units of ``ylabel``; at least three seeds.
        control: the method that chooses at random; it must be among the results.
        xlabel, ylabel, title: with units; the title is the finding or the question.
        dense: the unpruned model's value, or one value per seed: a black line.
        paper: published figures as marked points, {"label": (x, y)} or {"label": ([x, ...], [y, ...])}.
        xaxis: "sparsity" labels fractions in per cent; "remaining" is log-scaled, from 100 % on the left downwards.
        ylim: default: all means and bands, but never outside 0 to 100 where ``ylabel`` says %.
        ax: draw into these axes instead of a new figure.

    Returns:
        The figure; give it to ``show(fig, alt="...")``.

    Raises:
        ValueError: without the control, with fewer than three seeds, or where shapes do not fit.
    """
    x = np.asarray(x, dtype=np.float64)
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in results.items()}
    if control not in arrays:
        raise ValueError(
            f"no random control: results has {', '.join(map(repr, arrays)) or 'nothing'}, but not {control!r}. A method "
            "has shown something only where it beats choosing at random: run that too, or say control='its name'"
        )
    for name, values in arrays.items():
        if values.ndim != 2 or values.shape[1] != len(x):
            raise ValueError(
                f"results[{name!r}] has the shape {values.shape}; wanted (seeds, {len(x)}): one row per seed, one "
                "column per entry of x"
            )
        if len(values) < 3:
            raise ValueError(
                f"results[{name!r}] has {len(values)} seed(s); an interval over fewer than 3 says nothing: run at "
                "least 3 seeds"
            )
    with mpl.rc_context(_STYLE):
        fig, ax = _axes(ax)
        labels = _end_labels(ax)
        looks = _looks(list(arrays))
        for name, values in arrays.items():
            mean, half = interval(values)
            kind = looks[name]
            ax.fill_between(x, mean - half, mean + half, color=kind.colour, alpha=0.17, linewidth=0, zorder=2)
            ax.plot(x, mean, color=kind.colour, marker=kind.marker, linestyle=kind.dash, zorder=3, label=name)
            last = np.flatnonzero(~np.isnan(mean))
            if len(last):
                end = last[np.argmin(x[last])] if xaxis == "remaining" else last[np.argmax(x[last])]
                labels.add(name, x[end], mean[end], kind.colour)
        if dense is not None:
            values = np.atleast_1d(np.asarray(dense, dtype=np.float64))
            mean = float(np.nanmean(values))
            ax.axhline(mean, color=BLACK, linewidth=1.6, zorder=2.5, label="dense")
            if len(values) >= 3:
                half = float(interval(values)[1])
                ax.axhspan(mean - half, mean + half, color=BLACK, alpha=0.08, linewidth=0, zorder=1)
            labels.add("dense", x.min() if xaxis == "remaining" else x.max(), mean, BLACK)
        for label, (px, py) in (paper or {}).items():
            _paper(ax, label, np.atleast_1d(px), np.atleast_1d(py))
        ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
        ax.margins(x=0.02)
        if xaxis == "remaining":
            remaining_axis(ax, x)
        elif xaxis == "sparsity":
            sparsity_axis(ax)
        if ylim is not None:
            ax.set_ylim(*ylim)
        elif "%" in ylabel:
            bottom, top = ax.get_ylim()
            ax.set_ylim(max(bottom, -2), min(top, 102))
    return fig


def _paper(ax: Axes, label: str, x: np.ndarray, y: np.ndarray) -> None:
    ax.plot(x, y, "*", color="white", markeredgecolor=BLACK, markersize=15, markeredgewidth=1.3, zorder=6, label=label)
    ax.annotate(
        label,
        (float(x[0]), float(y[0])),
        xytext=(10, -4),
        textcoords="offset points",
        va="top",
        fontsize=10.5,
        fontstyle="italic",
        zorder=6,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
    )


def curves(
    x: Sequence[float] | np.ndarray,
    series: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    points: Mapping[str, Any] | None = None,
    xaxis: Literal["sparsity", "remaining"] | None = None,
    log: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Lines that are no contest between methods: a formula beside what was measured, a layer's sensitivity.

    Args:
        x: (len(x),) shared by all lines.
        series: for each name an array (len(x),).
        points: measured values as markers without a line: {name: (len(x),)} or {name: (x, y)}; a name that is in
            ``series`` too takes its colour.
        log: vertical axis on a log scale.
        xlabel, ylabel, title, xaxis, ax: as for ``method_curves``.

    Raises:
        ValueError: where shapes do not fit.
    """
    x = np.asarray(x, dtype=np.float64)
    lines = {name: np.asarray(values, dtype=np.float64) for name, values in series.items()}
    for name, values in lines.items():
        if values.shape != x.shape:
            raise ValueError(
                f"series[{name!r}] has the shape {values.shape}; wanted {x.shape}, one value per entry of x"
            )
    with mpl.rc_context(_STYLE):
        fig, ax = _axes(ax)
        labels = _end_labels(ax)
        looks = _looks([*lines, *(name for name in points or {} if name not in lines)])
        for name, values in lines.items():
            kind = looks[name]
            marker = "" if points else kind.marker
            ax.plot(x, values, color=kind.colour, marker=marker, linestyle=kind.dash, label=name, zorder=3)
            last = np.flatnonzero(np.isfinite(values))
            if len(last):
                end = last[np.argmin(x[last])] if xaxis == "remaining" else last[np.argmax(x[last])]
                labels.add(name, x[end], values[end], kind.colour)
        for name, given in (points or {}).items():
            px, py = given if isinstance(given, tuple) else (x, given)
            px, py = np.asarray(px, dtype=np.float64), np.asarray(py, dtype=np.float64)
            if px.shape != py.shape:
                raise ValueError(f"points[{name!r}]: {px.shape} horizontal values and {py.shape} vertical ones")
            kind = looks[name]
            ax.plot(px, py, linestyle="", marker=kind.marker or "o", color=kind.colour, markerfacecolor="white",
                    markeredgewidth=1.8, markersize=7.5, zorder=4)  # fmt: skip
            if name not in lines and len(px):
                labels.add(name, px[np.argmax(px)], py[np.argmax(px)], kind.colour)
        ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
        if log:
            ax.set_yscale("log")
        ax.margins(x=0.02)
        if xaxis == "remaining":
            remaining_axis(ax, x)
        elif xaxis == "sparsity":
            sparsity_axis(ax)
    return fig


def bars(
    values: Mapping[str, Mapping[str, float]],
    *,
    ylabel: str,
    title: str,
    errors: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    fmt: str = "{:.3g}",
    log: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Bars side by side: for each thing, what the formula says beside what was measured.

    Args:
        values: {"formula": {"bitmap": 12.0, ...}, "measured": {"bitmap": 12.1, ...}}: one colour per outer name, one
            group of bars per inner name.
        errors: (low, high) ends of an interval, nested like ``values``, for those that have one.
        fmt: how the number over a bar is written.

    Raises:
        ValueError: if the groups differ between the outer names.
    """
    names = list(values)
    groups = list(values[names[0]])
    for name in names:
        if list(values[name]) != groups:
            raise ValueError(
                f"{name!r} has {list(values[name])}, {names[0]!r} has {groups}: each needs a value for each"
            )
    with mpl.rc_context(_STYLE):
        fig, ax = _axes(ax)
        width = 0.8 / len(names)
        colours = (SKY, BLUE, ORANGE, VERMILLION)
        for k, name in enumerate(names):
            heights = [float(values[name][g]) for g in groups]
            places = np.arange(len(groups)) + (k - (len(names) - 1) / 2) * width
            drawn = ax.bar(places, heights, width * 0.94, color=colours[k % 4], hatch="//" if k == 0 else "",
                           edgecolor="white", linewidth=0, label=name, zorder=3)  # fmt: skip
            tops = list(heights)
            for i, g in enumerate(groups):
                if errors and g in errors.get(name, {}):
                    low, high = errors[name][g]
                    ax.plot([places[i]] * 2, [low, high], color=INK, linewidth=1.6, zorder=4)
                    tops[i] = max(tops[i], high)
            size = 10 if len(names) * len(groups) <= 14 else 8.5
            for i, rectangle in enumerate(drawn):
                ax.annotate(fmt.format(heights[i]), (rectangle.get_x() + rectangle.get_width() / 2, tops[i]),
                            xytext=(0, 2), textcoords="offset points", ha="center", va="bottom", fontsize=size)  # fmt: skip
        if log:
            ax.set_yscale("log")
        ax.margins(y=0.12)
        ax.set_xticks(np.arange(len(groups)), groups)
        ax.grid(axis="x", visible=False)
        ax.set(ylabel=ylabel, title=title)
        if len(names) > 1:
            ax.legend(loc="upper right", ncols=len(names), bbox_to_anchor=(1, 1.0))
    return fig


def histogram_before_after(
    before: Any,
    after: Any,
    *,
    title: str,
    xlabel: str = "weight",
    labels: tuple[str, str] = ("before", "after"),
    bins: int = 81,
) -> Figure:
    """Where the weights were and where they are: two histograms over one axis.

    Exact zeros are counted in words instead of drawn: their spike would flatten everything else.

    Args:
        before, after: tensors or arrays of any shape.
        labels: what the upper and the lower panel show.
    """
    arrays = [np.asarray(_plain(v), dtype=np.float64).ravel() for v in (before, after)]
    if not all(len(a) for a in arrays):
        raise ValueError("a histogram of no weights: before and after need at least one value each")
    reach = max(float(np.nanmax(np.abs(np.concatenate(arrays)))), 1e-12)
    edges = np.linspace(-reach, reach, bins + 1)
    with mpl.rc_context(_STYLE):
        fig = Figure(figsize=(_INCHES, 4.8), layout="constrained", facecolor="white")
        panels = fig.subplots(2, 1, sharex=True, sharey=True)
        for ax, values, label, colour in zip(panels, arrays, labels, (GREY, BLUE), strict=True):
            zeros = int((values == 0).sum())
            ax.hist(values[values != 0], bins=edges, color=colour, zorder=3)
            words = f"{label}\n{100 * zeros / len(values):.3g} % are exactly 0" if zeros else label
            ax.text(0.015, 0.94, words, transform=ax.transAxes, va="top", fontweight="bold", color=_readable(colour))
            ax.set_ylabel("weights per bin")
        panels[0].set_title(title)
        panels[1].set_xlabel(xlabel)
    return fig


def grid(
    masks: Mapping[str, Any],
    *,
    title: str,
    columns: int | None = None,
    max_side: int = 160,
) -> Figure:
    """A picture of masks: kept weights dark, pruned ones light, each panel with its sparsity.

    A convolution's mask (M, C, R, S) is laid out with a filter per row of kernels and an input channel per column; a
    matrix is drawn as it is. Masks larger than ``max_side`` are averaged in blocks, so that a shade is a density.

    Args:
        masks: name -> bool tensor or array with one to four dimensions, True = kept.
        columns: panels per row; default: all in one row up to four.
        max_side: pixels of a panel, at most.

    Raises:
        ValueError: without masks, or with one that is not boolean.
    """
    if not masks:
        raise ValueError("no masks to draw: pass a dict of name -> bool tensor")
    columns = columns or min(len(masks), 4)
    rows = math.ceil(len(masks) / columns)
    pictures = {name: _picture(name, np.asarray(_plain(mask)), max_side) for name, mask in masks.items()}
    with mpl.rc_context(_STYLE):
        fig = Figure(figsize=(_INCHES, 0.9 + rows * (0.55 + 7.2 / columns)), layout="constrained", facecolor="white")
        panels = fig.subplots(rows, columns, squeeze=False)
        for ax in panels.flat:
            ax.axis("off")
        for ax, (name, (picture, kernel, share)) in zip(panels.flat, pictures.items(), strict=False):
            ax.axis("on")
            ax.imshow(picture, cmap=mpl.colors.LinearSegmentedColormap.from_list("kept", ["#E9EEF2", BLUE]),
                      vmin=0, vmax=1, interpolation="nearest", aspect="auto" if _long(picture) else "equal")  # fmt: skip
            ax.grid(visible=False)
            ax.set(xticks=[], yticks=[])
            if kernel:
                for k in range(kernel[0], picture.shape[0], kernel[0]):
                    ax.axhline(k - 0.5, color="white", linewidth=2)
                for k in range(kernel[1], picture.shape[1], kernel[1]):
                    ax.axvline(k - 0.5, color="white", linewidth=2)
            ax.set_title(f"{name}\n{100 * share:.3g} % pruned", fontsize=11, fontweight="normal")
            for spine in ax.spines.values():
                spine.set_visible(False)
        fig.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    return fig


def _long(picture: np.ndarray) -> bool:
    return max(picture.shape) > 3 * min(picture.shape)


def _picture(name: str, mask: np.ndarray, max_side: int) -> tuple[np.ndarray, tuple[int, int] | None, float]:
    """(picture of densities, (R, S) if the kernels are to be set apart, share pruned)."""
    if mask.dtype != bool:
        raise ValueError(f"mask {name!r} has the type {mask.dtype}; a mask is boolean, True = kept")
    share = 1 - float(mask.mean()) if mask.size else 0.0
    kernel = None
    if mask.ndim == 4:
        m, c, r, s = mask.shape
        kernel = (r, s) if (r > 1 or s > 1) and max(m * r, c * s) <= max_side else None
        mask = mask.transpose(0, 2, 1, 3).reshape(m * r, c * s)
    elif mask.ndim != 2:
        mask = mask.reshape(mask.shape[0] if mask.ndim else 1, -1)
    shade = mask.astype(np.float64)
    for axis in (0, 1):
        size = shade.shape[axis]
        if size > max_side:
            cuts = np.linspace(0, size, max_side + 1).astype(int)
            counts = np.diff(cuts).reshape((-1, 1) if axis == 0 else (1, -1))
            shade = np.add.reduceat(shade, cuts[:-1], axis=axis) / counts
    return shade, kernel, share


def heat_map(
    values: Any,
    *,
    rows: Sequence[Any],
    columns: Sequence[Any],
    xlabel: str,
    ylabel: str,
    title: str,
    colour_label: str = "",
    fmt: str = "{:.1f}",
    centre: float | None = None,
) -> Figure:
    """A table as colours with the numbers in it.

    Args:
        values: (len(rows), len(columns)).
        centre: a value that means "no change": colours then run from vermillion (below) over white to blue (above).
        fmt: how a number is written.

    Raises:
        ValueError: where the shape does not fit the names.
    """
    table = np.asarray(_plain(values), dtype=np.float64)
    if table.shape != (len(rows), len(columns)):
        raise ValueError(f"values has the shape {table.shape}, the names ask for ({len(rows)}, {len(columns)})")
    with mpl.rc_context(_STYLE):
        fig, ax = _axes(None, height=min(1.7 + 0.42 * len(rows), 9))
        if centre is None:
            colours = {"cmap": mpl.colormaps["cividis"]}
        else:
            reach = float(np.nanmax(np.abs(table - centre))) or 1.0
            ramp = mpl.colors.LinearSegmentedColormap.from_list("change", [VERMILLION, "#F7F7F7", BLUE])
            colours = {"cmap": ramp, "vmin": centre - reach, "vmax": centre + reach}
        image = ax.imshow(table, aspect="auto", **colours)
        ax.grid(visible=False)
        ax.set_xticks(range(len(columns)), [str(c) for c in columns])
        ax.set_yticks(range(len(rows)), [str(r) for r in rows])
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        size = 10.5 if len(columns) <= 12 else 8
        for i, j in np.ndindex(*table.shape):
            if np.isnan(table[i, j]):
                continue
            shade = np.array(image.cmap(image.norm(table[i, j]))[:3])
            dark = float(shade @ [0.299, 0.587, 0.114]) < 0.55
            ax.text(j, i, fmt.format(table[i, j]), ha="center", va="center", fontsize=size,
                    color="white" if dark else INK)  # fmt: skip
        bar = fig.colorbar(image, ax=ax, pad=0.02, aspect=30)
        bar.outline.set_visible(False)
        bar.set_label(colour_label)
        ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return fig


def _plain(values: Any) -> Any:
    """A torch tensor as an array (bfloat16 has no numpy type); anything else as it is."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        return values.float().numpy() if values.is_floating_point() else values.numpy()
    return values
