"""Gates by image: hard forwards, soft backwards; what they cost; hung into a model."""

import pytest
import torch
from torch import nn

from course_lib.models import SmallConvNet
from course_lib.pruning.activations import ChannelGate, gated_macs, gating, target_penalty


def test_hard_forwards_soft_backwards():
    gate = ChannelGate(3, 5).double()
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


def test_a_score_of_zero_is_closed_and_it_begins_open():
    gate = ChannelGate(2, 4)
    assert gate(torch.zeros(3, 2, 2, 2)).all()
    nn.init.zeros_(gate.score.bias)
    assert not gate(torch.zeros(3, 2, 2, 2)).any()


def test_what_each_image_costs():
    gates = [torch.tensor([[1.0, 0, 0, 0], [1, 1, 1, 1]]), torch.tensor([[1.0, 1], [1, 0]])]
    for gate in gates:
        gate.requires_grad_()
    macs = gated_macs(gates, [100.0, 40.0])
    assert macs.tolist() == [25 + 40 * 0.25, 100 + 20]
    macs.sum().backward()
    assert gates[1].grad.tolist() == [[5, 5], [20, 20]]
    assert float(target_penalty(macs.detach(), 140, 0.5)) == pytest.approx((77.5 / 70 - 1) ** 2)


def test_hung_into_a_model():
    torch.manual_seed(0)
    model, images = SmallConvNet().eval(), torch.randn(5, 1, 8, 8)
    before = model(images)
    gates = {"conv2->bn2": ChannelGate(model.conv2.in_channels, model.conv2.out_channels)}
    with gating(model, gates) as decided:
        assert torch.equal(model(images), before)  # all open
        gate = gates["conv2->bn2"]
        nn.init.normal_(gate.score.weight, std=3)
        nn.init.zeros_(gate.score.bias)
        gated = model(images)
        (open_,) = decided
        assert open_.shape == (5, model.conv2.out_channels) and 0 < open_.mean() < 1
        gated.sum().backward()
        assert gate.score.weight.grad.abs().sum() > 0
    # by hand: a channel that is closed is 0 behind the batch norm
    hook = model.bn2.register_forward_hook(lambda m, i, out: out * open_.detach()[:, :, None, None])
    assert torch.allclose(model(images), gated)
    hook.remove()
    assert torch.equal(model(images), before)
