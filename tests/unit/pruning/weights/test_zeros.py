"""Zeros hold and the other weights move: any model, any optimizer, any mask, and every way
of holding them.
"""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD, Adam, AdamW, RMSprop

from course_lib.data.images import Split
from course_lib.pruning import weights
from course_lib.training import fit

IMAGES = torch.randn(24, 1, 6, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(24) % 3


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    )


def tied() -> nn.Module:
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(36, 36), nn.Tanh(), nn.Linear(36, 36), nn.Linear(36, 3)
    )
    model[3].weight = model[1].weight
    return model


def half_precision() -> nn.Module:
    return tied().bfloat16()


OPTIMIZERS = {
    "SGD, nesterov, foreach": lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "SGD, fused": lambda p: SGD(p, lr=0.1, momentum=0.9, fused=True),
    "Adam": lambda p: Adam(p, lr=0.1, weight_decay=1e-2, foreach=False),
    "Adam, amsgrad, fused": lambda p: Adam(p, lr=0.1, amsgrad=True, fused=True),
    "AdamW, foreach": lambda p: AdamW(p, lr=0.1, weight_decay=0.1, foreach=True),
    "RMSprop": lambda p: RMSprop(p, lr=0.05, momentum=0.5),
}


class Training:
    """Three steps, with a look at the pruned weights after each."""

    def __init__(self, model, masks, make, history):
        self.model, self.masks, self.held = model, masks, []
        self.make, self.optimizer = make, None
        self.images = IMAGES.to(next(model.parameters()).dtype)
        if history:  # moments of dense training push pruned weights even with zero gradients
            self.optimizer = make(model.parameters())
            self(model)
            self.held.clear()

    def look(self):
        named = dict(self.model.named_parameters())
        self.held.append(not any(named[n][~mask].any() for n, mask in self.masks.items()))

    def __call__(self, model, post_step=lambda: None):
        optimizer = self.optimizer or self.make(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(self.images), LABELS).backward()
            optimizer.step()
            post_step()
            self.look()


def by_fit(model, masks, train):
    options = {"masks": masks, "post_step": train.look, "progress": False}
    make = train.make if train.optimizer is None else lambda parameters: train.optimizer
    fit(model, Split(train.images, LABELS), epochs=3, optimizer=make, **options)


def in_a_block(model, masks, train):
    with weights.masked(model, masks):
        train(model)


def without_an_exchange(model, masks, train):
    with weights.rigl(model, masks, steps=1000):
        train(model)


WAYS = [in_a_block, weights.prune_then_finetune, by_fit, without_an_exchange]


@st.composite
def trainings(draw):
    """A model, masks, and a training of it."""
    with torch.random.fork_rng():
        torch.manual_seed(draw(st.integers(0, 3)))
        build = draw(st.sampled_from([convolutional, tied, half_precision]))
        name = draw(st.sampled_from(list(OPTIMIZERS)))
        # torch's fused SGD moves no bfloat16 weight on a CPU
        assume((name, build) != ("SGD, fused", half_precision))
        model = build()
        share = draw(st.floats(0.1, 0.9))
        found = weights.prunable(model)
        names = draw(st.sets(st.sampled_from(list(found)), min_size=1))
        masks = {name: torch.rand(found[name].shape) < share for name in found if name in names}
    return model, masks, Training(model, masks, OPTIMIZERS[name], draw(st.booleans()))


@settings(max_examples=80, deadline=None)
@given(trainings(), st.sampled_from(WAYS))
def test_zeros_hold_and_the_others_move(drawn, way):
    model, masks, train = drawn
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    identities = [id(p) for p in model.parameters()]
    way(model, masks, train)
    assert train.held == [True] * 3
    assert [id(p) for p in model.parameters()] == identities
    for name, p in model.named_parameters():
        kept = masks.get(name, torch.ones_like(p, dtype=torch.bool))
        assert p.isfinite().all() and not p[~kept].any()
        # a bias in front of batch norm has no gradient, nor have a few weights of dead units
        if p.ndim > 1 and int(kept.sum()) >= 8:
            assert not torch.equal(p[kept], before[name][kept])


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_without_holding_the_same_steps_revive_weights(make):
    """The test above would pass for ways that do nothing, were this not so."""
    model = convolutional()
    masks = {name: torch.rand(p.shape) < 0.5 for name, p in weights.prunable(model).items()}
    train = Training(model, masks, make, history=False)
    weights.prune_then_finetune(model, masks, train, hold=False)
    assert train.held == [False] * 3
