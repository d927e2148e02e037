"""Lab 00, counting cost and storing zeros: the claims that only the grader checks.
The claims that the notebook checks, and the messages of both, are in visible.py.
"""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    Submission,
    ask,
    expect_close,
    expect_equal,
    expect_keys,
    expect_length,
    expect_number,
    fail,
    question,
    sandbox,
    unchanged,
)
from course_lib.grading.claims.mistakes import apply_each
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab00 as reference

from .visible import (
    COST,
    WORK,
    Wrong,
    address,
    as_bitmap,
    as_coordinates,
    as_number,
    count,
    encoder,
    expect_count,
    expect_counts,
    expect_decoded,
    expect_total,
    expect_values,
    expect_work,
    figures,
    kind,
    lumpy,
    nnz,
    shuffled,
    sized,
    stream,
    text,
    times_fewer,
    untouched,
    whole_bits,
)

# a sentence for the student -> a function that makes this mistake, by graded name
NO_VALUES: Wrong = {
    "an entry of ROW_INDEX that can only be 0 takes no bits": sized(entry=lambda R, C, kept: max(1, kept.bit_length()))
}  # fmt: skip
WRONG: dict[str, Wrong] = {"csr_bits": NO_VALUES}

# --- 0.1 conv_cost, linear_cost -------------------------------------------------------


@question("0.1", points=0.5, claim="a kernel as large as its input; large counts")
def test_kernels_as_large_as_the_input(submission: Submission, draw: Draw) -> None:
    M, C, R, S = draw.distinct(4, 2, 7)
    fits = (M, C, R, S, R, S, draw.integer(2, 3), 0)
    thought = "A kernel as large as its input has exactly one place"
    cost = ask(lambda: submission.conv_cost(*fits), f"for conv_cost{fits}", thought)
    expect_keys(cost, COST, f"the result of conv_cost{fits}")
    expect_count(
        cost["macs"], f"conv_cost{fits}['macs'], where the kernel has one place,", M * C * R * S
    )
    large = (512, 512, 3, 3, 1000, draw.integer(990, 999), 1, 1)
    macs = {"macs": math.prod(large[:6])}
    expect_counts(submission.conv_cost(*large), f"conv_cost{large}", macs, {}, COST)


# --- 0.2 transformer_macs -------------------------------------------------------------

THREE_FOR_ONE = "a matrix is missing with one head that you count with several heads: the layer has this matrix for any number of heads"
WRONG["transformer_macs"] = {
    THREE_FOR_ONE: encoder(projections=lambda B, L, d, heads: (3 + (heads > 1)) * B * L * d**2)
}


@question("0.2", points=0.5, claim="one head by default, and as many heads as columns")
def test_one_head(submission: Submission, draw: Draw) -> None:
    B, (L, d) = draw.integer(2, 5), draw.distinct(2, 5, 20)
    call = f"transformer_macs({B}, {L}, {d})"
    cost, right = expect_total(submission, B, L, d), reference.transformer_macs(B, L, d)
    mistakes = {"projections": {THREE_FOR_ONE: 3 * B * L * d**2}}
    for part in ("scores", "projections", "attention", "ffn"):
        what = f"{call}[{part!r}], with one head by default,"
        expect_count(cost[part], what, right[part], mistakes.get(part))
    each = submission.transformer_macs(2, 5, d, d)
    expect_count(each["attention"], f"attention with {d} heads of one column each", 2 * 2 * 25 * d)


# --- 0.3 nonzero_macs -----------------------------------------------------------------


NO_PICTURE = "no product was counted: did your code use the stride or the padding? A linear layer has no picture"
WRONG["nonzero_macs"] = {
    NO_PICTURE: lambda w, x, *at: count(*(t[..., None, None] if t.ndim == 2 else t for t in (w, x)), *at)
}  # fmt: skip


@question("0.3", points=0.5, claim="exact for large counts")
def test_nonzero_macs_is_exact(submission: Submission, draw: Draw) -> None:
    w, x = (draw.mask(rows, 300, kept=0.97).float() for rows in (3, 4))
    right = count(w, x)
    expect_count(submission.nonzero_macs(w, x), "nonzero_macs", right)

    def layer(filters: int, side: int) -> tuple[Tensor, ...]:
        sizes = (filters, 1, 12, 12), (1, 1, side, side)
        return tuple(draw.mask(*size, kept=0.99).float() for size in sizes)

    # a loop over products counts in Python's ints, and would not be done in time: the time of
    # more products, without that of the call itself
    times = []
    for filters, side in ((2, 30), (4, 57)):
        w, x = layer(filters, side)
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            expect_count(submission.nonzero_macs(w, x), "nonzero_macs", count(w, x))
            seconds.append(time.perf_counter() - start)
        times.append((w.numel() * (side - 11) ** 2, min(seconds)))
    (few, short), (more, long) = times
    most = 16 * 144 * 89**2
    if (long - short) / (more - few) * most > sandbox.Seconds().reply / 2:
        return
    while True:
        w, x = layer(16, 100)
        right = count(w, x)
        if right > 2**24 and right % 2:  # so no float32 equals it
            break
    counted = submission.nonzero_macs(w, x)
    number = as_number(counted)
    if isinstance(number, int | float) and number != right and abs(number - right) < 1e-4 * right:
        fail(
            f"the count is off by {abs(right - int(number))} of {right}: above 2²⁴ = {2**24} a float32 cannot represent every "
            "whole number. Where in your code do counts become floats?"
        )
    expect_count(counted, "nonzero_macs", right)


@question(
    "0.3",
    points=0.5,
    claim="a linear layer ignores stride and padding; the arguments are not changed",
)
def test_nonzero_macs_of_no_picture(submission: Submission, draw: Draw) -> None:
    w, x = lumpy(draw, 3, 2, 3, 3), lumpy(draw, 2, 2, 5, 6)
    _, (w_after, x_after) = submission.call("nonzero_macs", w, x, 1, 1, returning=(0, 1))
    unchanged(w, w_after, "the weight")
    unchanged(x, x_after, "the input x")
    w, x = lumpy(draw, 4, 7), lumpy(draw, 5, 7)
    w[:, :3], x[:, :3] = torch.tensor([1, -1, 1]), torch.tensor([1, 1, 0])  # some count, some not
    for stride in (2, 3):
        when = f"for a linear layer, stride {stride} and padding 1,"
        thought = "Does a linear layer use them?"
        counted = ask(lambda u=stride: submission.nonzero_macs(w, x, u, 1), when, thought)
        mistakes = {NO_PICTURE: WRONG["nonzero_macs"][NO_PICTURE](w, x, stride, 1)}
        expect_count(counted, f"{when} nonzero_macs", count(w, x), mistakes)


# --- what all encodings share ---------------------------------------------------------


def of_many_kinds(draw: Draw) -> list[Tensor]:
    """Tensors of several dtypes and shapes, with numbers that the wrong dtype cannot hold."""
    kinds = [
        draw.sparse(3, draw.integer(2, 4), 4, dtype=torch.float64),
        draw.sparse(draw.integer(15, 25), dtype=torch.float16),
        draw.sparse(2, 3, draw.integer(2, 3), 2, sparsity=0.5),
        draw.mask(draw.integer(3, 5), 6, kept=0.4),
    ]
    return [x for x in kinds if x.any()]


def of_all_kinds(draw: Draw) -> list[Tensor]:
    """Beside them without values, without places, and without zeros."""
    none = [torch.zeros(3, 4), torch.zeros(0, 3), torch.zeros(draw.integer(3, 9)), torch.zeros(0)]
    return [*of_many_kinds(draw), *none, figures(draw, 7, sparsity=0)]


def of_kind(submission: Submission, name: str, x: Tensor, *given: Any) -> Any:
    """What the student's function ``name`` makes of x, or of ``given``, which was made
    of it.
    """
    call = functools.partial(untouched, submission, name, *(given or (x,)))
    return ask(call, f"for {kind(x)}", "What is special about it?")


# --- 0.4 bitmap -----------------------------------------------------------------------


@question("0.4", points=1, claim="any dtype and shape, also all zeros")
def test_bitmap_of_any_kind(submission: Submission, draw: Draw) -> None:
    for x in of_all_kinds(draw):
        encoded, right = of_kind(submission, "bitmap_encode", x), reference.bitmap_encode(x)
        expect_length(encoded, 2, "the result of bitmap_encode", tuple)
        expect_equal(as_bitmap(encoded[0], x), right[0], f"for {kind(x)} the map")
        expect_values(encoded[1], right[1], x)
        expect_decoded(of_kind(submission, "bitmap_decode", x, *right), x, "bitmap_decode")


# --- 0.5 coordinates ------------------------------------------------------------------


ONE_PLACE = "one bit per address was counted for a single place: how many different places must it distinguish?"
WRONG["coo_bits"] = {
    "each address is a bit too long: addresses begin at 0, so the largest is L - 1": lambda x, n=32: nnz(x) * (n + x.numel().bit_length()),
    "each address is a bit too short: it cannot express the last place": lambda x, n=32: nnz(x) * (n + max(1, x.numel() - 2).bit_length()),
    ONE_PLACE: lambda x, n=32: nnz(x) * (n + max(1, address(x))),
}  # fmt: skip


@question(
    "0.5", points=0.5, claim="the width at powers of two, next to them, and for a single place"
)
def test_address_widths(submission: Submission, draw: Draw) -> None:
    n = draw.integer(5, 20)
    for k in (2, 3, draw.integer(4, 10)):
        for L in (2**k - 1, 2**k, 2**k + 1):
            x = figures(draw, L, sparsity=0.5)
            x[-1] = 1  # the last place is used
            kept = int((x != 0).sum())
            what = f"coo_bits of {kept} values in {L} places, n = {n},"
            mistakes = apply_each(WRONG["coo_bits"], x, n)
            expect_count(submission.coo_bits(x, n), what, reference.coo_bits(x, n), mistakes)
    one = draw.normal(1)
    what = f"coo_bits of one value in one place, n = {n},"
    expect_count(submission.coo_bits(one, n), what, n, {ONE_PLACE: n + 1})


@question("0.5", points=0.5, claim="any dtype and shape, also all zeros or none")
def test_coo_of_any_kind(submission: Submission, draw: Draw) -> None:
    for x in of_all_kinds(draw):
        index, values = as_coordinates(of_kind(submission, "coo_encode", x), x)
        right, right_values, shape = reference.coo_encode(x)
        expect_equal(index, right, f"for {kind(x)} the index")
        expect_values(values, right_values, x)
        back = of_kind(submission, "coo_decode", x, right, right_values, shape)
        expect_decoded(back, x, "coo_decode")


# --- 0.6 the roofline -----------------------------------------------------------------


@question("0.6", points=0.5, claim="a dense matrix by default, and indices of any width")
def test_work_of_a_dense_matrix(submission: Submission, draw: Draw) -> None:
    def dense() -> tuple[int, ...]:
        R, C, V = draw.distinct(3, 3, 40)
        return R, C, V, R * C

    expect_work(submission, dense, ["macs", "bytes"])
    for bits in (0, 8, 16, 32, 64):
        R, C, V = draw.distinct(3, 3, 40)
        sizes = (R, C, V, draw.integer(1, R * C - 1), bits)
        right = reference.product_work(*sizes)
        expect_counts(submission.product_work(*sizes), f"product_work{sizes}", right, {}, WORK)


@question("0.6", points=1, claim="the bound of a whole product, on both sides of the corner")
def test_bound_of_a_product(submission: Submission, draw: Draw) -> None:
    peak, bandwidth = draw.number(2e9, 4e9), draw.number(4e9, 8e9)
    for vectors in (1, 2, 64, 512):
        size = draw.integer(200, 900)
        for kept in (size**2, size**2 // 10):
            work = reference.product_work(size, size, vectors, kept, 32)
            right = reference.least_seconds(work, peak, bandwidth)
            seconds = expect_number(submission.least_seconds(work, peak, bandwidth))
            what = f"microseconds of {vectors} vectors and {kept} weights"
            expect_close(seconds * 1e6, right * 1e6, what)


# --- 0.7 values ---------------------------------------------------------------------------


@question("0.7", points=1, claim="a: the meaning of (1-p)(1-q) for a layer")
def test_what_the_formula_says(submission: Submission, draw: Draw) -> None:
    refuted = {
        0: "a lower bound would hold for every layer. How many products remain for w = (1, 0) and x = (0, 1)?",
        1: "then the places of the zeros would not matter. How many products remain for w = (1, 0) and x = (0, 1)?",
        3: "an upper bound would hold for every layer. How many products remain for w = (1, 0) and x = (1, 0)?",
        4: "then a zero input never meets a non-zero weight. How many products remain for w = (1, 0) and x = (0, 1)?",
    }
    expect_choice(submission, "answer_0_7a", 5, refuted)


CAMERA = [
    (16, 3, 3, 3, 96, 128, 2, 1),
    (32, 16, 3, 3, 48, 64, 1, 1),
    (48, 32, 3, 3, 48, 64, 2, 1),
    (96, 48, 3, 3, 24, 32, 1, 1),
    (128, 96, 3, 3, 24, 32, 2, 1),
]


@question("0.7", points=1, claim="b: the memory that activations need at the same time")
def test_a_device_to_buy(submission: Submission, draw: Draw) -> None:
    costs = [reference.conv_cost(*layer, bits=16) for layer in CAMERA]
    alive = [cost["input_bits"] + cost["output_bits"] for cost in costs]
    tensors = [bits for cost in costs for bits in (cost["input_bits"], cost["output_bits"])]
    need = whole_bits(submission)
    right = max(alive)
    for sentence, wrong in {
        "this is the sum over all layers: is the input of the first layer still needed when the last layer runs?": sum(alive),
        "this is the sum of all tensors, each counted once: which tensors are needed at the same time?": sum(tensors[:1] + tensors[1::2]),
        "this is the largest tensor: while a layer runs, more than one tensor is in memory": max(tensors),
        "this is in bytes: give bits": right / 8,
        "this is the number of numbers: each number has 16 bits": right / 16,
        "this is with 32 bits per number: these activations have 16 bits": 2 * right,
        "the weights are included: count only the activations": max(
            bits + cost["weight_bits"] for bits, cost in zip(alive, costs, strict=True)
        ),
        "this is the first layer: does another layer need more?": alive[0],
        "this is the last layer: does another layer need more?": alive[-1],
    }.items():  # fmt: skip
        if need == wrong:
            fail(f"{need:.0f}: {sentence}")
    if need != right:
        fail(
            f"{need:.10g} bits are not the largest memory that is needed at one time, and the expected answer is exact: calculate one layer by hand"
        )


@question("0.7", points=1, claim="c: how many times fewer MACs when weights are pruned")
def test_what_weights_cannot_save(submission: Submission, draw: Draw) -> None:
    cost = reference.transformer_macs(1, 512, 768)
    matrices, attention = cost["projections"] + cost["ffn"], cost["attention"]
    times = times_fewer(submission)
    right = cost["total"] / (0.1 * matrices + attention)
    for sentence, wrong in {
        "this would be right if every MAC used a weight: does every MAC of all three parts use a weight?": 10.0,
        "this is the share of MACs that remains, in %: how many times fewer MACs are there?": 100 / right,
        "this is the share of MACs that is saved, in %: how many times fewer MACs are there?": 100 - 100 / right,
        "this is for 90 % kept weights: 90 % of the weights are pruned": cost["total"] / (0.9 * matrices + attention),
        "the projections were counted as dense: their weights are pruned, too": cost["total"] / (cost["total"] - 0.9 * cost["ffn"]),
        "the FFN was counted as dense: its weights are pruned, too": cost["total"] / (cost["total"] - 0.9 * cost["projections"]),
    }.items():  # fmt: skip
        if abs(times - wrong) <= 0.01 * wrong:
            fail(f"{times:g}: {sentence}")
    if abs(times - right) > 0.05 + 1e-9:
        fail(
            f"it is not {times:g} times: which part of the layer multiplies by weights, and which does not? Divide the MACs before pruning by the MACs after pruning"
        )


# --- 0.8 run lengths, CSR, CSC --------------------------------------------------------


@question("0.8", points=0.5, claim="run lengths: exactly 2^k zeros, between values and at the end")
def test_runs_that_just_do_not_fit(submission: Submission, draw: Draw) -> None:
    for k in (1, 2, 3, 5):
        full = 2**k
        for gaps, tail in (
            ([full, 0, 2 * full, full - 1, 1], 0),
            ([1, 0], full),
            ([0], full + 1),
            ([1], 2 * full),
            ([full], 1),
        ):
            x = stream(draw, shuffled(draw, gaps), tail)
            what = f"rle_bits of {text(x)} with n = 16 and {k}-bit runs"
            expect_count(submission.rle_bits(x, 16, k), what, reference.rle_bits(x, 16, k))


@question("0.8", points=1, claim="any shape, matrices of zeros, empty rows and columns")
def test_bits_of_any_kind(submission: Submission, draw: Draw) -> None:
    R, C = 3, 8  # a column has 8 places and needs 3 bits, a row 2
    x = figures(draw, R, C)
    x[:, 0] = x[-1] = 0
    x.view(-1)[x.flatten().nonzero().flatten()[4:]] = 0  # 4 values: 0 to 4 needs 3 bits
    for y, what in ((x, "a matrix with an empty row and column"), (torch.zeros(R, C), "zeros")):
        for name, mistakes in (
            ("csr_bits", apply_each(NO_VALUES, y)),
            ("csc_bits", {}),
            ("rle_bits", {}),
        ):
            right = getattr(reference, name)(y)
            expect_count(submission.call(name, y), f"{name} of {what}", right, mistakes)
    cube = figures(draw, 3, 4, 5, sparsity=0.8)
    right = reference.rle_bits(cube, 8, 3)
    expect_count(submission.rle_bits(cube, 8, 3), "rle_bits of three dimensions", right)
