"""Drawings show the data they are given: what stands in them is what the encodings and the
forecasts say.
"""

from __future__ import annotations

import pytest
import torch

from course_lib.cost.encodings import csr_encode, rle_encode
from course_lib.pruning.weights import loss_change
from course_lib.show import drawings
from course_lib.show.drawings.forecasts import BEND, BEST, W
from course_lib.show.output import alt_of
from unit.show.drawings.figure_texts import written


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_of_runs_is_the_code(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(1, 9, (12,), generator=generator).float() * (
        torch.rand(12, generator=generator) < 0.3
    )
    fig = drawings.rle_stream(x)
    runs, values, _ = rle_encode(x, 2)
    for run, value in zip(runs.tolist(), values.tolist(), strict=True):
        assert f"({run}, {value:g})" in alt_of(fig)
    assert any(f"{int((values == 0).sum())} filler" in text for text in written(fig))
    zeros = int((x == 0).sum())
    assert written(fig).count("0") >= zeros, "of the row, and runs and fillers of 0"


def test_arrays_are_the_code() -> None:
    x = torch.tensor([[0, 5, 0], [7, 0, 9], [0, 0, 0.0]])
    text = alt_of(drawings.csr_arrays(x))
    assert all(str(part.tolist()) in text for part in csr_encode(x))
    assert "row 1 is entries 1 to 2" in text
    text = alt_of(drawings.stored_row(torch.tensor([0, 3.0, 0, 0, 0, 0, 0])))
    assert "Bitmap: 0100000 and the values 3." in text
    assert "Run lengths: 1, 3, 0 zeros before the values 3, 0, 0." in text


def test_a_convolution_and_skipped_layers() -> None:
    assert "one of M outputs\n3 × 3" in written(drawings.convolution())
    fig = drawings.layers_skipped()
    assert written(fig).count("layer 1") == 2 and written(fig).count("layer 0") == 2
    assert "half, for use: 0, 2" in alt_of(fig)


def test_the_forecasts_are_the_librarys() -> None:
    def loss(at):
        return (at - BEST) ** 2 + BEND * (at - BEST) ** 4 / 2

    at = torch.tensor(W, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(loss(at), at, create_graph=True)
    (h,) = torch.autograd.grad(g, at)
    here, g = float(loss(at.detach())), g.detach()
    forecasts = [here + float(loss_change(at.detach(), g, curve)) for curve in (h, None)]
    fig = drawings.forecast_step()
    drawn = [mark.get_ydata()[0] for mark in fig.axes[0].lines if len(mark.get_xdata()) == 1]
    assert drawn == pytest.approx([here, float(loss(torch.tensor(0.0))), *forecasts])
    assert f"makes it {drawn[1]:.2f}".rstrip("0") in alt_of(fig)
    assert "−gw + ½hw²" in written(fig)
