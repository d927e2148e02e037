"""A text whose tokens get off from layer to layer."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextPath

from course_lib.show.drawings.canvas import FAINT, arrow, canvas
from course_lib.show.output import alt
from course_lib.show.style import GREY, INCHES, INK, ORANGE, SKY

_UNITS = 40.0  # the drawing's width in cells
_LEFT, _RIGHT = 4.2, 2.2  # of which the names of the rows, and the counts
_PAD, _GAP = 0.34, 0.16  # on either side of a word in its box; between boxes
_STEP = 1.75  # from a row to the next
_LARGEST, _SMALLEST = 12.0, 6.5  # pt


def tokens_leaving(
    words: Sequence[str], kept: Sequence[Sequence[int]], *, marked: Sequence[int] = (), answer: str = ""
) -> Figure:
    """A text, layer by layer: who is still there, who gets off here, how many are left.

    A row is the text as it leaves a layer. A token that is there has a box; one that gets off in this layer is faint, and
    absent from the next row on.

    Args:
        words: the text's pieces, [CLS] first.
        kept: for each layer the positions in ``words``, from 0, that are left after it. What has left never comes back.
        marked: positions of the words that decide.
        answer: what the model reads from [CLS] in the end, such as "positive"; "": nothing is drawn.

    Raises:
        ValueError: if there are no words or more than fit into a row, a position does not exist or comes back, or [CLS]
            is dropped.
    """
    stages = _stages(words, kept, marked)
    widths, size = _fit(words)
    rows = len(stages) * _STEP + 2.3
    fig, ax = canvas(rows * INCHES / _UNITS, _UNITS, rows)
    ax.text(_UNITS - 0.9, 0.45, "left", ha="center", va="center", fontsize=10.5)
    for stage, there in enumerate(stages):
        y = 0.95 + _STEP * stage
        before = stages[max(stage - 1, 0)]
        name = f"layer {stage}" if stage else "input"
        ax.text(_LEFT - 0.5, y + 0.53, name, ha="right", va="center", fontsize=11)
        x = _LEFT
        for i, (word, width) in enumerate(zip(words, widths, strict=True)):
            if i in before:
                fill = ORANGE if i == 0 else SKY if i in marked else FAINT
                _token(ax, x, y, width, word, size, fill if i in there else None)
            x += width + _GAP
        ax.text(_UNITS - 0.9, y + 0.53, f"{len(there)}", ha="center", va="center", fontsize=12.5, fontweight="bold")
    _footer(ax, stages, widths[0], answer, bool(marked))
    left = "; ".join(
        f"after layer {layer} {len(there)}: {' '.join(words[i] for i in there)}"
        for layer, there in enumerate(stages[1:], start=1)
    )
    read = f" Read from [CLS]: {answer}." if answer else ""
    return alt(fig, f"A text of {len(words)} tokens that leave layer by layer, [CLS] never. Left {left}.{read}")


def _token(ax: Axes, x: float, y: float, width: float, word: str, size: float, fill: str | None) -> None:
    """A token's box; with no fill it gets off here, and is faint."""
    look = {"facecolor": fill, "edgecolor": INK} if fill else {"facecolor": "none", "edgecolor": FAINT}
    ax.add_patch(Rectangle((x, y), width, 1, linewidth=1.0, linestyle="-" if fill else "--", **look))  # type: ignore[arg-type]
    ax.text(x + width / 2, y + 0.53, word, ha="center", va="center", fontsize=size, color=INK if fill else GREY)


def _footer(ax: Axes, stages: list[list[int]], width: float, answer: str, marked: bool) -> None:
    """The answer below [CLS] of the last row, and what the colours mean."""
    end = 0.95 + _STEP * (len(stages) - 1) + 1
    y = end + 0.95
    if answer:
        arrow(ax, (_LEFT + width / 2, end), (_LEFT + width / 2, y - 0.4))
        ax.text(_LEFT, y + 0.1, answer, ha="left", va="center", fontsize=11.5, fontweight="bold")
    keys = [(ORANGE, "always stays"), *([(SKY, "decides")] if marked else []), (None, "gets off here")]
    x = _UNITS - 6.6 * len(keys) - 0.4
    for fill, text in keys:
        _token(ax, x, y - 0.4, 1.2, "", 1, fill)
        ax.text(x + 1.5, y + 0.13, text, ha="left", va="center", fontsize=10)
        x += 6.6


def _stages(words: Sequence[str], kept: Sequence[Sequence[int]], marked: Sequence[int]) -> list[list[int]]:
    """Positions at the input and after each layer, ascending."""
    if not words:
        raise ValueError("no words to draw: give the text's pieces, [CLS] first")
    stages = [list(range(len(words)))]
    for layer, given in enumerate(kept, start=1):
        there = sorted({int(i) for i in given})
        wrong = [i for i in there if not 0 <= i < len(words)]
        if wrong:
            raise ValueError(
                f"after layer {layer} position {wrong[0]}: the {len(words)} words are 0 to {len(words) - 1}"
            )
        if 0 not in there:
            raise ValueError(f"after layer {layer} position 0 is gone: it is [CLS], from which the answer is read")
        back = [i for i in there if i not in stages[-1]]
        if back:
            raise ValueError(
                f"after layer {layer} position {back[0]} ({words[back[0]]!r}) is back, though it had left before: a row "
                "that was dropped is gone for all layers behind"
            )
        stages.append(there)
    wrong = [i for i in marked if not 0 <= i < len(words)]
    if wrong:
        raise ValueError(f"marked position {wrong[0]}: the {len(words)} words are 0 to {len(words) - 1}")
    return stages


def _fit(words: Sequence[str]) -> tuple[list[float], float]:
    """The width of each box, in cells, and the size of letters (pt) at which all boxes fit into a row."""
    font = FontProperties(family="DejaVu Sans")
    inches = [TextPath((0, 0), word, size=1, prop=font).get_extents().width / 72 if word else 0.0 for word in words]
    cells = [width * _UNITS / INCHES for width in inches]  # at 1 pt
    room = _UNITS - _LEFT - _RIGHT - len(words) * (2 * _PAD + _GAP)
    size = min(_LARGEST, room / max(sum(cells), 1e-9))
    if size < _SMALLEST:
        raise ValueError(
            f"{len(words)} words of {sum(map(len, words))} letters do not fit into a row that can be read: take a shorter text"
        )
    return [size * width + 2 * _PAD for width in cells], size
