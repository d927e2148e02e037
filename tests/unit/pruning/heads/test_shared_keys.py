"""Query heads that share key/value heads: which sets can be removed, and which are
chosen.
"""

import itertools

import pytest
import torch

from course_lib.models.families import register
from course_lib.pruning.heads import (
    Layout,
    find_attention,
    gated,
    lowest_heads,
    prune_heads_iteratively,
    remove_heads,
)
from course_lib.pruning.heads.placement import refuse_uneven
from unit.conformance.models import inputs_of, outputs, small_model


def even(keep, groups):
    """Whether every group that is left has the same number of heads."""
    left = keep.view(groups, -1).sum(1)
    return len(set(left[left > 0].tolist())) <= 1


@pytest.mark.parametrize("family", ["qwen2", "phi3", "gemma"])
def test_every_set_is_removed_as_its_gates_say_or_refused(family):
    model, inputs = small_model(family), inputs_of(family)
    found = find_attention(model)
    groups = found[0].kv_heads
    for bits in itertools.product([False, True], repeat=4):
        keep = torch.ones(3, 4, dtype=torch.bool)
        keep[1] = torch.tensor(bits)
        if not even(keep[1], groups):
            with pytest.raises(ValueError, match=r"key/value groups .* nearest set"):
                remove_heads(model, keep)
            continue
        with gated(model, keep):
            expected = outputs(model, inputs)
        smaller = remove_heads(model, keep)
        torch.testing.assert_close(outputs(smaller, inputs), expected, rtol=1e-6, atol=1e-6)
        left = find_attention(smaller)[1]
        assert (left.heads, left.kv_heads) == (
            sum(bits),
            int(keep[1].view(groups, -1).any(1).sum()),
        )


def test_the_refusal_names_the_nearest_set():
    (a, *_) = find_attention(small_model("llama"))
    # heads 0 and 1 share a key, 2 and 3 another: one head more must go
    with pytest.raises(ValueError, match=r"\[1, 2\] query heads, of 2.*keeps heads \[\d, 3\]"):
        refuse_uneven(a, torch.tensor([False, True, True, True]))


def test_the_chosen_set_is_the_cheapest_that_can_be_removed():
    model = small_model("llama")
    found = find_attention(model)
    scores = torch.rand(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sets = [torch.tensor(b) for b in itertools.product([False, True], repeat=4)]
    sets = [s for s in sets if even(s, 2)]
    for count, least in [(0, 0), (2, 1), (5, 1), (6, 0), (12, 0)]:
        cheapest = min(
            float(scores[~torch.stack(masks)].sum())
            for masks in itertools.product(sets, repeat=3)
            if sum(int((~m).sum()) for m in masks) == count
            and all(int(m.sum()) >= least for m in masks)
        )
        keep = lowest_heads(scores, count, least, found)
        assert int((~keep).sum()) == count and float(scores[~keep].sum()) == pytest.approx(cheapest)
        remove_heads(model, keep)
    with pytest.raises(ValueError, match="nearest counts that can are 0 and 2"):
        lowest_heads(scores, 1, 0, found)
    # without shared keys the same as ever
    plain = find_attention(small_model("bert"))
    assert torch.equal(lowest_heads(scores, 5, 1, plain), lowest_heads(scores, 5, 1))


def test_removal_step_by_step_only_passes_sets_that_can_be_removed():
    model = small_model("qwen3")
    scores = torch.rand(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    masks = prune_heads_iteratively(model, lambda m: scores, [2, 4, 8])
    assert [int((~m).sum()) for m in masks] == [2, 4, 8]
    for mask in masks:
        remove_heads(model, mask)


def test_a_layout_that_leaves_out_the_number_of_groups_is_noticed(monkeypatch):
    from course_lib.models import families

    monkeypatch.setattr(families, "TABLE", dict(families.TABLE))
    model = small_model("llama")
    kind = type(model.model.layers[0].self_attn)
    register(kind, attention=Layout("q_proj", "k_proj", "v_proj", "o_proj"))
    keep = torch.tensor([[True, False] * 2] * 3)
    with pytest.raises(ValueError, match="groups="):
        remove_heads(model, keep)
    names = Layout("q_proj", "k_proj", "v_proj", "o_proj", heads="num_key_value_groups")
    register(kind, attention=names)
    with pytest.raises(ValueError, match="it is 2, and the output projection reads 4 heads"):
        find_attention(model)
