"""The page of notation says what scipy computes."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from scipy import stats

PAGE = (Path(__file__).parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")


def power(delta: float, seeds: int) -> float:
    """How often the paired 95 % interval excludes 0, for a true difference of ``delta``
    standard deviations.
    """
    quantile = stats.t.ppf(0.975, seeds - 1)
    shift = delta * seeds**0.5
    return float(
        stats.nct.sf(quantile, seeds - 1, shift) + stats.nct.cdf(-quantile, seeds - 1, shift)
    )


@pytest.mark.parametrize("row", re.findall(r"^\| (\d) \|(.*)\|$", PAGE, re.MULTILINE))
def test_the_chances_to_detect_a_difference(row: tuple[str, str]) -> None:
    delta, cells = int(row[0]), [cell.strip() for cell in row[1].split("|")]
    for seeds, cell in zip((3, 5, 10), cells, strict=True):
        if cell.startswith(">"):
            # power grows with delta; for the largest shifts scipy's cdf is nan
            smaller = (power(d, seeds) for d in range(1, delta + 1))
            assert max(p for p in smaller if not math.isnan(p)) > 0.99
        else:
            assert cell == f"{100 * power(delta, seeds):.0f} %"


def test_the_quantiles() -> None:
    for freedom, shown in re.findall(r"t_(\d) = ([\d.]+)", PAGE):
        assert shown == f"{stats.t.ppf(0.975, int(freedom)):.2f}"
    assert f"{stats.t.ppf(0.975, 2) / 3**0.5:.2f}" == "2.48" and "2.48" in PAGE
