"""What the loss says of a weight: against finite differences, a plain loop over
samples, and the Hessian itself.
"""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, hessian
from torch.nn import functional as F

from course_lib.models import SmallConvNet
from course_lib.pruning import weights
from course_lib.pruning.weights import criteria


def net(bend=nn.ReLU, double=True):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = nn.Sequential(nn.Linear(4, 6), bend(), nn.Dropout(0.5), nn.Linear(6, 3))
    return made.double() if double else made


def data(count=11, features=4, classes=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, features, generator=generator, dtype=dtype), torch.randint(
        classes, (count,), generator=generator
    )


def loop(model, x, y):
    """The empirical Fisher, a backward pass a sample."""
    model = copy.deepcopy(model).eval().requires_grad_()
    total = {
        name: torch.zeros(p.shape, dtype=torch.float64) for name, p in model.named_parameters()
    }
    for sample, label in zip(x, y, strict=True):
        model.zero_grad()
        F.cross_entropy(model(sample[None]), label[None]).backward()
        for name, p in model.named_parameters():
            total[name] += p.grad.double() ** 2 / len(x)
    return total


def full_hessian(model, x, y):
    """Its diagonal, from all second derivatives, in evaluation mode."""
    model = copy.deepcopy(model).eval()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    second = hessian(lambda p: F.cross_entropy(functional_call(model, p, (x,)), y))(parameters)
    return {
        name: second[name][name].reshape(p.numel(), p.numel()).diagonal().reshape(p.shape)
        for name, p in parameters.items()
    }


def test_the_forecast_is_what_happens_to_a_parabola():
    w, minimum, h = (
        torch.randn(7, generator=torch.Generator().manual_seed(i)).double() for i in range(3)
    )
    gradient = h * (w - minimum)
    change = h * minimum**2 / 2 - h * (w - minimum) ** 2 / 2
    torch.testing.assert_close(weights.loss_change(w, gradient, h), change)


def test_the_forecast_has_the_weights_dtype_and_no_graph():
    w = nn.Parameter(torch.ones(2))
    change = weights.loss_change(w, torch.ones(2), torch.ones(2, dtype=torch.float64))
    assert change.dtype == torch.float32 and not change.requires_grad


def test_gradients_are_those_of_the_mean_loss_in_evaluation_mode():
    model, (x, y) = net(), data()
    found = weights.gradients(model, x, y, batch=4)
    model.eval()
    F.cross_entropy(model(x), y).backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(found[name], p.grad)


def test_taylor_is_the_size_of_the_first_term():
    model, (x, y) = net(), data()
    scores, found = weights.taylor(model, x, y), weights.gradients(model, x, y)
    assert list(scores) == ["0.weight", "3.weight"]
    for name, score in scores.items():
        torch.testing.assert_close(score, (found[name] * model.get_parameter(name)).abs().detach())


@pytest.mark.parametrize(
    "memory", [1, 1 << 12, 1 << 27], ids=["one by one", "in chunks", "at once"]
)
@pytest.mark.parametrize("bend", [nn.ReLU, nn.Tanh])
def test_fisher_beside_a_loop(monkeypatch, memory, bend):
    monkeypatch.setattr(criteria, "_MEMORY", memory)
    model, (x, y) = net(bend), data()
    model[0].weight.requires_grad_(False)
    found = weights.empirical_fisher(model, x, y)
    for name, right in loop(model, x, y).items():
        assert found[name].dtype == torch.float64
        torch.testing.assert_close(found[name], right)


@pytest.mark.parametrize("memory", [1, 1 << 27], ids=["one by one", "at once"])
def test_curvature_is_the_hessians_diagonal_of_a_net_of_relus(monkeypatch, memory):
    monkeypatch.setattr(criteria, "_MEMORY", memory)
    model, (x, y) = net(), data()
    found = weights.curvature(model, x)
    for name, right in full_hessian(model, x, y).items():  # whatever the labels
        torch.testing.assert_close(found[name], right)
    for name, right in full_hessian(model, x, 2 - y).items():
        torch.testing.assert_close(found[name], right)


def test_curvature_of_a_smooth_net_is_the_expected_fisher():
    model, (x, _) = net(nn.Tanh), data()
    found = weights.curvature(model, x)
    with torch.no_grad():
        p = copy.deepcopy(model).eval()(x).softmax(1)
    total = {name: torch.zeros_like(value) for name, value in found.items()}
    for c in range(3):
        for i in range(len(x)):
            one = loop(model, x[i : i + 1], torch.tensor([c]))
            for name in total:
                total[name] += p[i, c] * one[name] / len(x)
    for name, right in total.items():
        torch.testing.assert_close(found[name], right)


def test_a_conv_net_with_batch_norm():
    model = SmallConvNet(1, 10).double()
    x, y = torch.randn(6, 1, 8, 8, dtype=torch.float64), torch.randint(10, (6,))
    model.train()
    model(x)  # statistics that are not those of the start
    found = weights.empirical_fisher(model, x, y)
    for name, right in loop(model, x, y).items():
        torch.testing.assert_close(found[name], right)
    assert weights.curvature(model, x[:2]).keys() == found.keys()


def test_a_model_that_vmap_cannot_run_is_taken_sample_by_sample():
    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3).double()

        def forward(self, x):
            return self.fc(x) if float(x.detach().abs().max()) > 0.5 else self.fc(2 * x)

    model, (x, y) = Asks(), data()
    found = weights.empirical_fisher(model, x, y)
    for name, right in loop(model, x, y).items():
        torch.testing.assert_close(found[name], right)
    assert weights.curvature(model, x)["fc.weight"].shape == (3, 4)


def test_an_error_of_the_model_is_told_as_it_is():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied|size mismatch|must match"):
        weights.empirical_fisher(
            net(), torch.randn(3, 5).double(), torch.zeros(3, dtype=torch.int64)
        )


@pytest.mark.parametrize("call", [weights.empirical_fisher, weights.gradients, weights.taylor])
def test_nothing_of_the_model_changes(call):
    model, (x, y) = net(), data()
    model[3].eval()
    modes, state = [m.training for m in model.modules()], copy.deepcopy(model.state_dict())
    model[0].weight.grad = torch.ones_like(model[0].weight)
    call(model, x, y)
    weights.curvature(model, x)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert (
        torch.equal(model[0].weight.grad, torch.ones_like(model[0].weight))
        and model[3].weight.grad is None
    )


@pytest.mark.parametrize("score", ["gradients", "empirical_fisher", "curvature"])
def test_scores_of_some_parameters_alone_are_those_of_all(score):
    model, (x, y) = net(), data()
    compute = getattr(weights, score)
    given = (model, x) if score == "curvature" else (model, x, y)
    every = compute(*given)
    for names in (["0.weight"], ["3.weight", "0.bias"]):
        some = compute(*given, only=names)
        assert set(some) == set(names)
        assert all(torch.equal(some[name], every[name]) for name in names)
    for wrong in (["0.weigth"], "0.weight"):
        with pytest.raises(ValueError, match="only"):
            compute(*given, only=wrong)
    assert all(p.grad is None for p in model.parameters())


def test_masks_from_scores_on_demand_are_those_from_all_at_once():
    model, (x, y) = net(), data()
    prunable = weights.prunable(model)
    held = []

    def fisher(name, w):
        held.append(name)
        return weights.empirical_fisher(model, x, y, only=[name])[name]

    every = weights.empirical_fisher(model, x, y)
    wanted = weights.global_masks({name: every[name] for name in prunable}, 0.6)
    masks = weights.global_masks(weights.ScoresOnDemand(prunable, fisher), 0.6)
    assert masks.keys() == wanted.keys() and held[:2] == list(prunable)
    assert all(torch.equal(masks[name], wanted[name]) for name in masks)
