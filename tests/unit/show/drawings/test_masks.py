"""The drawing of a pruned layer shows the numbers that its arguments give, forward and
backward, and marks what is pruned.
"""

from __future__ import annotations

import pytest
import torch

from course_lib.show.drawings.masks import mask_flow
from course_lib.show.output import alt_of
from course_lib.show.style import ORANGE
from unit.show.drawings.figure_texts import cells, strokes, written


def drawn(d_out: int, d_in: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Small whole numbers: weight, mask, activation, target."""
    generator = torch.Generator().manual_seed(seed)
    weight, activation, target = (
        torch.randint(-3, 4, shape, generator=generator).float()
        for shape in ((d_out, d_in), (d_in,), (d_out,))
    )
    return weight, torch.rand(d_out, d_in, generator=generator) < 0.5, activation, target


def listed(matrix: torch.Tensor) -> str:
    lines = (
        ", ".join(f"{value + 0.0:g}".replace("-", "−") for value in line)
        for line in matrix.tolist()
    )
    return "[" + "; ".join(lines) + "]"


@pytest.mark.parametrize(("d_out", "d_in", "seed"), [(3, 3, 0), (2, 4, 1), (4, 1, 2), (1, 3, 3)])
def test_gradients_are_those_of_the_chain_rule(d_out: int, d_in: int, seed: int) -> None:
    weight, mask, activation, target = drawn(d_out, d_in, seed)
    fig = mask_flow(weight, mask, activation, target)
    y = (weight * mask) @ activation
    grad_y = (y.relu() - target) * (y > 0)
    outer = torch.outer(grad_y, activation)
    assert f"W′ = {listed(weight * mask)}" in alt_of(fig)
    assert f"∂L/∂W′ = {listed(outer)}" in alt_of(fig)
    assert alt_of(fig).endswith(f"∂L/∂W = {listed(outer * mask)}.")
    loss = (y.relu() - target).square().sum() / 2
    assert f"L = {loss:g}" in written(fig)


@pytest.mark.parametrize("seed", range(3))
def test_pruned_positions_are_marked_in_both_directions(seed: int) -> None:
    weight, mask, activation, target = drawn(3, 4, seed)
    fig = mask_flow(weight, mask, activation, target)
    gone = int((~mask).sum())
    assert cells(fig, ORANGE) == 6 * gone, "W, M, W′ forward; ∂L/∂W, M, ∂L/∂W′ backward"
    assert strokes(fig) == 2 * gone, "crossed out in W and in ∂L/∂W′"
    assert f"at the {gone} pruned positions" in alt_of(fig)
    whole = mask_flow(weight, torch.ones_like(mask), activation, target)
    assert cells(whole, ORANGE) == 0


def test_its_arguments_stay_as_they_are() -> None:
    weight, mask, activation, target = drawn(2, 2, 0)
    before = [tensor.clone() for tensor in (weight, mask, activation, target)]
    mask_flow(weight, mask, activation, target)
    assert all(
        torch.equal(a, b) for a, b in zip(before, (weight, mask, activation, target), strict=True)
    )
    assert not weight.requires_grad and weight.grad is None
