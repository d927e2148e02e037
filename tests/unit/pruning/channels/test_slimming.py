import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from course_lib.pruning.channels.slimming import (
    absorb_removed,
    cascade,
    filter_norms,
    penalty,
    scales,
    select_channels,
)


def net(*alphas):
    """A net whose batch norms have these scales."""
    layers = []
    for i, alpha in enumerate(alphas):
        layers += [
            nn.Conv2d(len(alphas[i - 1]) if i else 1, len(alpha), 3),
            nn.BatchNorm2d(len(alpha)),
            nn.ReLU(),
        ]
        layers[-2].weight.data = torch.tensor(alpha)
    return nn.Sequential(*layers)


def kept(masks):
    return {name: mask.nonzero().flatten().tolist() for name, mask in masks.items()}


# ---- the penalty


def test_the_penalty_is_lambda_times_the_sum_of_the_sizes():
    model = net([1.0, -2.0], [0.0, 4.0, -0.5])
    model[1].running_var.fill_(9.0)  # the scale is alpha, not p = alpha / sigma
    value = penalty(model, 0.1)
    assert value.shape == () and value.item() == pytest.approx(0.75)
    value.backward()
    torch.testing.assert_close(model[1].weight.grad, torch.tensor([0.1, -0.1]))
    torch.testing.assert_close(model[4].weight.grad, torch.tensor([0.0, 0.1, -0.1]))
    others = [
        p.grad for name, p in model.named_parameters() if name not in ("1.weight", "4.weight")
    ]
    assert all(gradient is None for gradient in others)


def test_shared_scales_count_once_and_missing_ones_not():
    model = net([1.0, 2.0], [3.0, 4.0])
    model[4].weight = model[1].weight
    model.append(nn.BatchNorm2d(2, affine=False))
    assert penalty(model, 1.0).item() == 3.0
    assert list(scales(model)) == ["1", "4"]


# ---- selection


@settings(deadline=None, max_examples=200)
@given(
    alphas=st.lists(
        st.lists(st.sampled_from([0.0, 0.5, -0.5, 1.0, 2.0]), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    ),
    fraction=st.floats(0, 1),
)
def test_selection_by_brute_force(alphas, fraction):
    model = net(*alphas)
    masks = select_channels(model, fraction)
    everything = [(abs(a), i, c) for i, layer in enumerate(alphas) for c, a in enumerate(layer)]
    gone = {(i, c) for _, i, c in sorted(everything)[: round(fraction * len(everything))]}
    for i, layer in enumerate(alphas):
        if all((i, c) in gone for c in range(len(layer))):
            largest = max(range(len(layer)), key=lambda c: (abs(layer[c]), c))  # noqa: B023
            gone.discard((i, largest))
    expected = [
        [c for c in range(len(layer)) if (i, c) not in gone] for i, layer in enumerate(alphas)
    ]
    assert list(kept(masks).values()) == expected
    more = select_channels(model, min(1.0, fraction + 0.2))
    assert all((masks[name] | ~more[name]).all() for name in masks)  # nested


def test_filter_norms_are_sums_of_sizes_per_output():
    conv = nn.Conv2d(4, 6, (2, 3), groups=2)
    up = nn.ConvTranspose2d(6, 4, 3, groups=2)
    model = nn.Sequential(
        conv, nn.BatchNorm2d(6), up, nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4)
    )
    norms = filter_norms(model)
    assert list(norms) == ["1", "3"]  # behind a ReLU there is no filter
    assert norms["1"].dtype == torch.float64
    for m in range(6):
        assert norms["1"][m].item() == pytest.approx(
            sum(abs(w) for w in conv.weight[m].flatten().tolist())
        )
    for g, m in itertools.product(range(2), range(2)):
        filter_ = up.weight[3 * g : 3 * g + 3, m].flatten().tolist()
        assert norms["3"][2 * g + m].item() == pytest.approx(sum(abs(w) for w in filter_))


# ---- what a removed channel leaves behind


# ---- the cascade


# ---- what a removed channel leaves behind


@settings(deadline=None, max_examples=60)
@given(
    dims=st.sampled_from([1, 2, 3]),
    options=st.sampled_from(
        [{}, {"stride": 2}, {"dilation": 2}, {"padding": 1, "padding_mode": "circular"}]
    ),
    flat=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_the_shift_is_what_channels_without_a_scale_give_the_next_layer(dims, options, flat, seed):
    torch.manual_seed(seed)
    conv, norm = getattr(nn, f"Conv{dims}d"), getattr(nn, f"BatchNorm{dims}d")
    layer, bn = conv(3, 6, 3).double(), norm(6).double().eval()
    keep = torch.rand(6) < 0.5
    nn.init.normal_(bn.weight)
    nn.init.normal_(bn.bias)
    bn.weight.data[~keep] = 0  # silent: what is left of them is relu(beta)
    x = torch.randn(2, 3, *[9] * dims, dtype=torch.float64)
    tail = [conv(6, 4, 3, **options)]
    if flat:
        tail = [getattr(nn, f"AdaptiveAvgPool{dims}d")(2), nn.Flatten(), nn.Linear(6 * 2**dims, 4)]
    after = nn.Sequential(*tail).double()
    with torch.no_grad():
        y = F.relu(bn(layer(x)))
        shift = absorb_removed(layer, bn, tail[-1], keep)
        assert torch.equal(shift, absorb_removed(layer, bn, tail[-1], keep.nonzero().flatten()))
        got = after(y * keep.view(-1, *[1] * dims))
        got = got + shift.view(-1, *[1] * (got.ndim - 2))
    torch.testing.assert_close(got, after(y))


@settings(deadline=None, max_examples=40)
@given(
    outs=st.integers(1, 3),
    kernel=st.sampled_from([(), (3,), (2, 3), (1, 2, 2)]),
    dtype=st.sampled_from([torch.float16, torch.float32]),
    seed=st.integers(0, 10_000),
)
def test_cascade_by_brute_force(outs, kernel, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    keep = torch.rand(4, generator=generator) < 0.5
    weight = torch.randn(outs, 4, *kernel, generator=generator).to(dtype)
    constant = torch.rand(4, generator=generator)
    useful, shift = cascade(keep, weight, constant.masked_fill(keep, math.inf))
    assert shift.dtype == dtype and not cascade(keep, weight)[1].any()
    assert torch.equal(useful, keep.view(1, -1, *[1] * len(kernel)).expand_as(weight))
    sums = weight.double().flatten(2).sum(2) if kernel else weight.double()
    expected = [sum(float(constant[c] * row[c]) for c in range(4) if not keep[c]) for row in sums]
    torch.testing.assert_close(
        shift.double(), torch.tensor(expected).double(), atol=1e-2, rtol=1e-2
    )
