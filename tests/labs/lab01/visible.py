"""Lab 01, magnitude pruning: what is claimed of each answer, and what its likely
mistakes look like.

Inputs are drawn for every grading, so that the usual mistakes give other
results than the right answer: both signs, layers of different scales, ties, counts that
end in a half, M, C, R and S all different.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.capstone.measured import given
from course_lib.grading import (
    Draw,
    StudentError,
    Submission,
    ask,
    expect_close,
    expect_equal,
    expect_keys,
    expect_number,
    expect_tensor,
    fail,
    question,
)
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import apply_each, draw_case, recognise, same
from course_lib.grading.claims.rounding import (
    ROUNDINGS,
    TOO_FEW,
    TOO_MANY,
    Rounding,
    expect_rounded,
)
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab01 as reference
from course_lib.pruning.weights import global_masks as ranked_together
from course_lib.pruning.weights import group_scores, local_masks, smallest
from course_lib.student_code import plain_data

# --- what mistakes are called ---------------------------------------------------------

NO_ABS = "the most negative weights were pruned: rank the weights by |w|, without the sign"
ONLY_POSITIVE = (
    "your code pruned only positive weights, the smallest first: -0.01 is a small weight, too"
)
LARGEST = "the largest weights were pruned: prune the weights with the smallest |w| first"
UPSIDE_DOWN = "the mask is upside down: True means kept"
STAYS = "sparsity was taken for the fraction to keep: sparsity is the fraction to prune"
EACH_ROW = "each row was pruned by the same fraction: rank all weights of the tensor in one list"
TIES_GO = (
    "among equal weights, your code prunes too many: it prunes all weights that equal the threshold, but only some of "
    "them should be pruned. A threshold alone cannot choose among equal weights"
)
TIES_STAY = (
    "among equal weights, your code prunes too few: it keeps all weights that equal the threshold, but some of them "
    "should be pruned. A threshold alone cannot choose among equal weights"
)
ANY_ORDER = (
    "the number of pruned weights is right, and the pruned weights are the smallest. But among equal weights, the "
    "wrong ones were pruned: prune the first one first. A plain argsort or topk guarantees no order among equal values"
)
QUANTILE = "your code pruned all weights below a quantile. A threshold does not guarantee the number of pruned weights: count the weights"
PER_LAYER = "each layer was pruned by the same fraction: rank the weights of all layers in one list, not layer by layer"


COUNTING: dict[str, Rounding] = ROUNDINGS | {
    "s · n was calculated in float32, where 10.500000000000002 becomes 10.5: calculate with Python's floats and round()": (
        lambda s, n: round(float(torch.tensor(s) * n))
    ),
    "this is the number of weights to keep, not to prune: True means kept, and sparsity is the fraction to prune": lambda s, n: (
        n - round(s * n)
    ),
    QUANTILE: lambda s, n: math.ceil(s * (n - 1)),
    f"{QUANTILE}. (The weights that equal the quantile were pruned, too)": lambda s, n: (
        math.floor(s * (n - 1)) + 1
    ),
}


# a sentence for the student -> a function that makes this mistake
Wrong = dict[str, Callable[..., Any]]
WRONG: dict[str, Wrong] = {}  # by graded name


# --- looking at a mask ----------------------------------------------------------------


def as_mask(value: Any, weight: Tensor, what: str = "the mask") -> Tensor:
    """The value, if it has the form of a mask for ``weight``: bool, and of the same
    shape.
    """
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        if (
            value.shape == weight.shape
            and value.is_floating_point()
            and bool(((value == weight) | (value == 0)).all())
        ):
            fail(
                f"{what} holds weights: return True for each kept entry and False for each pruned entry. The caller prunes the weights"
            )
        fail(
            f"{what} holds numbers of dtype {str(value.dtype)[6:]}: a mask holds bools. A comparison returns bools"
        )
    if isinstance(value, Tensor) and value.shape != weight.shape:
        fail(
            f"{what} has shape {tuple(value.shape)}, but the weight has shape {tuple(weight.shape)}: a mask has one entry per weight"
        )
    return expect_tensor(value, shape=weight.shape, dtype=torch.bool, what=what)


def pruned(mask: Tensor) -> int:
    """How many are False."""
    return mask.numel() - int(mask.sum())


def expect_smallest_pruned(mask: Tensor, score: Tensor, right: Tensor, what: str = "|w|") -> None:
    """``mask`` is ``right``; else say what is wrong: how many were
    pruned, which, or the order among equals.
    """
    if torch.equal(mask, right):
        return
    if pruned(mask) != pruned(right):
        fail(f"{pruned(mask)} of {mask.numel()} were pruned instead of {pruned(right)}")
    gone, kept = score[~mask].max(), score[mask].min()
    if gone > kept:
        fail(
            f"{what} = {gone:.4g} was pruned while {what} = {kept:.4g} was kept: prune the smallest first"
        )
    fail(ANY_ORDER)


def counting_cases(draw: Draw) -> list[tuple[float, int]]:
    """(sparsity, number) pairs for which all ways of COUNTING differ."""
    # down to even, up to even
    halves = [(0.5, 4 * draw.integer(2, 4) + 1), (0.5, 4 * draw.integer(2, 4) + 3)]
    others = [(0.3, 10 * draw.integer(1, 2) + i) for i in (4, 6, 8)] + [(0.14, 75)]
    return halves + others


# --- 1.1 magnitude_mask ---------------------------------------------------------------


def each_row(w: Tensor, s: float) -> Tensor:
    """By mistake: every row loses its share."""
    rows = w.abs().reshape(-1, w.shape[-1])
    return torch.stack([smallest(row, s) for row in rows]).view_as(w)


def by_threshold(survives: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, float], Tensor]:
    """By mistake: all weights that equal the largest pruned one are pruned."""

    def version(w: Tensor, s: float) -> Tensor:
        mask, size = reference.magnitude_mask(w, s), w.abs()
        return mask if mask.all() else survives(size, size[~mask].max())

    return version


def counted(way: Callable[[float, int], int]) -> Callable[[Tensor, float], Tensor]:
    """magnitude_mask, but for how many go."""

    def version(w: Tensor, s: float) -> Tensor:
        mask = torch.ones(w.numel(), dtype=torch.bool)
        mask[w.abs().flatten().argsort(stable=True)[: max(0, way(s, w.numel()))]] = False
        return mask.view(w.shape)

    return version


RANKED: Wrong = {
    NO_ABS: lambda w, s: smallest(w, s),
    ONLY_POSITIVE: lambda w, s: smallest(w.where(w >= 0, torch.inf), s),
    LARGEST: lambda w, s: smallest(-w.abs(), s),
    UPSIDE_DOWN: lambda w, s: ~reference.magnitude_mask(w, s),
    STAYS: lambda w, s: smallest(w.abs(), 1 - s),
    EACH_ROW: each_row,
}
COUNTED: Wrong = {said: counted(way) for said, way in COUNTING.items()}
TIED: Wrong = {TIES_GO: by_threshold(torch.gt), TIES_STAY: by_threshold(torch.ge)}
WRONG["magnitude_mask"] = RANKED | COUNTED | TIED


@question("1.1", points=1, claim="the smallest |w| go")
def test_smallest_go(submission: Submission, draw: Draw) -> None:
    sparsity = draw.choice([0.25, 0.75])
    (w, _), right, mistakes = draw_case(
        lambda: (draw.normal(draw.integer(3, 6), draw.integer(2, 5), 4), sparsity),
        reference.magnitude_mask,
        RANKED | {said: COUNTED[said] for said in (TOO_FEW, TOO_MANY)},
    )
    mask = as_mask(submission.magnitude_mask(w, sparsity), w)
    recognise(mask, right, mistakes)
    if not torch.equal(mask, right):
        try:
            flat = submission.magnitude_mask(w.flatten(), sparsity)
        except StudentError:
            flat = None
        if same(flat, right.flatten()):
            n, went = mask.numel(), pruned(mask)
            what = (
                f"{went} of {n} weights were pruned instead of {pruned(right)}"
                if went != pruned(right)
                else "other weights were pruned"
            )
            fail(
                f"your mask is right for a vector of these {n} weights, but in the shape {tuple(w.shape)} {what}. Which step of "
                "your code works along one dimension only, as argsort, sort and topk do? Call flatten() first"
            )
    expect_smallest_pruned(mask, w.abs(), right)


@question("1.1", points=0.75, claim="exactly round(s · n) go, also where many are equal")
def test_exact_count(submission: Submission, draw: Draw) -> None:
    cases = counting_cases(draw)
    weights = [draw.normal(n) for _, n in cases]
    masks = [
        as_mask(submission.magnitude_mask(w, s), w)
        for w, (s, _) in zip(weights, cases, strict=True)
    ]
    expect_rounded(
        [pruned(mask) for mask in masks], cases, "sparsity", "weights were pruned", COUNTING
    )

    w = draw.tied(draw.integer(10, 15), draw.integer(10, 15))
    given, right, mistakes = draw_case(
        lambda: (w, draw.number(0.2, 0.8)), reference.magnitude_mask, TIED, view=pruned
    )
    went = pruned(as_mask(submission.magnitude_mask(*given), w))
    recognise(went, right, mistakes)
    if went != right:
        fail(
            f"among many equal weights, {went} of {w.numel()} weights were pruned instead of {right}"
        )


# --- 1.2 grouped_mask -----------------------------------------------------------------

GROUP = {
    "element": "a single weight",
    "row": "the S weights of one row of a kernel",
    "kernel": "the R·S weights of one filter for one input channel",
    "filter": "all C·R·S weights of one output channel, or one row of a matrix",
}


ALONG = {  # what goes as a whole if other dimensions of (M, C, R, S) are summed, the largest first
    (0, 2, 3): "input channels (over M, R and S)",
    (0, 1, 3): "one row of all kernels (over M, C and S)",
    (0, 1, 2): "one column of all kernels (over M, C and R)",
    (2, 3): "kernels (over R and S)",
    (0, 1): "one position of all kernels (over M and C)",
    (3,): "rows (along S)",
    (2,): "columns of the kernels (along R)",
    (1,): "one position of all kernels of a filter (over C)",
    (0,): "one position of all filters (over M)",
}


SIGNED = "the groups were scored by sums of signed weights, where +5 and -5 cancel: take |w| first, then the sum"
SQUARES = "the groups were scored by sums of squares (the L2 norm): use the L1 norm"
EACH_FILTER = (
    "each filter was pruned by the same fraction: rank the groups of the whole layer in one list"
)
MAXIMUM = "the groups were scored by their largest |w| alone: use the L1 norm"


def whole_numbers(draw: Draw, *shape: int) -> Tensor:
    """Whole numbers of both signs, some much larger than most: their sums are exact in
    any order, in float32 too.
    """
    return ((draw.normal(*shape).exp() * 100).round() + 1) * draw.normal(*shape).sign()


def convolution(draw: Draw) -> Tensor:
    """A weight (M, C, R, S) with M, C, R and S all different, and a multiple of 4
    filters.
    """
    return whole_numbers(
        draw, draw.choice([8, 12]), *draw.choice([(3, 2, 5), (5, 2, 3), (3, 5, 2), (5, 3, 2)])
    )


def groups_kept(value: Any, granularity: str, weight: Tensor, sparsity: float) -> Tensor:
    """One bool per group, if every group is pruned or kept as a whole; else say what was pruned
    instead.
    """
    mask = as_mask(value, weight)
    share = group_scores(mask.double(), granularity) / group_scores(
        torch.ones_like(weight), granularity
    )
    if bool(((share == 0) | (share == 1)).all()):
        return share == 1
    group = f"a {granularity} is {GROUP[granularity]}"
    if torch.equal(mask, smallest(weight.abs(), sparsity)):
        fail(f"round(s · n) single weights were pruned: {group}, and is pruned or kept as a whole")
    if weight.ndim == 2 and torch.equal(mask.amin(0), mask.amax(0)):
        fail(f"whole columns of the matrix were pruned: {group}, and w is (out, in)")
    for dims, what in ALONG.items() if weight.ndim == 4 else ():
        if torch.equal(mask.amin(dims), mask.amax(dims)):
            fail(f"your code's groups are {what}, but {group}. Over which dimensions do you sum?")
    fail(f"some {granularity}s were pruned only in part: {group}, and is pruned or kept as a whole")


Score = Callable[[Tensor, str], Tensor]


def by_group(
    choose: Callable[[Tensor, float], Tensor], score: Score
) -> Callable[[Tensor, float, str], Tensor]:
    """A grouped_mask: ``choose(scores, sparsity)`` says which groups are kept."""

    def version(w: Tensor, s: float, granularity: str) -> Tensor:
        kept = choose(score(w, granularity), s)  # (M,), (M, C), ...: one bool a group
        return kept.view(*kept.shape, *[1] * (w.ndim - kept.ndim)).expand_as(w).clone()

    return version


def norms(w: Tensor, granularity: str) -> Tensor:
    """The L1 norm of each group."""
    return group_scores(w.abs(), granularity)


def largest_of(w: Tensor, granularity: str) -> Tensor:
    """The largest |w| of each group."""
    return w.abs().reshape(*group_scores(w, granularity).shape, -1).amax(-1)


def each_filter(scores: Tensor, s: float) -> Tensor:
    """By mistake: every filter is pruned by the same fraction."""
    return torch.stack([smallest(part, s) for part in scores])


ANY_GROUP: Wrong = {
    LARGEST: by_group(smallest, lambda w, granularity: -norms(w, granularity)),
    UPSIDE_DOWN: lambda w, s, granularity: ~reference.grouped_mask(w, s, granularity),
    STAYS: lambda w, s, granularity: reference.grouped_mask(w, 1 - s, granularity),
}
ELEMENTS: Wrong = {
    NO_ABS: lambda w, s, granularity: (
        smallest(w, s) if granularity == "element" else reference.grouped_mask(w, s, granularity)
    )
}
GROUPS: Wrong = {
    SIGNED: by_group(smallest, group_scores),
    f"{SIGNED}, not the sum first and then the absolute value": by_group(
        smallest, lambda w, granularity: group_scores(w, granularity).abs()
    ),
    SQUARES: by_group(smallest, lambda w, granularity: group_scores(w**2, granularity)),
    MAXIMUM: by_group(smallest, largest_of),
}
IN_A_FILTER: Wrong = {EACH_FILTER: by_group(each_filter, norms)}
WRONG["grouped_mask"] = ANY_GROUP | ELEMENTS | GROUPS | IN_A_FILTER


def expect_groups(
    submission: Submission, draw: Draw, make: Callable[[Draw], Tensor], granularity: str
) -> None:
    """The groups with the smallest L1 norms go, each as a whole."""
    sparsity = draw.choice([0.25, 0.75])

    wrong = ANY_GROUP | (ELEMENTS if granularity == "element" else GROUPS)
    wrong |= IN_A_FILTER if granularity in ("row", "kernel") else {}

    def weights() -> tuple[Tensor, float, str]:
        w = make(draw)
        norm = norms(w, granularity)
        if norm.unique().numel() < norm.numel():
            return weights()  # ties have a test of their own
        return w, sparsity, granularity

    (w, *_), right, mistakes = draw_case(weights, reference.grouped_mask, wrong)
    where = f'a {"matrix" if w.ndim == 2 else "weight"} of shape {tuple(w.shape)}, granularity "{granularity}",'
    call = functools.partial(submission.grouped_mask, w, sparsity, granularity)
    mask = ask(call, f"for {where}", f"Here a group is {GROUP[granularity]}")
    kept = groups_kept(mask, granularity, w, sparsity)
    for larger in ("kernel", "filter") if w.ndim == 4 else ():
        if larger != granularity and same(mask, local_masks({"w": w.abs()}, sparsity, larger)["w"]):
            fail(
                f"whole {larger}s were pruned, but the granularity is {granularity}: a {granularity} is {GROUP[granularity]}"
            )
    recognise(as_mask(mask, w), right, mistakes)
    right = smallest(norms(w, granularity), sparsity)
    if kept.all() or not kept.any():
        none = (
            " (A sum with dim=() is a sum over all dimensions.)" if granularity == "element" else ""
        )
        fail(
            f"for {where} and sparsity {sparsity}, {pruned(kept)} of {kept.numel()} groups were pruned instead of "
            f"{pruned(right)}: how many numbers did your code rank?{none}"
        )
    expect_smallest_pruned(kept, norms(w, granularity), right, f"the norm of a {granularity}")


@question("1.2", points=1, claim="whole filters go, those with the smallest L1 norms")
def test_filters(submission: Submission, draw: Draw) -> None:
    expect_groups(submission, draw, convolution, "filter")


@question("1.2", points=0.5, claim="kernels are groups over R and S, rows along S")
def test_kernels_and_rows(submission: Submission, draw: Draw) -> None:
    expect_groups(submission, draw, convolution, "kernel")
    expect_groups(submission, draw, convolution, "row")


@question("1.2", points=0.5, claim="single weights; and in a matrix a filter is a row")
def test_elements_and_matrices(submission: Submission, draw: Draw) -> None:
    expect_groups(submission, draw, lambda draw: draw.normal(8, 3, 2, 5), "element")
    expect_groups(
        submission,
        draw,
        lambda draw: whole_numbers(draw, draw.choice([8, 12]), draw.integer(5, 7)),
        "filter",
    )


# --- 1.3 global_masks -----------------------------------------------------------------


def layers(draw: Draw) -> dict[str, Tensor]:
    """Tensors of unlike sizes and scales, biases and a norm among them; their names do
    not tell which is which.
    """
    return {
        "stem.weight": draw.normal(4, 2, 3, 3, scale=1.0),
        "stem.bias": draw.normal(4, scale=0.01),
        "norm.weight": 1 + draw.normal(4, scale=0.1),
        "norm.scale": draw.normal(),
        "sequence": draw.normal(5, 4, 3, scale=0.3),
        "table": draw.normal(20, 12, scale=0.1),
        "head.weight": draw.normal(6, 8, scale=10.0),
        "head.bias": draw.normal(6, scale=0.01),
    }


def prunable(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those that take part."""
    return {name: w for name, w in weights.items() if w.ndim >= 2}


def as_masks(value: Any, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The value, if it has the form of masks for the weights that take part; in the
    order of ``weights``.
    """
    if isinstance(value, plain_data.Model):
        fail("your function returned a model: return the masks, a dict from name to mask")
    for name, w in weights.items() if isinstance(value, dict) else ():
        if w.ndim < 2 and name in value:
            fail(
                f"{name!r} got a mask, but it has fewer than two dimensions: biases and norms are not pruned"
            )
        if w.ndim >= 2 and name not in value:
            fail(
                f"{name!r} has {w.ndim} dimensions and got no mask: make a mask for every parameter with two or more dimensions, whatever its name"
            )
    expect_keys(value, prunable(weights), "the masks")
    return {
        name: as_mask(value[name], w, f"the mask of {name!r}")
        for name, w in prunable(weights).items()
    }


def one_list(tensors: dict[str, Tensor]) -> Tensor:
    """All tensors as one vector, in the order of the dict."""
    return torch.cat([tensor.flatten() for tensor in tensors.values()])


def competing(
    score: Callable[[Tensor], Tensor],
) -> Callable[[dict[str, Tensor], float], dict[str, Tensor]]:
    """global_masks by another score."""
    return lambda weights, s: ranked_together(
        {name: score(w) for name, w in prunable(weights).items()}, s
    )


def everything_competes(weights: dict[str, Tensor], s: float) -> dict[str, Tensor]:
    """By mistake: biases and norms take places, but get no mask."""
    return prunable(ranked_together({name: w.abs() for name, w in weights.items()}, s))


def everything_counts(weights: dict[str, Tensor], s: float) -> dict[str, Tensor]:
    """By mistake: as many are pruned as if biases and norms were counted."""
    goes = round(s * one_list(weights).numel())
    n = one_list(prunable(weights)).numel()
    return reference.global_masks(weights, min(1.0, goes / n))


TOGETHER: Wrong = {
    PER_LAYER: lambda weights, s: local_masks(
        {name: w.abs() for name, w in prunable(weights).items()}, s
    ),
    "the layers were rescaled before they were compared: compare |w| without rescaling": competing(
        lambda w: w.abs() / w.abs().max()
    ),
    NO_ABS: competing(lambda w: w),
    LARGEST: competing(lambda w: -w.abs()),
    UPSIDE_DOWN: lambda weights, s: {
        name: ~mask for name, mask in reference.global_masks(weights, s).items()
    },
    STAYS: lambda weights, s: reference.global_masks(weights, 1 - s),
}
BIASES: Wrong = {
    "biases and norms got no mask, but they were ranked together with the weights: leave them out of the list": (
        everything_competes
    ),
    "too many weights were pruned: did n include the biases and norms?": everything_counts,
}
WRONG["global_masks"] = TOGETHER | BIASES


@question("1.3", points=0.5, claim="one threshold over all layers")
def test_one_threshold(submission: Submission, draw: Draw) -> None:
    sparsity = draw.choice([0.25, 0.75])
    (weights, _), right, mistakes = draw_case(
        lambda: (prunable(layers(draw)), sparsity), reference.global_masks, TOGETHER
    )
    masks = as_masks(submission.global_masks(weights, sparsity), weights)
    recognise(masks, right, mistakes)
    if len({pruned(mask) / mask.numel() for mask in masks.values()}) == 1:
        fail(PER_LAYER)
    expect_smallest_pruned(one_list(masks), one_list(weights).abs(), one_list(right))


@question("1.3", points=0.5, claim="biases and norms take no part")
def test_only_two_dimensions(submission: Submission, draw: Draw) -> None:
    weights = layers(draw)
    masks = as_masks(submission.global_masks(weights, 0.5), weights)
    right = reference.global_masks(weights, 0.5)
    recognise(masks, right, apply_each(BIASES | {PER_LAYER: TOGETHER[PER_LAYER]}, weights, 0.5))
    expect_smallest_pruned(one_list(masks), one_list(prunable(weights)).abs(), one_list(right))


# --- 1.4 choose_sparsities ------------------------------------------------------------

LAYERS = ("conv1", "conv2", "conv3", "conv4", "fc")
UNIFORM = (
    "every layer loses the same share: in the map, one layer loses little accuracy at a sparsity "
    "at which another loses a third of it"
)
FIRST = (
    "the first layer loses the largest share, and it holds 0.4 % of the weights: nearly nothing "
    "is saved there. Which layer holds more than half of all weights?"
)


def sparsities(submission: Submission) -> dict[str, float]:
    """What choose_sparsities returns: a number in [0, 1] for each layer."""
    choice = submission.choose_sparsities()
    if isinstance(choice, dict) and any(str(name).endswith(".weight") for name in choice):
        fail("the keys are the names of layers, such as 'conv1', without '.weight'")
    expect_keys(choice, LAYERS, "the sparsities")
    found = {name: expect_number(choice[name], f"the sparsity of {name!r}") for name in LAYERS}
    for name, share in found.items():
        if 1 < share <= 100:
            fail(
                f"the sparsity of {name!r} is {share:g}: it is a fraction. Did you mean {share / 100:g}?"
            )
        if not 0 <= share <= 1:
            fail(f"the sparsity of {name!r} is {share:g}, but it must lie in [0, 1]")
    return found


def layer_magnitude(network: nn.Module, found: dict[str, float]) -> dict[str, Tensor]:
    """The masks of the choice: magnitude, layer by layer."""
    return {
        name: reference.magnitude_mask(p.detach(), found[name.removesuffix(".weight")])
        for name, p in network.named_parameters()
        if p.ndim >= 2
    }


@question("1.4", points=1, claim="at least 95 % of all weights are pruned")
def test_total_sparsity(submission: Submission, draw: Draw) -> None:
    masks = one_list(layer_magnitude(given("cnn"), sparsities(submission)))
    if pruned(masks) < math.floor(0.95 * masks.numel()):
        fail(
            f"{100 * pruned(masks) / masks.numel():.1f} % of all {masks.numel():,} weights are pruned, and the target is 95 %. "
            "The mean of the five sparsities is not the sparsity of the network: weight each by its number of weights"
        )


@question(
    "1.4", points=0.5, claim="the small first layer does not lose most, nor all the same share"
)
def test_shares_differ(submission: Submission, draw: Draw) -> None:
    found = sparsities(submission)
    if max(found.values()) - min(found.values()) < 0.02:
        fail(UNIFORM)
    if found["conv1"] >= max(found.values()):
        fail(FIRST)


# --- 1.5 PrunedLinear -----------------------------------------------------------------

ALL_ONES = "{} was computed as if ∂L/∂y were all ones: use the gradient that backward receives"


class Pass:
    """One forward and one backward pass through the student's PrunedLinear, with the
    inputs.
    """

    def __init__(self, submission: Submission, draw: Draw, *leading: int) -> None:
        d_in, d_out = draw.integer(5, 7), draw.integer(2, 4)
        self.x, self.w = draw.normal(*leading, d_in), draw.normal(d_out, d_in)
        self.m = draw.mask(d_out, d_in)
        self.m[0, 0], self.m[0, 1] = True, False  # never all or nothing
        self.w[0, 0] = 0  # kept, and 0 by chance: it may grow again
        self.g = draw.normal(*leading, d_out)  # what comes back from the loss: not ones
        self._submission = submission
        self._x, self._w = (
            submission.put(self.x, requires_grad=True),
            submission.put(self.w, requires_grad=True),
        )
        self._y = submission.call("PrunedLinear.apply", self._x, self._w, self.m, keep=True)

    @property
    def masked(self) -> Tensor:
        return self.w.masked_fill(~self.m, 0)

    @property
    def y(self) -> Any:
        return self._submission.get(self._y)

    def back(self) -> tuple[Any, Any]:
        """∂L/∂x and ∂L/∂w."""
        expect_tensor(self.y, shape=self.g.shape, what="PrunedLinear.apply(x, w, m)")
        if self.made_by().endswith(("Backward0", "Backward1")):
            fail(
                "torch differentiated your forward automatically: inherit from torch.autograd.Function and write backward"
            )
        g = self.g
        if g.ndim > 2:  # as behind a transposition: what comes back is not contiguous
            g = g.transpose(0, 1).contiguous().transpose(0, 1)
        self._submission.backward(self._y, g)
        return self._submission.grad(self._x), self._submission.grad(self._w)

    def made_by(self) -> str:
        """The name of the step that autograd noted for y."""
        step = self._submission.get(self._y, "grad_fn")
        if step is None:
            fail(
                "y has no grad_fn, so autograd cannot compute gradients by x and w: inherit apply from torch.autograd.Function"
            )
        return str(getattr(step, "type", ""))

    def rows(self) -> tuple[Tensor, Tensor]:
        """∂L/∂y and x with all leading dimensions as one."""
        return self.g.reshape(-1, self.g.shape[-1]), self.x.reshape(-1, self.x.shape[-1])

    def weights_after(self) -> Any:
        return self._submission.get(self._w)


def expect_gradient(
    value: Any, right: Tensor, name: str, place: str, mistakes: dict[str, Tensor]
) -> None:
    """A gradient, up to rounding; else the mistake whose result it is."""
    if value is None:
        fail(
            f"{name} is None: backward returns one gradient per argument of forward, and this gradient must come {place}"
        )
    expect_tensor(value, shape=right.shape, what=name)
    if not torch.allclose(value.double(), right.double(), atol=1e-4):
        for sentence, wrong in mistakes.items():
            if wrong.shape == right.shape and torch.allclose(
                value.double(), wrong.double(), atol=1e-4
            ):
                fail(sentence)
    expect_close(value, right, name)


@question("1.5", points=0.5, claim="y = x (W∘m)ᵀ")
def test_forward(submission: Submission, draw: Draw) -> None:
    step = Pass(submission, draw, draw.integer(3, 5))
    right = step.x @ step.masked.T
    expect_gradient(step.y, right, "PrunedLinear.apply(x, w, m)", "first", mistakes_of_output(step))


def mistakes_of_output(step: Pass) -> dict[str, Tensor]:
    return {
        "the pruned weights were used: forward must use W∘m": step.x @ step.w.T,
        UPSIDE_DOWN: step.x @ step.w.masked_fill(step.m, 0).T,
    }


@question("1.5", points=0.5, claim="∂L/∂x goes back through the weights that are there")
def test_gradient_of_input(submission: Submission, draw: Draw) -> None:
    step = Pass(submission, draw, draw.integer(3, 5))
    grad, _ = step.back()
    expect_gradient(grad, step.g @ step.masked, "∂L/∂x", "first", mistakes_of_input(step))


def mistakes_of_input(step: Pass) -> dict[str, Tensor]:
    g, w = step.g, step.w
    return {
        "∂L/∂x was computed with the dense W: forward used W∘m, so no gradient flows back through a pruned weight": g
        @ w,
        "∂L/∂x was computed with the pruned weights only: True means kept": g
        @ w.masked_fill(step.m, 0),
        ALL_ONES.format("∂L/∂x"): torch.ones_like(g) @ step.masked,
    }


@question("1.5", points=0.5, claim="∂L/∂W is masked")
def test_gradient_of_weight(submission: Submission, draw: Draw) -> None:
    step = Pass(submission, draw, draw.integer(3, 5))
    _, grad = step.back()
    right = (step.g.T @ step.x).masked_fill(~step.m, 0)
    expect_gradient(grad, right, "∂L/∂W", "second", mistakes_of_weight(step))


def mistakes_of_weight(step: Pass) -> dict[str, Tensor]:
    g, x = step.rows()
    dense = g.T @ x
    right = dense.masked_fill(~step.m, 0)
    unmasked = "∂L/∂W is not 0 at pruned weights"
    divided = "∂L/∂W was divided by the batch size: if the loss takes a mean, ∂L/∂y already contains that division"
    mistakes = {
        f"{unmasked}: pruned weights have no influence on y, so how large is the gradient there?": dense,
        "∂L/∂W is 0 for the kept weights and not for the pruned weights: True means kept": dense.masked_fill(
            step.m, 0
        ),
        "∂L/∂W was multiplied by W: y is linear in W": dense * step.masked,
        "a kept weight of value 0 got no gradient, so it stays 0: use the mask, not the weight, to find pruned entries": dense.masked_fill(
            step.masked == 0, 0
        ),
        ALL_ONES.format("∂L/∂W"): (torch.ones_like(g).T @ x).masked_fill(~step.m, 0),
    }
    return (
        mistakes
        if len(x) == 1
        else mistakes | {divided: right / len(x), f"{divided}. Also, {unmasked}": dense / len(x)}
    )


# --- 1.6 cubic_schedule, iterative_prune ----------------------------------------------


def along(curve: Callable[[float, float, int], float]) -> Callable[[float, int], list[float]]:
    """The targets on another curve, of final, t/steps and steps."""
    return lambda final, steps: [curve(final, t / steps, steps) for t in range(1, steps + 1)]


def increments(final: float, steps: int) -> list[float]:
    """By mistake: what each step adds."""
    targets = [0.0, *reference.cubic_schedule(final, steps)]
    return [after - before for before, after in zip(targets, targets[1:], strict=False)]


WRONG["cubic_schedule"] = {
    "t was counted from 0, so the first target is 0 and the last target is not final: count t from 1 to steps": along(
        lambda final, x, steps: final * (1 - (1 - x + 1 / steps) ** 3)
    ),
    "the targets rise slowly at first and fast at the end: the formula is not (t/steps)³": along(
        lambda final, x, steps: final * x**3
    ),
    "the targets fall: (1 - t/steps)³ is the remaining part": along(
        lambda final, x, steps: final * (1 - x) ** 3
    ),
    "every step adds the same amount: where is the cube?": along(lambda final, x, steps: final * x),
    "the exponent is 2: the formula has a cube": along(
        lambda final, x, steps: final * (1 - (1 - x) ** 2)
    ),
    "final is inside the cube: multiply the whole bracket by final": along(
        lambda final, x, steps: 1 - (1 - final * x) ** 3
    ),
    "there is one target too many, the 0 before the first step: count t from 1 to steps": lambda final, steps: [
        0.0,
        *reference.cubic_schedule(final, steps),
    ],
    "these are the increments of the steps: a target is the total fraction that is pruned after the step": increments,
}


@question("1.6", points=0.5, claim="the targets rise by the cubic formula, to final")
def test_cubic_schedule(submission: Submission, draw: Draw) -> None:
    expect_schedule(submission, draw.number(0.5, 0.95), draw.integer(4, 7))
    expect_schedule(submission, draw.number(0.5, 0.95), 1)
    expect_close(submission.cubic_schedule(0, 3), [0.0, 0.0, 0.0], "cubic_schedule(0, 3)")


def expect_schedule(submission: Submission, final: float, steps: int) -> None:
    """The targets of the cubic schedule."""
    targets = submission.cubic_schedule(final, steps)
    right = reference.cubic_schedule(final, steps)
    if isinstance(targets, list | tuple) and all(isinstance(t, int | float) for t in targets):
        mistakes = apply_each(WRONG["cubic_schedule"], final, steps)
        recognise(targets, right, mistakes, equal=close_lists)
    expect_close(targets, right, f"cubic_schedule({final:.3g}, {steps})", tolerance=1e-6)


def close_lists(one: list[float], other: list[float]) -> bool:
    """Equal up to 1e-6."""
    return len(one) == len(other) and all(
        abs(a - b) <= 1e-6 for a, b in zip(one, other, strict=True)
    )


def network(draw: Draw, *layers: nn.Module) -> nn.Sequential:
    """The layers, with weights of unlike scales; norms near 1, biases near 0."""
    net = nn.Sequential(*layers)
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(
                draw.normal(*p.shape, scale=0.1 * (1 + i % 3))
                if p.ndim >= 2
                else p + draw.normal(*p.shape, scale=0.01)
            )
    return net


OF_THE_LIVING = "the target was taken of the weights that are not yet pruned. Each target is the pruned fraction of all weights"


class Run:
    """A call of the student's iterative_prune: the masks, the model before and after,
    and what each finetune saw.
    """

    def __init__(
        self,
        submission: Submission,
        draw: Draw,
        targets: list[float],
        net: nn.Module | None = None,
        **finetune: Any,
    ) -> None:
        net = net or small_net(draw)
        self.start = {name: p.detach().clone() for name, p in net.named_parameters()}
        self.weights = prunable(self.start)
        self.targets = targets
        x, y = draw.normal(16, 2, 5), draw.labels(16, 4)
        x[:, 1] = 0  # like the border of an image: weights that see nothing else get no gradient
        model = submission.put(net)
        helper = submission.helper("finetune", model=model, x=x, y=y, **finetune)
        self.masks = submission.iterative_prune(model, targets, helper)
        self.log = submission.get(helper, "log")
        self.after = submission.get(model).state
        if not self.log:
            fail("finetune was never called: call finetune(model, post_step) after every target")
        if all(torch.equal(self.after[name], value) for name, value in self.start.items()):
            fail(
                "no number has changed in the model that your function received: did your code prune a copy of the model?"
            )

    def before(self, i: int) -> dict[str, Tensor]:
        """The parameters as pruning step i found them."""
        return self.log[i - 1]["after"][-1] if i else self.start

    def expect_masks(self) -> dict[str, Tensor]:
        return as_masks(self.masks, self.start)


def small_net(draw: Draw) -> nn.Module:
    """A net for inputs (batch, 2, 5), whose layers have 48, 320 and 32 weights in 3 and
    2 dimensions.
    """
    head = (nn.Flatten(), nn.Linear(40, 8), nn.ReLU(), nn.Linear(8, 4))
    return network(draw, nn.Conv1d(2, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), *head)


def share_zero(weights: dict[str, Tensor]) -> float:
    zeros = sum(int((w == 0).sum()) for w in weights.values())
    return zeros / sum(w.numel() for w in weights.values())


@question("1.6", points=1, claim="each layer to each target, in place, and fine-tuned after each")
def test_targets_are_cumulative(submission: Submission, draw: Draw) -> None:
    targets = draw.choice([[0.25, 0.5, 0.75], [0.25, 0.375, 0.625], [0.375, 0.5, 0.75]])
    # far enough to change the ranks
    run = Run(submission, draw, targets, steps=4, settings={"lr": 0.5})
    if len(run.log) != len(targets):
        calls = f"finetune was called {len(run.log)}x for {len(targets)} targets"
        fail(f"{calls}: prune and fine-tune once per target")
    for i, target in enumerate(targets):
        then = {name: run.log[i]["before"][name] for name in run.weights}
        expect_target(run, i, target, then)
    for name in run.weights:
        if all(torch.equal(entry["before"][name], entry["after"][-1][name]) for entry in run.log):
            fail(
                f"fine-tuning did not change {name!r}: the optimizer was created earlier and still holds the original parameter. A "
                "copy or a new nn.Parameter is not trained: change the values in place"
            )
    masks = run.expect_masks()
    last = {name: w == 0 for name, w in prunable(run.log[-1]["before"]).items()}
    recognise(
        masks,
        {name: ~zero for name, zero in last.items()},
        {"the masks are upside down: True means kept": last},
    )
    for name, zero in last.items():
        expect_equal(
            masks[name],
            ~zero,
            message=f"the mask of {name!r} differs from the weights pruned in the model at the last target",
        )


def expect_target(run: Run, i: int, target: float, then: dict[str, Tensor]) -> None:
    """When finetune began for target i, every layer had its share of zeros, the
    smallest of the weights as they were.
    """
    found = run.before(i)
    if i:  # whether pruned weights stay zero is another claim
        found = {n: w.masked_fill(run.log[i - 1]["before"][n] == 0, 0) for n, w in found.items()}
    right = {
        name: found[name].masked_fill(~reference.magnitude_mask(found[name], target), 0)
        for name in run.weights
    }
    by_start = {
        name: found[name].masked_fill(~reference.magnitude_mask(run.start[name], target), 0)
        for name in right
    }
    if same(then, right):
        return
    share, previous = share_zero(then), share_zero(prunable(found))
    step = f"at target {target} (number {i + 1})"
    if i and any(
        bool((w[run.log[i - 1]["before"][name] == 0] != 0).any()) for name, w in then.items()
    ):
        fail(
            f"{step} some weights are not zero that an earlier target had pruned: a pruned weight must stay pruned"
        )
    if share == 0 or (i and abs(share - previous) < 1e-9):
        fail(
            f"{step} no weight was pruned when finetune was called: set the weights to zero first, then fine-tune"
        )
    if i and math.isclose(share, min(1.0, sum(run.targets[: i + 1])), abs_tol=0.01):
        fail(
            f"{step} {100 * share:.0f} % of the weights are zero: the targets were added up (pruning five times by 20 % does "
            "not prune 100 %). Each target is the pruned fraction of all weights"
        )
    if i and math.isclose(share, 1 - math.prod(1 - t for t in run.targets[: i + 1]), abs_tol=0.02):
        fail(f"{step} {100 * share:.0f} % of the weights are zero: {OF_THE_LIVING}")
    shares = {name: share_zero({name: w}) for name, w in then.items()}
    if math.isclose(share, target, abs_tol=0.01) and not math.isclose(
        max(shares.values()), target, abs_tol=0.01
    ):
        fail(
            f"{step} the layers were pruned by different fractions: prune every layer to the target separately, not all layers together"
        )
    if same(then, by_start):
        fail(
            f"{step} the weights were ranked by their values at the start: rank them by their values after fine-tuning"
        )
    for name in run.weights:
        zero = then[name] == 0
        if int(zero.sum()) != round(target * zero.numel()):
            fail(
                f"{step} {int(zero.sum())} of {zero.numel()} weights of {name!r} are zero instead of {round(target * zero.numel())}"
            )
        if not torch.equal(then[name], found[name].masked_fill(zero, 0)):
            fail(
                f"{step} some kept weights of {name!r} changed: pruning sets the pruned weights to zero and does not change the kept weights"
            )
        expect_smallest_pruned(
            ~zero, found[name].abs(), right[name] != 0, f"{step} a weight of {name!r} with |w|"
        )


@question("1.6", points=0.5, claim="pruned weights stay zero, with momentum and with Adam")
def test_zeros_stay_zero(submission: Submission, draw: Draw) -> None:
    for optimizer, settings in (("sgd", {"lr": 0.05, "momentum": 0.9}), ("adam", {"lr": 0.01})):
        run = Run(submission, draw, [0.25, 0.5], steps=3, optimizer=optimizer, settings=settings)
        if not all(entry["post_step"] for entry in run.log):
            fail(
                "finetune received no post_step: call finetune(model, post_step) with a function that finetune can call after every step"
            )
        for i, entry in enumerate(run.log):
            for name in run.weights:
                zero = entry["before"][name] == 0
                for state in entry["after"]:
                    if bool((state[name][zero] != 0).any()):
                        fail(_revived(i, optimizer, int((state[name][zero] != 0).sum()), name))
        for name, mask in run.expect_masks().items():
            if bool((run.after[name][~mask] != 0).any()):
                fail(
                    f"at the end, some weights of {name!r} that the mask prunes are not zero in the model"
                )
    expect_only_shrinking(submission, draw)


def expect_only_shrinking(submission: Submission, draw: Draw) -> None:
    """Weights that are 0 by themselves do not take the places of pruned ones."""
    net = small_net(draw)
    with torch.no_grad():
        # the last ones go first; then decay sets all others that see no input to 0
        net[0].weight[6:] *= 1e-3
    run = Run(
        submission, draw, [0.25, 0.375], net=net, steps=1, settings={"lr": 0.5, "weight_decay": 2.0}
    )
    back = run.expect_masks()["0.weight"] & (run.log[0]["before"]["0.weight"] == 0)
    if back.any():
        fail(
            f"{int(back.sum())} weights that the first target had pruned are kept after the second target: some kept weights "
            "had become 0 in training, and your code took them for pruned weights. Rank only the weights that are not yet pruned"
        )
    counts = {name: (mask.numel(), pruned(mask)) for name, mask in run.expect_masks().items()}
    if all(abs(went - (1 - 0.75 * 0.625) * n) <= 1 for n, went in counts.values()):
        n, went = counts["0.weight"]
        fail(
            f"after the targets 0.25 and 0.375, {went} of {n} weights of '0.weight' are pruned: {OF_THE_LIVING}"
        )
    for name, (n, went) in counts.items():
        if went > round(0.375 * n):
            fail(
                f"after the targets 0.25 and 0.375, {went} of {n} weights of {name!r} are pruned: the second target allows fewer. "
                "Some kept weights had become 0 in training. The second target pruned these and did not count the weights that the "
                "first target had pruned. Which weights should be ranked, and how many should be pruned?"
            )


def _revived(i: int, optimizer: str, count: int, name: str) -> str:
    said = (
        f"{count} pruned weights of {name!r} were not zero after an optimizer step and post_step()"
    )
    if i == 0:
        return f"{said}: fine-tuning changes every weight, so post_step must set all pruned weights to zero after every step"
    moved = "momentum" if optimizer == "sgd" else "Adam's moments"
    return (
        f"{said} of the second round: {moved} from earlier steps changed these weights, even where the gradient is zero "
        "now. Reset the weights, not only the gradients, and reset every weight that is pruned by now"
    )


# --- 1.7 two short answers ------------------------------------------------------------

OPTIONS = 4


@question(
    "1.7",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_1_7a", OPTIONS, {})
    expect_choice(submission, "answer_1_7b", 4, {})


# --- 1.8 find_bug ---------------------------------------------------------------------

PROMISE = "1.1 guarantees for finite weights and a sparsity from 0 to 1"


@question("1.8", points=0.5, claim="two plain bugs are found, and nothing right is accused")
def test_hunt_plain_bugs(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "magnitude_mask",
        right={
            "the library's": reference.magnitude_mask,
            "a second one of the library": lambda w, s: local_masks({"w": w.abs()}, s)["w"],
        },
        wrong={
            "forgets the absolute value": WRONG["magnitude_mask"][NO_ABS],
            "prunes all weights that equal the threshold": WRONG["magnitude_mask"][TIES_GO],
        },
        promise=PROMISE,
    )
