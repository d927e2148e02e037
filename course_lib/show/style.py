"""The look of every figure and the words of every table: colours that the colour-blind
can tell apart, one per method for the whole term.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.colors import to_hex, to_rgb
from matplotlib.font_manager import fontManager

# Okabe & Ito 2008, "Color Universal Design": told apart with every common form of
# colour blindness. Their yellow is left out: on white it is nearly invisible.
BLACK, BLUE, VERMILLION, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
ORANGE, PURPLE, SKY = "#E69F00", "#CC79A7", "#56B4E9"
GREY = "#7F7F7F"
INK = "#222222"  # text

# a figure's width; on the page 800 CSS pixels, so that 1 pt of text is 100/72 px there
INCHES = 8.0

# matplotlib types the keys of its settings one by one; which they are differs between
# its releases
STYLE: Any = {
    "figure.figsize": (INCHES, 4.6),
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "figure.titlesize": 13,
    "figure.titleweight": "bold",
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
    "axes.prop_cycle": cycler(color=[BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK]),
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "hatch.color": "white",
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
    "image.interpolation": "nearest",
}

# On a slide of 1280 × 720 CSS pixels a figure is shown as large as it was drawn: INCHES
# are as wide as the slide's text, and all letters have the size of that text, which can
# be read from the last row.
SLIDE_INCH = 149  # CSS pixels: 8 inches are 1192
SLIDE_HEIGHT = 4.05  # inches: what the slide's heading leaves
SLIDE_TEXT = 17.4  # pt: 36 CSS pixels, a 20th of the slide's height
BESIDE = 6.0  # inches: a figure that is no wider stands beside the text
_LETTERS = ("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize",
            "ytick.labelsize", "legend.fontsize", "figure.titlesize")  # fmt: skip


def for_slides() -> bool:
    """Are figures drawn for a deck? Its build says so by ``COURSE_SLIDES``, the folder
    of the deck's typeface.
    """
    return bool(os.environ.get("COURSE_SLIDES"))


@cache
def _slide_style(typeface: Path) -> Any:
    """STYLE with the letters and lines of slides; of the typeface's folder all TrueType
    fonts are made known.
    """
    families = []
    for path in sorted(typeface.glob("*.ttf")):
        fontManager.addfont(path)
        families.append(fontManager.ttflist[-1].name)
    return STYLE | {
        "figure.figsize": (INCHES, SLIDE_HEIGHT),
        # a sign that the deck's typeface lacks is taken from the last one
        "font.family": [*dict.fromkeys(families), *STYLE["font.sans-serif"]],
        **dict.fromkeys(_LETTERS, SLIDE_TEXT),
        "axes.titleweight": "normal",  # there it names the vertical axis
        "axes.titlepad": 1,
        "axes.labelpad": -2,
        "figure.constrained_layout.h_pad": 0.01,
        "figure.constrained_layout.w_pad": 0.01,
        "axes.linewidth": 1.2,
        "ytick.alignment": "center",
        "grid.linewidth": 1.2,
        "lines.linewidth": 3.2,
        "lines.markersize": 9,
        "legend.borderaxespad": 0.2,
        "legend.handlelength": 1.2,
        "legend.columnspacing": 0.9,
    }


def style() -> Any:
    """The settings of matplotlib that the course draws with: larger letters and lines
    on slides.
    """
    return _slide_style(Path(os.environ["COURSE_SLIDES"])) if for_slides() else STYLE


def pt(size: float) -> float:
    """The size of letters, in points: on a slide at least what can be read there."""
    return max(size, SLIDE_TEXT) if for_slides() else size


def use_style() -> None:
    """Set the course's matplotlib style for figures of your own; the functions of
    ``plots`` use it by themselves.
    """
    mpl.rcParams.update(style())


#: Labels of axes and headings, by the column of a table of results; a column that is not
#: listed is labelled by its own name.
AXES: dict[str, str] = {
    "accuracy": "validation accuracy (%)",
    "validation": "validation accuracy (%)",
    "recalibrated": "validation accuracy (%)",
    "test": "test accuracy (%)",
    "ms": "latency (ms)",
    "kb": "size (kB)",
    "bleu": "BLEU (validation)",
    "price": "price λ",
    "macs": "MACs",
    "kmacs": "MACs (thousands)",
    "change": "change of accuracy (points)",
    "lost": "accuracy lost (points)",
    "gain": "more texts per second (%)",
    "percent": "share of the total (%)",
    "kb_alive": "input + output of the layer (kB)",
    "million_macs_per_token": "million MACs per token",
    "tokens": "tokens in a sentence, L",
    "both_zero": "zeros among the weights and among the inputs, p = q",
    "products_left": "share of products that remain",
    "beyond": "products beyond (1−p)(1−q) (%)",
    "more_pairs": "pairs beyond the formula (%)",
    "empty": "empty kernels (%)",
    "zeros_in": "zeros in the input (%)",
    "faster": "times faster than dense",
    "loss": "training loss",
    "zeros": "weights that are exactly 0 (%)",
    "utilisation": "cells in use (%)",
    "stored_kb": "pruned layers as stored (kB)",
    "storage": "storage (%)",
    "products": "products (%)",
    "fewer": "MACs, times fewer",
    "theta": "threshold θ on n · score",
    "chance": "recall, random baseline",
    "goes on": "gate",
}
#: Columns of fractions between 0 and 1, which an axis or a table writes in per cent:
#: what each is a share of.
SHARES = {"sparsity": "weights pruned", "remaining": "weights kept"} | {
    name: name for name in ("share", "kept", "removed", "pruned")
}


def count_of(numbers: Collection[int], things: str) -> str:
    """ "4 seeds", "4 to 6 seeds", or "one run"."""
    some = " to ".join(map(str, sorted({min(numbers), max(numbers)})))
    return f"{some} {things}" if max(numbers) > 1 else "one run"


def title_of(column: str) -> str:
    """The label of a column on an axis or above a table. A heading of counts and of
    shares is the same: which of them stand below, the cells say.
    """
    return AXES.get(column) or SHARES.get(column) or column.replace("_", " ")


def label(column: str | None, value: Any) -> str:
    """An entry of a column as a heading: shares in per cent, symbols as formulas, all
    others as they are.
    """
    if isinstance(value, (float, np.floating)):
        return f"{100 * value:.4g} %" if column in SHARES and 0 <= value <= 1 else f"{value:g}"
    return formula(str(value))


def formula(name: str) -> str:
    """Words of a figure or a table as they are set: ``I_h`` is a formula, 70% is 70 %, -1 is −1."""
    if "`" in name:
        return name
    name = name if "$" in name else re.sub(r"\b[A-Z]_\w\b", r"$\g<0>$", name)
    return re.sub(r"(?<![\w)\]{}])-(?=\d)", "−", re.sub(r"(?<=\d)%", " %", name))


def minus_sign(number: str) -> str:
    """A written number with a minus sign in place of a hyphen, and without one if it is 0."""
    return number.replace("-", "−") if re.search("[1-9]", number) else number.replace("-", "")


class Look(NamedTuple):
    """How one method is drawn: colour is never the only sign."""

    colour: str
    marker: str = "o"
    dash: str = "-"


#: Who is drawn how. The same name is the same line in every lab, and names of one lab
#: differ from each other. "random …" is always grey. A name that is not listed gets the
#: next combination that its figure does not use yet; a later lab adds its own here.
LOOKS: dict[str, Look] = {
    name: look
    for look, names in {
        Look(BLACK, "", "-"): "dense",
        Look(BLACK, "", ":"): "by MACs",
        Look(BLACK, "", "--"): "target",
        Look(GREY, "x", "--"): "random; N:M at random",
        Look(
            BLUE, "o"
        ): "magnitude; bitmap; iterative; element; ticket; slimming; structured; greedy;"
        " zeros held; single ablation; top; informed; progressive",
        Look(VERMILLION, "s"): "I_h; signed forecast; movement; CSR; filter; RigL; threshold",
        Look(GREEN, "^"): "Fisher; COO; recalibrated; row; SET; α, dense; soft movement; bottom;"
        " polar words",
        Look(
            ORANGE, "v"
        ): "input-aware; RLE; one-shot; kernel; reinit; unstructured; let go; middle;"
        " I_h, iterative; all evidence",
        Look(PURPLE, "D"): "OBD; global; N:M; old task, not trained; most important first;"
        " no consecutive",
        Look(SKY, "P"): "Taylor; fine-tuned; filter L1; I_h, by layer",
    }.items()
    for name in names.split("; ")
}
#: Name -> colour, of :data:`LOOKS`.
COLOURS: dict[str, str] = {name: look.colour for name, look in LOOKS.items()}

_PAIRS = ((BLUE, "o"), (VERMILLION, "s"), (GREEN, "^"), (ORANGE, "v"), (PURPLE, "D"), (SKY, "P"))
_SPARE = [Look(colour, marker, dash) for dash in ("-", ":", "-.") for colour, marker in _PAIRS]
_RANDOM = [Look(GREY, marker, dash) for dash, marker in (("--", "x"), (":", "+"), ("-.", "*"))]


def is_random(name: str) -> bool:
    """Whether a method chooses at random: it is grey in every figure."""
    return name.startswith("random") or LOOKS.get(name, _SPARE[0]).colour == GREY


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each name of one figure: the fixed one, or a spare one where there is
    none or it is taken.

    Two names may share a fixed look if they belong to different labs; in one figure
    they would be one line to the eye.
    """
    chosen: dict[str, Look] = {}
    # fixed looks first, so that spare ones avoid them
    for name in sorted(names, key=lambda n: n not in LOOKS):
        taken = {(look.colour, look.dash) for look in chosen.values()}
        wanted = [LOOKS[name]] if name in LOOKS else []
        wanted += _RANDOM if is_random(name) else _SPARE
        free = (look for look in wanted if (look.colour, look.dash) not in taken)
        chosen[name] = next(free, wanted[len(chosen) % len(wanted)])
    return {name: chosen[name] for name in names}


def contrast(colour: Any, other: Any = "white") -> float:
    """How far two colours stand apart in brightness, 1 to 21: WCAG 2.2's contrast ratio."""

    def luminance(c: Any) -> float:
        rgb = np.array(to_rgb(c))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def readable(colour: str) -> str:
    """The colour, darkened until text in it can be read on white (4.5 to 1, WCAG AA)."""
    while contrast(colour) < 4.5:
        red, green, blue = to_rgb(colour)
        colour = to_hex((red * 0.95, green * 0.95, blue * 0.95))
    return colour
