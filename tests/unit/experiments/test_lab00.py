"""Lab 00's experiments: costs of layers, zeros that lie where training put them, times
that become sentences.
"""

import lab00_results as make
import numpy as np
import pytest
import torch
from torch import nn

from course_lib.cost import (
    conv_cost,
    encodings,
    least_seconds,
    linear_cost,
    nonzero_macs,
    product_work,
)
from course_lib.experiments import by_seed, lab00
from unit.experiments.stored import assert_like_stored, remade


def test_random_zeros_are_where_the_formulas_expect_them():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 64, 3, 3, generator=generator)
    x = torch.randn(16, 64, 12, 12, generator=generator).relu()
    anywhere = lab00.pruned(weight, 0.9, random=1)
    assert float((anywhere == 0).double().mean()) == pytest.approx(0.9, abs=1e-4)
    assert abs(make.beyond(anywhere, x)) < 1.5
    assert abs(make.pairs_beyond(anywhere)) < 1.5
    assert torch.equal(lab00.pruned(weight, 0.5), weight * (weight.abs() > weight.abs().median()))


def test_zeros_that_avoid_each_other_are_seen():
    weight = torch.zeros(4, 8, 3, 3)
    weight[:, :2] = 1  # the zeros are in long runs
    x = torch.zeros(2, 8, 5, 5)
    x[:, 4:] = 1  # and no weight meets a pixel
    assert make.beyond(weight, x) == -100
    assert make.pairs_beyond(weight) > 0


def test_costs_of_layers_and_their_shares():
    net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    costs = lab00.layer_costs(net, torch.zeros(1, 4), conv_cost, linear_cost)
    assert costs["macs"].tolist() == [12, 6]
    shares = lab00.shares(costs)
    assert shares.groupby("of")["percent"].sum().tolist() == [100, 100]


def test_zeros_on_purpose_meet_the_formulas():
    found = lab00.placed_zeros(nonzero_macs, [0, 0.25, 0.75])
    drawn = found["zeros"] == "expected"
    assert np.allclose(found["products_left"][~drawn], found["counted"][~drawn])
    assert np.allclose(found["products_left"][drawn], found["counted"][drawn], atol=0.03)


def test_formulas_and_counts_of_formats_agree_on_random_zeros():
    layers = [torch.randn(16, 64, 3, 3, generator=torch.Generator().manual_seed(0))]
    formats = {"bitmap": encodings.bitmap_bits, "RLE k=2": encodings.rle_bits}
    book = lab00.bookkeeping(formats, layers)
    marked = book.dropna(subset=["counted"])
    assert set(marked["sparsity"]) == set(lab00.SPARSITIES)
    kept = 32 * (1 - marked["sparsity"])
    assert np.allclose(marked["bits_per_weight"] + kept, marked["counted"] + kept, rtol=0.02)
    assert np.allclose(book.loc[book["format"] == "bitmap", "bits_per_weight"], 1)


def test_kernels_compute_the_same_product():
    w, b = lab00.pruned(torch.randn(8, 6), 0.5), torch.randn(6, 2)
    calls = lab00.kernels(w, b)
    for name in ("dense", "CSR, torch", "CSR, scipy"):
        assert np.allclose(calls[name](), w @ b, atol=1e-5), name
    assert calls["whole rows"]().shape == (4, 2)
    layer, x = torch.randn(4, 4, 3, 3), torch.randn(1, 4, 4, 4)
    conv = lab00.convolution([layer], [x], (0.5, 0.9), repeats=2)
    assert set(conv["method"]) == {*calls, "random", "by MACs"} - {"dense"}


def test_the_roofline_bounds_what_is_measured():
    machine = lab00.machine(size=64, repeats=2)
    assert min(machine) > 0
    found = lab00.predicted_and_measured(
        product_work, least_seconds, 1e9, 1e9, (0.5,), size=32, repeats=2
    ).set_index(["times", "method"])["faster"]
    # bytes decide: of 12, 8 and 4 per kept weight, beside 4 · 2 · 32 of inputs and outputs
    kept, passed = 512, 256
    for method, stored in {"CSR, torch": 12, "CSR, scipy": 8, "whole rows": 4}.items():
        bound = (4096 + passed) / (stored * kept + passed)
        assert found["times 1 vector", method] == pytest.approx(bound)
        assert found["times 64 vectors", method] == pytest.approx(2)  # products decide


def test_a_remake_makes_the_tables_that_are_shipped(tmp_path):
    few = by_seed("", {"images": 100, "epochs": 1}, 1, make.one_seed, data="digits")
    made = remade(few, tmp_path).tables
    assert_like_stored("lab00_counting_digits", made, labels=("sparsity", "method"))
