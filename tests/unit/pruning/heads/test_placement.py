"""Which heads go: the lowest scores, or certain places, exactly as many as asked; and sets
that can be removed where query heads share key/value heads.
"""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.pruning.heads import (
    choose_heads,
    find_attention,
    gated,
    lowest_heads,
    prune_by_kind,
    prune_heads_iteratively,
    remove_heads,
)
from course_lib.pruning.heads.placement import RULES
from unit.conformance.models import inputs_of, outputs, small_model

grids = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(0, 3), st.integers(0, 2**16))


@given(grids, st.floats(0, 1))
def test_the_lowest_go_exactly_as_many_as_asked(grid, share):
    layers, heads, least, seed = grid
    g = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 4, (layers, heads), generator=g).float()  # with ties
    count = round(share * layers * max(0, heads - least))
    keep = lowest_heads(scores, count, least)
    assert int((~keep).sum()) == count
    assert (keep.sum(1) >= min(least, heads)).all()
    order = [*zip(scores.flatten().tolist(), range(scores.numel()), strict=True)]
    # whatever stays with a lower score, its layer needed
    for lost in (~keep.flatten()).nonzero().flatten().tolist():
        for stays in keep.flatten().nonzero().flatten().tolist():
            if order[stays] < order[lost]:
                assert keep[stays // heads].sum() == least


def test_equal_scores_go_in_order_and_missing_heads_do_not_count():
    scores = torch.tensor([[1.0, 0.0, 0.0], [0.0, torch.nan, torch.nan]])
    assert lowest_heads(scores, 2).tolist() == [[True, False, False], [True, False, False]]
    assert lowest_heads(-scores, 1).tolist() == [[False, True, True], [True, False, False]]
    found = lowest_heads(scores, 2, min_per_layer=1)
    assert found.tolist() == [[True, False, False], [True, False, False]]


@pytest.mark.parametrize("rule", RULES)
@given(grid=grids, share=st.floats(0, 1))
@settings(max_examples=60)
def test_rules_remove_exactly_so_many_where_they_may(rule, grid, share):
    layers, heads, least, seed = grid
    full = max(0, heads - least)
    most = ((layers + 1) // 2 if rule == "no_consecutive" else layers) * full
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
    first = {"top": layers - len(losing), "bottom": 0, "middle": min(losing, default=0)}
    if rule in first:
        assert losing == list(range(first[rule], first[rule] + len(losing)))
        assert int((lost[losing] < full).sum()) <= 1
    if losing and rule in ("top", "bottom"):  # the layer where the count runs out comes last
        assert (lost[losing[1:] if rule == "top" else losing[:-1]] == full).all()
    if losing and rule == "middle":
        assert abs((losing[0] + losing[-1]) / 2 - (layers - 1) / 2) <= 0.5
    if rule == "no_consecutive":
        assert all(b - a > 1 for a, b in itertools.pairwise(losing))
    with pytest.raises(ValueError, match=f"0 to {most} for '{rule}'"):
        choose_heads(layers, heads, most + 1, rule, torch.Generator(), least)


def test_random_heads_and_layers_without_neighbours_are_drawn_evenly():
    g, n = torch.Generator().manual_seed(0), 3000
    lost = sum((~choose_heads(4, 3, 5, "random", g)).double() for _ in range(n)) / n
    assert ((lost - 5 / 12).abs() < 0.04).all()
    masks = (~choose_heads(4, 2, 4, "no_consecutive", g) for _ in range(n))
    sets = [tuple(mask.any(1).nonzero().flatten().tolist()) for mask in masks]
    assert set(sets) == {(0, 2), (0, 3), (1, 3)}
    assert all(abs(sets.count(s) / n - 1 / 3) < 0.04 for s in set(sets))


def test_by_kind():
    scores = {
        "encoder": torch.tensor([[1.0, 5], [2, 6]]),
        "decoder": torch.tensor([[3.0, math.nan]]),
        "cross": torch.tensor([[4.0, math.inf]]),
    }
    found = prune_by_kind(scores, "encoder", 0.5)
    assert found["encoder"].tolist() == [[False, True], [False, True]]
    assert found["decoder"].tolist() == [[True, False]] and found["cross"].all()
    for fraction, left in ((1.0, 0), (0.5, 7 - round(0.5 * 7))):
        found = prune_by_kind(scores, "all", fraction)
        assert sum(int(mask.sum()) for mask in found.values()) == left


# ------------------------------------------------------------ heads that share their keys
def even(keep, groups):
    """Whether every group that is left has the same number of heads."""
    left = keep.view(groups, -1).sum(1)
    return len(set(left[left > 0].tolist())) <= 1


SETS = [torch.tensor(bits) for bits in itertools.product([False, True], repeat=4)]


@pytest.mark.parametrize("family", ["qwen2", "phi3", "gemma"])
def test_every_set_is_removed_as_its_gates_say_or_refused(family):
    model, inputs = small_model(family), inputs_of(family)
    groups = find_attention(model)[0].kv_heads
    for mask in SETS:
        keep = torch.ones(3, 4, dtype=torch.bool)
        keep[1] = mask
        if not even(mask, groups):
            with pytest.raises(ValueError, match=r"key/value groups .* nearest set") as refusal:
                remove_heads(model, keep)
            named = str(refusal.value).partition("keeps heads [")[2].partition("]")[0].split(", ")
            near = torch.isin(torch.arange(4), torch.tensor([int(h) for h in named if h]))
            assert even(near, groups) and (near != mask).sum() == 1
            continue
        with gated(model, keep):
            expected = outputs(model, inputs)
        smaller = remove_heads(model, keep)
        torch.testing.assert_close(outputs(smaller, inputs), expected, rtol=1e-6, atol=1e-6)
        left = find_attention(smaller)[1]
        assert left.heads == mask.sum() and left.kv_heads == mask.view(groups, -1).any(1).sum()


def test_the_chosen_set_is_the_cheapest_that_can_be_removed():
    found = find_attention(small_model("llama"))
    scores = torch.rand(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sets = [s for s in SETS if even(s, 2)]
    for count, least in [(0, 0), (2, 1), (5, 1), (6, 0), (12, 0)]:
        cheapest = min(
            float(scores[~torch.stack(masks)].sum())
            for masks in itertools.product(sets, repeat=3)
            if sum(int((~m).sum()) for m in masks) == count
            and all(int(m.sum()) >= least for m in masks)
        )
        keep = lowest_heads(scores, count, least, found)
        assert int((~keep).sum()) == count and float(scores[~keep].sum()) == pytest.approx(cheapest)
        assert all(even(row, 2) for row in keep)
    with pytest.raises(ValueError, match="nearest counts that can are 0 and 2"):
        lowest_heads(scores, 1, 0, found)
    # without shared keys the same as ever
    plain = find_attention(small_model("bert"))
    assert torch.equal(lowest_heads(scores, 5, 1, plain), lowest_heads(scores, 5, 1))


def test_removal_step_by_step_only_passes_sets_that_can_be_removed():
    scores = torch.rand(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    masks = prune_heads_iteratively(small_model("qwen3"), lambda m: scores, [2, 4, 8])
    assert [int((~m).sum()) for m in masks] == [2, 4, 8]
    assert all(even(row, 2) for mask in masks for row in mask)
    assert all((b <= a).all() for a, b in itertools.pairwise(masks))
