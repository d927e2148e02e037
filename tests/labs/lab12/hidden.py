"""Lab 12, language models: the claims that only the grader sees."""

from __future__ import annotations

from functools import partial

import torch

from course_lib.grading import (
    Draw,
    Submission,
    ask,
    expect_close,
    expect_length,
    expect_number,
    expect_tensor,
    fail,
    question,
)
from course_lib.grading.claims.mistakes import apply_each, draw_case, near, recognise
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab12 as reference

from .visible import (
    OF_CHOICE,
    OF_MASKS,
    OF_SCORES,
    OF_THE_WALK,
    OF_UPDATES,
    TIES,
    Wrong,
    close,
    compare_rows,
    correlated,
    draw_stack,
    expect_importance,
    expect_influence,
    expect_loop,
    expect_perplexity,
    expect_removed,
    expect_repaired,
    expect_routed,
    expect_walked,
    grid_by,
    influence_by,
    inputs,
    loop_by,
    of_tokens,
    perplexity_by,
    remove_by,
    right_text,
    stack,
    text,
    windows_of,
)
from .visible import (
    WRONG as SEEN,
)

WRONG: dict[str, Wrong] = {}


# --- 12.1 ---


IN_HALF = "computed in the dtype of the logits: make them float64 before the softmax"
ONCE = "batches can be read only once, as a generator: add up both numbers in one loop"


@question("12.1", points=1, claim="half-precision logits, in float64; batches read once")
def test_perplexity_of_half_precision(submission: Submission, draw: Draw) -> None:
    expect_perplexity(submission, draw, dtype=torch.float64)
    wrong = SEEN["perplexity"] | {IN_HALF: perplexity_by(as_is=True)}
    (batches,), right, mistakes = draw_case(
        lambda: (text(draw, torch.bfloat16),), perplexity_by(), wrong, partial(near, tolerance=1e-4)
    )
    value = expect_number(submission.perplexity(batches), "perplexity(…)")
    recognise(value, right, mistakes, equal=partial(near, tolerance=2e-5))
    if abs(value / right - 1) < 0.1 and not near(value, right, tolerance=2e-5):
        fail(IN_HALF)
    expect_close(value, right, "perplexity(…)", tolerance=2e-5)
    read = submission.helper("stream", values=batches)
    value = ask(lambda: submission.perplexity(read), "with batches that are read once", ONCE)
    expect_close(expect_number(value, "perplexity(…)"), right, message=ONCE, tolerance=2e-5)


# --- 12.2 ---


@question("12.2", points=1, claim="real tokens only, texts of different lengths")
def test_influence_without_padding(submission: Submission, draw: Draw) -> None:
    for _ in range(2):
        expect_influence(submission, draw)


@question("12.2", points=1, claim="float16 states, computed in float64")
def test_influence_of_half_precision(submission: Submission, draw: Draw) -> None:
    said = "computed in float16: make the states float64 first"
    wrong: Wrong = {said: influence_by(of_tokens, as_is=True)}
    expect_influence(submission, draw, wrong, dtype=torch.float16)


# --- 12.3 ---


@question("12.3", points=1, claim="round(sparsity · inputs) in each output; 0 and 1; the result")
def test_any_sparsity(submission: Submission, draw: Draw) -> None:
    wrong = OF_CHOICE | OF_THE_WALK
    for sparsity in (0.3, 0.75):
        layers, x = draw_stack(draw, sparsity, layers=2, wrong=wrong)
        expect_walked(submission, layers, x, sparsity, wrong)
    for sparsity in (0.0, 1.0):
        expect_walked(submission, stack(draw, 2, 9), inputs(draw, 9), sparsity, {})


@question("12.3", points=1, claim="ties: the first goes; four layers, without biases")
def test_ties_of_the_walk(submission: Submission, draw: Draw) -> None:
    E = 80
    layers = stack(draw, 1, E)
    with torch.no_grad():
        layers[0][1].weight.copy_(
            draw.signs(layers[0][1].weight.numel()).view_as(layers[0][1].weight)
        )
    x = draw.signs(2 * 3 * E).view(2, 3, E)  # behind the norm each feature has the same norm
    with torch.no_grad():
        layers[0][0].weight.fill_(1.0)
        layers[0][0].bias.fill_(0.0)
        x = torch.cat([x, -x], 2)[..., :E]
        x = torch.where(torch.arange(E) % 2 == 0, 1.0, -1.0).expand(2, 3, E).contiguous()
    expect_walked(submission, layers, x, 0.5, {}, tied="0.1.weight")
    every, x = draw_stack(draw, 0.6, layers=4)
    expect_walked(submission, every, x, 0.6, SEEN["wanda_walk"])


# --- 12.4 ---


@question("12.4", points=1, claim="any order of removal gives the same row")
def test_any_order(submission: Submission, draw: Draw) -> None:
    n = 9
    case = lambda: (  # noqa: E731
        draw.normal(n, dtype=torch.float64), correlated(draw, n), draw.distinct(4, 0, n - 1)
    )  # fmt: skip
    (row, H, gone), *_ = draw_case(case, remove_by(), SEEN["remove_in_turn"], close)
    for order in (gone, gone[::-1], sorted(gone)):
        value = submission.remove_in_turn(row, H, order)
        mistakes = apply_each(SEEN["remove_in_turn"], row, H, order)
        compare_rows(value, remove_by()(row, H, order), (row, H, order), mistakes)


@question("12.4", points=1, claim="nearly all weights, and none")
def test_nearly_all(submission: Submission, draw: Draw) -> None:
    for count in (0, 5, 6):
        expect_removed(submission, draw, count) if count > 1 else _none(submission, draw)


def _none(submission: Submission, draw: Draw) -> None:
    row, H = draw.normal(6, dtype=torch.float64), correlated(draw, 6)
    value = submission.remove_in_turn(row, H, [])
    compare_rows(value, row, (row, H, []), {})


# --- 12.5 ---


@question("12.5", points=1, claim="later blocks are ranked by their updated weights")
def test_updated_blocks(submission: Submission, draw: Draw) -> None:
    for _ in range(2):
        expect_loop(submission, draw, OF_MASKS | OF_UPDATES, None)


@question(
    "12.5", points=0.5, claim="uncorrelated inputs move nothing; nothing pruned, nothing changes"
)
def test_without_correlation(submission: Submission, draw: Draw) -> None:
    case = lambda: (  # noqa: E731
        draw.normal(5, 12, dtype=torch.float64), torch.diag(draw.sizes(12, 0.5, 2.0)), 6, 15
    )  # fmt: skip
    (W, U, *_), *_ = draw_case(case, loop_by(), OF_SCORES, close)
    tied = draw.tied(5, 12).double()
    for dim, count in ((None, 15), (1, 3)):
        value = submission.column_loop(tied, torch.eye(12).double(), 6, count, dim)
        right = loop_by()(tied, torch.eye(12).double(), 6, count, dim)
        expect_close(value, right, message=TIES, tolerance=1e-9)
    for count, what in ((0, "where nothing is pruned"), (15, "where inputs are uncorrelated")):
        value = submission.column_loop(W, U, 6, count)
        value = expect_tensor(value, shape=W.shape, dtype=torch.float64, what="the matrix")
        right = loop_by()(W, U, 6, count)
        recognise(value, right, {k: f(W, U, 6, count) for k, f in OF_SCORES.items()}, equal=close)
        expect_close(value, right, f"the matrix {what}", tolerance=1e-9)


KEPT_ERRORS = (
    "only pruned weights have an error: the error is column − q also where a kept weight is rounded"
)


@question("12.5", points=0.5, claim="with bits: the columns to the right make up for rounding, too")
def test_loop_rounds(submission: Submission, draw: Draw) -> None:
    wrong: Wrong = OF_UPDATES | {
        KEPT_ERRORS: loop_by(rounding="no error"),
        "the error is that of the rounded column: it is the old column − q": loop_by(
            rounding="rounded"
        ),
        "kept weights were not rounded: they become `value`": loop_by(rounding="none"),
    }
    submission.replace({"grid": reference.grid, "nearest": reference.nearest})
    try:
        expect_loop(submission, draw, wrong, None, bits=3, group=8)
        expect_loop(submission, draw, wrong, 1, bits=4, group=8)
    finally:
        submission.restore()


# --- 12.6 ---


@question("12.6", points=1, claim="a group of zeros has step 1; values at the ends")
def test_grid_of_zeros(submission: Submission, draw: Draw) -> None:
    part = draw.normal(3, 5, dtype=torch.float64)
    part[1], part[2] = 0, part[2] * 1e-3
    part[0, 0], part[2, 0] = -1, -1e-3
    given = submission.grid(part, 3)
    expect_length(given, 2, "grid(…)")
    low, step = (expect_tensor(v, shape=(3,), what="grid(…)") for v in given)
    right = grid_by()(part, 3)
    if step[1] != 1:
        fail(
            f"step of a group of zeros is {float(step[1])}, expected: 1, so that nothing is divided by 0"
        )
    if step[0] == 1 or step[2] == 1:
        fail("step is 1 in a group that is not all 0: only a group of zeros has step 1")
    expect_close(step, right[1], "step", tolerance=1e-6)
    expect_close(low, right[0], "low", tolerance=1e-6)
    low, step = right
    for k, end in ((-0.4, 0), (0.4, 0), (6.6, 7), (7.4, 7)):
        value = submission.nearest(low + k * step, low, step, 3)
        value = expect_tensor(value, shape=(3,), what="nearest(…)")
        what = "nearest(…) at the smallest value" if end == 0 else "nearest(…) at the largest value"
        expect_close(value / step, low / step + end, f"{what}, in steps,", tolerance=1e-6)


# --- 12.7 ---


@question("12.7", points=0.5, claim="12.7a: how much is the mask, how much the update?")
def test_mask_or_update(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_12_7a", 4, MISREAD_A)


@question("12.7", points=0.5, claim="12.7b: zeros, or fewer bits?")
def test_bits_or_zeros(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_12_7b", 4, MISREAD_B)


MISREAD_A = {
    0: "the mask alone is not better than Wanda's: compare the rows without an update",
    2: "compare Wanda's mask with and without an update, then SparseGPT's",
    3: "the interval of their difference does not contain 0",
}
MISREAD_B = {
    1: "compare the two perplexities at 3.5 bits",
    2: "both have a number of bits per weight, and a perplexity",
    3: "compare 3.5 with 4.5 bits: is the loss the same?",
}


# --- 12.8 ---


@question("12.8", points=0.5, claim="an expert to which no token is routed has importance 0")
def test_unused_experts(submission: Submission, draw: Draw) -> None:
    for _ in range(2):
        expect_importance(submission, draw, unseen=True)


@question("12.8", points=0.5, claim="gates of other mixtures; of as many experts as are kept")
def test_route_of_few(submission: Submission, draw: Draw) -> None:
    expect_routed(submission, draw)
    logits, kept = draw.normal(9, 6), torch.arange(6) % 2 == 0
    value = expect_tensor(submission.route(logits, kept, 3), shape=(9, 6), what="route(…)")
    expect_close(value[:, kept], logits[:, kept].softmax(1), "route(…) of all kept experts")
    if bool((value[:, ~kept] != 0).any()):
        fail("removed experts still have a gate")


# --- 12.9 ---


@question("12.9", points=0.25, claim="repaired: a last window of one token; windows of one length")
def test_repaired_last_window(submission: Submission, draw: Draw) -> None:
    expect_repaired(submission, draw, last=True)
    windows = windows_of(draw, 4, 4, 4)
    value = expect_number(submission.repaired(windows), "repaired(…)")
    expect_close(value, right_text(windows), "repaired(…)", tolerance=1e-5)
