"""Which heads go: the lowest scores, or certain places, exactly as many as asked."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.pruning.heads import choose_heads, lowest_heads
from course_lib.pruning.heads.placement import RULES

grids = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(0, 3), st.integers(0, 2**16))


@given(grids, st.floats(0, 1))
def test_the_lowest_go_exactly_as_many_as_asked(grid, share):
    layers, heads, least, seed = grid
    g = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 4, (layers, heads), generator=g).float()  # with ties
    most = layers * max(0, heads - least)
    keep = lowest_heads(scores, round(share * most), least)
    assert int((~keep).sum()) == round(share * most)
    assert (keep.sum(1) >= min(least, heads)).all()
    order = torch.stack([scores.flatten(), torch.arange(scores.numel()).float()], 1).tolist()
    # whatever stays with a lower score, its layer needed
    for lost in (~keep.flatten()).nonzero().flatten().tolist():
        for stays in keep.flatten().nonzero().flatten().tolist():
            if order[stays] < order[lost]:
                assert keep[stays // heads].sum() == least


def test_equal_scores_go_in_order_and_missing_heads_do_not_count():
    scores = torch.tensor([[1.0, 0.0, 0.0], [0.0, torch.nan, torch.nan]])
    assert lowest_heads(scores, 2).tolist() == [[True, False, False], [True, False, False]]
    assert lowest_heads(-scores, 1).tolist() == [[False, True, True], [True, False, False]]
    assert lowest_heads(scores, 2, min_per_layer=1).tolist() == [
        [True, False, False],
        [True, False, False],
    ]


def capacity(rule, layers, heads, least):
    open_layers = (layers + 1) // 2 if rule == "no_consecutive" else layers
    return open_layers * max(0, heads - least)


@pytest.mark.parametrize("rule", RULES)
@given(grid=grids, share=st.floats(0, 1))
@settings(max_examples=60)
def test_rules_remove_exactly_so_many_where_they_may(rule, grid, share):
    layers, heads, least, seed = grid
    most = capacity(rule, layers, heads, least)
    count = round(share * most)
    state = torch.get_rng_state()
    keep, again = (
        choose_heads(layers, heads, count, rule, torch.Generator().manual_seed(seed), least)
        for _ in range(2)
    )
    assert torch.equal(keep, again) and torch.equal(torch.get_rng_state(), state)
    assert keep.dtype == torch.bool and keep.shape == (layers, heads)
    assert int((~keep).sum()) == count
    assert (keep.sum(1) >= min(least, heads)).all()
    lost = (~keep).sum(1)
    losing = lost.nonzero().flatten().tolist()
    full = max(0, heads - least)
    first = {"top": layers - len(losing), "bottom": 0, "middle": min(losing, default=0)}
    if rule in first:
        assert losing == list(range(first[rule], first[rule] + len(losing)))
        assert int((lost[losing] < full).sum()) <= 1
    if rule == "top" and losing:
        assert (lost[losing[1:]] == full).all()
    if rule == "bottom" and losing:
        assert (lost[losing[:-1]] == full).all()
    if rule == "middle" and losing:
        assert abs((losing[0] + losing[-1]) / 2 - (layers - 1) / 2) <= 0.5
    if rule == "no_consecutive":
        assert all(b - a > 1 for a, b in zip(losing, losing[1:], strict=False))
    with pytest.raises(ValueError, match=f"0 to {most} for '{rule}'"):
        choose_heads(layers, heads, most + 1, rule, torch.Generator(), least)


def test_random_heads_and_layers_without_neighbours_are_drawn_evenly():
    g, n = torch.Generator().manual_seed(0), 3000
    lost = sum((~choose_heads(4, 3, 5, "random", g)).double() for _ in range(n)) / n
    assert ((lost - 5 / 12).abs() < 0.04).all()
    sets = [
        tuple((~choose_heads(4, 2, 4, "no_consecutive", g)).any(1).nonzero().flatten().tolist())
        for _ in range(n)
    ]
    assert set(sets) == {(0, 2), (0, 3), (1, 3)}
    assert all(abs(sets.count(s) / n - 1 / 3) < 0.04 for s in set(sets))
