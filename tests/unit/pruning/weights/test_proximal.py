"""The proximal operator against its definition; the step after any optimizer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.pruning import weights


@given(st.floats(-5, 5, width=32), st.floats(0, 3, width=32))
def test_it_minimises(w, t):
    found = float(weights.soft_threshold(torch.tensor(w, dtype=torch.float64), t))
    grid = torch.linspace(-5, 5, 20001, dtype=torch.float64)

    def cost(v):
        return 0.5 * (v - w) ** 2 + t * abs(v)

    assert cost(found) <= float(cost(grid).min()) + 1e-12
    assert abs(w) > t or found == 0


def test_thresholds_and_penalties_for_each_entry():
    w = torch.tensor([-2.0, -0.5, 0.25, 3.0], dtype=torch.bfloat16)
    found = weights.soft_threshold(w, torch.tensor([1.0, 0.5, 1.0, 0.0]))
    assert found.dtype == torch.bfloat16 and found.tolist() == [-1.0, 0.0, 0.0, 3.0]
    penalties = weights.reweighted(torch.tensor([-0.4, 0.0]), 0.5, 0.1)
    torch.testing.assert_close(penalties, torch.tensor([1.0, 5.0]))


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_behind_any_optimizer_a_step_is_followed_by_the_threshold_at_its_groups_rate(make):
    model, twin = nn.Linear(3, 2), nn.Linear(3, 2)
    twin.load_state_dict(model.state_dict())
    proximal = weights.Proximal([model.weight], 0.5)
    optimizer = proximal.attach(make(model.parameters(), lr=0.01))
    plain, x = make(twin.parameters(), lr=0.1), torch.randn(5, 3)
    optimizer.param_groups[0]["lr"] = 0.1
    penalty = 0.5
    for _ in range(2):
        for net, step in ((model, optimizer), (twin, plain)):
            net.zero_grad()
            net(x).square().sum().backward()
            step.step()
        with torch.no_grad():
            twin.weight.copy_(weights.soft_threshold(twin.weight, 0.1 * penalty))
        torch.testing.assert_close(model.weight, twin.weight)
        assert torch.equal(model.bias, twin.bias)
        proximal.reweight(eps=0.02, lam=0.05)
        penalty = weights.reweighted(twin.weight, 0.05, 0.02)
