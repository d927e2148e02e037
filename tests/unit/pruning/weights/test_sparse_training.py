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
    uniform_densities,
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


# ---- one exchange


@st.composite
def layer(draw):
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    n = math.prod(shape)
    number = st.integers(-2, 2) | st.floats(-2, 2, width=32)  # ties are likely
    weight, grad = (
        torch.tensor(draw(st.lists(number, min_size=n, max_size=n)), dtype=torch.float32).view(
            shape
        )
        for _ in range(2)
    )
    return (
        weight,
        grad,
        torch.tensor(draw(st.lists(st.booleans(), min_size=n, max_size=n))).view(shape),
    )


@settings(deadline=None)
@given(layer(), st.floats(0, 1))
def test_an_exchange_is_algorithm_1(drawn, fraction):
    weight, grad, mask = drawn
    before = copy.deepcopy(drawn)
    new_weight, new_mask = drop_and_grow(weight, grad, mask, fraction)
    assert all(torch.equal(a, b) for a, b in zip(drawn, before, strict=True))

    w, g, m = (t.flatten().tolist() for t in drawn)
    active = [i for i, a in enumerate(m) if a]
    inactive = [i for i, a in enumerate(m) if not a]
    k = min(round(fraction * len(active)), len(inactive))
    dropped = set(sorted(active, key=lambda i: (abs(w[i]), i))[:k])
    grown = set(sorted(inactive, key=lambda i: (-abs(g[i]), i))[:k])
    assert new_mask.flatten().tolist() == [
        (a and i not in dropped) or i in grown for i, a in enumerate(m)
    ]
    assert new_weight.flatten().tolist() == [
        w[i] if a and i not in dropped else 0 for i, a in enumerate(m)
    ]
    assert new_mask.dtype == torch.bool and new_mask.shape == mask.shape == new_weight.shape
    assert int(new_mask.sum()) == int(mask.sum())


def test_a_parameter_may_be_given_and_gets_no_history():
    weight = nn.Parameter(torch.rand(3, 4))
    new, _ = drop_and_grow(weight, torch.rand(3, 4), torch.rand(3, 4) > 0.5, 0.5)
    assert not new.requires_grad and type(new) is torch.Tensor


def test_nan_is_harmless_where_it_does_not_count():
    weight, mask = torch.tensor([1.0, 2.0, math.nan]), torch.tensor([True, True, False])
    new, after = drop_and_grow(weight, torch.tensor([math.nan, math.nan, 1.0]), mask, 0.5)
    assert new.tolist() == [0, 2, 0] and after.tolist() == [False, True, True]


def test_the_share_falls_as_a_cosine():
    assert [cosine_fraction(t, 0.3, 8) for t in (0, 4, 8, 9)] == [0.3, pytest.approx(0.15), 0, 0]
    shares = [cosine_fraction(t, 1.0, 50) for t in range(60)]
    assert shares == sorted(shares, reverse=True) and min(shares) == 0


# ---- the training


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
}


def method(kind, model, masks, **options):
    if kind == "rigl":
        return rigl(model, masks, **options)
    return sparse_evolution(model, masks, generator=torch.Generator().manual_seed(0), **options)


@pytest.mark.parametrize("kind", ["rigl", "set"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_counts_stay_zeros_hold_and_connections_move(kind, optimizer):
    model = net()
    masks = start(model)
    given, parameters = copy.deepcopy(masks), [id(p) for p in model.parameters()]
    steps = []

    with method(kind, model, masks, steps=12, every=2, fraction=0.4, end=9) as sparse:

        def look():
            assert counts(sparse.masks) == counts(given)
            assert all(
                (prunable(model)[name][~mask] == 0).all() for name, mask in sparse.masks.items()
            )
            steps.append(sparse.masks)

        fit(model, SMALL, epochs=6, optimizer=OPTIMIZERS[optimizer], post_step=look, progress=False)
    # those given are as they were
    assert all(torch.equal(masks[name], given[name]) for name in masks)
    assert len(steps) == 12 and [id(p) for p in model.parameters()] == parameters
    changes = [
        i for i in range(1, 12) if any(not torch.equal(steps[i][n], steps[i - 1][n]) for n in masks)
    ]
    assert changes == [2, 4, 6, 8]  # at every second step before the end, never at the first
    assert sorted({e.step for e in sparse.exchanges}) == [2, 4, 6, 8]
    assert {e.name for e in sparse.exchanges} == set(masks)
    for e in sparse.exchanges:
        active = counts(given)[e.name]
        assert e.fraction == cosine_fraction(e.step, 0.4, 9)
        assert e.count == min(round(e.fraction * active), given[e.name].numel() - active)
    assert all((prunable(model)[name][~mask] == 0).all() for name, mask in sparse.masks.items())


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
                assert torch.equal(parameter, before[name]) and torch.equal(
                    state["exp_avg"], old["exp_avg"]
                )
                continue
            weight, mask = drop_and_grow(
                before[name], gradients[name], masks[name], cosine_fraction(3, 0.4, 75)
            )
            assert torch.equal(parameter, weight) and torch.equal(sparse.masks[name], mask)
            changed = masks[name] ^ mask
            assert changed.any()
            for key in ("exp_avg", "exp_avg_sq"):
                # a memory of what is gone
                assert (old[key][changed] != 0).any() and (state[key][changed] == 0).all()
                assert torch.equal(state[key][~changed], old[key][~changed])
        step(model, optimizer)  # and those that have grown learn
        grown = {name: sparse.masks[name] & ~masks[name] for name in masks}
        assert all((prunable(model)[name][grown[name]] != 0).any() for name in masks)


def test_set_grows_by_chance_from_its_generator():
    found = []
    for seed in (0, 0, 1):
        model = net()
        generator = torch.Generator().manual_seed(seed)
        state = torch.random.get_rng_state()
        with sparse_evolution(model, start(model), steps=8, every=2, generator=generator) as sparse:
            fit(model, SMALL, epochs=4, progress=False)
        assert torch.equal(torch.random.get_rng_state(), state)
        found.append(sparse.masks)
    same = [all(torch.equal(found[0][n], other[n]) for n in other) for other in found[1:]]
    assert same == [True, False]


def test_several_fits_and_several_optimizers_count_on():
    model = net()
    with rigl(model, start(model), steps=8, every=3, end=8) as sparse:
        for _ in range(4):
            fit(model, SMALL, epochs=1, progress=False)  # 2 steps each
    assert sorted({e.step for e in sparse.exchanges}) == [3, 6]

    model = net()
    both = [torch.optim.SGD(model[i].parameters(), lr=0.1) for i in (0, 3)]
    with rigl(model, start(model), steps=4, every=2, end=4) as sparse:
        for _ in range(4):
            nn.functional.cross_entropy(model(SMALL.images), SMALL.labels).backward()
            for optimizer in both:
                optimizer.step()
    assert [(e.step, e.name) for e in sparse.exchanges] == [(2, "0.weight"), (2, "3.weight")]


def test_layers_without_a_gradient_or_a_mask_stay():
    model = net()
    masks = start(model)
    model[0].requires_grad_(False)
    dense = masks.pop("4.weight")
    with rigl(model, masks, steps=8, every=2, end=8) as sparse:
        fit(
            model,
            SMALL,
            epochs=4,
            optimizer=lambda _: OPTIMIZERS["sgd"](model.parameters()),
            progress=False,
        )
    assert {e.name for e in sparse.exchanges} == {"3.weight"}
    assert torch.equal(sparse.masks["0.weight"], masks["0.weight"])
    assert (model[4].weight[~dense] != 0).all()


@pytest.mark.parametrize("outside", [True, False])
def test_two_masks_for_one_weight_are_refused(outside):
    model = net()
    masks = start(model)
    with pytest.raises(RuntimeError, match="leave masks= away in fit"):
        if outside:
            with masked(model, masks), rigl(model, masks, steps=4, every=1):
                fit(model, SMALL, epochs=2, progress=False)
        else:
            with rigl(model, masks, steps=4, every=1):
                fit(model, SMALL, epochs=2, masks=masks, progress=False)


def test_the_block_ends_and_may_be_entered_again():
    model = net()
    sparse = rigl(model, start(model), steps=8, every=2, end=8)
    for _ in range(2):
        with sparse:
            fit(model, SMALL, epochs=2, progress=False)
    assert sorted({e.step for e in sparse.exchanges}) == [2, 4, 6]
    fit(model, SMALL, epochs=1, progress=False)  # outside nothing is held
    assert any((prunable(model)[name][~mask] != 0).any() for name, mask in sparse.masks.items())


# ---- densities


shapes = st.dictionaries(
    st.text(min_size=1, max_size=3),
    st.lists(st.integers(1, 40), min_size=2, max_size=4),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(shapes, st.floats(0, 1), st.booleans())
def test_erdos_renyi_is_exact_capped_and_proportional(drawn, density, kernel):
    found = erdos_renyi_densities(drawn, density, kernel)
    sizes = {name: math.prod(shape) for name, shape in drawn.items()}
    kept = {name: found[name] * n for name, n in sizes.items()}
    assert list(found) == list(drawn)
    assert all(0 <= d <= 1 for d in found.values())
    assert all(abs(c - round(c)) < 1e-6 for c in kept.values())
    assert sum(map(round, kept.values())) == round(density * sum(sizes.values()))
    units = {n: sum(s) if kernel else sum(s[:2]) * math.prod(s[2:]) for n, s in drawn.items()}
    free = [name for name in drawn if kept[name] < sizes[name] - 1.5]  # surely not full
    for a in free:
        # weights per unit: the same in all that are not full, up to a weight; fewer in
        # those that are
        for b in drawn:
            if b in free:
                assert kept[a] - 1 <= (kept[b] + 1) * units[a] / units[b] + 1e-6
            else:
                assert kept[b] / units[b] <= (kept[a] + 1) / units[a] + 2 / units[b] + 1e-6


@settings(deadline=None)
@given(shapes, st.floats(0, 1))
def test_uniform_is_exact(drawn, density):
    found = uniform_densities(drawn, density)
    sizes = {name: math.prod(shape) for name, shape in drawn.items()}
    assert sum(round(found[name] * n) for name, n in sizes.items()) == round(
        density * sum(sizes.values())
    )
    assert all(abs(found[name] * n - density * n) < 1 + 1e-6 for name, n in sizes.items())
