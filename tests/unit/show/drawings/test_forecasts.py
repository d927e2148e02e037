"""The forecasts that are drawn are those of the library."""

import pytest
import torch

from course_lib.pruning.weights import loss_change
from course_lib.show.drawings.forecasts import BEND, BEST, W, forecast_step
from course_lib.show.output import alt_of
from unit.show.drawings.figure_texts import written


def test_the_forecasts_are_the_librarys():
    def loss(at):
        return (at - BEST) ** 2 + BEND * (at - BEST) ** 4 / 2

    at = torch.tensor(W, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(loss(at), at, create_graph=True)
    (h,) = torch.autograd.grad(g, at)
    here, g = float(loss(at.detach())), g.detach()
    forecasts = [here + float(loss_change(at.detach(), g, curve)) for curve in (h, None)]
    fig = forecast_step()
    drawn = [mark.get_ydata()[0] for mark in fig.axes[0].lines if len(mark.get_xdata()) == 1]
    assert drawn == pytest.approx([here, float(loss(torch.tensor(0.0))), *forecasts])
    assert f"makes it {drawn[1]:.2f}".rstrip("0") in alt_of(fig)
    assert "−gw + ½hw²" in written(fig)
