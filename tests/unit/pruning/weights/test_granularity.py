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
NUMBERS = {
    torch.float64: st.floats(-1, 1) | st.sampled_from([0.0, -0.0, torch.inf, -torch.inf]),
    torch.float32: st.floats(width=32, allow_nan=False) | st.integers(-3, 3).map(float),
    torch.float16: st.floats(width=16, allow_nan=False) | st.sampled_from([0.1, 0.3]),
    torch.bfloat16: st.integers(-3, 3).map(float),
    torch.int64: st.integers(-3, 3),
    torch.bool: st.booleans(),
}


def scores_of(shape, seed, levels=None):
    generator = torch.Generator().manual_seed(seed)
    if levels:
        return torch.randint(levels, shape, generator=generator).float()  # many ties
    return torch.rand(shape, generator=generator)


@st.composite
def layers(draw):
    """Scores of one dtype, or of several that compare by value; many of them tie."""
    dtypes = draw(st.lists(st.sampled_from(list(NUMBERS)), min_size=1, max_size=3))
    return {
        str(i): torch.tensor(draw(st.lists(NUMBERS[d], max_size=20)), dtype=d)
        for i, d in enumerate(dtypes)
    }


@given(layers(), sparsities)
@settings(max_examples=300, deadline=None)
def test_exactly_the_first_of_the_smallest_go(scores, s):
    """The definition: a stable sort of all numbers together, and the first so many go."""
    before = {name: score.clone() for name, score in scores.items()}

    def sorted_out(parts):
        values = torch.cat([p.double() for p in parts])
        wanted = torch.ones(len(values), dtype=torch.bool)
        wanted[values.sort(stable=True).indices[: round(s * len(values))]] = False
        return wanted.tolist()

    masks = weights.global_masks(scores, s)
    assert list(masks) == list(scores)
    assert torch.cat(list(masks.values())).tolist() == sorted_out(scores.values())
    alone = weights.local_masks(scores, s)
    for name, score in scores.items():
        assert alone[name].tolist() == weights.smallest(score, s).tolist() == sorted_out([score])
        assert torch.equal(score, before[name]) and masks[name].dtype == torch.bool
        # a view of one long vector would carry the masks of all layers into a file or a copy
        assert masks[name].untyped_storage().nbytes() == len(score)


def test_ties_go_in_row_major_order_whatever_the_memory_layout():
    score = torch.ones(2, 3, 2, 2)
    for layout in (
        score,
        score.to(memory_format=torch.channels_last),
        score.transpose(0, 1).contiguous().transpose(0, 1),
    ):
        mask = weights.smallest(layout, 0.5)
        assert mask.flatten().tolist() == [False] * 12 + [True] * 12


def test_the_lowest_of_every_line_go_of_equal_ones_the_first():
    scores = torch.tensor([[1, 0, 0, 3], [2, 2, 2, 1]])
    assert weights.prune_lowest(scores, 2, dim=1).tolist() == [[True, False, False, True]] + [
        [False, True, True, False]
    ]
    long = torch.randint(0, 3, (4, 40), generator=torch.Generator().manual_seed(0))
    for dim, lines in ((1, long), (0, long.T)):
        found = weights.prune_lowest(lines, 17, dim=dim)
        alone = torch.stack([weights.prune_lowest(line, 17) for line in long])
        assert torch.equal(found, alone if dim else alone.T)
    with pytest.raises(ValueError, match="k must be a count from 0 to 4"):
        weights.prune_lowest(scores, 5, dim=1)
    with pytest.raises(ValueError, match="complex, which has no order"):
        weights.prune_lowest(scores.to(torch.complex64), 1, dim=1)


# ---- groups


def test_group_scores_sum_over_the_members_of_a_group():
    score = scores_of((4, 3, 2, 5), 0)
    sums = {"row": 3, "kernel": (2, 3), "filter": (1, 2, 3)}
    want = {"element": score.double()} | {g: score.double().sum(d) for g, d in sums.items()}
    for granularity in GRANULARITIES:
        got = weights.group_scores(score, granularity)
        torch.testing.assert_close(got, want[granularity], rtol=1e-14, atol=0)
    matrix, conv1d, conv3d = (scores_of(s, 0) for s in [(4, 6), (4, 3, 5), (4, 3, 2, 5, 7)])
    torch.testing.assert_close(weights.group_scores(matrix, "filter"), matrix.double().sum(1))
    assert torch.equal(weights.group_scores(conv1d, "row"), weights.group_scores(conv1d, "kernel"))
    shapes = [tuple(weights.group_scores(conv3d, g).shape) for g in GRANULARITIES[1:]]
    assert shapes == [(4, 3, 2, 5), (4, 3), (4,)]


def test_groups_are_summed_in_float64():
    """In float32 (and all the more in float16) the large member swallows the small
    ones, and the wrong group goes.
    """
    score = torch.ones(2, 1025)
    score[1, 1:] = 0.5
    for dtype, power in [(torch.float32, 26), (torch.float16, 15), (torch.bfloat16, 26)]:
        score[:, 0] = 2.0**power
        mask = weights.local_masks({"w": score.to(dtype)}, 0.5, "filter")["w"]
        assert mask[0].all() and not mask[1].any()


@given(
    shape=st.tuples(*[st.integers(1, 4)] * 4),
    granularity=st.sampled_from(GRANULARITIES),
    s=sparsities,
    seed=st.integers(0, 99),
    levels=st.sampled_from([0, 3]),
)
@settings(max_examples=100, deadline=None)
def test_whole_groups_go_and_exactly_so_many(shape, granularity, s, seed, levels):
    score = scores_of(shape, seed, levels)
    mask = weights.local_masks({"w": score}, s, granularity)["w"]
    size = math.prod(shape[{"element": 4, "row": 3, "kernel": 2, "filter": 1}[granularity] :])
    members = mask.reshape(-1, size)  # groups are contiguous in row-major order
    assert ((members.sum(1) == 0) | (members.sum(1) == size)).all()
    norms = [math.fsum(row) for row in score.double().reshape(-1, size).tolist()]
    gone = sorted(range(len(norms)), key=norms.__getitem__)[: round(s * len(norms))]
    # sums of integers are exact; others may tie only by chance
    if levels or len(set(norms)) == len(norms):
        assert set((~members[:, 0]).nonzero().flatten().tolist()) == set(gone)


def test_global_groups_compete_by_their_mean_so_that_size_does_not_decide():
    scores = {"wide": torch.full((4, 100), 0.1), "narrow": torch.full((4, 2), 1.0)}
    masks = weights.global_masks(scores, 0.5, "filter")
    assert not masks["wide"].any() and masks["narrow"].all()
    scores = {"a": scores_of((4, 3, 3, 3), 0), "b": scores_of((6, 40), 1)}
    for s in (0.0, 0.3, 1.0):  # each by its own
        masks = weights.global_masks(scores, s, {"a": "kernel", "b": "filter"})
        groups = [masks["a"].flatten(2), masks["b"]]
        gone = sum(int((~group.any(-1)).sum()) for group in groups)
        assert gone == round(s * (12 + 6)) == sum(int((~g.all(-1)).sum()) for g in groups)


# ---- torch.nn.utils.prune as oracle


def every(how, **options):
    return lambda model, s: [how(model[i], "weight", amount=s, **options) for i in (0, 2)]


ORACLES = {
    weights.local_masks: every(prune.l1_unstructured),
    lambda scores, s: weights.local_masks(scores, s, "filter"): every(
        prune.ln_structured, n=1, dim=0
    ),
    weights.global_masks: lambda model, s: prune.global_unstructured(
        [(model[0], "weight"), (model[2], "weight")], prune.L1Unstructured, amount=s
    ),
}


@pytest.mark.parametrize("ours", ORACLES, ids=["each layer", "filters", "all"])
@pytest.mark.parametrize("s", [0.0, 0.1, 0.333, 0.5, 0.97, 1.0])
def test_like_torchs_own(ours, s):
    model = nn.Sequential(nn.Conv2d(2, 6, 3), nn.Flatten(), nn.Linear(54, 7))
    masks = ours(weights.magnitude(weights.prunable(model)), s)
    ORACLES[ours](model, s)
    for i in (0, 2):
        assert torch.equal(masks[f"{i}.weight"], model[i].weight_mask.bool())


# ---- scores


def test_magnitude_is_the_absolute_value_detached_from_the_model_and_its_memory():
    model = nn.Linear(3, 2).bfloat16()
    with torch.no_grad():
        # where |w| = w a lazy implementation might hand the weights themselves back
        model.weight.abs_()
    score = weights.magnitude(weights.prunable(model))["weight"]
    assert torch.equal(score, model.weight) and score.dtype == torch.bfloat16
    assert not score.requires_grad
    score.zero_()
    assert (model.weight != 0).all()
    assert weights.magnitude({"a": torch.tensor([-2.0, 0.5])})["a"].tolist() == [2.0, 0.5]


def test_random_scores_come_from_the_generator_alone_and_do_not_tie():
    """Ties are broken by position: a control with many of them would not be random."""
    given = {"a": torch.empty(1000, 300), "b": torch.empty(3, 4)}
    before = torch.get_rng_state()
    first, again, other = (
        weights.random(given, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    for k, w in given.items():
        assert torch.equal(first[k], again[k]) and not torch.equal(first[k], other[k])
        assert first[k].shape == w.shape and first[k].unique().numel() == w.numel()
        assert first[k].min() >= 0 and first[k].max() < 1
