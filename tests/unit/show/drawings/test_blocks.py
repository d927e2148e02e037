"""Blocks and columns are drawn as the library prunes, stores, multiplies and combines
them.
"""

from __future__ import annotations

import pytest
import torch

from course_lib.cost.block_formats import joint_products, nm_bits, nm_compress
from course_lib.pruning.weights import combine_columns, group_columns, nm_mask
from course_lib.show.drawings.blocks import columns_packed, joint_blocks, nm_blocks
from course_lib.show.drawings.canvas import format_tensor
from course_lib.show.output import alt_of
from course_lib.show.style import ORANGE, SKY
from unit.show.drawings.figure_texts import cells, strokes, written


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
    stored = f"values {format_tensor(values)} and places in their blocks {format_tensor(index)}"
    assert stored in alt_of(fig)
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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gamma", [0.0, 0.2, 1.0])
def test_packed_cells_losses_and_channels_are_those_of_the_library(seed: int, gamma: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(1, 10, (6, 8), generator=generator).float()
    weight = values * (torch.rand(6, 8, generator=generator) < 0.3)
    before = weight.clone()
    groups = group_columns(weight, 4, gamma)[:4]
    fig = columns_packed(weight, groups)
    packed, channel, kept = combine_columns(weight, groups)
    listed = [column for group in groups for column in group]
    lost = int((weight[:, listed] != 0).sum() - kept.sum())
    assert strokes(fig) == 2 * lost, "two strokes for each weight that loses its cell"
    assert f"weights that lose their cell: {lost};" in alt_of(fig)
    assert f"{int(kept.sum())} of {packed.numel()} cells" in alt_of(fig)
    assert lost == 0 or gamma > 0
    texts = written(fig)
    numbers = [*weight[weight != 0].tolist(), *packed[packed != 0].tolist()]
    for number in set(numbers):
        wanted = numbers.count(number) + int((channel == number).sum()) + (number < 8)
        assert texts.count(f"{number:g}") == wanted, "in the matrix, packed, and among channels"
    assert torch.equal(weight, before)


def test_a_column_in_no_group_is_left_white_and_has_no_letter() -> None:
    texts = written(columns_packed(torch.tensor([[1.0, 0, 2], [0, 3, 4]]), [[0, 1]]))
    assert texts.count("A") == 4, "below two columns, and below both arrays"
    assert "B" not in texts
