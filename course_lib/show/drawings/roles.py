"""What a head looks at in sentences whose truth is known, beside what a fixed offset
would find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.show.drawings.canvas import arrow, box, canvas, format_number, text_widths, write
from course_lib.show.output import alt
from course_lib.show.style import BLUE, GREY, INK, ORANGE, SKY, readable

_UNITS = 28.4  # the drawing's width in cells
_PAD, _SPACE = 0.2, 0.12  # on either side of a word in its box; between boxes
_ABOVE, _BELOW = 1.65, 1.5  # room for what stands above and below a sentence


@dataclass(frozen=True)
class Look:
    """One query of one head.

    Attributes:
        words: of the sentence, without padding and end mark.
        attention: (words,), of the query to each of them.
        query: its place. target: the place where a rule wants it to look.
    """

    words: Sequence[str]
    attention: Tensor
    query: int
    target: int


def where_it_looks(looks: Sequence[Look], offset: int) -> Figure:
    """Sentences, one below the other: above each an arrow from its query to the largest
    attention, below it a dashed one to the place that a fixed offset names; the true
    target has a thick frame.

    A word's shade is the attention that it gets from the query.

    Args:
        looks: at most three.
        offset: of the baseline (:func:`~course_lib.pruning.heads.arc_baseline`).

    Raises:
        ValueError: where a sentence is too long to be read on a slide.
    """
    step = _ABOVE + 1 + _BELOW
    fig, ax = canvas(_UNITS, step * len(looks))
    said = [_sentence(ax, look, offset, step * i + _ABOVE) for i, look in enumerate(looks)]
    return alt(
        fig,
        f"Where a head looks, and where a fixed offset of {offset:+d} would. " + " ".join(said),
    )


def _sentence(ax: Axes, look: Look, offset: int, y: float) -> str:
    """Draws one; returns what is to be seen."""
    n = len(look.words)
    widths = [width + 2 * _PAD for width in text_widths(look.words, _UNITS)]
    if sum(widths) + _SPACE * (n - 1) > _UNITS:
        raise ValueError(
            f"{' '.join(look.words)!r} does not fit into a line in letters that can be read on a"
            " slide: take a shorter sentence"
        )
    found = int(look.attention.argmax())
    x, middles = (_UNITS - sum(widths) - _SPACE * (n - 1)) / 2, []
    for i, (word, width) in enumerate(zip(look.words, widths, strict=True)):
        shade = float(look.attention[i].clamp(0, 1))
        fill, alpha = (ORANGE, 1.0) if i == look.query else (SKY, shade)
        box(ax, x, y, size=(width, 1), fill=fill, edge="none", alpha=alpha)
        edge = INK if i in (look.target, look.query) else GREY
        thick = 3.5 if i == look.target else 1.2
        box(ax, x, y, word, size=(width, 1), fill="none", edge=edge, linewidth=thick)
        middles.append(x + width / 2)
        x += width + _SPACE
    share = f"{100 * float(look.attention[found]):.0f} %"
    _bracket(ax, middles[look.query], middles[found], (y - 0.1, y - 0.85), share, BLUE)
    guess = look.query + offset
    if 0 <= guess < n:
        text = f"{offset:+d}".replace("-", "−")
        _bracket(ax, middles[look.query], middles[guess], (y + 1.1, y + 1.85), text, GREY)
    named = f"{look.words[guess]!r}" if 0 <= guess < n else "no word"
    return (
        f"In {' '.join(look.words)!r} {look.words[look.query]!r} looks at"
        f" {look.words[found]!r} ({'right' if found == look.target else 'wrong'}, attention"
        f" {format_number(look.attention[found])}); the offset names {named}"
        f" ({'right' if guess == look.target else 'wrong'})."
    )


def _bracket(
    ax: Axes, start: float, end: float, heights: tuple[float, float], text: str, ink: str
) -> None:
    """From a word over the others to another one: its two heights are those at the
    words and of the line between them; in it a text.
    """
    at, away = heights
    look: Any = {"linestyle": "-" if away < at else "--", "solid_joinstyle": "miter"}
    ax.plot([start, start, end], [at, away, away], color=ink, linewidth=2.6, **look)
    arrow(ax, (end, away), (end, at), ink=ink)
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    write(ax, (start + end) / 2, away, text, color=readable(ink), bbox=behind)
