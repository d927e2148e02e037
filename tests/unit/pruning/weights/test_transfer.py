"""Pruned, then fine-tuned; and which of the two kinds of loss it is."""

import pytest
import torch
from torch import nn

from course_lib.pruning.weights import prune_then_finetune, regime


@pytest.mark.parametrize("hold", [True, False])
def test_zeros_are_held_or_not(hold):
    model = nn.Linear(4, 3)
    weight = model.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    masks = {"weight": torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) > 0.5}
    gone = ~masks["weight"]
    seen = []

    def finetune(net, post_step):
        assert not net.weight[gone].any()  # zeros before the first gradient
        for _ in range(3):
            net.zero_grad()
            (net(torch.ones(2, 4)) - 5).square().sum().backward()
            optimizer.step()
            post_step()
            seen.append(bool(net.weight[gone].any()))

    prune_then_finetune(model, masks, finetune, hold)
    assert seen == [not hold] * 3 and model.weight is weight
    assert bool(model.weight[gone].any()) == (not hold)


def test_three_regimes():
    assert regime(98, [99, 96, 95, 80], [99, 97, 96, 83], 2) == [
        "free",
        "free",
        "information lost",
        "cannot fit",
    ]
