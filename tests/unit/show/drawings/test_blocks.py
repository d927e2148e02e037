"""Blocks are drawn as the library prunes, stores and multiplies them."""

from __future__ import annotations

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.cost.block_formats import joint_products, nm_bits, nm_compress
from course_lib.pruning.weights import nm_mask
from course_lib.show.drawings.blocks import joint_blocks, nm_blocks
from course_lib.show.drawings.canvas import format_tensor
from course_lib.show.output import alt_of
from course_lib.show.style import ORANGE, SKY
from unit.show.drawings.figure_texts import written


def cells(fig: Figure, colour: str) -> int:
    return sum(to_hex(patch.get_facecolor()).upper() == colour for patch in fig.findobj(Rectangle))


def whole(*shape: int, seed: int) -> torch.Tensor:
    return torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(seed)).float()


@pytest.mark.parametrize(
    ("n", "m", "seed"), [(1, 4, 0), (2, 4, 1), (3, 4, 2), (2, 6, 3), (4, 4, 4)]
)
def test_what_is_marked_is_what_is_stored(n: int, m: int, seed: int) -> None:
    weight = whole(3, 12, seed=seed)
    before = weight.clone()
    fig = nm_blocks(weight, n, m)
    kept = nm_mask(weight, n, m, 1)
    values, index = nm_compress(weight * kept, n, m)
    assert cells(fig, SKY) == int(kept.sum()) + values.numel(), "in the matrix, and among values"
    assert (
        f"values {format_tensor(values)} and places in their blocks {format_tensor(index)}"
        in alt_of(fig)
    )
    assert alt_of(fig).endswith(f"= {nm_bits(3, 12, n, m, 32):,}.")
    assert torch.equal(weight, before)


def test_a_block_with_fewer_non_zeros_shows_the_zero_that_fills_it() -> None:
    fig = nm_blocks(torch.tensor([[0.0, 0, 7, 0]]), 2, 4)
    assert "values [0, 7] and places in their blocks [0, 2]" in alt_of(fig)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n_x", "n_w"), [(2, 2), (1, 3), (3, 2)])
def test_products_are_counted_exactly_and_within_the_bounds(n_x: int, n_w: int, seed: int) -> None:
    x, weight = whole(12, seed=seed), whole(12, seed=100 + seed)
    fig = joint_blocks(x, weight, n_x, n_w, 4)
    pruned_x = x * nm_mask(x, n_x, 4, 0)
    left = joint_products(pruned_x, (weight * nm_mask(weight, n_w, 4, 0))[None])
    assert cells(fig, ORANGE) == left
    assert f"{left} of 12" in written(fig)
    by_block = [int(text.split()[0]) for text in written(fig) if text.endswith(" left")]
    assert sum(by_block) == left and max(by_block) <= min(n_x, n_w)
    assert f"at most min({n_x}, {n_w}) = {min(n_x, n_w)} a block" in alt_of(fig)
    assert ("at least" in alt_of(fig)) == (n_x + n_w > 4)
