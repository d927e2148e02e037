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


def test_a_threshold_for_each_entry_and_the_dtype():
    w = torch.tensor([-2.0, -0.5, 0.25, 3.0], dtype=torch.bfloat16)
    found = weights.soft_threshold(w, torch.tensor([1.0, 0.5, 1.0, 0.0]))
    assert found.dtype == torch.bfloat16 and found.tolist() == [-1.0, 0.0, 0.0, 3.0]


def test_reweighted():
    torch.testing.assert_close(
        weights.reweighted(torch.tensor([-0.4, 0.0]), 0.5, 0.1), torch.tensor([1.0, 5.0])
    )


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_behind_any_optimizer_a_step_is_followed_by_the_threshold(make):
    model, twin = nn.Linear(3, 2), nn.Linear(3, 2)
    twin.load_state_dict(model.state_dict())
    proximal = weights.Proximal([model.weight], 0.5)
    optimizer, plain = (
        proximal.attach(make(model.parameters(), lr=0.1)),
        make(twin.parameters(), lr=0.1),
    )
    x = torch.randn(5, 3)
    for net, step in ((model, optimizer), (twin, plain)):
        net(x).square().sum().backward()
        step.step()
    torch.testing.assert_close(
        model.weight, weights.soft_threshold(twin.weight, 0.05).detach().requires_grad_()
    )
    assert torch.equal(model.bias, twin.bias)


def test_the_rate_is_that_of_the_group_at_the_time_and_penalties_can_be_reweighted():
    w = nn.Parameter(torch.tensor([2.0, 0.05]))
    w.grad = torch.zeros(2)
    proximal = weights.Proximal([w], 1.0)
    optimizer = proximal.attach(torch.optim.SGD([w], lr=0.01))
    optimizer.param_groups[0]["lr"] = 0.02
    optimizer.step()
    torch.testing.assert_close(w.detach(), torch.tensor([1.98, 0.03]))
    proximal.reweight(eps=0.02, lam=0.05)  # penalties 0.025 and 1
    optimizer.step()
    torch.testing.assert_close(w.detach(), torch.tensor([1.9795, 0.01]))
