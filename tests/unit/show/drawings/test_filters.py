"""What goes with a filter is what the drawing marks and counts: the same numbers as the
library's own removal.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course_lib.cost import model_cost, totals
from course_lib.pruning.channels import slice_pair
from course_lib.show.drawings.filters import filter_cascade, residual_agreement
from course_lib.show.output import alt_of
from course_lib.show.style import ORANGE, SKY
from unit.show.drawings.figure_texts import cells, written


@pytest.mark.parametrize(
    ("filters", "channels", "behind", "removed"), [(5, 3, 4, (1,)), (6, 2, 3, (0, 5))]
)
def test_the_counts_are_those_of_a_removal(
    filters: int, channels: int, behind: int, removed: tuple[int, ...]
) -> None:
    def cost(conv: nn.Module, bn: nn.Module, following: nn.Module) -> tuple[int, int]:
        model = nn.Sequential(conv, bn, following)
        macs = totals(model_cost(model, torch.zeros(1, channels, 8, 8)))["macs"]
        return sum(p.numel() for p in model.parameters()), macs

    layers = (
        nn.Conv2d(channels, filters, 3, padding=1, bias=False),
        nn.BatchNorm2d(filters),
        nn.Conv2d(filters, behind, 3, padding=1, bias=False),
    )
    kept = [m for m in range(filters) if m not in removed]
    before, after = cost(*layers), cost(*slice_pair(*layers, kept))  # type: ignore[arg-type]
    said = alt_of(filter_cascade(filters, channels, behind, removed))
    assert f"{before[0] - after[0]:,} parameters of {before[0]:,}" in said
    assert f"{before[1] - after[1]:,} MACs of {before[1]:,}" in said


def test_rows_entries_maps_and_columns_are_marked() -> None:
    fig = filter_cascade(5, 3, 4, removed=(1, 3))
    assert cells(fig, ORANGE) == written(fig).count("×") == 2 * (3 + 4 + 1 + 4), (
        "row, four vectors, map, next column"
    )
    assert (
        "−54 weights" in written(fig) and "−8 entries" in written(fig) and "−2 of 5" in written(fig)
    )
    assert "Filters 2, 4 out" in alt_of(fig)


def test_a_stream_is_cut_in_four_layers_and_an_inner_channel_in_two() -> None:
    fig = residual_agreement(4, 3, removed=(1,), inner_removed=(0, 2))
    orange = 2 + 1 + 3 + 3 + 2
    assert cells(fig, ORANGE) == orange, "rows of conv 0 and 2, columns of conv 1 and 3, streams"
    assert cells(fig, SKY) == 2 * 4 + 2 * 3, "rows of conv 1, columns of conv 2"
    assert "inner channels 1, 3" in alt_of(fig) and "stream channel 2" in alt_of(fig)
