"""Lab 02's runs: forecasts beside the truth, and the orders they make."""

import copy

import pytest
import torch

from course_lib import experiments
from course_lib.data.images import load
from course_lib.experiments import lab02
from course_lib.models import build
from course_lib.parallel import side_by_side
from course_lib.pruning.weights import prunable


@pytest.fixture(scope="module")
def trained():
    data = load("digits").subset(300)
    return data, lab02.trained(build("lenet300", data, seed=0), data, 0, 6)


def test_the_forecast_of_single_weights_is_the_truth(trained):
    data, model = trained
    before = copy.deepcopy(model.state_dict())
    x, y = lab02.sample_of(data.train, 64)
    found = lab02.single_weights(model, x, y, 45, 0)
    assert found.keys() == {"truth", *lab02.CRITERIA} and all(
        len(values) == 45 for values in found.values()
    )
    assert lab02.rank_correlation(found["signed forecast"], found["truth"]) > 0.9
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_change_is_that_of_the_loss(trained):
    data, model = trained
    x, y = lab02.sample_of(data.train, 32)
    change = lab02.single_weights(model, x, y, 3, 5)["truth"][2]
    other, generator = copy.deepcopy(model).double(), torch.Generator().manual_seed(5)
    for w in prunable(other).values():
        at = int(torch.randint(w.numel(), (1,), generator=generator))
    w.data.view(-1)[at] = 0
    right = lab02.mean_loss(other, x.double(), y) - lab02.mean_loss(
        copy.deepcopy(model).double(), x.double(), y
    )
    assert change == pytest.approx(right, rel=1e-6)


def test_orders_and_rounds(trained):
    data, model = trained
    once = lab02.at_once(model, data, ("magnitude", "random"), (0.0, 0.8), 64, 0)
    assert once["magnitude"][0] == once["random"][0] and once["magnitude"][1] > once["random"][1]
    rounds = lab02.in_rounds(model, data, ("magnitude", "Fisher"), (0.8,), 64, 0, rounds=3)
    # nothing is trained: the same weights are the smallest
    assert rounds["magnitude"] == once["magnitude"][1:]
    tuned = lab02.with_training(model, data, ("Taylor",), (0.5, 0.9), 64, 1, 0)["Taylor"]
    assert len(tuned["validation"]) == 2 and tuned["test"] > 20


def test_side_by_side_as_one_after_the_other() -> None:
    data = load("digits").subset(200)

    def jobs():
        return [(build("lenet300", data, seed=seed), data, seed, 2) for seed in range(4)]

    for together, alone in zip(
        side_by_side(lab02.trained, jobs()), [lab02.trained(*job) for job in jobs()], strict=True
    ):
        assert all(
            torch.equal(a, b)
            for a, b in zip(together.parameters(), alone.parameters(), strict=True)
        )


def test_only_the_proximal_step_makes_zeros():
    data = load("digits").subset(300)
    found = {
        how: lab02.with_l1(build("lenet300", data, seed=0), data, 0, how, 1e-3, 10, every=3)
        for how in ("proximal", "reweighted", "subgradient", "l2")
    }
    assert found["subgradient"]["zeros"] == found["l2"]["zeros"] == 0
    assert found["proximal"]["zeros"] > 1 and found["reweighted"]["zeros"] > 1
    assert found["subgradient"]["small"] > found["l2"]["small"]


def test_the_shipped_results_can_be_made_again(tmp_path, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(lab02, "one_seed", lambda name, seed, settings: {"seed": seed})
    with ThreadPoolExecutor(2) as pool:
        found = lab02.remake_digits(pool, tmp_path / "digits")
        real = lab02.remake_mnist(pool, tmp_path / "mnist")
    assert [s["seed"] for s in found["seeds"]] == list(range(6))
    assert [s["seed"] for s in real["seeds"]] == list(range(3))
    assert found["settings"] == lab02.DIGITS and real["settings"] == lab02.MNIST


def test_real_and_default_results_have_one_shape():
    digits, mnist = (experiments.read(f"lab02_criteria_{name}") for name in ("digits", "mnist"))
    assert mnist["settings"] == lab02.MNIST and len(mnist["seeds"]) == 3
    assert [shape(run) for run in mnist["seeds"]] == 3 * [shape(digits["seeds"][0])]
    assert experiments.took("lab02_criteria_mnist")


def shape(found):
    """Keys and lengths."""
    if isinstance(found, dict):
        return {key: shape(value) for key, value in found.items()}
    return [shape(value) for value in found] if isinstance(found, list) else None
