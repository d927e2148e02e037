"""Which activations stay, before chosen layers, and what flows back; channels that a gate
closes for each image.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.models import SmallConvNet
from course_lib.pruning.activations import (
    ChannelGate,
    gated_macs,
    gating,
    nm_activation,
    pruned_inputs,
    target_penalty,
    topk_activation,
)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 3),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(0, 30),
    st.integers(0, 500),
)
def test_of_each_sample_the_k_largest(samples, shape, k, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(-3, 4, (samples, *shape), generator=g).float()
    kept = topk_activation(x, k)
    for one, other in zip(x.flatten(1).tolist(), kept.flatten(1).tolist(), strict=True):
        goes = sorted(range(len(one)), key=lambda i: (abs(one[i]), i))[: max(0, len(one) - k)]
        assert other == [0 if i in goes else v for i, v in enumerate(one)]


@pytest.mark.parametrize(
    "rule",
    [
        lambda x: topk_activation(x, 7),
        lambda x: nm_activation(x, 1, 2),
        lambda x: nm_activation(x, 2, 3, -1),
    ],
)
def test_the_gradient_is_that_of_a_mask(rule):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2, 4, 6, dtype=torch.float64, generator=g).requires_grad_()
    out = rule(x)
    out.backward(g := torch.randn(x.shape, dtype=torch.float64))
    assert torch.equal(x.grad, g * (out != 0))


def test_infinite_is_the_largest_of_its_block():
    inf = torch.tensor([[torch.inf, 1.0, 2.0, 3.0]])
    assert nm_activation(inf, 1, 2).tolist() == [[torch.inf, 0, 0, 3]]  # no 0 · inf


def test_the_layers_named_see_less_while_the_block_is_open():
    model, images = SmallConvNet().eval(), torch.randn(4, 1, 8, 8)
    before, seen = model(images), {}
    hooks = [
        module.register_forward_hook(lambda m, x, out, name=name: seen.update({name: x[0]}))
        for name, module in model.named_children()
    ]
    with (
        pytest.raises(RuntimeError, match="mine"),
        pruned_inputs(model, lambda x: topk_activation(x, 10), ["conv2", "conv4"]),
    ):
        model(images).sum().backward()
        raise RuntimeError("mine")
    assert all(p.grad is not None for p in model.parameters())
    counts = {name: (x != 0).flatten(1).sum(1).max() for name, x in seen.items()}
    assert max(counts["conv2"], counts["conv4"]) <= 10 < min(counts["conv1"], counts["conv3"])
    for hook in hooks:
        hook.remove()
    assert torch.equal(model(images), before)


def test_gates_are_hard_forwards_and_soft_backwards_and_begin_open():
    gate = ChannelGate(3, 5).double()
    assert gate(torch.zeros(2, 3, 2, 4).double()).all()
    nn.init.zeros_(gate.score.bias)
    assert not gate(torch.zeros(2, 3, 2, 4).double()).any()  # a score of 0 is closed
    nn.init.normal_(gate.score.bias)
    x = torch.randn(6, 3, 2, 4, dtype=torch.float64, requires_grad=True)
    score = gate.score(x.mean((2, 3)))
    for mode in (True, False):
        out = gate.train(mode)(x)
        assert torch.equal(out, (score > 0).double()) and out.dtype == x.dtype
    g = torch.randn_like(out)
    ours = torch.autograd.grad(out, [x, *gate.parameters()], g)
    soft = torch.autograd.grad(score.sigmoid(), [x, *gate.parameters()], g)
    assert all(torch.allclose(one, other) for one, other in zip(ours, soft, strict=True))


def test_what_each_image_costs():
    gates = [torch.tensor([[1.0, 0, 0, 0], [1, 1, 1, 1]]), torch.tensor([[1.0, 1], [1, 0]])]
    for gate in gates:
        gate.requires_grad_()
    macs = gated_macs(gates, [100.0, 40.0])
    assert macs.tolist() == [25 + 40 * 0.25, 100 + 20]
    macs.sum().backward()
    assert gates[1].grad.tolist() == [[5, 5], [20, 20]]
    assert float(target_penalty(macs.detach(), 140, 0.5)) == pytest.approx((77.5 / 70 - 1) ** 2)


def test_gates_hung_into_a_model():
    torch.manual_seed(0)
    model, images = SmallConvNet().eval(), torch.randn(5, 1, 8, 8)
    before, gate = model(images), ChannelGate(32, 32)
    with gating(model, {"conv2->bn2": gate}) as decided:
        assert torch.equal(model(images), before)  # all open
        nn.init.normal_(gate.score.weight, std=3)
        nn.init.zeros_(gate.score.bias)
        gated = model(images)
        (open_,) = decided
        assert open_.shape == (5, 32) and 0 < open_.mean() < 1
        gated.sum().backward()
        assert gate.score.weight.grad.abs().sum() > 0
    # by hand: a channel that is closed is 0 behind the batch norm
    hook = model.bn2.register_forward_hook(lambda m, i, out: out * open_.detach()[:, :, None, None])
    assert torch.allclose(model(images), gated)
    hook.remove()
    assert torch.equal(model(images), before)
