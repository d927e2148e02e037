"""Rounds of pruning are drawn as they happen: shares from the arguments, survivors
rewound or kept, nothing revived.
"""

from __future__ import annotations

import pytest
import torch
from matplotlib.patches import Rectangle

from course_lib.show.drawings.tickets import pruned_rounds, pruning_rounds
from course_lib.show.output import alt_of
from unit.show.drawings.figure_texts import written


@pytest.mark.parametrize(("rounds", "rate", "counts"), [(3, 0.2, [19, 15, 12]), (2, 0.5, [12, 6])])
def test_the_shares_and_the_cells_follow_from_the_arguments(
    rounds: int, rate: float, counts: list[int]
) -> None:
    fig = pruning_rounds(rounds, rate)  # 4 × 6 weights
    shares = [f"{100 * (1 - rate) ** t:.0f}" for t in range(1, rounds + 1)]
    ends = [text for text in written(fig) if text.endswith(" %") and "−" not in text]
    assert [text.rpartition(" = ")[2] for text in ends] == [f"{share} %" for share in shares]
    assert (
        f"{', '.join(shares)} per cent by formula, {', '.join(map(str, counts))} weights here"
        in alt_of(fig)
    )
    cells = sum(
        isinstance(patch, Rectangle) and patch.get_width() == 1 for patch in fig.axes[0].patches
    )
    assert (
        cells
        == sum(2 * before + after for before, after in zip([24, *counts], counts, strict=False))
        + counts[-1]
    ), "start and trained have the cells of the round, pruned and the ticket those that are left"


@pytest.mark.parametrize("step", [0, 5])
def test_what_stays_is_rewound_and_the_masks_are_nested(step: int) -> None:
    w_0, rounds = pruned_rounds(3, 0.3, rewind_to=step)
    first = rounds[0].start
    assert torch.equal(first, w_0) == (step == 0), "w_k is w_0 trained for k steps"
    for before, after in zip(rounds, rounds[1:], strict=False):
        assert torch.equal(after.start, first * before.left) and torch.equal(
            after.mask, before.left
        )
        assert not (after.left & ~before.left).any(), "a pruned weight came back"
        smallest = before.trained.abs()[before.left].min()
        assert (before.trained.abs()[before.mask & ~before.left] <= smallest).all()


def test_without_rewinding_the_trained_values_go_on() -> None:
    _, rounds = pruned_rounds(2, 0.25, rewind=False)
    assert torch.equal(rounds[1].start, rounds[0].trained * rounds[0].left)
    with_arrow, without = pruning_rounds(2), pruning_rounds(2, rewind=False)
    assert written(with_arrow).count("rewind") == 2 and "rewind" not in written(without)
    assert written(without).count("keep") == 2 and "without rewinding" in alt_of(without)


def test_the_step_to_go_back_to_is_named() -> None:
    fig = pruning_rounds(2, rewind_to=7)
    assert "7 steps" in written(fig) and "$m_1 \\odot w_{7}$" in written(fig)
    assert "values at step 7" in alt_of(fig)
    assert not any("steps" in text for text in written(pruning_rounds(2)))
