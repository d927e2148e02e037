"""Lab 00's runs: the bill of larger pictures, and zeros that lie where training put
them.
"""

import pytest
import torch

from course_lib import experiments
from course_lib.experiments import lab00


def test_random_zeros_are_where_the_formulas_expect_them():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 64, 3, 3, generator=generator)
    x = torch.randn(16, 64, 12, 12, generator=generator).relu()
    anywhere = lab00.pruned(weight, 0.9, random=1)
    assert float((anywhere == 0).double().mean()) == pytest.approx(0.9, abs=1e-4)
    assert abs(lab00.beyond(anywhere, x)) < 1.5 and abs(lab00.more_pairs(anywhere)) < 1.5
    assert lab00.empty_kernels(anywhere) == pytest.approx(100 * 0.9**9, abs=2)
    assert torch.equal(lab00.pruned(weight, 0.5), weight * (weight.abs() > weight.abs().median()))


def test_zeros_that_avoid_each_other_are_seen():
    weight = torch.zeros(4, 8, 3, 3)
    weight[:, :2] = 1  # whole kernels are empty
    x = torch.zeros(2, 8, 5, 5)
    x[:, 4:] = 1  # and no weight meets a pixel
    assert lab00.beyond(weight, x) == -100
    assert lab00.empty_kernels(weight) == 75 and lab00.more_pairs(weight) > 0


def test_one_seed():
    found = lab00.one_seed("digits", 0, {"images": 200, "epochs": 1})
    assert found["macs"]["conv2"] == 32 * 32 * 9 * 8 * 8 and found["macs"]["fc"] == 640
    assert found["alive"]["conv2"] == 32 * 2 * 32 * 8 * 8
    assert 20 < found["zeros in"] < 90
    for what in ("beyond", "more pairs", "empty kernels"):
        assert {how: len(row) for how, row in found[what].items()} == {"magnitude": 4, "random": 4}


@pytest.mark.parametrize("name", lab00.SETTINGS)
def test_the_shipped_results_are_of_these_settings(name):
    result = experiments.read(f"lab00_counting_{name}")
    assert result["settings"] == lab00.SETTINGS[name]
    assert len(result["seeds"]) == lab00.SEEDS[name]
    side = {"digits": 8, "mnist": 28 // 2, "cifar10": 32 // 2}[name]  # large images: halved at once
    assert result["seeds"][0]["macs"]["conv2"] == 32 * 32 * 9 * side**2
    took = experiments.took(f"lab00_counting_{name}")
    assert took is not None and took["cpu_seconds"] > 1
