"""What makes soft movement strong: the arms, shortened."""

import lab06_results as made
import lab06_soft_results as soft_made
import pandas as pd
import pytest
import torch

from course_lib import experiments
from course_lib.experiments import lab06
from course_lib.pruning.weights import encoder_weights, remaining

SHORT = {"steps": 6, "batch": 8, "lr": 3e-4}


pytestmark = pytest.mark.usefixtures("few_texts_of_lab06")


@pytest.mark.long
def test_the_penalty_with_soft_movements_own_schedule_is_soft_movement(monkeypatch):
    """A threshold τ and the count that it leaves choose the same weights."""
    # so high a rate that a few steps part the scores
    monkeypatch.setattr(made, "SCORES_LR", 0.1)
    path = []
    found, soft = made.softly(0, 50.0, SHORT, lambda masks: path.append(remaining(masks)))
    assert 0 < path[-1] < 0.9
    again, masks = made.by_movement(0, lambda step: path[step - 1], lam=50.0, how=SHORT)
    same = sum(int((soft[n] == masks[n]).sum()) for n in soft) / sum(
        m.numel() for m in soft.values()
    )
    assert same > 0.999 and again["accuracy"] == pytest.approx(found["accuracy"], abs=1)
    _, other = made.by_movement(0, lambda step: path[step - 1], how=SHORT)
    differ = sum(int((soft[n] != other[n]).sum()) for n in soft)
    assert differ > 1000


@pytest.mark.long
def test_drawn_signs_leave_the_sizes():
    weights = encoder_weights(lab06.pretrained(0))
    one = dict.fromkeys(weights, 0.5)
    _, as_they_are = made.by_movement(0, lambda step: one, how=SHORT)
    _, drawn = made.by_movement(0, lambda step: one, draw_signs=True, how=SHORT)
    _, again = made.by_movement(0, lambda step: one, draw_signs=True, how=SHORT)
    for name in weights:
        assert torch.equal(drawn[name], again[name])
        assert float(drawn[name].double().mean()) == pytest.approx(0.5, abs=1e-3)
    both = sum(int((as_they_are[n] & drawn[n]).sum()) for n in weights)
    kept = sum(int(mask.sum()) for mask in drawn.values())
    assert both / kept == pytest.approx(0.5, abs=0.1)  # nothing in common but chance


@pytest.mark.long
def test_every_arm_leaves_what_soft_movement_leaves(monkeypatch):
    monkeypatch.setattr(made, "SCORES_LR", 0.1)
    found = {name: pd.DataFrame(rows) for name, rows in soft_made.differences(0, SHORT).items()}
    for name, table in found.items():
        assert ["seed", *table.columns] == list(experiments.read(f"lab06_soft/{name}").columns)
    arms = found["arms"].set_index("method")
    assert list(arms.index) == list(experiments.read("lab06_soft/arms")["method"].unique())
    sizes = [w.numel() for w in encoder_weights(lab06.pretrained(0)).values()]
    kept = found["kept"].groupby("method", sort=False)["kept"].agg(list)
    for name, shares in kept.items():
        left = sum(k * n for k, n in zip(shares, sizes, strict=True)) / sum(sizes)
        assert left == pytest.approx(arms.loc["soft", "share"], abs=2e-3), name
    assert kept["matrices"] == pytest.approx(kept["soft"], abs=1e-3)
    assert len(set(kept["equal shares, penalty"])) <= 3
    for one in ("soft", "said"):  # nothing else differs but when the zeros came
        assert arms.loc[f"{one}, held"].notna()[["accuracy", "test"]].all()
