"""Lab 05: the claims that only the grader sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_equal,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.mistakes import draw_case, recognise
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab05 as reference

from .visible import (
    PATTERNS,
    UNSTABLE,
    as_combined,
    expect_nm_mask,
    expect_ties,
    made_of_class,
    tournament,
    triple,
)

WRONG: dict[str, dict[str, Callable[..., Any]]] = {}


@question("5.1", points=1, claim="any number of dimensions, negative dim, ties")
def test_nm_mask_any_shape(submission: Submission, draw: Draw) -> None:
    n, m = draw.choice(PATTERNS)
    shapes = ((2 * m,), 0), ((2, 2 * m, m), 1), ((3, 2, m, 5), -2), ((m, 2 * m, 7), -3)
    for shape, dim in shapes:
        expect_nm_mask(submission, draw.normal(*shape), n, m, dim, {})
    expect_ties(submission, draw, 41, 72)
    expect_nm_mask(submission, draw.normal(2, 4), 4, 4, 1, {})


LOWER_STAYS = "among equal |w|, the lower column was kept: prune the lower column"
LAST_TO_JOIN = "among equal |w|, the last column to join the group was kept: prune the lower column, in any order of joining"
FIRST_TO_JOIN = "among equal |w|, the first column to join the group was kept: prune the lower column, in any order of joining"
WRONG["combine_columns"] = {
    LOWER_STAYS: lambda w, groups: tournament(w, [sorted(g) for g in groups], Tensor.abs),
    LAST_TO_JOIN: lambda w, groups: tournament(w, [g[::-1] for g in groups], Tensor.abs),
    FIRST_TO_JOIN: lambda w, groups: tournament(w, groups, Tensor.abs),
}


@question("5.2", points=1, claim="ties, columns without a group, empty rows, no groups")
def test_combined_at_the_edges(submission: Submission, draw: Draw) -> None:
    def grouped() -> tuple[Tensor, list[list[int]]]:
        w = draw.tied(6, 8, levels=2)
        w = w.masked_fill(draw.mask(6, 8, kept=0.5), 0)
        w[2] = 0
        order = draw.permutation(8).tolist()
        return w, [order[:4], order[4:6]]

    right, wrong = reference.combine_columns, WRONG["combine_columns"]
    (w, groups), _, mistakes = draw_case(grouped, right, wrong, view=triple)
    for some in (groups, [sorted(groups[0], reverse=True)], []):
        value = as_combined(submission.combine_columns(w, some), w, some)
        if some is groups:
            recognise(value, triple(right(w, some)), mistakes)
        for name, part in triple(right(w, some)).items():
            if some is groups:
                of_part = {said: wrong[name] for said, wrong in mistakes.items()}
                recognise(value[name], part, of_part)
            expect_equal(value[name], part, f"{name}, with equal sizes in a row,")


@question("5.3", points=1, claim="ties, k of 0 and of all, other dimensions")
def test_activations_at_the_edges(submission: Submission, draw: Draw) -> None:
    for shape in ((5, 3, 8, 6), (3, 150)):  # samples of 144 and 150 entries
        x = draw.tied(*shape)
        size = x[0].numel()
        for k in (0, 5, 71, size):
            value = expect_tensor(submission.topk_activation(x, k), shape=x.shape)
            right = reference.topk_activation(x, k)
            what = f"topk_activation(x {shape}, {k})"
            if k and torch.equal(*(y.abs().flatten(1).sort(dim=1).values for y in (value, right))):
                expect_equal(value, right, message=f"{what}: {UNSTABLE.replace('|w|', '|x|')}")
            expect_equal(value, right, what)
    x = draw.tied(6, 8, 12)
    for n, m, dim in ((1, 4, 1), (3, 4, 2), (2, 3, 0), (1, 2, -1)):
        value = expect_tensor(submission.nm_activation(x, n, m, dim), shape=x.shape)
        what = f"nm_activation(x, {n}, {m}, {dim}) with ties"
        expect_equal(value, reference.nm_activation(x, n, m, dim), what)


@question("5.4", points=0.5, claim="a score of 0 is closed")
def test_gate_at_zero(submission: Submission, draw: Draw) -> None:
    module = made_of_class(submission, "ChannelGate", 2, 3)
    for name, shape in (("weight", (3, 2)), ("bias", (3,))):
        submission.call(f"score.{name}.data.copy_", torch.zeros(shape), on=module, keep=True)
    value = expect_tensor(submission.call("", draw.normal(2, 2, 2, 2), on=module), shape=(2, 3))
    if value.any():
        fail("a gate with a score of exactly 0 must be closed: use > 0, not ≥ 0")


@question("5.5", points=1, claim="bounds of a block, ties, kept zeros, nothing changed")
def test_joint_at_the_edges(submission: Submission, draw: Draw) -> None:
    # 4 divides every dimension, and no two are equal
    x, w = draw.tied(8, 12) * draw.mask(8, 12), draw.tied(16, 12)
    for n_x, n_w in ((2, 3), (4, 4), (1, 1)):
        (y, products), after = submission.call("joint_nm", x, w, n_x, n_w, 4, returning=(0, 1))
        unchanged([x, w], after, "the inputs and weights")
        right = reference.joint_nm(x, w, n_x, n_w, 4)
        expect_close(y, right[0], f"y for n_x = {n_x}, n_w = {n_w}")
        expect_equal(products, right[1], f"the number of products for n_x = {n_x}, n_w = {n_w}")


@question("5.6", points=1, claim="what the intervals permit")
def test_answer(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "look at both kinds of data: does each interval of N:M by size minus random contain 0?",
        2: "look at the first difference on the digits: does its interval contain 0?",
        3: "an interval that contains 0 also contains other differences. Does it show that they are equal?",
    }
    expect_choice(submission, "answer_5_6", 4, misread)
