"""Rounds of pruning, with rewinding and without, on a matrix small enough to be looked
at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.pruning.weights.lottery import shrink
from course_lib.show.drawings.canvas import FAINT, arrow, box, canvas, write
from course_lib.show.output import alt
from course_lib.show.style import BLUE, GREY, INCHES, INK, ORANGE, VERMILLION

STEPS = 30  # of every training of the small problem
_SHADES = LinearSegmentedColormap.from_list("sign and size", [VERMILLION, "#F4F4F4", BLUE])


@dataclass(frozen=True)
class Round:
    """One column: from which weights it starts, what training makes of them, and which
    of those stay.
    """

    start: Tensor
    trained: Tensor
    mask: Tensor  # while it trains, True = there
    left: Tensor  # after it has been pruned


def pruned_rounds(
    rounds: int, rate: float, rewind: bool = True, rewind_to: int = 0
) -> tuple[Tensor, list[Round]]:
    """What :func:`pruning_rounds` draws: iterative magnitude pruning of a linear layer of
    4 × 6 weights that learns to copy another one.

    Args:
        rounds, rate, rewind, rewind_to: as there.

    Returns:
        The first weights w_0, and the rounds: the matrices are (rows, columns), with
        zeros where nothing is left.
    """
    shape, generator = (4, 6), torch.Generator().manual_seed(0)
    x = torch.randn(64, shape[1], generator=generator)
    target = torch.randn(shape, generator=generator)
    w_0 = torch.randn(shape, generator=generator)

    def train(w: Tensor, mask: Tensor, steps: int) -> Tensor:
        for _ in range(steps):  # gradient descent on the squared error
            w = (w - 0.06 * (w - target) @ (x.T @ x) / len(x)) * mask
        return w

    mask = torch.ones(shape, dtype=torch.bool)
    w_k = start = train(w_0, mask, rewind_to)
    drawn = []
    for _ in range(rounds):
        trained = train(start, mask, STEPS - rewind_to)
        left = shrink({"w": trained}, {"w": mask}, rate, output_rate=rate)["w"]
        drawn.append(Round(start, trained, mask, left))
        mask, start = left, (w_k if rewind else trained) * left
    return w_0, drawn


def pruning_rounds(
    rounds: int = 3,
    rate: float = 0.2,
    *,
    rewind: bool = True,
    rewind_to: int = 0,
) -> Figure:
    """Iterative magnitude pruning, a round a column: train, prune a share of what is
    left, rewind what stays; again.

    The matrices come from a real search, in a layer that learns by gradient descent to
    copy another one; a weight's colour is its sign and size, and a pruned one is a dot.

    Args:
        rounds: how often to prune, 1 to 4.
        rate: the share of the weights left that goes in each round, in (0, 1).
        rewind: put what stays back to its early values; False: the conventional way,
            train on from the trained values.
        rewind_to: k, the step to go back to; 0 is the first weights, and a training has
            30 steps.
    """
    w_0, columns = pruned_rounds(rounds, rate, rewind, rewind_to)
    rows, width = w_0.shape
    early = "w_0" if not rewind_to else f"w_{{{rewind_to}}}"
    first = width + 1.6 if rewind_to else 0.0  # room for w_0 on its way to w_k
    pitch, drop = width + 4.0, rows + 2.6
    total = first + 5.2 + rounds * pitch + width + 0.8
    lines = 2 * drop + rows + 4.9
    # a slide has words below it, too
    fig, ax = canvas(total, lines, min(0.75, 3.1 * total / (INCHES * lines)))
    scale = max(float(c.trained.abs().max()) for c in columns)
    top, left = 2.4, first + 5.2
    tops = [top, top + drop, top + 2 * drop]
    for y, name in zip(tops, ("start", "trained", "pruned"), strict=True):
        below = 1.1 if rewind_to and y == top else 0.0  # the arrow to w_k is there
        write(ax, left - 0.6, y + rows / 2 + below, name, ha="right")
    if rewind_to:
        _matrix(ax, 0.2, top, w_0, columns[0].mask, scale)
        write(ax, 0.2 + width / 2, top - 0.35, "$w_0$", va="bottom")
        arrow(ax, (width + 0.5, top + 1.7), (left - 0.3, top + 1.7))
        write(ax, (width + 0.3 + left) / 2, top + 1.4, f"{rewind_to} steps", va="bottom")
    for t, column in enumerate(columns):
        x = left + t * pitch
        label = ("" if not t else f"m_{t} \\odot ") + early
        label = f"${label}$" if rewind or not t else "trained on"
        write(ax, x + width / 2, top - 0.35, label, va="bottom")
        _matrix(ax, x, tops[0], column.start, column.mask, scale)
        _matrix(ax, x, tops[1], column.trained, column.mask, scale)
        _matrix(ax, x, tops[2], column.trained, column.left, scale)
        for y, words in ((tops[0], "train"), (tops[1], f"−{100 * rate:.0f} %")):
            arrow(ax, (x + width / 2, y + rows + 0.2), (x + width / 2, y + drop - 0.15))
            write(ax, x + width / 2 + 0.4, y + rows + 1.2, words, ha="left")
        share = f"{100 * (1 - rate) ** (t + 1):.0f} %"
        if t:
            share = f"{1 - rate:.3g}{'²³⁴'[t - 1]} = {share}"
        write(ax, x + width / 2, tops[2] + rows + 0.35, share, va="top")
        _back(ax, x + width, tops, rows, pitch - width, rewind)
    x = left + rounds * pitch
    last = columns[-1].left
    values = columns[-1].trained if not rewind else columns[0].start
    label = f"$m_{rounds} \\odot {early}$" if rewind else "pruned"
    write(ax, x + width / 2, top - 0.35, label, va="bottom")
    _matrix(ax, x, top, values, last, scale, edge=ORANGE if rewind else INK)
    words = f"the\nticket:\n$m_{rounds}$, ${early}$" if rewind else "to be\nfine-\ntuned"
    write(ax, x + width / 2, top + rows + 0.5, words, va="top", fontweight="bold")
    write(ax, left - 0.6, tops[2] + rows + 0.35, "kept", ha="right", va="top")
    n = last.numel()
    counts = ", ".join(str(int(c.left.sum())) for c in columns)
    shares = ", ".join(f"{100 * (1 - rate) ** t:.0f}" for t in range(1, rounds + 1))
    back = (
        f"put back to their values at step {rewind_to}"
        if rewind
        else "trained on from the values they have"
    )
    name = (
        "Iterative magnitude pruning with rewinding"
        if rewind
        else "Conventional iterative pruning, without rewinding"
    )
    return alt(
        fig,
        f"{name}: in each of {rounds} rounds a matrix of {n} weights is trained, {rate:.0%}"
        f" of the kept weights are pruned, and the others are {back}. Kept after each round:"
        f" {shares} per cent by formula, {counts} weights here.",
    )


def _matrix(
    ax: Axes, x: float, y: float, values: Tensor, mask: Tensor, scale: float, edge: str = FAINT
) -> None:
    """Cells for the weights that are there, coloured by sign and size; a dot where one
    has gone.
    """
    rows, columns = mask.shape
    frame = (columns + 0.24, rows + 0.24)
    thick = 1.0 if edge == FAINT else 2.2
    box(ax, x - 0.12, y - 0.12, size=frame, fill="none", edge=edge, linewidth=thick)
    for r, c in np.ndindex(rows, columns):
        if mask[r, c]:
            colour = _SHADES(0.5 + 0.5 * float((values[r, c] / scale).clamp(-1, 1)))
            box(ax, x + c, y + r, fill=colour, edge="white", linewidth=0.8)
        else:
            ax.plot(x + c + 0.5, y + r + 0.5, marker=".", markersize=4, color=GREY)


def _back(ax: Axes, x: float, tops: list[float], rows: int, gap: float, rewind: bool) -> None:
    """From what a round has left, up to the start of the next."""
    ink, width = (ORANGE, 3.2) if rewind else (INK, 1.6)
    bend = x + gap / 2
    low, high = tops[2] + rows / 2, tops[0] + rows / 2
    points = (x + 0.3, low), (bend, low), (bend, high), (x + gap - 0.3, high)
    arrow(ax, *points, ink=ink, width=width)
    text, weight = ("rewind", "bold") if rewind else ("keep", "normal")
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    write(ax, bend, tops[1] + rows / 2, text, rotation=90, bbox=behind, fontweight=weight)
