"""From scores to masks: exact counts, the right groups, and torch.nn.utils.prune as a
second opinion on both.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

from course_lib.pruning import weights
from course_lib.pruning.weights import GRANULARITIES

sparsities = st.one_of(st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.floats(0, 1))


def scores_of(shape, seed, levels=None):
    generator = torch.Generator().manual_seed(seed)
    if levels:
        return torch.randint(levels, shape, generator=generator).float()  # many ties
    return torch.rand(shape, generator=generator)


# one layer


@given(
    shape=st.lists(st.integers(0, 5), max_size=4),
    s=sparsities,
    seed=st.integers(0, 99),
    levels=st.sampled_from([0, 3]),
)
@settings(max_examples=150, deadline=None)
def test_smallest_prunes_exactly_the_first_of_the_smallest(shape, s, seed, levels):
    score = scores_of(shape, seed, levels)
    mask = weights.smallest(score, s)
    # Python's sort is stable
    order = sorted(range(score.numel()), key=lambda i: score.flatten()[i].item())
    gone = set(order[: round(s * score.numel())])
    assert mask.shape == score.shape and mask.dtype == torch.bool
    assert {i for i, kept in enumerate(mask.flatten().tolist()) if not kept} == gone


def test_ties_go_in_row_major_order_whatever_the_memory_layout():
    score = torch.ones(2, 3, 2, 2)
    for layout in (
        score,
        score.to(memory_format=torch.channels_last),
        score.transpose(0, 1).contiguous().transpose(0, 1),
    ):
        mask = weights.smallest(layout, 0.5)
        assert mask.flatten().tolist() == [False] * 12 + [True] * 12


def test_threshold_keeps_what_reaches_it():
    score = torch.tensor([0.1, 0.3, 0.5, 0.3, torch.inf])
    assert weights.threshold(score, 0.3).tolist() == [False, True, True, True, True]
    assert weights.threshold(score, 0).all()
    assert not weights.threshold(score[:4], 9.0).any()
    assert weights.threshold(torch.empty(0, 3), 0.3).shape == (0, 3)


# groups


def test_group_scores_sum_over_the_members_of_a_group():
    score = scores_of((4, 3, 2, 5), 0)
    exact = score.double()
    want = {
        "element": exact,
        "row": exact.sum(3),
        "kernel": exact.sum((2, 3)),
        "filter": exact.sum((1, 2, 3)),
    }
    for granularity in GRANULARITIES:
        got = weights.group_scores(score, granularity)
        assert got.dtype == torch.float64
        torch.testing.assert_close(got, want[granularity], rtol=1e-14, atol=0)


def test_groups_of_matrices_and_of_other_convolutions():
    matrix, conv1d, conv3d = (scores_of(s, 0) for s in [(4, 6), (4, 3, 5), (4, 3, 2, 5, 7)])
    torch.testing.assert_close(weights.group_scores(matrix, "filter"), matrix.double().sum(1))
    assert torch.equal(weights.group_scores(conv1d, "row"), weights.group_scores(conv1d, "kernel"))
    assert weights.group_scores(conv1d, "filter").shape == (4,)
    assert [tuple(weights.group_scores(conv3d, g).shape) for g in ("row", "kernel", "filter")] == [
        (4, 3, 2, 5),
        (4, 3),
        (4,),
    ]


def test_groups_are_summed_in_float64():
    """In float32 (and all the more in float16) the large member swallows the small
    ones, and the wrong group goes.
    """
    score = torch.ones(2, 1025)
    score[:, 0] = 2.0**26
    score[1, 1:] = 0.5
    for dtype, big in [
        (torch.float32, 2.0**26),
        (torch.float16, 2.0**15),
        (torch.bfloat16, 2.0**26),
    ]:
        score[:, 0] = big
        sums = weights.group_scores(score.to(dtype), "filter")
        assert sums.tolist() == [big + 1024, big + 512]
        mask = weights.local_masks({"w": score.to(dtype)}, 0.5, "filter")["w"]
        assert mask[0].all() and not mask[1].any()


def test_a_vector_has_only_elements():
    assert weights.group_scores(torch.ones(3), "element").shape == (3,)
    with pytest.raises(ValueError, match='use "element"'):
        weights.group_scores(torch.ones(3), "filter")


@given(
    shape=st.tuples(*[st.integers(1, 4)] * 4),
    granularity=st.sampled_from(GRANULARITIES),
    s=sparsities,
    seed=st.integers(0, 99),
    levels=st.sampled_from([0, 3]),
)
@settings(max_examples=150, deadline=None)
def test_whole_groups_go_and_exactly_so_many(shape, granularity, s, seed, levels):
    score = scores_of(shape, seed, levels)
    mask = weights.local_masks({"w": score}, s, granularity)["w"]
    size = {
        "element": 1,
        "row": shape[3],
        "kernel": shape[2] * shape[3],
        "filter": math.prod(shape[1:]),
    }[granularity]
    members = mask.reshape(-1, size)  # groups are contiguous in row-major order
    assert ((members.sum(1) == 0) | (members.sum(1) == size)).all()
    norms = [math.fsum(row) for row in score.double().reshape(-1, size).tolist()]
    gone = sorted(range(len(norms)), key=norms.__getitem__)[: round(s * len(norms))]
    # sums of integers are exact; others may tie only by chance
    if levels or len(set(norms)) == len(norms):
        assert set((~members[:, 0]).nonzero().flatten().tolist()) == set(gone)


# layers together


@given(
    sizes=st.lists(st.integers(0, 30), min_size=0, max_size=4),
    s=sparsities,
    seed=st.integers(0, 99),
    levels=st.sampled_from([0, 3]),
)
@settings(max_examples=150, deadline=None)
def test_global_masks_are_exact_and_break_ties_in_order(sizes, s, seed, levels):
    scores = {str(i): scores_of((size, 2), seed + i, levels) for i, size in enumerate(sizes)}
    masks = weights.global_masks(scores, s)
    assert list(masks) == list(scores) and all(masks[k].shape == v.shape for k, v in scores.items())
    values = [x for v in scores.values() for x in v.flatten().tolist()]
    gone = set(sorted(range(len(values)), key=values.__getitem__)[: round(s * len(values))])
    kept = [x for m in masks.values() for x in m.flatten().tolist()]
    assert {i for i, k in enumerate(kept) if not k} == gone


@given(
    s=st.lists(sparsities, min_size=2, max_size=2),
    seed=st.integers(0, 99),
    granularity=st.sampled_from(GRANULARITIES),
)
@settings(max_examples=50, deadline=None)
def test_a_higher_sparsity_prunes_a_superset(s, seed, granularity):
    low, high = sorted(s)
    scores = {"a": scores_of((3, 2, 2, 3), seed, 3), "b": scores_of((2, 3, 1, 2), seed + 1)}
    for select in (
        lambda s: weights.local_masks(scores, s, granularity),
        lambda s: weights.global_masks(scores, s),
        lambda s: weights.global_group_masks(scores, s, granularity),
    ):
        few, many = select(low), select(high)
        assert all((many[k] <= few[k]).all() for k in scores)


def test_sparsity_and_granularity_by_name():
    scores = {"conv": scores_of((4, 2, 3, 3), 0), "fc": scores_of((5, 8), 1)}
    masks = weights.local_masks(
        scores, {"conv": 0.5, "fc": 0.25}, {"conv": "kernel", "fc": "element"}
    )
    assert int((~masks["conv"]).sum()) == 4 * 9 and int((~masks["fc"]).sum()) == 10


def test_global_groups_compete_by_their_mean_so_that_size_does_not_decide():
    scores = {"wide": torch.full((4, 100), 0.1), "narrow": torch.full((4, 2), 1.0)}
    masks = weights.global_group_masks(scores, 0.5, "filter")
    assert not masks["wide"].any() and masks["narrow"].all()
    scores = {"a": scores_of((4, 3, 3, 3), 0), "b": scores_of((6, 4, 3, 3), 1)}
    for s in (0.0, 0.3, 1.0):
        masks = weights.global_group_masks(scores, s, "kernel")
        assert sum(int((~m).sum()) for m in masks.values()) == 9 * round(s * (12 + 24))


# torch.nn.utils.prune as oracle


def net(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(54, 7))


ORACLES = {
    "l1_unstructured": lambda model, s: [
        prune.l1_unstructured(model[i], "weight", amount=s) for i in (0, 3)
    ],
    "ln_structured": lambda model, s: [
        prune.ln_structured(model[i], "weight", amount=s, n=1, dim=0) for i in (0, 3)
    ],
    "global_unstructured": lambda model, s: prune.global_unstructured(
        [(model[0], "weight"), (model[3], "weight")], prune.L1Unstructured, amount=s
    ),
}
OURS = {
    "l1_unstructured": weights.local_masks,
    "ln_structured": lambda scores, s: weights.local_masks(scores, s, "filter"),
    "global_unstructured": weights.global_masks,
}


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("s", [0.0, 0.1, 0.333, 0.5, 0.97, 1.0])
def test_like_torchs_own(oracle, s):
    model = net()
    masks = OURS[oracle](weights.magnitude(weights.prunable(model)), s)
    ORACLES[oracle](model, s)
    for i in (0, 3):
        assert torch.equal(masks[f"{i}.weight"], model[i].weight_mask.bool())
