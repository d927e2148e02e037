"""MACs of a layer: the formulas against layers that ran, exact counts against plain
loops.
"""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.cost import (
    conv_cost,
    linear_cost,
    model_cost,
    nonzero_macs,
    pruned_transformer_macs,
    totals,
    transformer_macs,
)
from unit.cost.random_zeros import sparse


@given(
    sizes=st.tuples(*[st.integers(1, 5)] * 4, *[st.integers(5, 9)] * 2),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    bits=st.sampled_from([1, 8, 32]),
)
@settings(max_examples=50, deadline=None)
def test_conv_cost_is_that_of_the_layer(sizes, stride, padding, bits):
    M, C, R, S, H, W = sizes
    layer = nn.Conv2d(C, M, (R, S), stride, padding, bias=False)
    x = torch.zeros(1, C, H, W)
    y = layer(x)
    assert conv_cost(*sizes, stride, padding, bits) == {
        "macs": y[0, 0].numel() * layer.weight.numel(),
        "weight_bits": bits * layer.weight.numel(),
        "input_bits": bits * x.numel(),
        "output_bits": bits * y.numel(),
    }


def test_linear_cost():
    cost = linear_cost(2, 3, 5, bits=8)
    assert cost == {"macs": 30, "weight_bits": 120, "input_bits": 48, "output_bits": 80}


def test_transformer_macs():
    cost = transformer_macs(B=2, L=5, E=16, heads=4)
    assert list(cost.values()) == [10240, 1600, 20480, 32320, 200]
    one = transformer_macs(B=2, L=5, E=16)
    assert {**one, "scores": 0} == {**cost, "scores": 0}  # heads change the scores alone
    at = transformer_macs(1, 6 * 8, 8)
    # attention overtakes the rest at L = 6E
    assert at["attention"] == at["projections"] + at["ffn"]


@pytest.mark.parametrize("heads", [1, 4])
def test_transformer_macs_are_those_of_torchs_layer(heads):
    B, L, E = 3, 7, 16
    layer = nn.TransformerEncoderLayer(E, heads, dim_feedforward=4 * E, batch_first=True)
    rows = model_cost(layer, torch.randn(B, L, E))
    formula = transformer_macs(B, L, E, heads)
    counted = {"projections": 0, "attention": 0, "ffn": 0}
    for row in rows:
        part = "ffn" if row.name.startswith("linear") else "attention"
        counted["projections" if row.name.endswith("_proj") else part] += row.macs
    assert counted == {part: formula[part] for part in counted}
    assert totals(rows)["macs"] == formula["total"]


def by_loops(w, x, stride, padding):
    """(products without padding, those of two non-zeros), one by one."""
    (M, C, R, S), (B, _, H, W) = w.shape, x.shape
    w, x = w.tolist(), x.tolist()
    E, F_ = (H + 2 * padding - R) // stride + 1, (W + 2 * padding - S) // stride + 1
    every, nonzero = 0, 0
    for b, m, c, r, s, i, j in itertools.product(*map(range, (B, M, C, R, S, E, F_))):
        h, v = i * stride + r - padding, j * stride + s - padding
        if 0 <= h < H and 0 <= v < W:
            every += 1
            nonzero += w[m][c][r][s] != 0 and x[b][c][h][v] != 0
    return every, nonzero


@settings(max_examples=60, deadline=None)
@given(
    w=st.tuples(*[st.integers(1, 3)] * 4),
    B=st.integers(1, 2),
    hw=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    p=st.sampled_from([0.0, 0.5, 0.9]),
    seed=st.integers(0, 99),
)
def test_conv_against_plain_loops(w, B, hw, stride, padding, p, seed):
    # so that the kernel fits
    padding = max(padding, -(-(w[2] - hw[0]) // 2), -(-(w[3] - hw[1]) // 2))
    weight, x = sparse(*w, p=p, seed=seed), sparse(B, w[1], *hw, p=0.4, seed=seed + 1)
    every, nonzero = by_loops(weight, x, stride, padding)
    counted = nonzero_macs(weight, x, stride, padding)
    assert counted == nonzero and type(counted) is int
    assert nonzero_macs(torch.ones(w), torch.ones_like(x), stride, padding) == every


@given(
    B=st.integers(1, 4), d_in=st.integers(1, 6), d_out=st.integers(1, 6), seed=st.integers(0, 99)
)
@settings(max_examples=40, deadline=None)
def test_linear_against_plain_loops(B, d_in, d_out, seed):
    weight, x = sparse(d_out, d_in, seed=seed), sparse(B, d_in, seed=seed + 1)
    by_hand = sum(
        weight[o, i].item() != 0 and x[b, i].item() != 0
        for b, o, i in itertools.product(range(B), range(d_out), range(d_in))
    )
    assert nonzero_macs(weight, x) == by_hand


def test_exact_where_float32_is_not():
    assert nonzero_macs(torch.ones(1, 1), torch.ones(2**24 + 1, 1)) == 2**24 + 1
    # Too many to add up in float32 even in parts: 3 x 3 taps on a large map, an odd
    # total.
    weight, x = torch.ones(257, 3, 3, 3), torch.ones(1, 3, 257, 259)
    assert nonzero_macs(weight, x) == 257 * 27 * 255 * 257


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_nan_and_infinities_count_and_minus_zero_does_not(dtype):
    weight = torch.tensor([[math.nan, -0.0, math.inf, 1.0]], dtype=dtype)
    assert nonzero_macs(weight, torch.ones(3, 4, dtype=dtype)) == 9


def test_the_formula_with_all_heads_is_that_of_the_lecture():
    for b, length, width, heads in ((1, 1, 4, 1), (2, 5, 12, 3), (16, 128, 768, 12)):
        expected = transformer_macs(b, length, width, heads)
        got = pruned_transformer_macs(b, length, width, [heads], width // heads)
        assert {name: got[name] for name in expected} == expected
    full, none = (pruned_transformer_macs(2, 5, 12, [heads], 4) for heads in (3, 0))
    two = pruned_transformer_macs(2, 5, 12, [3, 0], 4)
    assert two == {name: full[name] + none[name] for name in full}
    assert none["total"] == full["ffn"] and two["weights"] == 4 * 12 * 12 + 2 * 2 * 12 * 48
