"""Lab 00's experiments: costs of layers, zeros that lie where training put them, times
that become sentences.
"""

import lab00_results as make
import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from course_lib import experiments
from course_lib.cost import conv_cost, encodings, linear_cost, nonzero_macs, transformer_macs
from course_lib.experiments import lab00
from unit.experiments.stored import assert_like_stored, remade


def test_random_zeros_are_where_the_formulas_expect_them():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 64, 3, 3, generator=generator)
    x = torch.randn(16, 64, 12, 12, generator=generator).relu()
    anywhere = lab00.pruned(weight, 0.9, random=1)
    assert float((anywhere == 0).double().mean()) == pytest.approx(0.9, abs=1e-4)
    assert abs(lab00.beyond(anywhere, x, nonzero_macs)) < 1.5
    assert abs(lab00.pairs_beyond(anywhere, encodings.rle_encode)) < 1.5
    assert lab00.empty_kernels(anywhere) == pytest.approx(100 * 0.9**9, abs=2)
    assert torch.equal(lab00.pruned(weight, 0.5), weight * (weight.abs() > weight.abs().median()))


def test_zeros_that_avoid_each_other_are_seen():
    weight = torch.zeros(4, 8, 3, 3)
    weight[:, :2] = 1  # whole kernels are empty
    x = torch.zeros(2, 8, 5, 5)
    x[:, 4:] = 1  # and no weight meets a pixel
    assert lab00.beyond(weight, x, nonzero_macs) == -100
    assert lab00.empty_kernels(weight) == 75
    assert lab00.pairs_beyond(weight, encodings.rle_encode) > 0


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
    sizes = lab00.sizes(formats, layers)
    marked = sizes.dropna(subset=["counted"])
    assert set(marked["sparsity"]) == set(lab00.SPARSITIES)
    assert np.allclose(marked["bits_per_weight"], marked["counted"], rtol=0.02)
    book = lab00.bookkeeping(sizes)
    assert np.allclose(book.loc[book["format"] == "bitmap", "bits_per_weight"], 1)
    assert np.allclose(
        *lab00.smaller_from(formats, layers[0])[["by formula (%)", "measured (%)"]].T.values
    )
    runs = lab00.run_lengths(encodings.rle_encode, layers, (2,)).dropna()
    assert np.allclose(runs["pairs_per_element"], runs["counted"], rtol=0.05)


def test_heads_are_free_in_macs_only():
    found = lab00.many_heads(transformer_macs, (1, 4), L=16, E=16, repeats=2)
    at_4 = found[found["heads"] == 4].set_index("what")["times_one_head"]
    assert at_4["MACs"] == 1 and at_4["scores"] == 4 and at_4["time, fused"] > 0


def test_from_which_sparsity_a_kernel_pays():
    speeds = pd.DataFrame(
        {"seed": seed, "method": method, "sparsity": sparsity, "faster": faster}
        for method, line in {"never": (0.1, 0.9), "late": (0.5, 2), "rows": (1, 2)}.items()
        for sparsity, faster in zip((0, 0.8), line, strict=True)
        for seed in range(3)
    )
    assert lab00.pays_from(speeds) == {"never": "not by 80 %", "late": "40 %", "rows": "at once"}


def test_kernels_compute_the_same_product():
    w, b = lab00.pruned(torch.randn(8, 6), 0.5), torch.randn(6, 2)
    calls = lab00.csr_kernels(w, b, encodings.csr_encode)
    calls |= lab00.more_kernels(w, b, encodings.bitmap_encode, encodings.bitmap_decode)
    for name, call in calls.items():
        if name != "whole rows":
            assert np.allclose(call(), w @ b, atol=1e-5), name
    codes = (encodings.csr_encode, encodings.bitmap_encode, encodings.bitmap_decode)
    speeds = lab00.one_vector(*codes, (0, 0.9), size=16, repeats=2)
    layer, x = torch.randn(4, 4, 3, 3), torch.randn(1, 4, 4, 4)
    conv = lab00.convolution([layer], [x], codes[0], (0.5, 0.9), repeats=2)
    bits = pd.DataFrame({"format": ["CSR", "COO", "bitmap"], "measured (%)": [24.0, 33, 3]})
    table = lab00.when_a_zero_pays(bits, speeds, conv)
    assert table["by bits"].tolist() == ["24 %", "24 %", "33 %", "3 %", "at once"]


@pytest.mark.parametrize("name", ["digits", "mnist", "cifar10"])
def test_the_layers_that_are_stored(name):
    side = {"digits": 8, "mnist": 28 // 2, "cifar10": 32 // 2}[name]  # large images: halved at once
    macs = experiments.read(f"lab00_counting_{name}/layers").set_index("layer")["macs"]
    assert set(macs["conv2"]) == {32 * 32 * 9 * side**2}


def test_a_remake_makes_the_tables_that_are_shipped(tmp_path, monkeypatch):
    monkeypatch.setitem(make.SETTINGS, "digits", {"images": 100, "epochs": 1})
    monkeypatch.setitem(make.SEEDS, "digits", 1)
    made = remade(make.remake_digits, tmp_path).tables
    assert_like_stored("lab00_counting_digits", made, labels=("layer", "sparsity", "method"))
