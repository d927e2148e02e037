"""Dynamic sparse training: counts stay, the dense gradient decides, memories of dropped
connections are wiped.
"""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.data import images
from course_lib.pruning.weights import local_masks, masked, prunable, random
from course_lib.pruning.weights.sparse_training import (
    cosine_fraction,
    drop_and_grow,
    erdos_renyi_densities,
    rigl,
    sparse_evolution,
)
from course_lib.training import fit

DIGITS = images.load("digits")
SMALL = DIGITS.subset(128).train  # 2 batches of 64


def net(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 12), nn.Linear(12, 10)
        )


def start(model, density=0.3, seed=0):
    weights = prunable(model)
    return local_masks(random(weights, torch.Generator().manual_seed(seed)), 1 - density)


def counts(masks):
    return {name: int(mask.sum()) for name, mask in masks.items()}


def equal(some, others):
    return all(torch.equal(mask, others[name]) for name, mask in some.items())


# ---- one exchange


@st.composite
def layer(draw):
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    n = math.prod(shape)
    number = st.integers(-2, 2) | st.floats(-2, 2, width=32)  # ties are likely
    lists = [
        draw(st.lists(kind, min_size=n, max_size=n)) for kind in (number, number, st.booleans())
    ]
    dtypes = (torch.float32, torch.float32, torch.bool)
    return [torch.tensor(v, dtype=t).view(shape) for v, t in zip(lists, dtypes, strict=True)]


@settings(deadline=None)
@given(layer(), st.floats(0, 1))
def test_an_exchange_is_algorithm_1(drawn, fraction):
    weight, grad, mask = drawn
    before = copy.deepcopy(drawn)
    new_weight, new_mask = drop_and_grow(weight, grad, mask, fraction)
    assert all(torch.equal(a, b) for a, b in zip(drawn, before, strict=True))

    w, g, m = (t.flatten().tolist() for t in drawn)
    active = [i for i, a in enumerate(m) if a]
    k = round(fraction * len(active))
    dropped = set(sorted(active, key=lambda i: (abs(w[i]), i))[:k])
    free = [i for i, a in enumerate(m) if not a or i in dropped]
    grown = set(sorted(free, key=lambda i: (-abs(g[i]), i))[:k])
    kept = [(a and i not in dropped) or i in grown for i, a in enumerate(m)]
    assert new_mask.flatten().tolist() == kept
    assert new_weight.flatten().tolist() == [w[i] if m[i] and a else 0 for i, a in enumerate(kept)]
    assert new_mask.dtype == torch.bool and new_mask.shape == mask.shape == new_weight.shape
    assert int(new_mask.sum()) == int(mask.sum())


def test_nan_is_harmless_where_it_does_not_count_and_a_parameter_gets_no_history():
    weight = nn.Parameter(torch.tensor([1.0, 2.0, math.nan]))
    mask, gains = torch.tensor([True, True, False]), torch.tensor([0.5, math.nan, 1.0])
    new, after = drop_and_grow(weight, gains, mask, 0.5)
    assert new.tolist() == [0, 2, 0] and after.tolist() == [False, True, True]
    assert not new.requires_grad and type(new) is torch.Tensor


def test_the_share_falls_as_a_cosine():
    assert [cosine_fraction(t, 0.3, 8) for t in (0, 4, 8, 9)] == [0.3, pytest.approx(0.15), 0, 0]


# ---- the training


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
}


@pytest.mark.parametrize("kind", ["rigl", "set"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_counts_stay_zeros_hold_and_connections_move(kind, optimizer):
    found, before = [], torch.random.get_rng_state()
    for seed in (0, 0, 1):
        model = net()
        masks = start(model)
        given, parameters = copy.deepcopy(masks), [id(p) for p in model.parameters()]
        chance = {"generator": torch.Generator().manual_seed(seed)} if kind == "set" else {}
        method = rigl if kind == "rigl" else sparse_evolution
        steps = []
        with method(model, masks, steps=12, every=2, fraction=0.4, end=9, **chance) as sparse:

            def look(sparse=sparse, steps=steps, model=model, given=given):
                assert counts(sparse.masks) == counts(given)
                assert not any(prunable(model)[n][~mask].any() for n, mask in sparse.masks.items())
                steps.append(sparse.masks)

            options = {"optimizer": OPTIMIZERS[optimizer], "post_step": look, "progress": False}
            fit(model, SMALL, epochs=6, **options)
        # those given are as they were
        assert equal(masks, given) and [id(p) for p in model.parameters()] == parameters
        changes = [i for i in range(1, 12) if not equal(steps[i], steps[i - 1])]
        assert changes == [2, 4, 6, 8]  # at every second step before the end, never at the first
        assert [e[:2] for e in sparse.exchanges] == [(step, n) for step in changes for n in masks]
        for step, name, count in sparse.exchanges:
            active, share = counts(given)[name], cosine_fraction(step, 0.4, 9)
            changed = (steps[step][name] != steps[step - 1][name]).sum()
            assert 2 * count == changed <= 2 * round(share * active)
        found.append(steps[-1])
    assert equal(found[0], found[1]) and equal(found[0], found[2]) == (kind == "rigl")
    assert torch.equal(torch.random.get_rng_state(), before)


def step(model, optimizer):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(SMALL.images), SMALL.labels).backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    optimizer.step()
    return gradients


def test_an_exchange_takes_the_place_of_a_step_and_uses_its_dense_gradient():
    model = net()
    masks = start(model)
    optimizer = OPTIMIZERS["adam"](model.parameters())
    with rigl(model, masks, steps=100, every=3, fraction=0.4) as sparse:
        for _ in range(3):
            step(model, optimizer)
        before = copy.deepcopy(model.state_dict())
        moments = copy.deepcopy(optimizer.state_dict()["state"])
        gradients = step(model, optimizer)
        # dense, not masked
        assert any((gradients[name][~masks[name]] != 0).any() for name in masks)
        for i, (name, parameter) in enumerate(model.named_parameters()):
            state, old = optimizer.state[parameter], moments[i]
            assert state["step"] == old["step"] == 3  # this step was no step
            if name not in masks:
                assert torch.equal(parameter, before[name])
                assert torch.equal(state["exp_avg"], old["exp_avg"])
                continue
            share = cosine_fraction(3, 0.4, 75)
            weight, mask = drop_and_grow(before[name], gradients[name], masks[name], share)
            assert torch.equal(parameter, weight) and torch.equal(sparse.masks[name], mask)
            changed = masks[name] ^ mask
            for key in ("exp_avg", "exp_avg_sq"):
                # a memory of what is gone
                assert (old[key][changed] != 0).any() and (state[key][changed] == 0).all()
                assert torch.equal(state[key][~changed], old[key][~changed])
        step(model, optimizer)  # and those that have grown learn
        grown = {name: sparse.masks[name] & ~masks[name] for name in masks}
        assert all((prunable(model)[name][grown[name]] != 0).any() for name in masks)


def test_several_fits_and_several_optimizers_count_on_and_a_block_may_be_entered_again():
    model = net()
    sparse = rigl(model, start(model), steps=8, every=3, end=8)
    for _ in range(2):
        with sparse:
            fit(model, SMALL, epochs=1, progress=False)  # 2 steps each
            fit(model, SMALL, epochs=1, progress=False)
    assert sorted({step for step, _, _ in sparse.exchanges}) == [3, 6]
    fit(model, SMALL, epochs=1, progress=False)  # outside nothing is held
    assert any(prunable(model)[name][~mask].any() for name, mask in sparse.masks.items())

    model = net()
    both = [torch.optim.SGD(model[i].parameters(), lr=0.1) for i in (0, 3)]
    with rigl(model, start(model), steps=4, every=2, end=4) as sparse:
        for _ in range(4):
            nn.functional.cross_entropy(model(SMALL.images), SMALL.labels).backward()
            for optimizer in both:
                optimizer.step()
    assert [e[:2] for e in sparse.exchanges] == [(2, "0.weight"), (2, "3.weight")]


def test_layers_without_a_gradient_or_a_mask_stay():
    model = net()
    masks = start(model)
    model[0].requires_grad_(False)
    dense = masks.pop("4.weight")
    with rigl(model, masks, steps=8, every=2, end=8) as sparse:
        make = OPTIMIZERS["sgd"]
        fit(model, SMALL, epochs=4, optimizer=lambda _: make(model.parameters()), progress=False)
    assert {name for _, name, _ in sparse.exchanges} == {"3.weight"}
    assert torch.equal(sparse.masks["0.weight"], masks["0.weight"])
    assert (model[4].weight[~dense] != 0).all()


def test_two_masks_for_one_weight_are_refused():
    model = net()
    masks = start(model)
    for outside in (True, False):
        with pytest.raises(RuntimeError, match="leave masks= away in fit"):
            if outside:
                with masked(model, masks), rigl(model, masks, steps=4, every=1):
                    fit(model, SMALL, epochs=2, progress=False)
            else:
                with rigl(model, masks, steps=4, every=1):
                    fit(model, SMALL, epochs=2, masks=masks, progress=False)


# ---- densities


shapes = st.dictionaries(
    st.text(min_size=1, max_size=3),
    st.lists(st.integers(1, 40), min_size=2, max_size=4),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(shapes, st.floats(0, 1))
def test_erdos_renyi_is_exact_capped_and_proportional(drawn, density):
    found = erdos_renyi_densities(drawn, density)
    sizes = {name: math.prod(shape) for name, shape in drawn.items()}
    kept = {name: found[name] * n for name, n in sizes.items()}
    assert list(found) == list(drawn)
    assert all(0 <= d <= 1 for d in found.values())
    assert all(abs(c - round(c)) < 1e-6 for c in kept.values())
    assert sum(map(round, kept.values())) == round(density * sum(sizes.values()))
    units = {name: sum(shape) for name, shape in drawn.items()}
    free = [name for name in drawn if kept[name] < sizes[name] - 1.5]  # surely not full
    for a in free:
        # weights per unit: the same in all that are not full, up to a weight; fewer in
        # those that are
        for b in drawn:
            if b in free:
                assert kept[a] - 1 <= (kept[b] + 1) * units[a] / units[b] + 1e-6
            else:
                assert kept[b] / units[b] <= (kept[a] + 1) / units[a] + 2 / units[b] + 1e-6
