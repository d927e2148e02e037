"""A pruned layer in numbers: what the mask does on the way forward, and on the way
back.
"""

from __future__ import annotations

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.show.drawings.canvas import arrow, box, canvas, format_number, format_tensor, write
from course_lib.show.output import alt
from course_lib.show.style import GREY, INK, ORANGE

_SYMBOL, _TIMES, _RELU, _END = 0.8, 0.7, 1.75, 0.6  # gaps between matrices, in cells
_LOSS = 1.6  # width of the last box
_TALL = 0.76  # a cell is wide enough for three digits


def mask_flow(weight: Tensor, mask: Tensor, activation: Tensor, target: Tensor) -> Figure:
    """Forward W ⊙ M = W′, Y = W′A, Z = ReLU(Y), L = ½‖Z − target‖²; and the gradients
    back, found by autograd.

    A pruned position is coloured wherever it occurs, and crossed out where a number
    stands that the mask takes away: in W on the way forward, in ∂L/∂W′ on the way back.

    Args:
        weight: W (d_out, d_in), both at most 4; short numbers look best.
        mask: M, bool like ``weight``, True = kept.
        activation: A, (d_in,).
        target: what Z should be, (d_out,).
    """
    w = weight.detach().double().requires_grad_()
    pruned_w = w * mask
    y = pruned_w @ activation.double()
    z = y.relu()
    loss = (z - target.double()).square().sum() / 2
    grad_w, grad_pruned, grad_y, grad_z = torch.autograd.grad(loss, (w, pruned_w, y, z))
    pruned_w, y, z, loss = (tensor.detach() for tensor in (pruned_w, y, z, loss))

    d_out, d_in = weight.shape
    high = max(d_out, d_in)
    left_m = 0.1 + d_in + _SYMBOL
    left_p = left_m + d_in + _SYMBOL
    left_a = left_p + d_in + _TIMES
    left_y = left_a + 1 + _SYMBOL
    left_z = left_y + 1 + _RELU
    left_l = left_z + 1 + _END
    width, top = left_l + _LOSS, 0.95
    below = top + high + 0.6  # of the matrices on the way back
    fig, ax = canvas(width, below + high + 0.95, _TALL)
    gone = ~mask

    def draw(
        x: float,
        y: float,
        name: str,
        values: Tensor,
        marked: Tensor | None = None,
        crossed: bool = False,
    ) -> None:
        _matrix(ax, x, y + (high - len(values)) / 2, values, marked, crossed)
        columns = 1 if values.ndim == 1 else values.shape[1]
        at = y - 0.5 if y == top else y + high + 0.5
        write(ax, x + columns / 2, at, name)

    middle = top + high / 2
    draw(0.1, top, "W", weight, gone, crossed=True)
    draw(left_m, top, "M", mask.double(), gone)
    draw(left_p, top, "W′", pruned_w, gone)
    draw(left_a, top, "A", activation)
    draw(left_y, top, "Y", y)
    draw(left_z, top, "Z", z)
    for x, sign in (
        (left_m - _SYMBOL / 2, "⊙"),
        (left_p - _SYMBOL / 2, "="),
        (left_a - _TIMES / 2, "·"),
        (left_y - _SYMBOL / 2, "="),
    ):
        write(ax, x, middle, sign, 20)
    arrow(ax, (left_y + 1.1, middle), (left_z - 0.1, middle))
    write(ax, left_z - _RELU / 2, middle - 0.5, "ReLU")
    arrow(ax, (left_z + 1.1, middle), (left_l - 0.1, middle))
    write(ax, left_l + _LOSS / 2, middle, f"L = {format_number(loss)}")

    back = below + high / 2
    draw(0.1, below, "∂L/∂W", grad_w, gone)
    draw(left_m, below, "M", mask.double(), gone)
    draw(left_p, below, "∂L/∂W′", grad_pruned, gone, crossed=True)
    draw(left_y, below, "∂L/∂Y", grad_y)
    draw(left_z, below, "∂L/∂Z", grad_z)
    for x, sign in ((left_m - _SYMBOL / 2, "="), (left_p - _SYMBOL / 2, "⊙")):
        write(ax, x, back, sign, 20)
    corner = left_l + _LOSS / 2
    arrow(ax, (corner, middle + 0.5), (corner, back), (left_z + 1.1, back))
    for start, end, name in (
        (left_z - 0.1, left_y + 1.1, "ReLU′"),
        (left_y - 0.1, left_p + d_in + 0.1, "· Aᵀ"),
    ):
        arrow(ax, (start, back), (end, back))
        write(ax, (start + end) / 2, back - 0.5, name)

    return alt(
        fig,
        f"A pruned layer in numbers. Forward: W = {format_tensor(weight)} times the mask is W′ ="
        f" {format_tensor(pruned_w)}, Y = W′A = {format_tensor(y)}, after ReLU {format_tensor(z)},"
        f" loss {format_number(loss)}. Backward: ∂L/∂W′ = {format_tensor(grad_pruned)}; times the"
        f" mask, with 0 at the {int(gone.sum())} pruned positions, ∂L/∂W ="
        f" {format_tensor(grad_w)}.",
    )


def _matrix(
    ax: Axes, x: float, y: float, values: Tensor, marked: Tensor | None, crossed: bool
) -> None:
    """Numbers in boxes from (x, y) on, a vector as a column; marked ones coloured, and
    crossed out if asked.
    """
    for r, line in enumerate(values.reshape(len(values), -1).tolist()):
        for c, value in enumerate(line):
            left, top = x + c, y + r
            off = marked is not None and bool(marked[r, c])
            box(ax, left, top, fill=ORANGE if off else "white")
            if off and crossed:  # under the number, which must be read, too
                across, down = [left + 0.08, left + 0.92], [top + 0.92, top + 0.08]
                ax.plot(across, down, color="white", linewidth=4)
            ink = INK if off or value else GREY
            write(ax, left + 0.5, top + 0.53, format_number(value), color=ink, zorder=4)
