"""Lab 03's longer runs: what is measured, and that the shipped files are of this
code.
"""

import json
import math
from typing import Any

import pytest
import torch

from course_lib import experiments
from course_lib.experiments import lab03
from course_lib.models import build
from course_lib.training import train_and_test


def result(accuracy: float, validation: list[float], losses: list[float]) -> dict[str, Any]:
    return {
        "accuracy": accuracy,
        "validation": validation,
        "validation_loss": losses,
        "steps": [],
        "loss": [],
    }


def test_measured_takes_each_arm_from_its_own_result() -> None:
    dense = result(97.0, [90.0, 95.0, 96.0], [3.0, 2.0, 1.0])
    ticket = result(96.0, [95.5, 96.0, 94.0], [2.0, 1.0, math.nan])
    reinit = result(93.0, [80.0, 90.0, 95.0], [1.0, 2.0, 3.0])
    chance = result(91.123, [80.0, 90.0, 94.9], [5.0, 4.0, 4.0])
    records = [
        {"round": 0, "remaining": 1.0, "result": dense, "controls": {}},
        {"round": 1, "remaining": 0.8, "result": ticket,
         "controls": {"reinit": {"result": reinit}, "random": {"result": chance}}},
    ]  # fmt: skip
    found = lab03.measured({0: records, 7: records}, every=4)
    assert found["remaining"] == [1.0, 0.8]
    assert found["ticket"]["accuracy"] == [[97.0, 96.0], [97.0, 96.0]]
    assert found["ticket"]["steps"][0] == [8, 4]
    assert found["ticket"]["early_stop"][0] == [12, 8]
    assert found["ticket"]["stopped"][0] == [96.0, 96.0], (
        "validation accuracy where the loss was lowest"
    )
    assert found["reinit"]["steps"][0] == [8, 12]
    assert found["reinit"]["early_stop"][0] == [12, 4]
    assert found["random mask"]["accuracy"][1] == [97.0, 91.12]
    assert found["random mask"]["steps"][1] == [8, None], "never at 95 %"
    assert json.loads(json.dumps(found)) == found
    assert math.isnan(lab03.numbers(found["random mask"]["steps"])[0][1])


def test_a_short_search_gives_all_arms() -> None:
    found = lab03.search("digits", [0, 3], rounds=1, epochs=2, iterations=24, every=8)
    assert list(found) == [0, 3]
    assert found[0][1]["result"]["steps"] == [8, 16, 24], (
        "it ends with the iterations, not with the epochs"
    )
    measured = lab03.measured(found, every=8)
    assert set(measured) == {"remaining", *lab03.ARMS}
    for arm in lab03.ARMS:
        assert [len(row) for row in measured[arm]["accuracy"]] == [2, 2]
        assert measured[arm]["accuracy"][0][0] == measured["ticket"]["accuracy"][0][0], (
            "the dense round is one"
        )


def test_iterations_end_a_training_and_stop_still_cuts_it() -> None:
    def steps(start: int, stop: int | None, iterations: int | None) -> list[int]:
        model = build("lenet300", lab03.IMAGES["digits"], seed=0)
        return train_and_test(
            model,
            None,
            start,
            stop,
            data="digits",
            epochs=2,
            every=6,
            batch_size=100,
            iterations=iterations,
        )["steps"]

    assert steps(0, None, 12) == [6, 12]
    assert steps(6, None, 12) == [12]
    assert steps(0, 6, 12) == [6]
    assert steps(0, None, None)[-1] == 18
    assert steps(0, None, 1000)[-1] == 18, "an end behind the last epoch changes nothing"


@pytest.mark.parametrize("layers", list(lab03.DENSITIES))
def test_sparse_training_starts_alike_and_moves_only_where_it_should(
    layers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def keep(model: Any, masks: Any, *args: Any, **options: Any) -> dict[str, Any]:
        seen.append({name: p.detach().clone() for name, p in model.named_parameters()})
        seen[-1]["kept"] = sum(int((p != 0).sum()) for p in model.parameters() if p.ndim >= 2)
        result = train_and_test(model, masks, *args, **options)
        seen[-1]["after"] = sum(int((p != 0).sum()) for p in model.parameters() if p.ndim >= 2)
        return result

    monkeypatch.setattr(lab03, "train_and_test", keep)
    results = {
        method: lab03.train_sparse(
            method, layers, 0.05, 0, data="digits", epochs=2, steps=38, every=5, fraction=0.3
        )
        for method in lab03.METHODS
    }
    assert results["static"]["exchanged"] == 0
    assert results["set"]["exchanged"] > 0
    assert results["set"]["exchanged"] == results["rigl"]["exchanged"]
    static, moving, rigl = seen
    assert all(
        torch.equal(moving[name], rigl[name]) for name in ("fc1.weight", "fc2.weight", "fc3.weight")
    )
    assert moving["kept"] == round(0.05 * 50_200), "inactive weights are zero before the first step"
    for run in seen:
        assert run["after"] <= round(0.05 * 50_200), "never more weights than at the start"
    assert not torch.equal(static["fc1.weight"], moving["fc1.weight"]), (
        "masked later, by training itself"
    )
    mask = moving["fc1.weight"] != 0
    assert torch.equal(static["fc1.weight"][mask], moving["fc1.weight"][mask]), (
        "the same first weights"
    )


def test_sparse_training_refuses_what_it_does_not_know() -> None:
    for method, layers in (("lottery", "uniform"), ("rigl", "dense")):
        with pytest.raises(ValueError, match="choose a method"):
            lab03.train_sparse(method, layers, 0.05, 0, data="digits", epochs=1, steps=1, every=1)


def test_the_shipped_results_are_of_these_settings() -> None:
    digits = experiments.read("lab03_tickets_digits")
    assert [int(epochs) for epochs in digits] == list(lab03.BUDGETS)
    runs = {**digits, "mnist": experiments.read("lab03_tickets_mnist")}
    for name, run in runs.items():
        rounds, seeds = (lab03.MNIST["rounds"], 3) if name == "mnist" else (13, 5)
        assert len(run["remaining"]) == rounds + 1
        for arm in lab03.ARMS:
            for values in run[arm].values():
                assert [len(row) for row in values] == [rounds + 1] * seeds


def test_a_shipped_number_comes_out_again() -> None:
    """The first dense training of the digits' 30 epochs, to a point or so: processors
    differ in the last bits.
    """
    shipped = experiments.read("lab03_tickets_digits")["30"]
    again = lab03.measured(lab03.search("digits", [0], rounds=0, epochs=30, every=4), every=4)
    assert abs(again["ticket"]["accuracy"][0][0] - shipped["ticket"]["accuracy"][0][0]) <= 1.5
    assert abs(again["ticket"]["steps"][0][0] - shipped["ticket"]["steps"][0][0]) <= 40
