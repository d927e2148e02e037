"""Lab 03, lottery tickets: the claims that only the grader uses. The claims that the
notebook shows, and the sentences for both, are in visible.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    Submission,
    describe,
    expect_equal,
    expect_number,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.hunt import Version
from course_lib.grading.claims.mistakes import (
    Case,
    draw_case,
    recognise,
    same,
)
from course_lib.grading.claims.rounding import ROUNDINGS, Rounding, expect_rounded
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab03 as reference

from .visible import (
    OPTIONS,
    OTHERWISE,
    Exchange,
    Masks,
    Search,
    Wrong,
    as_masks,
    as_weight_and_mask,
    count,
    expect_exchange_of,
    expect_pruned_are_zero,
    expect_shrunk,
    layers,
    rewound,
    shuffled,
    sixteens,
    structured,
    tickets,
    version,
    without,
)

# --- 3.1 shrink -----------------------------------------------------------------------

COUNTING: dict[str, Rounding] = ROUNDINGS | {
    "the threshold is a quantile, which lies between two weights: compute the number of weights to prune, and prune exactly that number": (
        lambda r, n: math.floor(r * (n - 1)) + 1
    ),
}


def survivors(ties: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Version:
    """shrink by a function of each layer's |w|, its mask, and the right mask, which may
    prune too many or too few.
    """

    def shrink(
        weights: dict[str, Tensor], masks: Masks, rate: float, output_rate: float | None = None
    ) -> Masks:
        right = reference.shrink(weights, masks, rate, output_rate)
        return {name: ties(w.abs(), masks[name], right[name]) for name, w in weights.items()}

    return shrink


def level(size: Tensor, mask: Tensor, right: Tensor) -> Tensor:
    """The size of the last weight that is pruned; below all sizes if none is."""
    gone = size[mask & ~right]
    return gone.max() if len(gone) else torch.tensor(-1.0)


def last_of_equals(size: Tensor, mask: Tensor, right: Tensor) -> Tensor:
    backwards = [t.flatten().flip(0) for t in (mask, size)]
    return without(backwards[0], count(mask & ~right), backwards[1]).flip(0).view(mask.shape)


ALONE = "A threshold cannot separate equal weights"
LAST = "among equal survivors the last was pruned, but the first one is pruned first"
TIED: Wrong = {
    f"too many survivors were pruned: all that equal the threshold, but only some of them should be pruned. {ALONE}": survivors(
        lambda size, mask, right: mask & (size > level(size, mask, right))
    ),
    f"too few survivors were pruned: all that equal the threshold were kept, but some of them should be pruned. {ALONE}": survivors(
        lambda size, mask, right: mask & (size >= level(size, mask, right))
    ),
    LAST: survivors(last_of_equals),
}


def by(way: Callable[[float, int], int]) -> Version:
    """shrink with another way to count."""
    return version(number=lambda rate, alive, n: max(0, way(rate, alive)))


WRONG: dict[str, Wrong] = {"shrink": {said: by(way) for said, way in COUNTING.items()} | TIED}


@question(
    "3.1",
    points=0.5,
    claim="exactly round(rate · survivors) weights are pruned, with Python's rounding",
)
def test_exact_number(submission: Submission, draw: Draw) -> None:
    # down to even, up to even
    halves = [(0.5, 4 * draw.integer(2, 6) + 1), (0.5, 4 * draw.integer(2, 6) + 3)]
    cases = [
        *halves,
        (0.3, 10 * draw.integer(1, 3) + 4),
        (0.3, 10 * draw.integer(1, 3) + 6),
        (0.2, 5 * draw.integer(4, 8) + 2),
    ]
    went = []
    for rate, alive in cases:
        n = alive + draw.integer(5, 20)
        mask = torch.zeros(n, dtype=torch.bool)
        mask[draw.permutation(n)[:alive]] = True
        weights, masks = (
            # a ranking of all layers together would prune all of b
            {"a.weight": draw.normal(n), "b.weight": draw.normal(8, scale=1e-6)},
            {"a.weight": mask, "b.weight": torch.ones(8, dtype=torch.bool)},
        )
        left = as_masks(submission.shrink(weights, masks, rate), weights)
        went.append(count(mask & ~left["a.weight"]))
    wrong = COUNTING | {
        "that is the number that should have been kept": lambda r, n: n - round(r * n)
    }
    expect_rounded(went, cases, "rate", "survivors were pruned", wrong)


@question(
    "3.1",
    points=0.5,
    claim="the mask defines the pruned weights, not the value 0; of equal weights the first is pruned first",
)
def test_dead_weights_and_ties(submission: Submission, draw: Draw) -> None:
    expect_ties(submission, draw)
    weights, masks = layers(draw, kept=0.7)
    *hidden, output = weights
    for name in weights:
        living, dead = (m.flatten().nonzero().flatten() for m in (masks[name], ~masks[name]))
        weights[name].view(-1)[living[draw.permutation(len(living))[: len(living) // 3]]] = 0.0
        weights[name].view(-1)[dead] = 0.0  # as after training
    rates = dict.fromkeys(hidden, 0.25) | {output: 0.125}  # fewer go than are 0
    right = reference.shrink(weights, masks, 0.25)
    left = as_masks(submission.shrink(weights, masks, 0.25), weights)
    zero = "a survivor with the value 0 was treated as pruned: weights may reach 0 in training, and only the mask defines which weights are kept"
    if any(bool((left[name] & ~masks[name]).any()) for name in weights):
        fail(f"pruned weights are kept again, since {zero}")
    nonzero = {n: masks[n] & (w != 0) for n, w in weights.items()}
    recognise(left, right, {zero: {n: without(nonzero[n], round(rates[n] * count(nonzero[n])), w.abs()) | (masks[n] & (w == 0)) for n, w in weights.items()}})  # fmt: skip
    expect_shrunk(left, weights, masks, right)


def expect_ties(submission: Submission, draw: Draw) -> None:
    """Of equal survivors, some of which are pruned, the first are pruned."""

    def tied() -> tuple[dict[str, Tensor], Masks, float]:
        weights = {
            "a.weight": draw.tied(draw.integer(15, 18), draw.integer(15, 18)).T,
            "b.weight": draw.tied(7, 7),
        }
        masks = {name: sixteens(draw, *w.shape, kept=0.7) for name, w in weights.items()}
        return weights, masks, draw.integer(2, 6) / 8

    (weights, masks, rate), right, mistakes = draw_case(tied, reference.shrink, TIED)
    left = as_masks(submission.shrink(weights, masks, rate), weights)
    recognise(left, right, mistakes)
    expect_shrunk(left, weights, masks, right)


# --- 3.2 rewind -----------------------------------------------------------------------


@question(
    "3.2",
    points=0.5,
    claim="a weight without a mask gets all its values from state",
)
def test_weights_without_a_mask(submission: Submission, draw: Draw) -> None:
    for unmasked in (("8.weight",), ("0.weight",)):
        expect_pruned_are_zero(submission, draw, unmasked)


@question(
    "3.2",
    points=1,
    claim="in place: the parameters remain the same tensors, so an optimizer still refers to them",
)
def test_rewound_in_place(submission: Submission, draw: Draw) -> None:
    run = rewound(submission, draw)
    if same(run.after, run.trained):
        fail(
            "the model still has its trained values, so this test cannot check how it is changed. Rewind the model first"
        )
    for name, parameter in run.held.items():
        if submission.get(parameter, "requires_grad") is not True:
            fail(
                f"{name!r} has requires_grad = False after rewind, so it cannot be trained any more: restore requires_grad = True"
            )
        submission.call("data.fill_", 77.0, on=parameter)
        if not bool((submission.get(run.model).state[name] == 77.0).all()):
            fail(
                f"{name!r} is a new nn.Parameter after rewind, but an optimizer or a dict of weights made before still refers to "
                "the old one: change the values of the existing tensor in place"
            )
    if run.result is not None:
        fail(
            f"rewind returns None, since it changes the model that it was given; yours returned {describe(run.result)}"
        )


# --- 3.3 find_ticket ------------------------------------------------------------------


@question(
    "3.3",
    points=1,
    claim="records: the round, the masks it was trained with, the fraction kept, the value that train returned",
)
def test_records(submission: Submission, draw: Draw) -> None:
    search = Search(submission, draw, 3, 0.3, 1)
    masks = search.expect_masks()
    records = search.expect_records()
    for i, (record, entry) in enumerate(zip(records, search.trainings, strict=True)):
        expect_equal(record["round"], i, f'"round" of record {i}')
        if not same(masks[i], entry["masks"]):
            later = i + 1 < len(records) and same(masks[i], search.trainings[i + 1]["masks"])
            late = (
                ": they are the masks of the next round, recorded one round early, or used for training one round late"
                if later
                else ""
            )
            fail(
                f"the masks of record {i} are not the masks that you passed to train in round {i}{late}"
            )
        if not same(record["result"], entry["result"]):
            fail(
                f'"result" of record {i} is {describe(record["result"])}; it should be the unchanged value that train returned '
                f"in that round, {entry['result']}"
            )
        expect_remaining(
            search, i, expect_number(record["remaining"], f'"remaining" of record {i}'), masks
        )


def expect_remaining(search: Search, i: int, got: float, masks: list[Masks]) -> None:
    """The fraction of the weights with two or more dimensions that is kept in round
    i.
    """
    kept = sum(map(count, masks[i].values()))
    right = kept / search.size
    if math.isclose(got, right, abs_tol=1e-6):
        return
    everything = sum(
        value.numel() for name, value in search.start.items() if name.endswith(("weight", "bias"))
    )
    alive = search.trainings[i]["after"]
    mistakes = {
        "this is the fraction that is pruned: remaining is the fraction that is kept": 1 - right,
        "this is in per cent: remaining is a fraction between 0 and 1": 100 * right,
        "this is the mean over the layers, which counts small and large layers equally: count the weights of all layers together": (
            sum(count(m) / m.numel() for m in masks[i].values()) / len(masks[i])
        ),
        "biases and norms were counted, too: count only weights with two or more dimensions": 1
        - (search.size - kept) / everything,
        "this is (1 - rate) ** round. But the output layer loses half of the rate, and counts are rounded: count the weights that the masks keep": (
            (1 - search.rate) ** i
        ),
        "weights that happen to be 0 were not counted, although they are kept: count the weights that the masks keep": (
            sum(int(alive[name].count_nonzero()) for name in search.names) / search.size
        ),
        "this is the fraction of the next round: use the masks of this record": (
            sum(map(count, masks[i + 1].values())) / search.size if i < search.rounds else math.inf
        ),
    }
    for said, wrong in mistakes.items():
        if math.isclose(got, wrong, abs_tol=1e-4):
            fail(f'"remaining" of record {i} is {got:.6g}: {said}')
    fail(
        f'"remaining" of record {i} is {got:.6g}, but {kept} of {search.size} weights are kept in its masks, which is {right:.6g}'
    )


@question(
    "3.3",
    points=0.5,
    claim="0 rounds: only the dense network; it is built and trained once",
)
def test_no_rounds(submission: Submission, draw: Draw) -> None:
    for step in (0, 2):
        search = Search(submission, draw, 0, 0.2, step)
        masks = search.expect_masks()
        search.expect_calls()
        kept = expect_number(search.records[0]["remaining"], '"remaining" of round 0')
        expect_remaining(search, 0, kept, masks)
        result = search.records[0]["result"]
        expect_equal(result, search.trainings[-1]["result"], '"result" of round 0')


# --- 3.4 random_ticket, reinitialise --------------------------------------------------


@question(
    "3.4",
    points=0.5,
    claim="all choices of positions are equally likely; the ticket is not changed",
)
def test_any_places(submission: Submission, draw: Draw) -> None:
    masks = tickets(draw)
    seed = draw.integer(0, 10**6)
    after = shuffled(submission, masks, seed)
    for name, mask in masks.items():
        if not bool((after[name] & mask).any()):
            fail(
                f"in {name!r} no weight of the ticket is kept: every position may be chosen, also a position of the ticket. "
                "Otherwise this is not a random baseline"
            )
    if said := structured(masks, after):
        fail(said)
    if torch.equal(after["a.weight"], after["c.weight"]):
        fail(
            "two layers with the same mask got the same random mask: draw new positions for each layer"
        )
    small = {}
    for i in range(200):
        small[f"{i}.weight"] = torch.zeros(2, 4, dtype=torch.bool)
        small[f"{i}.weight"].view(-1)[i % 8] = True
    places = torch.stack(list(shuffled(submission, small, seed).values())).sum(0)
    if not places.all():
        fail(
            f"in 200 layers that keep one weight of 8, position {places.flatten().argmin()} was never chosen: every position must be "
            "possible. Does your range include the last position?"
        )
    _, (given,) = submission.call(
        "random_ticket", masks, submission.helper("generator", seed=seed), returning=(0,)
    )
    unchanged(masks, given, "the dict of masks")


@question("3.4", points=0.5, claim="b: a control that changes the places and nothing else")
def test_fair_control(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_3_4", 4, OTHERWISE)


# --- 3.5 drop_and_grow ----------------------------------------------------------------


@question(
    "3.5", points=0.5, claim="round(fraction · active) positions are dropped, and as many grown"
)
def test_number_exchanged(submission: Submission, draw: Draw) -> None:
    cases, moved = [], []
    for rest, fraction in ((1, 0.5), (3, 0.5), (4, 0.3), (6, 0.3)):
        active = (4 if fraction == 0.5 else 10) * draw.integer(2, 4) + rest
        n = 2 * active + draw.integer(5, 20)
        layer = Exchange(draw, fraction)
        layer.mask = torch.zeros(n, dtype=torch.bool)
        layer.mask[draw.permutation(n)[:active]] = True
        layer.weight = draw.normal(n) * layer.mask
        layer.grad = draw.normal(n).masked_fill(layer.mask, 0)  # nothing grows again
        _, mask = as_weight_and_mask(
            submission.drop_and_grow(layer.weight, layer.grad, layer.mask, fraction), layer
        )
        if count(mask) != active:
            fail(
                f"{active} of {n} positions were active before, and {count(mask)} are active now: grow as many positions as you drop"
            )
        cases.append((fraction, active))
        moved.append(count(layer.mask & ~mask))
    expect_rounded(moved, cases, "fraction", "active positions were exchanged", COUNTING)


@question(
    "3.5",
    points=0.5,
    claim="of equal weights the first is dropped first; of equal gradients the first is grown first",
)
def test_equal_weights_and_gradients(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        layer = Exchange(draw, draw.choice([0.3125, 0.4375]), ties=True)
        size, gains, old = layer.weight.abs(), layer.grad.abs(), layer.mask
        back = torch.arange(old.numel()).view(old.shape) / 1e6
        mistakes = {
            "of equal gradients the last was grown: the first one is grown first": layer.with_mask(
                grow=gains + back
            ),
            "of equal weights the last was dropped: the first one is dropped first": layer.with_mask(
                drop=size - back
            ),
        }
        return layer, layer.right[1], layer.wrong | mistakes

    expect_exchange_of(submission, case)


@question("3.5", points=0.5, claim="no argument is changed")
def test_arguments_of_the_exchange(submission: Submission, draw: Draw) -> None:
    layer = Exchange(draw, 0.3125)
    given = (layer.weight, layer.grad, layer.mask)
    _, after = submission.call("drop_and_grow", *given, layer.fraction, returning=(0, 1, 2))
    for before, now, what in zip(
        given, after, ("the weight", "the gradient", "the mask"), strict=True
    ):
        unchanged(before, now, what)


# --- 3.6 two short answers ------------------------------------------------------------

MISREAD = {  # by the order in the lab's source
    0: "the random mask keeps the same number of weights in every layer, and its accuracy is lower: it matters which tenth is kept",
    2: "reinit keeps the ticket's positions with other initial weights. Where is its curve?",
    3: "the random mask keeps the same initial weights, at other positions. Where is its curve?",
}


@question("3.6", points=0.5, claim="a: what makes a ticket")
def test_what_a_ticket_is(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_3_6a", OPTIONS, MISREAD)


@question("3.6", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        1: "with 30 epochs, reinit is better than a random mask. What differs between these two arms?",
        2: "the random mask is compared with reinit, not with the ticket",
        3: "an interval that contains 0 also contains other differences. Does it show that they are equal?",
    }
    expect_choice(submission, "answer_3_6b", 4, misread)
