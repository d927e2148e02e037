"""Hard concrete gates against drawing many, and the multipliers of a target."""

import math

import pytest
import torch

from course_lib.pruning.components import (
    HardConcrete,
    Lagrangian,
    dual_step,
    hard_concrete,
    lagrangian,
    open_probability,
)


@pytest.mark.parametrize("constants", [(2 / 3, -0.1, 1.1), (0.4, -0.3, 1.4)])
@pytest.mark.parametrize("log_alpha", [-3.0, 0.0, 2.0])
def test_how_often_a_gate_is_open(log_alpha, constants):
    alpha = torch.full((200_000,), log_alpha, dtype=torch.float64)
    g = torch.Generator().manual_seed(0)
    z = hard_concrete(alpha, torch.rand(alpha.shape, generator=g, dtype=alpha.dtype), *constants)
    said = float(open_probability(alpha[0], *constants))
    assert float((z > 0).double().mean()) == pytest.approx(said, abs=0.005)
    assert bool(((z >= 0) & (z <= 1)).all()) and float((z == 1).double().mean()) > 0


def test_it_is_the_formula():
    u, a = torch.tensor([0.3]), torch.tensor([0.4])
    s = 1 / (1 + math.exp(-(math.log(0.3) - math.log(0.7) + 0.4) / (2 / 3)))
    assert hard_concrete(a, u).item() == pytest.approx(min(1, max(0, s * 1.2 - 0.1)))
    assert hard_concrete(a).item() == pytest.approx(1.2 / (1 + math.exp(-0.4)) - 0.1)


def test_sampled_while_training_fixed_in_evaluation():
    gates = HardConcrete(1000, start=0.0)
    torch.manual_seed(0)
    assert not torch.equal(gates(), gates())
    gates().sum().backward()
    assert gates.log_alpha.grad.abs().sum() > 0
    assert torch.equal(gates.eval()(), gates())
    assert torch.equal(gates.open_probability(), open_probability(gates.log_alpha))


def test_multipliers_climb():
    assert dual_step(0.7, 0.5, 0.1, 0.2, 0.5) == pytest.approx((0.2, 0.22))
    # too small: pulled back
    assert dual_step(0.3, 0.5, 0.0, 0.0, 1.0) == pytest.approx((-0.2, 0.04))
    size = torch.tensor(0.7, requires_grad=True)
    value = lagrangian(size, 0.5, 0.3, 2.0)
    value.backward()
    assert value.item() == pytest.approx(
        0.3 * 0.2 + 2 * 0.04
    ) and size.grad.item() == pytest.approx(0.3 + 4 * 0.2)
    to_target = Lagrangian(0.5, lr=1.0)
    assert to_target(size.detach()).item() == 0 and to_target.lam1 == pytest.approx(0.2)
