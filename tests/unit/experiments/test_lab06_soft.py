"""What makes soft movement strong: the arms, shortened."""

import pytest
import torch

from course_lib.experiments import lab06, lab06_soft
from course_lib.pruning.weights import encoder_weights, remaining

SHORT = {"steps": 6, "batch": 8, "lr": 3e-4}


pytestmark = pytest.mark.usefixtures("few_texts_of_lab06")


@pytest.mark.long
def test_the_penalty_with_soft_movements_own_schedule_is_soft_movement(monkeypatch):
    """A threshold τ and the count that it leaves choose the same weights."""
    # so high a rate that a few steps part the scores
    monkeypatch.setattr(lab06, "SCORES_LR", 0.1)
    path = []
    found, soft = lab06.softly(0, 50.0, SHORT, lambda masks: path.append(remaining(masks)))
    assert 0 < path[-1] < 0.9
    again, masks = lab06.by_movement(0, lambda step: path[step - 1], lam=50.0, how=SHORT)
    same = sum(int((soft[n] == masks[n]).sum()) for n in soft) / sum(
        m.numel() for m in soft.values()
    )
    assert same > 0.999 and again["accuracy"] == pytest.approx(found["accuracy"], abs=1)
    _, other = lab06.by_movement(0, lambda step: path[step - 1], how=SHORT)
    differ = sum(int((soft[n] != other[n]).sum()) for n in soft)
    assert differ > 1000


def test_drawn_signs_leave_the_sizes():
    weights = encoder_weights(lab06.pretrained(0))
    one = dict.fromkeys(weights, 0.5)
    _, as_they_are = lab06.by_movement(0, lambda step: one, how=SHORT)
    _, drawn = lab06.by_movement(0, lambda step: one, draw_signs=True, how=SHORT)
    _, again = lab06.by_movement(0, lambda step: one, draw_signs=True, how=SHORT)
    for name in weights:
        assert torch.equal(drawn[name], again[name])
        assert float(drawn[name].double().mean()) == pytest.approx(0.5, abs=1e-3)
    both = sum(int((as_they_are[n] & drawn[n]).sum()) for n in weights)
    kept = sum(int(mask.sum()) for mask in drawn.values())
    assert both / kept == pytest.approx(0.5, abs=0.1)  # nothing in common but chance


@pytest.mark.long
def test_every_arm_leaves_what_soft_movement_leaves(monkeypatch):
    monkeypatch.setattr(lab06, "SCORES_LR", 0.1)
    found = lab06_soft.differences(0, SHORT)
    sizes = [w.numel() for w in encoder_weights(lab06.pretrained(0)).values()]
    arms = found["arms"]
    assert len(arms) == 12
    for name, arm in arms.items():
        if "kept" in arm:
            kept = sum(k * n for k, n in zip(arm["kept"], sizes, strict=True)) / sum(sizes)
            assert kept == pytest.approx(found["share"], abs=2e-3), name
    assert arms["matrices"]["kept"] == pytest.approx(arms["soft"]["kept"], abs=1e-3)
    assert len(set(arms["equal shares, penalty"]["kept"])) <= 3
    for one in ("soft", "said"):  # nothing else differs but when the zeros came
        assert arms[f"{one}, held"].keys() == {"accuracy", "test"}
