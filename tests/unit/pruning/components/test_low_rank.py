"""Components that leave: factorising, gates, compacting, files."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from course_lib.pruning import components
from course_lib.pruning.components import low_rank
from course_lib.pruning.heads import load_pruned, save_pruned
from course_lib.pruning.weights import encoder_weights
from unit.small_transformers import inputs_of, model_of


@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (6, 6)])
@pytest.mark.parametrize("rank", [1, 3, 5])
def test_the_best_of_its_rank(shape, rank):
    w = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    p, q = components.factorise(w, rank)
    assert p.shape == (shape[0], rank) and q.shape == (rank, shape[1])
    assert torch.allclose(p.T @ p, q @ q.T, atol=1e-5)
    left = torch.linalg.svdvals(w)[rank:].square().sum().sqrt()
    assert torch.allclose(torch.linalg.matrix_norm(w - p @ q), left, atol=1e-5)


def test_compact_is_the_same_product():
    p, q, z = torch.randn(4, 5), torch.randn(5, 3), torch.tensor([0.0, 0.3, 1.0, 0.0, 0.7])
    small_p, small_q = components.compact(p, z, q)
    assert small_p.shape == (4, 3) and torch.allclose(
        small_p @ small_q, p @ z.diag() @ q, atol=1e-6
    )
    none_p, none_q = components.compact(p, torch.zeros(5), q)
    assert none_p.shape == (4, 0) and none_q.shape == (0, 3)


def test_size_left():
    p_open = [torch.tensor([1.0, 0.5], requires_grad=True), torch.tensor([1.0, 1.0, 1.0])]
    size = components.size_left(p_open, [(4, 2), (3, 3)])
    assert float(size.detach()) == pytest.approx((1.5 * 6 + 3 * 6) / 17)
    size.backward()
    assert torch.allclose(p_open[0].grad, torch.full((2,), 6 / 17))


def test_a_gated_model_begins_as_it_was_and_compacts_to_plain_layers():
    model, inputs = model_of("bert").eval(), inputs_of("bert")
    names = list(encoder_weights(model))
    gated = components.gate_components(model, names).eval()
    assert set(low_rank.gated_layers(gated)) == {name.removesuffix(".weight") for name in names}
    assert torch.allclose(gated(**inputs).logits, model(**inputs).logits, atol=1e-4)  # all gates 1
    generator = torch.Generator().manual_seed(0)
    for layer in low_rank.gated_layers(gated).values():
        with torch.no_grad():
            layer.gates.log_alpha.copy_(
                5 * torch.randn(layer.gates.log_alpha.shape, generator=generator) - 2
            )
    first = next(iter(low_rank.gated_layers(gated).values()))
    with torch.no_grad():
        first.gates.log_alpha.fill_(-9)  # nothing of it is left
    before = gated(**inputs).logits
    small = components.compact_components(gated)
    assert not low_rank.gated_layers(small)
    assert torch.allclose(small(**inputs).logits, before, atol=1e-4)
    ranks = [m[0].out_features for m in small.modules() if isinstance(m, components.LowRank)]
    assert 0 in ranks and len(ranks) > 5
    assert small.num_parameters() < model.num_parameters()


def test_gates_train_to_a_target():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 12))
    gated = components.gate_components(model, ["0.weight", "2.weight"])
    to_target = components.Lagrangian(0.5, lr=0.5)
    gates = [layer.gates.log_alpha for layer in low_rank.gated_layers(gated).values()]
    optimizer = torch.optim.Adam([{"params": gates, "lr": 0.1}])
    for _ in range(300):
        optimizer.zero_grad()
        to_target(components.expected_size(gated)).backward()
        optimizer.step()
    assert float(components.expected_size(gated).detach()) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("family", ["bert", "distilbert", "vit", "t5"])
def test_truncated_saved_and_loaded(family, tmp_path):
    model, inputs = model_of(family).eval(), inputs_of(family)
    ranks = {name: i % 5 for i, name in enumerate(encoder_weights(model))}
    state = copy.deepcopy(model.state_dict())
    small = components.truncate(model, ranks).eval()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    save_pruned(small, tmp_path)
    again = load_pruned(tmp_path)
    assert torch.allclose(again(**inputs)[0], small(**inputs)[0], atol=1e-12) and not again.training


@pytest.mark.parametrize(
    "change",
    [
        lambda model: components.truncate(model, {"0.weight": 2}),
        lambda model: components.gate_components(model, ["0.weight"]),
    ],
    ids=["truncate", "gate_components"],
)
def test_a_model_under_torchs_pruning_is_refused_with_the_remedy(change):
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3))
    prune.random_unstructured(model[1], "weight", 0.5)
    with pytest.raises(ValueError, match=r"'1' of model.*call prune\.remove\("):
        change(model)
    prune.remove(model[1], "weight")
    change(model)
