"""Lab 01, magnitude pruning: the claims that only the grader checks.
The claims that the notebook checks, and the messages of both, are in visible.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from course_lib.capstone.measured import given
from course_lib.data.images import load
from course_lib.experiments.lab01 import try_sparsities
from course_lib.grading import (
    Draw,
    Submission,
    ask,
    expect_close,
    expect_equal,
    expect_keys,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import apply_each, draw_case, recognise, same
from course_lib.grading.claims.rounding import CUT_OFF, expect_rounded
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab01 as reference
from course_lib.pruning.weights import group_scores, smallest

from .visible import (
    COUNTING,
    FIRST,
    LARGEST,
    OPTIONS,
    PER_LAYER,
    PROMISE,
    TIED,
    UNIFORM,
    Pass,
    Run,
    as_mask,
    as_masks,
    counting_cases,
    expect_gradient,
    expect_smallest_pruned,
    groups_kept,
    layer_magnitude,
    layers,
    mistakes_of_input,
    mistakes_of_output,
    mistakes_of_weight,
    one_list,
    pruned,
    sparsities,
)
from .visible import WRONG as SEEN

# --- what mistakes are called ---------------------------------------------------------

LAST_FIRST = "among equal weights, the last was pruned: prune the first one first"
ENDS = "Which position does your code use when no weight, or every weight, is pruned?"


LAST: dict[str, Callable[..., Any]] = {
    LAST_FIRST: lambda w, s: smallest(w.abs().flatten().flip(0), s).flip(0).view(w.shape)
}
BY_NAME: dict[str, Callable[..., Any]] = {
    "among equal |w|, your code pruned the first in alphabetical order of names: follow the order of the dict": lambda weights, s: (
        reference.global_masks(dict(sorted(weights.items())), s)
    )
}
WRONG = {"magnitude_mask": LAST, "global_masks": BY_NAME}


# --- 1.1 magnitude_mask ---------------------------------------------------------------


@question(
    "1.1",
    points=0.5,
    claim="equal |w|: the first is pruned first",
)
def test_ties(submission: Submission, draw: Draw) -> None:
    w = draw.tied(16, 16).T  # its rows are not one after the other in memory
    expect_ties(
        lambda s: as_mask(submission.magnitude_mask(w, s), w).flatten(), w.abs().flatten(), draw
    )


def expect_ties(
    mask_at: Callable[[float], Tensor], score: Tensor, draw: Draw, what: str = "|w|"
) -> None:
    """Of equal scores (a vector of 256), some of which go, the first go. How a number is rounded
    is another claim: here it is whole.
    """
    (_, sparsity), right, mistakes = draw_case(
        lambda: (score, draw.integer(52, 204) / 256), smallest, TIED | LAST
    )
    mask = mask_at(sparsity)
    recognise(mask, right, mistakes)
    expect_smallest_pruned(mask, score, right, what)


@question(
    "1.1",
    points=0.75,
    claim="sparsity 0 keeps all, sparsity 1 keeps none; a call changes neither the weight nor later calls",
)
def test_all_and_nothing(submission: Submission, draw: Draw) -> None:
    # zeros are weights too, at sparsity 0
    w = draw.sparse(draw.integer(3, 6), draw.integer(3, 6), sparsity=0.3)
    expect_ends(lambda s: as_mask(submission.magnitude_mask(w, s), w))
    w = draw.normal(4, 5)
    mask, (after,) = submission.call("magnitude_mask", w, 0.4, returning=(0,))
    unchanged(w, after, "the weight")
    # what was small is large, also with its sign: a wrong answer to another claim differs, too
    if same(submission.magnitude_mask(-1 / w, 0.4), mask):
        fail(
            "a second weight of the same shape with other numbers got the mask of the first weight: does your code store something between calls?"
        )


def expect_ends(mask_at: Callable[[float], Tensor]) -> None:
    """Sparsity 0 prunes nothing, sparsity 1 everything."""
    mask = ask(lambda: mask_at(0.0), "at sparsity 0", ENDS)
    every = ask(lambda: mask_at(1.0), "at sparsity 1", ENDS)
    if not mask.any() and every.all():
        fail(
            "at sparsity 0 everything was pruned, and at sparsity 1 nothing: True means kept, and sparsity is the fraction to prune"
        )
    if not mask.any():
        fail(
            "at sparsity 0 everything was pruned: if k = 0, position k - 1 is the last one, and [-k:] selects everything"
        )
    if not mask.all():
        fail(
            f"at sparsity 0 nothing should be pruned, but {pruned(mask)} of {mask.numel()} were pruned"
        )
    if every.any():
        fail(
            f"at sparsity 1 everything should be pruned, but {int(every.sum())} of {every.numel()} were kept"
        )


# --- 1.2 grouped_mask -----------------------------------------------------------------


@question(
    "1.2",
    points=1,
    claim="exactly round(s · groups) are pruned, of equal norms the first; the weight is not changed",
)
def test_group_counts_and_ties(submission: Submission, draw: Draw) -> None:
    cases = counting_cases(draw)
    counts = []
    for s, filters in cases:
        w = draw.normal(filters, 3, 1, 2)
        counts.append(pruned(groups_kept(submission.grouped_mask(w, s, "filter"), "filter", w, s)))
    expect_rounded(counts, cases, "sparsity", "filters were pruned", COUNTING)

    w = draw.normal(4, 3, 2, 2)
    _, (after,) = submission.call("grouped_mask", w, 0.5, "filter", returning=(0,))
    unchanged(w, after, "the weight")
    w = draw.tied(16, 16, 1, 1).repeat(1, 1, 2, 1)  # of equal weights: any norm has the same ties
    norm = group_scores(w.abs(), "kernel").flatten()
    expect_ties(
        lambda s: groups_kept(submission.grouped_mask(w, s, "kernel"), "kernel", w, s).flatten(),
        norm,
        draw,
        "the norm",
    )


# --- 1.3 global_masks -----------------------------------------------------------------


@question(
    "1.3",
    points=0.5,
    claim="exactly round(s · n) of all; equal |w| are pruned in the order of the dict",
)
def test_global_count_and_ties(submission: Submission, draw: Draw) -> None:
    cases = counting_cases(draw)
    counts = []
    for sparsity, n in cases:
        weights = {"second": draw.normal(3, 2, scale=3.0), "first": draw.normal(n - 6, 1)}
        counts.append(
            pruned(one_list(as_masks(submission.global_masks(weights, sparsity), weights)))
        )
    if counts == [round(s * 6) + round(s * (n - 6)) for s, n in cases]:
        fail(PER_LAYER)
    expect_rounded(counts, cases, "sparsity", "weights were pruned", COUNTING)

    weights = {"z": draw.tied(11, 13), "a": draw.tied(9, 14), "m": draw.tied(12, 10)}
    sparsity = draw.number(0.3, 0.6)
    masks = as_masks(submission.global_masks(weights, sparsity), weights)
    recognise(
        masks, reference.global_masks(weights, sparsity), apply_each(BY_NAME, weights, sparsity)
    )
    expect_ties(
        lambda s: one_list(as_masks(submission.global_masks(weights, s), weights)),
        one_list(weights).abs(),
        draw,
    )


@question("1.3", points=0.5, claim="sparsity 0 and 1; the weights are not changed")
def test_global_ends(submission: Submission, draw: Draw) -> None:
    weights = layers(draw)
    _, (after,) = submission.call("global_masks", weights, 0.3, returning=(0,))
    expect_keys(after, weights, "the dict after the call")
    unchanged(weights, after, "the weights")
    expect_ends(lambda s: one_list(as_masks(submission.global_masks(weights, s), weights)))


# --- 1.4 choose_sparsities ------------------------------------------------------------


@question("1.4", points=2.5, claim="within one point of the dense networks, all trained on")
def test_target(submission: Submission, draw: Draw) -> None:
    found = sparsities(submission)
    masks = one_list(layer_magnitude(given("cnn"), found))
    if pruned(masks) < math.floor(0.95 * masks.numel()):
        fail("fewer than 95 % of all weights are pruned: reach that part of the target first")
    dense = accuracy_after(tuple((name, 0.0) for name in found))
    lost = dense - accuracy_after(tuple(found.items()))
    if lost > 1 + 1e-6:
        fail(
            f"pruned by your sparsities and fine-tuned, three networks are {lost:.1f} points below dense on validation data, and "
            f"the target is at most 1. {advice(found)}"
        )


@functools.cache
def accuracy_after(choice: tuple[tuple[str, float], ...]) -> float:
    """Mean validation accuracy of the stored networks, pruned by the choice and fine-tuned."""
    data = load("digits")
    dense = pd.DataFrame([{"seed": number, "network": given("cnn", number)} for number in range(3)])
    return float(try_sparsities(dense, data, {"": dict(choice)}).accuracy.iloc[0])


def advice(found: dict[str, float]) -> str:
    """Which of the sparsities to look at."""
    if max(found.values()) - min(found.values()) < 0.02:
        return UNIFORM.capitalize()
    if found["conv1"] >= max(found.values()):
        return FIRST.capitalize()
    return "Look at the map again: which layer loses more than it can, and which could lose more?"


# --- 1.5 PrunedLinear -----------------------------------------------------------------


@question("1.5", points=0.5, claim="x may have any number of leading dimensions")
def test_leading_dimensions(submission: Submission, draw: Draw) -> None:
    for leading in ((draw.integer(2, 3), draw.integer(4, 5)), (), (1,), (2, 3, 2)):
        when = f"with x of shape ({', '.join(map(str, [*leading, 'd_in']))})"
        step = ask(
            functools.partial(Pass, submission, draw, *leading),
            when,
            "Which dimension of x does W act on?",
        )
        y, masked, m = step.y, step.masked, step.m
        expect_gradient(
            y,
            step.x @ masked.T,
            f"{when}, PrunedLinear.apply(x, w, m)",
            "first",
            mistakes_of_output(step),
        )
        thought = "Every leading dimension is one more batch dimension: ∂L/∂W sums over all of them"
        grad_x, grad_w = ask(step.back, f"{when}, in backward,", thought)
        expect_gradient(grad_x, step.g @ masked, f"{when}, ∂L/∂x", "first", mistakes_of_input(step))
        g, x = step.rows()
        expect_gradient(
            grad_w,
            (g.T @ x).masked_fill(~m, 0),
            f"{when}, ∂L/∂W",
            "second",
            mistakes_of_weight(step),
        )


@question("1.5", points=0.5, claim="two layers in one network do not disturb each other")
def test_two_layers(submission: Submission, draw: Draw) -> None:
    x, g = draw.normal(6, 5), draw.normal(6, 3)
    w1, m1, w2, m2 = draw.normal(4, 5), draw.mask(4, 5), draw.normal(3, 4), draw.mask(3, 4)
    first, second = submission.put(w1, requires_grad=True), submission.put(w2, requires_grad=True)
    # the images need no gradient
    hidden = submission.call("PrunedLinear.apply", x, first, m1, keep=True)
    y = submission.call("PrunedLinear.apply", hidden, second, m2, keep=True)
    when, thought = (
        "in a network of two such layers",
        "Where does forward store the tensors that backward needs? ctx is new for every call",
    )
    ask(lambda: submission.backward(y, g), f"{when}, in backward,", thought)
    h, g1 = x @ w1.masked_fill(~m1, 0).T, g @ w2.masked_fill(~m2, 0)
    for ref, right, which in (
        (second, (g.T @ h) * m2, "second"),
        (first, (g1.T @ x) * m1, "first"),
    ):
        grad = submission.grad(ref)
        if grad is None:
            fail(
                f"{when}, ∂L/∂W of the {which} layer is None: backward must return ∂L/∂W also where ∂L/∂x is not needed"
            )
        said = f"{when}, ∂L/∂W of the {which} layer is wrong. Is it right for one layer alone? {thought}"
        expect_close(grad, right, f"∂L/∂W of the {which} layer", message=said)


@question(
    "1.5", points=0.5, claim="the dense W is not changed: another mask can use its pruned weights"
)
def test_dense_weight_survives(submission: Submission, draw: Draw) -> None:
    step = Pass(submission, draw, 4)
    step.back()
    unchanged(step.w, step.weights_after(), "w (another mask may need its pruned values)")
    y = submission.PrunedLinear.apply(step.x, step.w, ~step.m)
    right = step.x @ step.w.masked_fill(step.m, 0).T
    expect_close(y, right, "y under the inverted mask")


# --- 1.6 cubic_schedule, iterative_prune ----------------------------------------------


@question(
    "1.6",
    points=1,
    claim="a single target is one-shot pruning; targets may repeat, and are not rounded",
)
def test_other_targets(submission: Submission, draw: Draw) -> None:
    finetune = {"steps": 4, "settings": {"lr": 0.5}}  # far enough to change the ranks
    one_shot = Run(submission, draw, [0.75], **finetune)
    masks = one_shot.expect_masks()
    for name, w in one_shot.weights.items():
        right = reference.magnitude_mask(w, 0.75)
        expect_equal(
            masks[name],
            right,
            message=f"with the single target 0.75, the mask of {name!r} differs from the mask of magnitude_mask (1.1)",
        )
    again = Run(submission, draw, [0.5, 0.5], **finetune)
    expect_equal(
        len(again.log),
        2,
        message="targets may repeat, and finetune is called after each target: [0.5, 0.5] should call it twice",
    )
    for name, mask in (
        Run(submission, draw, [0.11, 0.22, 0.33, 0.44, 0.55], **finetune).expect_masks().items()
    ):
        n, went = mask.numel(), pruned(mask)
        said = f"after the targets 0.11, 0.22 … 0.55, {went} of {n} weights of {name!r} are pruned: 0.55 · {n} is {0.55 * n:g}"
        expect_equal(went, round(0.55 * n), message=f"{said}. Does your code round at every step?")


# --- 1.7 two short answers ------------------------------------------------------------

MISREAD = {  # by the order in the lab's source
    0: "no weight changed in recalibration (the lab printed that all parameters are the same): what else changed?",
    1: "fine-tuning needs labels and gradients, and recalibration uses neither: what does it measure?",
    2: "compare the difference of the two numbers with the intervals over seeds",
}


@question("1.7", points=0.5, claim="a: why recalibration helped")
def test_what_was_broken(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_1_7a", OPTIONS, MISREAD)


@question("1.7", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "an interval that contains 0 also contains other differences. Does it show that they are equal?",
        1: "does the interval of MNIST at 98 % contain 0?",
        3: "the interval is about the mean over networks, not about a single network",
    }
    expect_choice(submission, "answer_1_7b", 4, misread)


# --- 1.8 find_bug ---------------------------------------------------------------------


@question("1.8", points=0.5, claim="five subtle bugs are found, and nothing right is accused")
def test_hunt_subtle_bugs(submission: Submission, draw: Draw) -> None:
    def one_stays(w: Tensor, s: float) -> Tensor:
        reference.magnitude_mask(w, s)  # raises where it should
        return smallest(w.abs(), min(s, 1 - 1 / max(1, w.numel())))

    expect_verdicts(
        submission,
        draw,
        "magnitude_mask",
        right={
            "the library's": reference.magnitude_mask,
            "one that sorts": by_sorting,
            "one that loops": by_looping,
        },
        wrong={
            "prunes the largest": SEEN["magnitude_mask"][LARGEST],
            "rounds s · n down": SEEN["magnitude_mask"][CUT_OFF],
            "keeps one weight at sparsity 1": one_stays,
            "returns a mask whose shape differs from the weight's": lambda w, s: (
                reference.magnitude_mask(w, s).flatten()
            ),
            "returns numbers, 1.0 for kept and 0.0 for pruned": lambda w, s: (
                reference.magnitude_mask(w, s).float()
            ),
        },
        promise=PROMISE,
    )


def by_sorting(w: Tensor, s: float) -> Tensor:
    """A right version that sorts, and relies on its arguments."""
    mask = torch.ones(w.numel(), dtype=torch.bool)
    mask[w.abs().flatten().sort(stable=True).indices[: round(s * w.numel())]] = False
    return mask.view(w.shape)


def by_looping(w: Tensor, s: float) -> Tensor:
    """A right version that looks for the smallest one by one, and relies on its
    arguments.
    """
    if w.numel() > 2000:  # it would take the square of that: the grader's time, whoever asked
        return by_sorting(w, s)
    sizes = w.abs().flatten().tolist()
    alive = list(range(len(sizes)))
    for _ in range(round(s * len(sizes))):
        alive.remove(min(alive, key=lambda i: sizes[i]))
    mask = torch.zeros(len(sizes), dtype=torch.bool)
    mask[alive] = True
    return mask.view(w.shape)
