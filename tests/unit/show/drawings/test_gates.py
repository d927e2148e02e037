"""The gate that is drawn is the library's: the same mass at 0 and at 1, and none lost by
stretching or cutting.
"""

from __future__ import annotations

import pytest
import torch

from course_lib.pruning.components import hard_concrete, open_probability
from course_lib.show.drawings.heads import stretched_and_cut
from course_lib.show.output import alt_of
from unit.show.drawings.figure_texts import written


def heights(fig, panel: int) -> dict[float, float]:
    """The middle of each bar, and its height; bars of one place together."""
    found: dict[float, float] = {}
    for bar in fig.axes[panel].patches:
        middle = round(bar.get_x() + bar.get_width() / 2, 6)
        found[middle] = found.get(middle, 0.0) + bar.get_height()
    return found


@pytest.mark.parametrize("log_alpha", [-3.0, 0.0, 1.0, 2.5])
def test_the_mass_at_the_ends_is_exact(log_alpha: float) -> None:
    fig = stretched_and_cut(log_alpha)
    cut = heights(fig, 2)
    closed = 1 - float(open_probability(torch.tensor(log_alpha, dtype=torch.float64)))
    assert cut[0.0] == pytest.approx(closed, abs=1e-9)
    generator = torch.Generator().manual_seed(0)
    u = torch.rand(100_000, generator=generator).clamp(1e-6, 1 - 1e-6)
    drawn = hard_concrete(torch.full_like(u, log_alpha), u)
    assert cut[1.0] == pytest.approx(float((drawn == 1).double().mean()), abs=0.01)
    assert f"{100 * closed:.0f} % of the draws are exactly 0" in alt_of(fig)
    assert f"{100 * closed:.0f} %" in written(fig)


def test_all_three_pictures_show_the_same_draws() -> None:
    fig = stretched_and_cut(0.5)
    for panel in range(3):
        assert sum(heights(fig, panel).values()) == pytest.approx(1)
    stretched = heights(fig, 1)
    assert min(stretched) < 0 and max(stretched) > 1
    assert sum(height for at, height in stretched.items() if at < 0) == pytest.approx(
        heights(fig, 2)[0.0]
    )
