"""Packed columns are drawn as the library combines them, conflicts crossed out."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure

from course_lib.pruning.weights import combine_columns, group_columns
from course_lib.show.drawings.blocks import columns_packed
from course_lib.show.output import alt_of
from unit.show.drawings.figure_texts import written


def sparse(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(1, 10, (6, 8), generator=generator).float()
    return values * (torch.rand(6, 8, generator=generator) < 0.3)


def strokes(fig: Figure) -> int:
    return sum(line.get_color() == "white" for line in fig.axes[0].lines)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gamma", [0.0, 0.2, 1.0])
def test_cells_losses_and_channels_are_those_of_the_library(seed: int, gamma: float) -> None:
    weight = sparse(seed)
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
    weight = torch.tensor([[1.0, 0, 2], [0, 3, 4]])
    texts = written(columns_packed(weight, [[0, 1]]))
    assert texts.count("A") == 4, "below two columns, and below both arrays"
    assert "B" not in texts
