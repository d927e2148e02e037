"""Components that leave: factorising, gates against drawing many, multipliers, compacting."""

import math

import pytest
import torch

from course_lib.pruning import components
from course_lib.pruning.components import gated_layers, hard_concrete, open_probability
from course_lib.pruning.weights import encoder_weights
from unit.small_transformers import inputs_of, model_of, outputs


@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (6, 6)])
@pytest.mark.parametrize("rank", [1, 3, 5])
def test_the_best_of_its_rank(shape, rank):
    w = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    p, q = components.factorise(w, rank)
    assert p.shape == (shape[0], rank) and q.shape == (rank, shape[1])
    assert torch.allclose(p.T @ p, q @ q.T, atol=1e-5)
    left = torch.linalg.svdvals(w)[rank:].square().sum().sqrt()
    assert torch.allclose(torch.linalg.matrix_norm(w - p @ q), left, atol=1e-5)


def test_compact_is_the_same_product_and_its_size_the_share_of_the_dense():
    p, q = torch.randn(4, 5), torch.randn(5, 3)
    for z in (torch.tensor([0.0, 0.3, 1.0, 0.0, 0.7]), torch.zeros(5)):
        small_p, small_q = components.compact(p, z, q)
        assert small_p.shape == (4, int((z > 0).sum())) and len(small_q) == small_p.shape[1]
        assert torch.allclose(small_p @ small_q, p @ z.diag() @ q, atol=1e-6)
    p_open = [torch.tensor([1.0, 0.5], requires_grad=True), torch.tensor([1.0, 1.0, 1.0])]
    size = components.size_left(p_open, [(4, 2), (3, 3)])
    assert float(size.detach()) == pytest.approx((1.5 * 6 + 3 * 6) / 17)
    size.backward()
    assert torch.allclose(p_open[0].grad, torch.full((2,), 6 / 17))


@pytest.mark.parametrize("constants", [(2 / 3, -0.1, 1.1), (0.4, -0.3, 1.4)])
@pytest.mark.parametrize("log_alpha", [-3.0, 0.0, 2.0])
def test_how_often_a_gate_is_open(log_alpha, constants):
    alpha = torch.full((200_000,), log_alpha, dtype=torch.float64)
    g = torch.Generator().manual_seed(0)
    u = torch.rand(alpha.shape, generator=g, dtype=alpha.dtype)
    z = hard_concrete(alpha, u, *constants)
    said = float(open_probability(alpha[0], *constants))
    assert float((z > 0).double().mean()) == pytest.approx(said, abs=0.005)
    assert bool(((z >= 0) & (z <= 1)).all()) and float((z == 1).double().mean()) > 0
    beta, gamma, zeta = constants
    s = 1 / (1 + math.exp(-(math.log(float(u[0] / (1 - u[0]))) + log_alpha) / beta))
    assert float(z[0]) == pytest.approx(min(1, max(0, s * (zeta - gamma) + gamma)))
    fixed = (zeta - gamma) / (1 + math.exp(-log_alpha)) + gamma
    assert float(hard_concrete(alpha[0], None, *constants)) == pytest.approx(min(1, max(0, fixed)))


def test_gates_are_sampled_while_training_and_fixed_in_evaluation():
    gates = components.HardConcrete(1000, start=0.0)
    assert not torch.equal(gates(), gates())
    gates().sum().backward()
    assert gates.log_alpha.grad.abs().sum() > 0
    assert torch.equal(gates.eval()(), gates())


def test_multipliers_climb():
    assert components.dual_step(0.7, 0.5, 0.1, 0.2, 0.5) == pytest.approx((0.2, 0.22))
    # too small: pulled back
    assert components.dual_step(0.3, 0.5, 0.0, 0.0, 1.0) == pytest.approx((-0.2, 0.04))
    size = torch.tensor(0.7, requires_grad=True)
    value = components.lagrangian(size, 0.5, 0.3, 2.0)
    value.backward()
    assert value.item() == pytest.approx(0.3 * 0.2 + 2 * 0.04)
    assert size.grad.item() == pytest.approx(0.3 + 4 * 0.2)
    to_target = components.Lagrangian(0.5, lr=1.0)
    assert to_target(size.detach()).item() == 0 and to_target.lam1 == pytest.approx(0.2)


def test_a_gated_model_begins_as_it_was_and_compacts_to_plain_layers():
    model, inputs = model_of("bert"), inputs_of("bert")
    names = list(encoder_weights(model))
    gated = components.gate_components(model, names).eval()
    layers = gated_layers(gated)
    assert set(layers) == {name.removesuffix(".weight") for name in names}
    assert torch.allclose(outputs(gated, inputs), outputs(model, inputs), atol=1e-4)  # all gates 1
    full = float(components.expected_size(gated).detach())
    generator = torch.Generator().manual_seed(0)
    for layer in layers.values():
        drawn = torch.randn(layer.gates.log_alpha.shape, generator=generator)
        layer.gates.log_alpha.data = 5 * drawn - 2
    layers["bert.encoder.layer.0.output.dense"].gates.log_alpha.data.fill_(-9)  # nothing is left
    small = components.compact_components(gated)
    assert not gated_layers(small)
    assert torch.allclose(outputs(small, inputs), outputs(gated, inputs), atol=1e-4)
    ranks = [m[0].out_features for m in small.modules() if isinstance(m, components.LowRank)]
    assert 0 in ranks and len(ranks) > 5
    assert small.num_parameters() < model.num_parameters()
    assert float(components.expected_size(gated).detach()) < full / 2
