"""Lab 03: what is measured of a search, and that the stored results are of this code."""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lab03_results
import pytest
import torch

from course_lib import experiments
from course_lib.data import images
from course_lib.experiments import lab03
from course_lib.models import build
from course_lib.pruning.weights import random_ticket, reinitialise, rewind
from course_lib.show.output import alt_of
from course_lib.training import train_and_test
from unit.experiments.stored import assert_like_stored, remade

STORED = {"digits": (4, 5, 13), "mnist": (1, 3, 16)}  # budgets, seeds, rounds


def result(accuracy: float, validation: list[float], losses: list[float]) -> dict[str, Any]:
    looks = {"steps": [4, 8, 12], "validation": validation, "validation_loss": losses}
    return {"accuracy": accuracy, **looks}


def test_rounds_take_each_arm_from_its_own_result() -> None:
    dense = result(97.0, [90.0, 95.0, 96.0], [3.0, 2.0, 1.0])
    ticket = result(96.0, [95.5, 96.0, 94.0], [2.0, 1.0, math.nan])
    reinit = result(93.0, [80.0, 90.0, 95.0], [1.0, 2.0, 3.0])
    chance = result(91.123, [80.0, 90.0, 94.9], [5.0, 4.0, 4.0])
    records = [
        {"round": 0, "remaining": 1.0, "result": dense, "controls": {}},
        {"round": 1, "remaining": 0.8, "result": ticket,
         "controls": {"reinit": {"result": reinit}, "random": {"result": chance}}},
    ]  # fmt: skip
    found = lab03.rounds({0: records, 7: records})
    assert found["seed"].tolist() == 4 * [0] + 4 * [7]
    one = found[found["seed"] == 7].set_index("method")
    assert list(one.index) == ["dense", *lab03.ARMS]
    assert one["round"].tolist() == [0, 1, 1, 1]
    assert one["remaining"].isna().tolist() == [True, False, False, False]
    assert one["test"].tolist() == [97.0, 96.0, 93.0, 91.12]
    assert one["steps"].tolist()[:3] == [8, 4, 12] and math.isnan(one.loc["random mask", "steps"])
    assert one["early_stop"].tolist() == [12, 8, 4, 8]
    assert one["stopped"].tolist() == [96.0, 96.0, 80.0, 90.0], "where the loss was lowest"


@pytest.mark.parametrize("data", ["digits", pytest.param("mnist", marks=pytest.mark.long)])
def test_a_remake_writes_the_stored_columns(data, tmp_path, monkeypatch) -> None:
    """With few seeds, rounds and steps."""
    if not images.available()[data]:
        pytest.skip(f"{data} is in none of the places where data are looked for")
    name = f"lab03_tickets_{data}"
    monkeypatch.setattr(lab03_results, "SEEDS", {data: 2})
    monkeypatch.setattr(lab03_results, "BUDGETS", (1, 2))
    few = {"rounds": 1, "epochs": 1, "iterations": 12, "every": 6}
    monkeypatch.setattr(lab03_results, "SETTINGS", {data: few})
    made = remade(experiments.registered()[name], tmp_path)
    assert_like_stored(name, made.tables, labels=("method",))
    assert len(made.tables["rounds"]) == (2 if data == "digits" else 1) * 2 * 4
    assert set(experiments.settings(name)) <= set(made.settings)


@pytest.mark.parametrize("data", STORED)
def test_the_stored_rounds_are_whole(data) -> None:
    budgets, seeds, rounds = STORED[data]
    counts = experiments.read(f"lab03_tickets_{data}/rounds").groupby(["method", "round"]).size()
    assert (counts == budgets * seeds).all() and len(counts) == 1 + 3 * rounds
    assert lab03.SETTINGS[data]["rounds"] == rounds


def test_a_stored_number_comes_out_again() -> None:
    """The first dense training of the digits' 30 epochs, to a point or so: processors
    differ in the last bits.
    """
    stored = experiments.read("lab03_tickets_digits/rounds").iloc[0]
    found = lab03.search("digits", [0], rounds=0, epochs=30, every=4)
    again = lab03.rounds(found).iloc[0]
    assert stored["method"] == again["method"] == "dense"
    assert abs(again["test"] - stored["test"]) <= 1.5
    assert abs(again["steps"] - stored["steps"]) <= 40


def test_the_dense_network_stands_beside_each_round_that_is_near() -> None:
    some = lab03.near(lab03.stored("digits"), [0.2, 0.06])
    assert (some.groupby(["remaining", "method"]).size() == 5).all()
    assert some["remaining"].nunique() == 2
    assert set(some["method"]) == {"dense", *lab03.ARMS, *lab03.RIVALS}


def test_a_rival_is_a_row_per_round_and_a_small_net_has_as_many_weights() -> None:
    for method in lab03.RIVALS:
        rows = lab03.rival(method, "digits", 0, rounds=2, epochs=1, every=4)
        assert [row["round"] for row in rows] == [1, 2]
    for share in (0.5, 0.06):
        net = lab03.small_dense("digits", share, 0)
        kept = sum(p.numel() for p in net.parameters() if p.ndim >= 2)
        assert kept == pytest.approx(share * 50_200, rel=0.08)


def test_tickets_of_the_conv_net_and_their_controls_start_from_one_step() -> None:
    rows = [lab03_results.rewound_to(k, 0, epochs=1, rounds=1) for k in (0, 2)]
    for found in rows:
        assert [row["method"] for row in found] == ["dense", "ticket", "random mask"]
    assert [found[0]["k"] for found in rows] == [0, 2]


def test_a_short_search_and_all_that_is_drawn_of_it() -> None:
    data = images.load("digits")
    found = lab03.search("digits", [0, 1, 3], rounds=1, epochs=2, iterations=24, every=8)
    assert found[0][1]["result"]["steps"] == [8, 16, 24], "the iterations end it, not the epochs"
    before = lab03.untrained(found, data, rewind, random_ticket, reinitialise)
    assert before.groupby("method")["seed"].nunique().to_dict() == dict.fromkeys(
        ("dense", *lab03.ARMS), 3
    )
    assert before["accuracy"].between(0, 100).all()
    masks = {"ticket": found[0][1]["masks"]["fc1.weight"]}
    assert "ticket blank " in alt_of(lab03.pixels(masks, data, "Connections"))


def test_the_trainer_is_that_of_the_search() -> None:
    settings = {"rounds": 1, "epochs": 2, "every": 8}
    model = build("lenet300", lab03.IMAGES["digits"], seed=3)
    mine = lab03.trainer(images.load("digits"), 3, settings)(model, None, 0, None)
    found = lab03.search("digits", [3], rounds=0, epochs=2, every=8)[3][0]["result"]
    assert mine == found


@pytest.mark.parametrize(
    ("start", "stop", "iterations", "steps"),
    [
        (0, None, 12, [6, 12]),
        (6, None, 12, [12]),
        (0, 6, 12, [6]),
        (0, None, 1000, [6, 12, 18]),  # an end after the last epoch changes nothing
    ],
)
def test_iterations_end_a_training_and_stop_still_cuts_it(start, stop, iterations, steps) -> None:
    model = build("lenet300", lab03.IMAGES["digits"], seed=0)
    how = {"data": "digits", "epochs": 2, "every": 6, "batch_size": 100}
    found = train_and_test(model, None, start, stop, iterations=iterations, **how)
    assert found["steps"] == steps


@pytest.mark.parametrize("layers", list(lab03.DENSITIES))
def test_sparse_training_starts_equal_and_moves_only_where_it_should(layers, monkeypatch) -> None:
    seen = []

    def keep(model: Any, masks: Any, *args: Any, **options: Any) -> dict[str, Any]:
        seen.append({name: p.detach().clone() for name, p in model.named_parameters()})
        seen[-1]["kept"] = sum(int((p != 0).sum()) for p in model.parameters() if p.ndim >= 2)
        result = train_and_test(model, masks, *args, **options)
        seen[-1]["after"] = sum(int((p != 0).sum()) for p in model.parameters() if p.ndim >= 2)
        return result

    monkeypatch.setattr(lab03, "train_and_test", keep)
    settings = {"data": "digits", "epochs": 2, "steps": 38, "every": 5}
    results = [lab03.train_sparse(method, layers, 0.05, 0, **settings) for method in lab03.METHODS]
    exchanged = [result["exchanged"] for result in results]
    assert exchanged[0] == 0 < min(exchanged[1:])
    static, moving, rigl = seen
    assert all(torch.equal(moving[name], rigl[name]) for name in moving if name.endswith("weight"))
    assert moving["kept"] == round(0.05 * 50_200), "inactive weights are zero before the first step"
    assert all(run["after"] <= round(0.05 * 50_200) for run in seen), "never more than at first"
    mask = moving["fc1.weight"] != 0
    assert not mask.all() and torch.equal(static["fc1.weight"][mask], moving["fc1.weight"][mask])


def test_static_and_moving_is_a_row_per_training() -> None:
    with ThreadPoolExecutor(1) as pool:
        table = lab03.static_and_moving(
            "digits", [("uniform", 0.05)], executor=pool, seeds=[0, 1], epochs=1, steps=19
        )
    assert table.columns.tolist() == ["seed", "case", "method", "test"]
    assert table["method"].tolist() == [name for name in lab03.METHODS for _ in range(2)]
    assert set(table["case"]) == {"uniform, 5 %"}


def test_connections_move_less_and_less_until_three_quarters() -> None:
    shares = [lab03.share_to_move(step, 380) for step in range(380)]
    moving = [step for step, share in enumerate(shares) if share]
    assert moving == list(range(10, 285, 10))
    assert 0.49 < shares[10] < 0.5 and shares[280] < 0.01
    assert all(shares[a] > shares[b] for a, b in zip(moving, moving[1:], strict=False))
