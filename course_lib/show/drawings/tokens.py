"""A text whose tokens get off from layer to layer."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas, text_widths, write
from course_lib.show.output import alt
from course_lib.show.style import GREY, INK, ORANGE, SKY

_UNITS = 28.4  # the drawing's width in cells
_LEFT, _RIGHT = 3.6, 3.2  # of which the names of the layers, and the counts
_PAD, _GAP = 0.3, 0.18  # on either side of a word in its box; between boxes
_LINE, _STEP = 1.08, 0.32  # from a line to the next; more, to the next layer


def tokens_leaving(
    words: Sequence[str],
    kept: Sequence[Sequence[int]],
    *,
    marked: Sequence[int],
    answer: str,
) -> Figure:
    """A text, layer by layer: the tokens kept, the tokens dropped here, and the number kept.

    A row is the text as it leaves a layer, in one line or two. A token that is there
    has a box; one that is dropped in this layer is faint, and absent from the next row
    on.

    Args:
        words: the text's pieces, [CLS] first.
        kept: for each layer the positions in ``words``, from 0, that are left after it.
            What has left never comes back.
        marked: positions of the words that decide.
        answer: what the model reads from [CLS] in the end, such as "positive".

    Raises:
        ValueError: if there are more words than fit into two lines.
    """
    stages = [list(range(len(words))), *(sorted(positions) for positions in kept)]
    widths = [width + 2 * _PAD for width in text_widths(words, _UNITS)]
    second = _second_line(widths)  # the word that it begins with
    step = _STEP + _LINE * (2 if second < len(words) else 1)
    end = 0.1 + step * len(stages)
    fig, ax = canvas(_UNITS, end + 1.5)
    for stage, there in enumerate(stages):
        y = 0.1 + step * stage
        before = stages[max(stage - 1, 0)]
        write(ax, _LEFT - 0.4, y + 0.53, f"layer {stage}" if stage else "input", ha="right")
        x = _LEFT
        for i, (word, width) in enumerate(zip(words, widths, strict=True)):
            if i == second:
                x, y = _LEFT, y + _LINE
            if i in before:
                fill = ORANGE if i == 0 else SKY if i in marked else FAINT
                _token(ax, x, y, width, word, fill if i in there else None)
            x += width + _GAP
        y = 0.1 + step * stage
        write(ax, _UNITS - 0.1, y + 0.53, f"{len(there)} kept", ha="right", fontweight="bold")
    first = end - step + 1  # below [CLS] of the last row
    arrow(ax, (_LEFT + widths[0] / 2, first), (_LEFT + widths[0] / 2, end + 0.4))
    _footer(ax, end + 0.45, answer)
    left = "; ".join(
        f"after layer {layer} {len(there)}: {' '.join(words[i] for i in there)}"
        for layer, there in enumerate(stages[1:], start=1)
    )
    return alt(
        fig,
        f"A text of {len(words)} tokens, dropped layer by layer; [CLS] is always kept. Kept {left}."
        f" Read from [CLS]: {answer}.",
    )


def _token(ax: Axes, x: float, y: float, width: float, word: str, fill: str | None) -> None:
    """A token's box; without fill it is dropped here, and faint."""
    ink, edge, line = (INK, INK, "-") if fill else (GREY, FAINT, "--")
    look = {"linewidth": 1.5, "linestyle": line}
    box(ax, x, y, word, size=(width, 1), fill=fill or "none", edge=edge, ink=ink, **look)


def _footer(ax: Axes, y: float, answer: str) -> None:
    """The answer, and what the colours mean."""
    write(ax, _LEFT, y + 0.53, answer, ha="left", fontweight="bold")
    for left, fill, text in (
        (18.5, ORANGE, "never dropped"),
        (10.0, SKY, "decides"),
        (5.0, None, "dropped"),
    ):
        _token(ax, _UNITS - left, y, 1.0, "", fill)
        write(ax, _UNITS - left + 1.3, y + 0.53, text, ha="left")


def _second_line(widths: Sequence[float]) -> int:
    """The word with which the second line begins, so that the longer of the two is as
    short as can be; behind the last one where all fit into one line."""
    room = _UNITS - _LEFT - _RIGHT

    def needed(first: int, last: int) -> float:
        return sum(widths[first:last]) + _GAP * (last - first)

    n = len(widths)
    if needed(0, n) <= room:
        return n
    longer, second = min((max(needed(0, k), needed(k, n)), k) for k in range(1, n + 1))
    if longer > room:
        raise ValueError(
            f"{n} words do not fit into two lines in letters that can be read on a slide: take a"
            " shorter text"
        )
    return second
