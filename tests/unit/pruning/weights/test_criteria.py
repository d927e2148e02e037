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


def net(bend=nn.ReLU):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 6), bend(), nn.Dropout(0.5), nn.Linear(6, 3)).double()


def data(count=11):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    return x, torch.randint(3, (count,), generator=generator)


def loop(model, x, y):
    """The empirical Fisher, a backward pass a sample."""
    model = copy.deepcopy(model).eval().requires_grad_()
    total = {n: torch.zeros(p.shape, dtype=torch.float64) for n, p in model.named_parameters()}
    for sample, label in zip(x, y, strict=True):
        model.zero_grad()
        F.cross_entropy(model(sample[None]), label[None]).backward()
        for name, p in model.named_parameters():
            total[name] += p.grad.double() ** 2 / len(x)
    return total


def agree(found, right):
    assert found.keys() == right.keys()
    for name, value in right.items():
        assert found[name].dtype == torch.float64
        torch.testing.assert_close(found[name], value)


def test_the_forecast_is_what_happens_to_a_parabola():
    w, minimum, h = (
        torch.randn(7, generator=torch.Generator().manual_seed(i)).double() for i in range(3)
    )
    change = h * minimum**2 / 2 - h * (w - minimum) ** 2 / 2
    torch.testing.assert_close(weights.loss_change(w, h * (w - minimum), h), change)
    found = weights.loss_change(nn.Parameter(w.float()), h.float(), h)
    assert found.dtype == torch.float32 and not found.requires_grad


def test_gradients_are_those_of_the_mean_loss_in_evaluation_mode_and_taylor_their_size():
    model, (x, y) = net(), data()
    found, scores = weights.gradients(model, x, y, batch=4), weights.taylor(model, x, y)
    assert list(scores) == ["0.weight", "3.weight"]
    model.eval()
    F.cross_entropy(model(x), y).backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(found[name], p.grad)
    for name, score in scores.items():
        p = model.get_parameter(name)
        torch.testing.assert_close(score, (p.grad * p).abs().detach())


@pytest.mark.parametrize("memory", [1, 1 << 12, 1 << 27], ids=["one by one", "chunks", "at once"])
@pytest.mark.parametrize("bend", [nn.ReLU, nn.Tanh])
def test_fisher_beside_a_loop_and_curvature_beside_the_hessian(monkeypatch, memory, bend):
    monkeypatch.setattr(criteria, "_MEMORY", memory)
    model, (x, y) = net(bend), data()
    model[0].weight.requires_grad_(False)
    agree(weights.empirical_fisher(model, x, y), loop(model, x, y))
    found, still = weights.curvature(model, x), copy.deepcopy(model).eval()
    if bend is nn.ReLU:  # whatever the labels
        parameters = {name: p.detach() for name, p in still.named_parameters()}
        for labels in (y, 2 - y):
            second = hessian(
                lambda p, y=labels: F.cross_entropy(functional_call(still, p, (x,)), y)
            )
            full = second(parameters)
            diagonals = {
                n: full[n][n].reshape(p.numel(), -1).diagonal().reshape(p.shape)
                for n, p in parameters.items()
            }
            agree(found, diagonals)
    else:  # the expected Fisher
        p = still(x).softmax(1).detach()
        total = {name: torch.zeros_like(value) for name, value in found.items()}
        for i in range(len(x)):
            for c in range(3):
                one = loop(model, x[i : i + 1], torch.tensor([c]))
                for name in total:
                    total[name] += p[i, c] * one[name] / len(x)
        agree(found, total)


class Asks(nn.Linear):
    """vmap cannot run it."""

    def forward(self, x):
        return super().forward(x if float(x.detach().abs().max()) > 0.5 else 2 * x)


def test_a_conv_net_with_batch_norm_and_a_model_that_vmap_cannot_run():
    model, (x, y) = Asks(4, 3).double(), data()
    agree(weights.empirical_fisher(model, x, y), loop(model, x, y))
    assert weights.curvature(model, x)["weight"].shape == (3, 4)
    model, x = SmallConvNet(1, 10).double(), torch.randn(6, 1, 8, 8, dtype=torch.float64)
    model.train()(x)  # statistics that are not those of the start
    agree(weights.empirical_fisher(model, x, y[:6]), loop(model, x, y[:6]))


def test_an_error_of_the_model_is_told_as_it_is():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied|size mismatch|must match"):
        weights.empirical_fisher(net(), torch.randn(3, 5).double(), torch.zeros(3).long())


@pytest.mark.parametrize("score", ["gradients", "empirical_fisher", "curvature"])
def test_nothing_of_the_model_changes_and_some_parameters_are_as_of_all(score):
    model, (x, y) = net(), data()
    model[3].eval()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    modes, state = [m.training for m in model.modules()], copy.deepcopy(model.state_dict())
    given = (model, x) if score == "curvature" else (model, x, y)
    every = getattr(weights, score)(*given)
    for names in (["0.weight"], ["3.weight", "0.bias"]):
        some = getattr(weights, score)(*given, only=names)
        assert set(some) == set(names)
        assert all(torch.equal(some[name], every[name]) for name in names)
    for wrong in (["0.weigth"], "0.weight"):
        with pytest.raises(ValueError, match="only"):
            getattr(weights, score)(*given, only=wrong)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert model[0].weight.grad.eq(1).all() and model[3].weight.grad is None
