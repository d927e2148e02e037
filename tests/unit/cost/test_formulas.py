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
    assert linear_cost(M, C, R, bits)["macs"] == M * C * R  # the same, of another shape
    assert (
        conv_cost(1, C, 1, 1, 1, M, bits=bits)["input_bits"]
        == linear_cost(M, C, 1, bits)["input_bits"]
    )
    assert conv_cost(*sizes, stride, padding, bits) == {
        "macs": y[0, 0].numel() * layer.weight.numel(),
        "weight_bits": bits * layer.weight.numel(),
        "input_bits": bits * x.numel(),
        "output_bits": bits * y.numel(),
    }


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
    assert formula["scores"] == B * heads * L * L


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
    whole = torch.nn.functional.pad(x, (0, w[3], 0, w[2]))[:, :, : w[2], : w[3]]  # as one row
    linear = nonzero_macs(weight.flatten(1), whole.flatten(1))
    assert linear == nonzero_macs(weight, whole)


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
