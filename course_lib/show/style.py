"""The look of every figure: colours that the colour-blind can tell apart, one per
method for the whole term.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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
}

# On a slide of 1280 × 720 CSS pixels a figure is shown as large as it was drawn: INCHES
# are as wide as the slide's text, and all letters have the size of that text, which can
# be read from the last row.
SLIDE_INCH = 149  # CSS pixels: 8 inches are 1192
SLIDE_HEIGHT = 4.05  # inches: what the slide's heading leaves
SLIDE_TEXT = 17.4  # pt: 36 CSS pixels, a 20th of the slide's height
BESIDE = 6.0  # inches: a figure that is no wider stands beside the text


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
    text = (
        "font.size",
        "axes.titlesize",
        "axes.labelsize",
        "xtick.labelsize",
        "ytick.labelsize",
        "legend.fontsize",
    )
    return STYLE | {
        "figure.figsize": (INCHES, SLIDE_HEIGHT),
        # a sign that the deck's typeface lacks is taken from the last one
        "font.family": [*dict.fromkeys(families), *STYLE["font.sans-serif"]],
        **dict.fromkeys(text, SLIDE_TEXT),
        "figure.titlesize": SLIDE_TEXT,
        "figure.titleweight": "bold",
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
        "legend.handlelength": 1.5,
        "legend.columnspacing": 1.2,
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


@dataclass(frozen=True)
class Look:
    """How one method is drawn: a colour, and a marker and a dash so that colour is
    never the only sign.
    """

    colour: str
    marker: str = "o"
    dash: str = "-"


#: Labels of axes and headings, by the column of a table of results; a column that is not
#: listed is labelled by its own name.
AXES: dict[str, str] = {
    "accuracy": "validation accuracy (%)",
    "validation": "validation accuracy (%)",
    "test": "test accuracy (%)",
    "sparsity": "weights pruned (%)",
    "remaining": "weights kept (%)",
    "pruned": "pruned (%)",
    "ms": "latency (ms)",
    "kb": "size (kB)",
    "bleu": "BLEU (validation)",
    "price": "price λ",
    "macs": "MACs",
    "removed": "pruned (%)",
    "change": "change of accuracy (points)",
    "lost": "accuracy lost (points)",
    "gain": "more texts per second (%)",
    # lab 00
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
    "kmacs": "MACs (thousands)",
    "loss": "training loss",
    "zeros": "weights that are exactly 0 (%)",
    # lab 05
    "recalibrated": "validation accuracy (%)",
    "utilisation": "cells in use (%)",
    "stored_kb": "pruned layers as stored (kB)",
    # lab 11
    "storage": "storage (%)",
    "products": "products (%)",
    # lab 10
    "fewer": "MACs, times fewer",
    "theta": "threshold θ on n · score",
    "chance": "recall, random baseline",
    "goes on": "gate",
}


def title_of(column: str) -> str:
    """The label of a column on an axis or above a table."""
    return AXES.get(column, column.replace("_", " "))


#: Columns that hold fractions between 0 and 1 and are written in per cent.
SHARES = ("sparsity", "remaining", "share", "kept", "removed", "pruned")


def label(column: str | None, value: Any) -> str:
    """An entry of a column as a heading: shares in per cent, all others as they are."""
    if column in SHARES and isinstance(value, (float, np.floating)):
        return f"{100 * float(value):.4g} %"
    if isinstance(value, (float, np.floating)):
        return f"{float(value):g}"
    return str(value)


#: How each method is drawn. Names of one lab differ from each other; the same name is the
#: same line in every lab. A name that is not listed gets the next combination that its
#: figure does not use yet; a later lab adds its own here.
LOOKS: dict[str, Look] = {
    # in almost every figure
    "dense": Look(BLACK, "", "-"),
    "random": Look(GREY, "x", "--"),
    # what a weight or a head is worth
    "magnitude": Look(BLUE, "o"),
    "I_h": Look(VERMILLION, "s"),
    "signed forecast": Look(VERMILLION, "s"),
    "Fisher": Look(GREEN, "^"),
    "OBD": Look(PURPLE, "D"),
    "Taylor": Look(SKY, "P"),
    "input-aware": Look(ORANGE, "v"),
    "movement": Look(VERMILLION, "s"),
    # lab 00: formats
    "bitmap": Look(BLUE, "o"),
    "RLE": Look(ORANGE, "v"),
    "COO": Look(GREEN, "^"),
    "CSR": Look(VERMILLION, "s"),
    "by MACs": Look(BLACK, "", ":"),
    # lab 01: when the weights go, which go together, what is repaired
    "one-shot": Look(ORANGE, "v"),
    "fine-tuned": Look(SKY, "P"),
    "iterative": Look(BLUE, "o"),
    "recalibrated": Look(GREEN, "^"),
    "global": Look(PURPLE, "D"),
    "element": Look(BLUE, "o"),
    "row": Look(GREEN, "^"),
    "kernel": Look(ORANGE, "v"),
    "filter": Look(VERMILLION, "s"),
    # lab 03
    "ticket": Look(BLUE, "o"),
    "reinit": Look(ORANGE, "v"),
    "random mask": Look(GREY, "x", "--"),
    "RigL": Look(VERMILLION, "s"),
    "SET": Look(GREEN, "^"),
    # lab 04: by what score channels go; with holes, or without
    "slimming": Look(BLUE, "o"),
    "α, dense": Look(GREEN, "^"),
    "filter L1": Look(SKY, "P"),
    "structured": Look(BLUE, "o"),
    "unstructured": Look(ORANGE, "v"),
    # lab 05
    "N:M": Look(PURPLE, "D"),
    "N:M at random": Look(GREY, "x", "--"),
    "greedy": Look(BLUE, "o"),
    "random order": Look(ORANGE, "v"),
    "random groups": Look(GREY, "x", "--"),
    # lab 06: who chooses, and what the zeros do
    "soft movement": Look(GREEN, "^"),
    "zeros held": Look(BLUE, "o"),
    "let go": Look(ORANGE, "v"),
    "old task, not trained": Look(PURPLE, "D"),
    "target": Look(BLACK, "", "--"),
    # lab 07: in which order heads go, and from where
    "I_h, by layer": Look(SKY, "P"),
    "I_h, iterative": Look(ORANGE, "v"),
    "single ablation": Look(BLUE, "o"),
    "most important first": Look(PURPLE, "D"),
    "top": Look(BLUE, "o"),
    "middle": Look(ORANGE, "v"),
    "bottom": Look(GREEN, "^"),
    "no consecutive": Look(PURPLE, "D"),
    # lab 10: which tokens stay, and how their number is set
    "informed": Look(BLUE, "o"),
    "all evidence": Look(ORANGE, "v"),
    "polar words": Look(GREEN, "^"),
    "progressive": Look(BLUE, "o"),
    "threshold": Look(VERMILLION, "s"),
}
#: Name -> colour, of :data:`LOOKS`.
COLOURS: dict[str, str] = {name: look.colour for name, look in LOOKS.items()}

_PAIRS = ((BLUE, "o"), (VERMILLION, "s"), (GREEN, "^"), (ORANGE, "v"), (PURPLE, "D"), (SKY, "P"))
_SPARE = [Look(colour, marker, dash) for dash in ("-", ":", "-.") for colour, marker in _PAIRS]


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
        wanted = LOOKS.get(name)
        if wanted is None or (wanted.colour, wanted.dash) in taken:
            free = (look for look in _SPARE if (look.colour, look.dash) not in taken)
            wanted = next(free, _SPARE[len(chosen) % len(_SPARE)])
        chosen[name] = wanted
    return {name: chosen[name] for name in names}


def contrast(colour: Any, other: Any = "white") -> float:
    """How far two colours (any that matplotlib knows) stand apart in brightness, 1 to
    21: the contrast ratio of WCAG 2.2.
    """

    def luminance(c: Any) -> float:
        rgb = np.array(to_rgb(c))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def readable(colour: str) -> str:
    """The colour, darkened until text in it can be read on white (4.5 to 1, WCAG level
    AA).
    """
    while contrast(colour) < 4.5:
        red, green, blue = to_rgb(colour)
        colour = to_hex((red * 0.95, green * 0.95, blue * 0.95))
    return colour
