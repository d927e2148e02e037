"""Lab 05: the claims that only the grader sees."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_equal,
    expect_gradient,
    expect_raises,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import apply_each, draw_case, recognise
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab05 as reference

from .visible import (
    LAST_DIM,
    LATER,
    N_GO,
    PATTERNS,
    PER_ROW,
    PROMISE,
    RIGHT,
    SIGNED,
    STRIDED,
    as_combined,
    as_groups,
    as_stored,
    equal,
    expect_nm_mask,
    expect_ties,
    greedy,
    made_of_class,
    of_table,
    places,
    thin,
    tournament,
    triple,
)
from .visible import WRONG as SEEN

WRONG: dict[str, dict[str, Callable[..., Any]]] = {"nm_mask": LATER}


@question("5.1", points=1, claim="any number of dimensions, negative dim, ties")
def test_nm_mask_any_shape(submission: Submission, draw: Draw) -> None:
    n, m = draw.choice(PATTERNS)
    for shape, dim in (((2 * m,), 0), ((2, m, 3), 1), ((3, 2, m, 2), -2), ((m, m, 2), -3)):
        expect_nm_mask(submission, draw.normal(*shape), n, m, dim, {})
    expect_ties(submission, draw, n, m)
    expect_nm_mask(submission, draw.normal(2, 4), 4, 4, 1, {})


@question(
    "5.2",
    points=0.5,
    claim="a block with more than n non-zeros is refused; NaN and ±inf are values, −0.0 is a zero",
)
def test_compress_at_the_edges(submission: Submission, draw: Draw) -> None:
    w = draw.normal(3, 8)
    right = w.masked_fill(~reference.nm_mask(w, 2, 4, 1), 0)
    values, index = as_stored(submission.nm_compress(right, 2, 4), right, 2, 4)
    expect_equal((values, index), reference.nm_compress(right, 2, 4), "values and index")
    w = right.clone()
    w[1, 4:8] = torch.tensor([1.0, -2.0, 0.0, 3.0])
    expect_raises(
        ValueError, lambda: submission.nm_compress(w, 2, 4), "a block with 3 non-zeros at 2:4"
    )
    w = right.clone()
    w[0, :4] = torch.tensor([-0.0, torch.inf, 0.0, torch.nan])
    values, index = as_stored(submission.nm_compress(w, 2, 4), w, 2, 4)
    if index[0, :2].tolist() != [1, 3]:
        fail(
            f"of the block [-0.0, inf, 0.0, nan], store the places 1 and 3, not {index[0, :2].tolist()}: inf and NaN are values, −0.0 is a zero"
        )


@question(
    "5.2", points=0.5, claim="nm_bits for m = 1 and an m that is not a power of two; half precision"
)
def test_bits_and_dtype(submission: Submission, draw: Draw) -> None:
    for given in ((4, 12, 1, 1, 32), (3, 18, 2, 6, 16), (5, 10, 2, 5, 8)):
        rows, columns, n, m, bits = given
        value, down = submission.nm_bits(*given), int(math.log2(m))
        if value != reference.nm_bits(*given) and value in (
            rows * columns // m * n * (bits + width) for width in (down, math.log2(m))
        ):
            fail(f"nm_bits{given}: round ⌈log₂ {m}⌉ *up* to whole bits")
        expect_equal(value, reference.nm_bits(*given), f"nm_bits{given}")
    expect_equal(submission.nm_bits(4, 8, 2, 4), 4 * 2 * 2 * 34, "nm_bits(4, 8, 2, 4)")
    w = draw.normal(2, 8, dtype=torch.float16)
    w = w.masked_fill(~reference.nm_mask(w.float(), 1, 4, 1), 0)
    stored = as_stored(submission.nm_compress(w, 1, 4), w, 1, 4)
    expect_equal(
        expect_tensor(submission.nm_decompress(*stored, 1, 4), dtype=torch.float16),
        w,
        "the matrix in half precision",
    )


READS_ALL = "an entry of x that row r does not store changed output r: does your code build the dense matrix first? Then 0 · NaN is NaN"


@question("5.3", points=1, claim="only the stored entries are used; any leading dimensions")
def test_nm_linear_reads_what_it_needs(submission: Submission, draw: Draw) -> None:
    n, m = draw.choice(((1, 4), (2, 5)))
    index = places(draw, 3, 3, n, m)
    values = draw.normal(*index.shape)
    column = index + torch.arange(index.shape[1]) // n * m
    for shape in ((), (2,), (2, 3)):
        x = draw.normal(*shape, 3 * m)
        right = reference.nm_linear(x, values, index, n, m)
        value = expect_tensor(
            submission.nm_linear(x, values, index, n, m),
            shape=right.shape,
            what=f"for x {tuple(x.shape)}",
        )
        expect_close(value, right, f"for x {tuple(x.shape)}")
        holes = x.clone()
        holes[..., [c for c in range(3 * m) if c not in column[0].tolist()]] = torch.nan
        first = submission.nm_linear(holes, values, index, n, m)
        if not isinstance(first, Tensor) or not torch.allclose(
            first[..., 0], right[..., 0], atol=1e-5
        ):
            fail(READS_ALL)


def only_one(mistakes: dict[str, Any]) -> dict[str, Any]:
    """Those that lead to what no other does."""
    results = list(mistakes.values())
    return {said: result for said, result in mistakes.items() if results.count(result) == 1}


@question("5.4", points=1, claim="ties, gamma 0 and infinite, size 1, an empty matrix")
def test_groups_at_the_edges(submission: Submission, draw: Draw) -> None:
    several = ((4, 0), (4, math.inf), (12, 0.25))

    def fullest_before(w: Tensor, size: int, gamma: float) -> list[list[int]]:
        return greedy(w, size, gamma, rank=lambda part: int(part[:, :-1].any(1).sum()))

    mistakes = [fullest_before, *SEEN["group_columns"].values()]
    drawn: list[tuple[int, Tensor]] = []
    for _ in range(20):  # the matrix in which most mistakes change a group, whatever the seed
        w = thin(draw, 8, 12)
        w[:, 5], w[:, 9] = w[:, 3], w[:, 3]  # equally dense
        right = [greedy(w, *at) for at in several]
        drawn.append((sum([wrong(w, *at) for at in several] != right for wrong in mistakes), w))
    w = max(drawn, key=lambda one: one[0])[1]
    for size, gamma in (*several, (1, 0.5)):
        groups = greedy(w, size, gamma)
        value = as_groups(submission.group_columns(w, size, gamma))
        results = apply_each(SEEN["group_columns"], w, size, gamma) if size > 1 else {}
        recognise(value, groups, only_one(results), equal=equal)
        if value != groups:
            fail(
                f"for size {size} and gamma {gamma} the groups are {value}, but should be {groups}"
            )
    if as_groups(submission.group_columns(torch.zeros(3, 4), 2, 0.5)):
        fail("a matrix of zeros must have no groups")


LOWER_STAYS = "among equal |w|, the lower column was kept: prune the lower column"
LAST_TO_JOIN = "among equal |w|, the last column to join the group was kept: prune the lower column, in any order of joining"
FIRST_TO_JOIN = "among equal |w|, the first column to join the group was kept: prune the lower column, in any order of joining"
WRONG["combine_columns"] = {
    LOWER_STAYS: lambda w, groups: tournament(w, [sorted(g) for g in groups], Tensor.abs),
    LAST_TO_JOIN: lambda w, groups: tournament(w, [g[::-1] for g in groups], Tensor.abs),
    FIRST_TO_JOIN: lambda w, groups: tournament(w, groups, Tensor.abs),
}


@question("5.5", points=1, claim="ties, columns without a group, empty rows, no groups")
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
        for name, part in triple(reference.combine_columns(w, some)).items():
            if some is groups:
                of_part = {said: wrong[name] for said, wrong in mistakes.items()}
                recognise(value[name], part, of_part)
            expect_equal(value[name], part, f"{name}, with equal sizes in a row,")


@question("5.6", points=1, claim="ties, k of 0 and of all, other dimensions")
def test_activations_at_the_edges(submission: Submission, draw: Draw) -> None:
    x = draw.tied(3, 4, 4)
    for k in (0, 5, 16, 40):
        value = expect_tensor(submission.topk_activation(x, k), shape=x.shape)
        expect_equal(value, reference.topk_activation(x, k), f"topk_activation(x, {k}) with ties")
    for n, m, dim in ((1, 4, 1), (3, 4, 2), (2, 3, 0), (1, 2, -1)):
        value = expect_tensor(submission.nm_activation(x, n, m, dim), shape=x.shape)
        expect_equal(
            value,
            reference.nm_activation(x, n, m, dim),
            f"nm_activation(x, {n}, {m}, {dim}) with ties",
        )


@question("5.7", points=0.5, claim="gated_macs has a gradient; a score of 0 is closed")
def test_gated_macs_gradient(submission: Submission, draw: Draw) -> None:
    gates, dense = [draw.mask(3, width).float() for width in (4, 5)], [20.0, 50.0]
    ours = [gate.clone().requires_grad_() for gate in gates]
    reference.gated_macs(ours, dense).sum().backward()
    theirs = [submission.put(gate, requires_grad=True) for gate in gates]
    total = submission.call("gated_macs", theirs, dense, keep=True)
    lost = "gated_macs returns no gradient for the gates: do not use .item(), .detach() or float()"
    first = expect_gradient(submission, total, theirs[0], torch.ones(3), lost)
    for i, gradient in enumerate((first, submission.grad(theirs[1]))):
        if gradient is None:
            fail(lost)
        expect_close(gradient, ours[i].grad, f"the gradient by gate {i}")
    module = made_of_class(submission, "ChannelGate", 2, 3)
    for name, shape in (("weight", (3, 2)), ("bias", (3,))):
        submission.call(f"score.{name}.data.copy_", torch.zeros(shape), on=module, keep=True)
    value = expect_tensor(submission.call("", draw.normal(2, 2, 2, 2), on=module), shape=(2, 3))
    if value.any():
        fail("a gate with a score of exactly 0 must be closed: use > 0, not ≥ 0")


@question("5.8", points=1, claim="bounds of a block, ties, kept zeros, nothing changed")
def test_joint_at_the_edges(submission: Submission, draw: Draw) -> None:
    x, w = draw.tied(3, 12) * draw.mask(3, 12), draw.tied(4, 12)
    for n_x, n_w in ((2, 3), (4, 4), (1, 1)):
        (y, products), after = submission.call("joint_nm", x, w, n_x, n_w, 4, returning=(0, 1))
        unchanged([x, w], after, "the inputs and weights")
        right = reference.joint_nm(x, w, n_x, n_w, 4)
        expect_close(y, right[0], f"y for n_x = {n_x}, n_w = {n_w}")
        expect_equal(products, right[1], f"the number of products for n_x = {n_x}, n_w = {n_w}")


@question("5.9", points=0.5, claim="a: why 4.5 % of the products do not take 4.5 % of the time")
def test_why(submission: Submission, draw: Draw) -> None:
    expect_choice(
        submission,
        "answer_5_9a",
        4,
        {
            0: "kept blocks contain zeros of ReLU, so fewer than 1/16 of the products remain: the count is right",
            1: "the experiment did not measure this, and it does not affect the time",
            2: "padding is in the denominator and changes the share a little, but it does not explain the time",
        },
    )


@question("5.9", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "both intervals contain 0, but also a cost of half a point. Do they show that there is none?",
        2: "an interval that contains 0 also contains other differences. Does it show that they are equal?",
        3: "the two intervals overlap, and the two data sets were not compared in pairs",
    }
    expect_choice(submission, "answer_5_9b", 4, misread)


@question("5.10", points=0.5, claim="right versions pass, and six wrong ones are found")
def test_hunt_more(submission: Submission, draw: Draw) -> None:
    wrong = of_table(N_GO, SIGNED, STRIDED, LAST_DIM, PER_ROW, *LATER)
    expect_verdicts(submission, draw, "nm_mask", RIGHT, wrong, PROMISE)
