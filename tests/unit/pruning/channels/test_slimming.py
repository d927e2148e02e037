import copy
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


def total_kept(masks):
    return sum(int(mask.sum()) for mask in masks.values())


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


def test_only_some_layers_take_part():
    model = net([0.3, 0.4], [0.1, 0.2], [0.5, 0.6])
    assert kept(select_channels(model, 0.5, names=["1", "7"])) == {"1": [1], "7": [0, 1]}
    assert kept(select_channels(model, 0.5, names="4")) == {"4": [1]}


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


def test_filter_norms_as_the_score():
    model = net([1.0, 1.0], [1.0, 1.0])
    # norms 9, 18
    model[0].weight.data = torch.tensor([1.0, 2.0]).view(2, 1, 1, 1).expand(2, 1, 3, 3).clone()
    # norms 10.8, 54
    model[3].weight.data = torch.tensor([0.6, 3.0]).view(2, 1, 1, 1).expand(2, 2, 3, 3).clone()
    assert kept(select_channels(model, 0.25, filter_norms)) == {"1": [1], "4": [0, 1]}


# ---- what a removed channel leaves behind


def triple(groups=1, padding=0, padding_mode="zeros", out=4, dims=2, **options):
    torch.manual_seed(1)
    conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dims]
    norm = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[dims]
    layers = (
        conv(3, 6, 3),
        norm(6),
        conv(6, out, 3, groups=groups, padding=padding, padding_mode=padding_mode, **options),
    )
    model = nn.Sequential(*layers).double().eval()
    with torch.no_grad():
        model[1].weight.normal_()
        # of either sign, also where removed
        model[1].bias.copy_(torch.tensor([1.0, 0.8, -1.0, 0.5, -0.6, 0.7]))
        model[1].running_mean.normal_()
        model[1].running_var.uniform_(0.5, 2)
    return layers


def switched_off(layer, bn, next_layer, keep, x, activation):
    """What the definition says: alpha of the removed channels is zero, and nothing else
    changes.
    """
    bn = copy.deepcopy(bn)
    with torch.no_grad():
        bn.weight[~keep] = 0.0
        return next_layer(activation(bn(layer(x))))


def cut_out(layer, bn, next_layer, keep, x, activation, shift):
    """And what is left: the removed channels' maps are gone (zero), and the shift is
    added.
    """
    with torch.no_grad():
        y = activation(bn(layer(x))) * keep.view(-1, *[1] * (x.ndim - 2))
        return next_layer(y) + shift.view(-1, *[1] * (x.ndim - 2))


KEEP = torch.tensor([True, False, True, True, False, False])
ACTIVATIONS = [F.relu, F.silu, torch.sigmoid, lambda y: y, nn.PReLU(6).double()]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_constant_is_exact_without_padding(dims, groups, activation):
    for more in ({}, {"stride": 2}, {"dilation": 2}, {"padding": 1, "padding_mode": "circular"}):
        layers = triple(groups, dims=dims, **more)
        x = torch.randn(2, 3, *[9] * dims, dtype=torch.float64)
        shift = absorb_removed(*layers, KEEP, activation)
        assert shift.shape == (4,) and shift.dtype == torch.float64 and not shift.requires_grad
        expected = switched_off(*layers, KEEP, x, activation)
        torch.testing.assert_close(cut_out(*layers, KEEP, x, activation, shift), expected)
        assert not torch.allclose(cut_out(*layers, KEEP, x, activation, 0 * shift), expected)


def test_at_zero_padded_borders_it_is_too_much():
    layers = triple(padding=1)
    x = torch.randn(2, 3, 8, 9, dtype=torch.float64)
    shift = absorb_removed(*layers, KEEP)
    error = (
        cut_out(*layers, KEEP, x, F.relu, shift) - switched_off(*layers, KEEP, x, F.relu)
    ).abs()
    inside = error[..., 1:-1, 1:-1]
    assert inside.max() < 1e-12
    error[..., 1:-1, 1:-1] = 1.0
    # wrong all along the border
    assert error.amin((0, 1)).min() >= 0 and error.amax((0, 1)).min() > 1e-3


def test_the_next_layer_may_be_linear_behind_pooling_and_flattening():
    conv, bn, _ = triple()
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)  # -> (2, 6, 6, 6) -> pooled (2, 6, 3, 3)
    for between, inputs in ((nn.MaxPool2d(2), 54), (nn.AdaptiveAvgPool2d(1), 6)):
        tail = nn.Sequential(between, nn.Flatten(), nn.Linear(inputs, 5).double())
        shift = absorb_removed(conv, bn, tail[2], KEEP)
        off = copy.deepcopy(bn)
        with torch.no_grad():
            off.weight[~KEEP] = 0.0
            expected = tail(F.relu(off(conv(x))))
            got = tail(F.relu(bn(conv(x))) * KEEP.view(-1, 1, 1)) + shift
        torch.testing.assert_close(got, expected)


def test_without_beta_or_without_removal_there_is_no_shift():
    conv, bn, after = triple()
    assert (absorb_removed(conv, bn, after, torch.ones(6, dtype=torch.bool)) == 0).all()
    plain = nn.BatchNorm2d(6, affine=False)
    assert (absorb_removed(conv, plain, after, KEEP) == 0).all()
    sigmoid_of_zero = absorb_removed(conv, plain, after, KEEP, torch.sigmoid)
    torch.testing.assert_close(
        sigmoid_of_zero, 0.5 * after.weight[:, ~KEEP].sum((1, 2, 3)).detach()
    )


def test_indices_say_the_same_as_a_mask():
    layers = triple()
    for indices in ([0, 2, 3], (0, 2, 3), torch.tensor([0, 2, 3])):
        assert torch.equal(absorb_removed(*layers, indices), absorb_removed(*layers, KEEP))


def test_nothing_is_changed():
    layers = triple()
    before = [copy.deepcopy(layer.state_dict()) for layer in layers]
    keep = KEEP.clone()
    absorb_removed(*layers, keep)
    mask, _ = cascade(keep, layers[2].weight)
    mask.fill_(False)
    assert torch.equal(keep, KEEP)
    for layer, old in zip(layers, before, strict=True):
        assert all(torch.equal(v, old[k]) for k, v in layer.state_dict().items())


# ---- the cascade


@settings(deadline=None, max_examples=60)
@given(
    groups=st.integers(1, 3),
    per_group=st.integers(1, 3),
    outs=st.integers(1, 2),
    kernel=st.sampled_from([(), (3,), (2, 3), (1, 2, 2)]),
    with_constant=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_cascade_by_brute_force(groups, per_group, outs, kernel, with_constant, seed):
    generator = torch.Generator().manual_seed(seed)
    channels, m = groups * per_group, groups * outs
    keep = torch.rand(channels, generator=generator) < 0.5
    weight = torch.randn(m, per_group, *kernel, generator=generator)
    constant = torch.rand(channels, generator=generator) if with_constant else None
    useful, shift = cascade(keep, weight, constant, groups)
    assert useful.shape == weight.shape and useful.dtype == torch.bool
    assert shift.shape == (m,) and shift.dtype == weight.dtype
    for i in range(m):
        expected = 0.0
        for j in range(per_group):
            c = (i // outs) * per_group + j  # the channel that weight[i, j] meets
            assert bool(useful[i, j].all()) is bool(useful[i, j].any()) is bool(keep[c])
            if constant is not None and not keep[c]:
                expected += constant[c].item() * weight[i, j].double().sum().item()
        assert shift[i].item() == pytest.approx(expected, abs=1e-5)


def test_only_removed_channels_constants_count():
    weight = torch.ones(2, 3, 2, 2)
    keep = torch.tensor([True, False, True])
    useful, shift = cascade(keep, weight, torch.tensor([math.nan, 0.5, math.inf]))
    assert shift.tolist() == [2.0, 2.0] and useful[:, [0, 2]].all() and not useful[:, 1].any()


def test_half_precision_is_summed_in_double():
    weight = torch.full((1, 4096), 0.1, dtype=torch.float16)
    _, shift = cascade(torch.zeros(4096, dtype=torch.bool), weight, torch.ones(4096))
    assert shift.dtype == torch.float16 and shift.item() == pytest.approx(
        weight.double().sum().item(), rel=1e-3
    )
