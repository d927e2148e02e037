"""A rule in front of chosen layers."""

import pytest
import torch

from course_lib.models import SmallConvNet
from course_lib.pruning.activations import pruned_inputs, topk_activation


def test_the_layers_named_see_less_while_the_block_is_open():
    model, images = SmallConvNet().eval(), torch.randn(4, 1, 8, 8)
    before, seen = model(images), {}
    hooks = [
        module.register_forward_hook(
            lambda m, inputs, out, name=name: seen.update({name: inputs[0]})
        )
        for name, module in model.named_modules()
        if name.startswith("conv")
    ]
    with pruned_inputs(model, lambda x: topk_activation(x, 10), ["conv2", "conv4"]):
        model(images).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    for name in ("conv2", "conv4"):
        assert ((seen[name] != 0).flatten(1).sum(1) <= 10).all()
    assert ((seen["conv1"] != 0).flatten(1).sum(1) > 10).all()
    for hook in hooks:
        hook.remove()
    assert torch.equal(model(images), before)


def test_it_is_gone_after_an_exception():
    model, images = SmallConvNet().eval(), torch.randn(2, 1, 8, 8)
    before = model(images)
    with (
        pytest.raises(RuntimeError, match="mine"),
        pruned_inputs(model, torch.zeros_like, ["conv2"]),
    ):
        raise RuntimeError("mine")
    assert torch.equal(model(images), before)
