"""Schedules rise to exactly the final sparsity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.pruning import weights


@given(final=st.floats(0, 0.999), steps=st.integers(1, 50))
def test_geometric_takes_the_same_share_of_the_survivors(final, steps):
    targets = weights.geometric(final, steps)
    assert len(targets) == steps and targets[-1] == final
    alive = [1.0] + [1 - t for t in targets]
    shares = [1 - b / a for a, b in zip(alive, alive[1:], strict=False)]
    assert max(shares) - min(shares) < 1e-9


def test_geometric_is_frankle_and_carbins_20_per_cent_a_round():
    final = 1 - 0.8**10
    assert weights.geometric(final, 10)[:3] == pytest.approx([0.2, 0.36, 0.488])
    assert 1 - final == pytest.approx(0.107, abs=5e-4)


@given(final=st.floats(0, 1), steps=st.integers(1, 50))
def test_cubic_is_zhu_and_guptas_equation(final, steps):
    targets = weights.cubic(final, steps)
    assert len(targets) == steps and targets[-1] == final
    for t, target in enumerate(targets, start=1):
        assert target == pytest.approx(final + (0 - final) * (1 - t / steps) ** 3, abs=1e-12)


@given(
    final=st.floats(0, 0.999),
    steps=st.integers(1, 50),
    schedule=st.sampled_from([weights.geometric, weights.cubic]),
)
def test_targets_never_fall_and_one_step_is_one_shot(final, steps, schedule):
    targets = schedule(final, steps)
    assert all(0 <= a <= b <= 1 for a, b in zip(targets, targets[1:], strict=False))
    assert schedule(final, 1) == weights.one_shot(final)
