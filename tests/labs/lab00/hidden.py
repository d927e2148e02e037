"""Lab 00, counting cost and storing zeros: the claims that only the grader checks.
The claims that the notebook checks, and the messages of both, are in visible.py.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.grading import (
    Draw,
    Submission,
    ask,
    expect_equal,
    expect_keys,
    expect_length,
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
    Function,
    Wrong,
    address,
    as_bitmap,
    as_coordinates,
    as_number,
    as_pairs,
    as_values,
    count,
    draw_case,
    encoder,
    expect_back,
    expect_count,
    expect_counts,
    expect_csc,
    expect_csr,
    expect_decoded,
    expect_pairs,
    expect_total,
    expect_values,
    figures,
    kind,
    lumpy,
    matrix,
    nnz,
    of,
    recognise,
    same,
    show,
    shuffled,
    sized,
    stream,
    times_fewer,
    untouched,
    whole_bits,
    with_empty_lines,
)

# a sentence for the student -> a function that makes this mistake, by graded name
WRONG: dict[str, Wrong] = {}

# --- 0.1 conv_cost, linear_cost -------------------------------------------------------


@question("0.1", points=0.5, claim="a kernel as large as its input; large counts")
def test_kernels_as_large_as_the_input(submission: Submission, draw: Draw) -> None:
    M, C, R, S = draw.distinct(4, 2, 7)
    fits = (M, C, R, S, R, S, draw.integer(1, 3), 0)
    thought = "A kernel as large as its input has exactly one place"
    cost = ask(lambda: submission.conv_cost(*fits), f"for conv_cost{fits}", thought)
    expect_keys(cost, COST, f"the result of conv_cost{fits}")
    expect_count(
        cost["macs"], f"conv_cost{fits}['macs'], where the kernel has one place,", M * C * R * S
    )
    large = (512, 512, 3, 3, 1000, 999 + draw.integer(0, 1), 1, 1)
    macs = {"macs": math.prod(large[:6])}
    expect_counts(submission.conv_cost(*large), f"conv_cost{large}", macs, {}, COST)


# --- 0.2 transformer_macs -------------------------------------------------------------

THREE_FOR_ONE = "a matrix is missing with one head that you count with several heads: the layer has this matrix for any number of heads"
WRONG["transformer_macs"] = {
    THREE_FOR_ONE: encoder(projections=lambda B, L, E, heads: (3 + (heads > 1)) * B * L * E**2)
}


@question("0.2", points=0.5, claim="one head by default, and as many heads as columns")
def test_one_head(submission: Submission, draw: Draw) -> None:
    B, L, E = draw.integer(2, 5), draw.integer(5, 30), draw.integer(4, 20)
    call = f"transformer_macs({B}, {L}, {E})"
    cost, right = expect_total(submission, B, L, E), reference.transformer_macs(B, L, E)
    mistakes = {"projections": {THREE_FOR_ONE: 3 * B * L * E**2}}
    for part in ("scores", "projections", "attention", "ffn"):
        what = f"{call}[{part!r}], with one head by default,"
        expect_count(cost[part], what, right[part], mistakes.get(part))
    each = submission.transformer_macs(2, 5, E, E)
    expect_count(each["attention"], f"attention with {E} heads of one column each", 2 * 2 * 25 * E)


# --- 0.3 nonzero_macs -----------------------------------------------------------------


def strange_numbers(draw: Draw, *shape: int) -> Tensor:
    """NaN, infinities, tiny and ordinary numbers, and zeros of both signs; the last two
    are -0.0.
    """
    numbers = torch.tensor(
        [torch.nan, torch.inf, -torch.inf, -0.0, -0.0, 0.0, 1e-30, -1e-30, 2.5, -3.0]
    )
    x = numbers[draw.labels(math.prod(shape), len(numbers))]
    x[: len(numbers)] = numbers[draw.permutation(len(numbers))]  # each of them once at least
    x[-2:] = -0.0
    return x.view(shape)


def taken_for_zero(zero: Callable[[Tensor], Tensor]) -> Function:
    """By mistake: another idea of what a zero is."""
    return lambda w, x, *at: count((~zero(w)).float(), (~zero(x)).float(), *at)


def multiplied_first(w: Tensor, x: Tensor, stride: int = 1, padding: int = 0) -> int:
    """By mistake: the products that are not zero."""
    if w.ndim == 2:
        return int((w * x[:, None]).count_nonzero())
    patches = F.unfold(x, w.shape[2:], stride=stride, padding=padding)  # (B, C·R·S, places)
    return sum(int((patches * one.flatten()[:, None]).count_nonzero()) for one in w)


NO_PICTURE = "no product was counted: did your code use the stride or the padding? A linear layer has no picture"
OF_ZEROS = {
    "NaN was taken for a zero: NaN does not equal 0": taken_for_zero(lambda t: (t == 0) | t.isnan()),
    "-0.0 was taken for a value: it equals 0": taken_for_zero(lambda t: (t == 0) & ~t.signbit()),
    "1e-30 was taken for a zero: a small number is not zero": taken_for_zero(lambda t: t.abs() < 1e-8),
    "infinity was taken for a zero": taken_for_zero(lambda t: (t == 0) | t.isinf()),
    "negative numbers were taken for zeros": taken_for_zero(lambda t: t <= 0),
    "your code multiplied first and then looked for zeros: 1e-30 · 1e-30 is 0 in float32, and NaN · 0 is NaN. Check each factor": (
        multiplied_first
    ),
}  # fmt: skip
WRONG["nonzero_macs"] = OF_ZEROS | {
    NO_PICTURE: lambda w, x, *at: count(*(t[..., None, None] if t.ndim == 2 else t for t in (w, x)), *at)
}  # fmt: skip


@question("0.3", points=0.5, claim="NaN, infinity and tiny numbers are not zero; -0.0 is zero")
def test_nonzero_macs_of_strange_numbers(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, Tensor]:
        return strange_numbers(draw, 4, 7), strange_numbers(draw, 5, 7)

    (w, x), right, mistakes = draw_case(case, count, OF_ZEROS)
    expect_count(submission.nonzero_macs(w, x), "nonzero_macs", right[0], of(0, mistakes))


@question("0.3", points=0.5, claim="exact for large counts")
def test_nonzero_macs_is_exact(submission: Submission, draw: Draw) -> None:
    w, x = (draw.mask(rows, 300, kept=0.97).float() for rows in (3, 4))
    right = count(w, x)
    counted = submission.nonzero_macs(w, x)
    number = as_number(counted)
    if isinstance(number, int | float) and number != right and (number - right) % 256 == 0:
        fail(
            f"for a weight {tuple(w.shape)} and an input {tuple(x.shape)} the count is off by {abs(right - int(number))}, a "
            "multiple of 256: it overflows a dtype of 8 bits. Where in your code do counts have so few bits?"
        )
    expect_count(counted, "nonzero_macs", right)

    def layer(filters: int, side: int) -> tuple[Tensor, ...]:
        sizes = (filters, 1, 12, 12), (1, 1, side, side)
        return tuple(draw.mask(*size, kept=0.99).float() for size in sizes)

    # large enough that a call which is slow for other reasons, four of five, does not
    # look like a loop over products
    w, x = layer(2, 30)
    products, most = w.numel() * 19**2, 16 * 144 * 89**2
    for tries in (4, 3, 2, 1, 0):
        start = time.perf_counter()
        expect_count(submission.nonzero_macs(w, x), "nonzero_macs", count(w, x))
        seconds = (time.perf_counter() - start) * most / products
        if seconds < sandbox.Seconds().reply / 2:
            break
        if not tries or seconds > 10 * sandbox.Seconds().reply:
            # one product after the other, so counted in Python's ints: and it would not
            # be done in time
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
    w[:, 0] = x[:, 0] = 1  # so that some products count
    for stride in (2, 3):
        when = f"for a linear layer, stride {stride} and padding 1,"
        thought = "Does a linear layer use them?"
        counted = ask(lambda u=stride: submission.nonzero_macs(w, x, u, 1), when, thought)
        mistakes = {NO_PICTURE: WRONG["nonzero_macs"][NO_PICTURE](w, x, stride, 1)}
        expect_count(counted, f"{when} nonzero_macs", count(w, x), mistakes)


# --- what all encodings share ---------------------------------------------------------


def of_many_kinds(draw: Draw) -> list[Tensor]:
    """Tensors of several dtypes, shapes and strides, with numbers that the wrong dtype
    cannot hold.
    """
    kinds = [
        draw.sparse(3, draw.integer(2, 4), 4, dtype=torch.float64),
        draw.sparse(draw.integer(15, 25), dtype=torch.float16),
        draw.sparse(2, 3, draw.integer(2, 3), 2, sparsity=0.5),
        draw.mask(draw.integer(3, 5), 6, kept=0.4),
        draw.tied(draw.integer(3, 5), 5).long() * (2**24 + 1) * draw.mask(5, kept=0.5),
        draw.sparse(draw.integer(3, 4), 5, sparsity=0.5).T,  # in memory it lies column by column
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


def expect_same_zeros(stored: Tensor, x: Tensor) -> None:
    """Among the values stored of x there is no -0.0, and every NaN, infinity, tiny and
    negative number.
    """
    if bool(((stored == 0) & stored.signbit()).any()):
        fail(
            "-0.0 was stored as a value: it equals 0, so it is a zero. Does your code compare bits or signs?"
        )
    kinds: dict[str, Callable[[Tensor], Tensor]] = {
        "NaN": Tensor.isnan,
        "infinity": Tensor.isinf,
        "1e-30": lambda t: (t.abs() < 1e-8) & (t != 0),
        "a negative number": lambda t: t < 0,
    }
    for name, there in kinds.items():
        if int(there(stored).sum()) < int(there(x).sum()):
            fail(
                f"{name} was lost because your code took it for a zero: only a number that equals 0 is a zero"
            )


# --- 0.4 bitmap -----------------------------------------------------------------------


@question("0.4", points=0.5, claim="-0.0 is a zero; NaN, infinity and tiny numbers are values")
def test_bitmap_of_strange_numbers(submission: Submission, draw: Draw) -> None:
    x = strange_numbers(draw, draw.integer(4, 5), 6)
    encoded = submission.bitmap_encode(x)
    expect_length(encoded, 2, "the result of bitmap_encode", tuple)
    expect_same_zeros(x[as_bitmap(encoded[0], x)], x)
    right_map, right_values = reference.bitmap_encode(x)
    expect_equal(encoded[0], right_map, "the map")
    expect_values(encoded[1], right_values, x)
    expect_decoded(submission.bitmap_decode(right_map, right_values), x, "bitmap_decode")
    bits = reference.bitmap_bits(x)
    expect_count(submission.bitmap_bits(x), "bitmap_bits of a tensor with -0.0 and NaN", bits)


@question(
    "0.4", points=0.5, claim="any dtype and shape, also all zeros; nothing is stored between calls"
)
def test_bitmap_of_any_kind(submission: Submission, draw: Draw) -> None:
    for x in of_all_kinds(draw):
        encoded, right = of_kind(submission, "bitmap_encode", x), reference.bitmap_encode(x)
        expect_length(encoded, 2, "the result of bitmap_encode", tuple)
        expect_equal(as_bitmap(encoded[0], x), right[0], f"for {kind(x)} the map")
        expect_values(encoded[1], right[1], x)
        expect_decoded(of_kind(submission, "bitmap_decode", x, *right), x, "bitmap_decode")
    first, second = figures(draw, 4, 7), figures(draw, 4, 7)
    submission.bitmap_decode(*reference.bitmap_encode(first))
    expect_decoded(submission.bitmap_decode(*reference.bitmap_encode(second)), second, "bitmap_decode", {
        "bitmap_decode of a second tensor still has values of the first tensor: does your code store something between two calls?": (
            torch.where(second != 0, second, first)
        )
    })  # fmt: skip


# --- 0.5 run lengths ------------------------------------------------------------------


@question("0.5", points=0.5, claim="a run of exactly 2^k zeros, between values and at the end")
def test_runs_that_just_do_not_fit(submission: Submission, draw: Draw) -> None:
    for k in (2, draw.choice([1, 3])):
        full = 2**k
        for gaps, tail in (
            ([full, 0, 2 * full, full - 1, 1], 0),
            ([1, 0], full),
            ([0], full + 1),
            ([1], 2 * full),
            ([full], 1),
        ):
            x = stream(draw, shuffled(draw, gaps), tail)
            expect_pairs(submission.rle_encode(x, k), x, k)


@question("0.5", points=0.5, claim="decoding: fillers, shape and dtype")
def test_rle_decode(submission: Submission, draw: Draw) -> None:
    for k in (2, draw.choice([1, 3])):
        x = figures(draw, draw.integer(4, 5), 3, draw.integer(3, 4), sparsity=0.85).to(
            draw.choice([torch.float64, torch.int64])
        )
        x[0] = 0  # a long run,
        x[-1, -1] = 0  # and zeros at the end
        runs, values, shape = reference.rle_encode(x, k)
        when, thought = (
            f"decoding pairs of {kind(x)}",
            f"A filler ({2**k - 1}, 0) has {2**k - 1} zeros, and its own value is one more zero. Decode every pair in the same way",
        )
        pairs = (runs, values, shape)
        back = ask(lambda p=pairs: untouched(submission, "rle_decode", *p), when, thought)
        if isinstance(back, Tensor) and back.numel() < x.numel():
            fail(
                f"your code decoded {back.numel()} of {x.numel()} elements. How many elements does one pair describe?"
            )
        expect_decoded(back, x, "rle_decode")


@question("0.5", points=0.5, claim="-0.0 is a zero, NaN is not; any dtype, also all zeros or none")
def test_rle_of_any_kind(submission: Submission, draw: Draw) -> None:
    # enough for a filler
    x = torch.cat([strange_numbers(draw, draw.integer(4, 5), 6), torch.full((1, 6), -0.0)])
    encoded = submission.rle_encode(x)
    runs, values = as_pairs(encoded, x)
    right_runs, right_values, _ = reference.rle_encode(x)
    if not same(runs, right_runs):  # else a -0.0 may stand for a zero of its own
        expect_same_zeros(values, x)
    expect_equal(runs, right_runs, "runs, of a tensor with -0.0 and NaN,")
    expect_values(values, right_values, x)
    expect_decoded(submission.rle_decode(*encoded), x, "rle_decode(*rle_encode(x))")
    for x in of_all_kinds(draw):
        expect_pairs(of_kind(submission, "rle_encode", x), x, 2)
        back = of_kind(submission, "rle_decode", x, *reference.rle_encode(x))
        expect_decoded(back, x, "rle_decode")


@question("0.5", points=0.5, claim="any width of the run field (at least 1 bit), any shape")
def test_run_widths(submission: Submission, draw: Draw) -> None:
    for k in (1, 3, 5):
        x = figures(
            draw,
            draw.integer(4, 6),
            draw.integer(3, 5),
            draw.integer(5, 7),
            sparsity=draw.number(0.6, 0.95),
        )
        encoded = submission.rle_encode(x, k)
        expect_pairs(encoded, x, k)
        runs = len(encoded[0])
        expect_count(submission.rle_bits(x, 16, k), f"rle_bits with {k}-bit runs", runs * (16 + k))


# --- 0.6 coordinates ------------------------------------------------------------------


ONE_PLACE = "one bit per address was counted for a single place: how many different places must it distinguish?"
WRONG["coo_bits"] = {
    "each address is a bit too long: addresses begin at 0, so the largest is L - 1": lambda x, n=32: nnz(x) * (n + x.numel().bit_length()),
    "each address is a bit too short: it cannot express the last place": lambda x, n=32: nnz(x) * (n + max(1, x.numel() - 2).bit_length()),
    ONE_PLACE: lambda x, n=32: nnz(x) * (n + max(1, address(x))),
}  # fmt: skip


@question(
    "0.6", points=0.5, claim="the width at powers of two, next to them, and for a single place"
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


@question("0.6", points=0.5, claim="-0.0 is a zero, NaN is not; any dtype, also all zeros")
def test_coo_of_any_kind(submission: Submission, draw: Draw) -> None:
    strange = strange_numbers(draw, draw.integer(4, 5), 6)
    _, values = as_coordinates(submission.coo_encode(strange), strange)
    expect_same_zeros(values, strange)
    bits = reference.coo_bits(strange)
    expect_count(submission.coo_bits(strange), "coo_bits of a tensor with -0.0 and NaN", bits)
    for x in (strange, *of_all_kinds(draw)):
        index, values = as_coordinates(of_kind(submission, "coo_encode", x), x)
        right, right_values, shape = reference.coo_encode(x)
        by_strides = ((x != 0).nonzero() * torch.tensor(x.stride(), dtype=torch.int64)).sum(1)
        lie = "the index counts places in memory, but it must count row by row in x"
        in_memory = {lie: by_strides, f"{lie}. It was also sorted": by_strides.sort().values}
        recognise(index, right, in_memory, f"for {kind(x)} ")
        expect_equal(index, right, f"for {kind(x)} the index")
        expect_values(values, right_values, x)
        back = of_kind(submission, "coo_decode", x, right, right_values, shape)
        expect_decoded(back, x, "coo_decode")


# --- 0.7 CSR, 0.10 CSC ----------------------------------------------------------------


NO_VALUES: Wrong = {
    "an entry of ROW_INDEX that can only be 0 takes no bits": sized(entry=lambda R, C, kept: max(1, kept.bit_length()))
}  # fmt: skip
WRONG["csr_bits"] = NO_VALUES


def expect_empty_lines(
    submission: Submission, name: str, expect_arrays: Callable[..., None], line: str, draw: Draw
) -> None:
    """Empty first, middle and last rows and columns, and a matrix of zeros."""
    thought = f"What does your code do for a {line} without values?"
    for empty in (2, 0, -1):
        x = matrix(draw)
        x[empty], x[:, empty] = 0, 0
        for y, when in ((x, f"{show(x)}: "), (torch.zeros_like(x), "a matrix of zeros: ")):
            encode = functools.partial(submission.call, name, y)
            expect_arrays(ask(encode, f"for {when}", thought), y, when)


def matrices_of_any_kind(draw: Draw) -> list[Tensor]:
    """With -0.0 and NaN first; then of many dtypes and shapes, as matrices. No row and no
    column is empty: these have claims of their own.
    """
    matrices = [
        strange_numbers(draw, draw.integer(4, 5), 6),
        *(
            y.flatten(1) if y.ndim > 2 else y[None] if y.ndim < 2 else y
            for y in of_many_kinds(draw)
        ),
    ]
    for x in matrices:
        R, C = x.shape
        at = torch.arange(max(R, C))
        x[at % R, at % C] = torch.where(x[at % R, at % C] == 0, 1, x[at % R, at % C]).to(x.dtype)
    return matrices


@question("0.7", points=0.25, claim="empty rows and columns have an entry, too")
def test_empty_rows(submission: Submission, draw: Draw) -> None:
    expect_empty_lines(submission, "csr_encode", expect_csr, "row", draw)
    zeros = torch.zeros(4, 5)
    bits, mistakes = submission.csr_bits(zeros), apply_each(NO_VALUES, zeros)
    expect_count(bits, "csr_bits of a matrix of zeros", 0, mistakes)


@question("0.7", points=0.25, claim="-0.0 is a zero, NaN is not; any dtype")
def test_compressed_of_any_kind(submission: Submission, draw: Draw) -> None:
    strange, *others = matrices_of_any_kind(draw)
    encoded = submission.csr_encode(strange)
    expect_length(encoded, 3, "the result of csr_encode", tuple)
    expect_same_zeros(as_values(encoded[0], strange), strange)
    bits = submission.csr_bits(strange)  # its formula has a claim of its own
    for said, places, value in (
        ("-0.0 was counted as a value, but it equals 0", (strange == 0) & strange.signbit(), 1.0),
        ("NaN was not counted, but it is a value", strange.isnan(), 0.0),
    ):
        if bits == reference.csr_bits(torch.where(places, value, strange)):
            fail(f"csr_bits of a matrix with -0.0 and NaN: {said}")
    for x in (strange, *others):
        expect_csr(untouched(submission, "csr_encode", x), x, f"for {kind(x)}: ")
        back = submission.csr_decode(*reference.csr_encode(x), tuple(x.shape))
        expect_decoded(back, x, "csr_decode")


@question("0.10", points=0.5, claim="empty rows and columns, the last row and column; any dtype")
def test_csc_of_any_kind(submission: Submission, draw: Draw) -> None:
    expect_empty_lines(submission, "csc_encode", expect_csc, "column", draw)
    for x in with_empty_lines(draw):
        expect_back(submission, "csc_decode", reference.csc_encode(x), x)
    for x in matrices_of_any_kind(draw):
        expect_csc(untouched(submission, "csc_encode", x), x, f"for {kind(x)}: ")
        back = submission.csc_decode(*reference.csc_encode(x), tuple(x.shape))
        expect_decoded(back, x, "csc_decode")


# --- 0.8, 0.9: values -----------------------------------------------------------------


@question("0.8", points=0.5, claim="a: the meaning of (1-p)(1-q) for a layer")
def test_what_the_formula_says(submission: Submission, draw: Draw) -> None:
    refuted = {
        0: "a lower bound would hold for every layer. How many products remain for w = (1, 0) and x = (0, 1)?",
        1: "then the places of the zeros would not matter. How many products remain for w = (1, 0) and x = (0, 1)?",
        3: "an upper bound would hold for every layer. How many products remain for w = (1, 0) and x = (1, 0)?",
        4: "then a zero input never meets a non-zero weight. How many products remain for w = (1, 0) and x = (0, 1)?",
    }
    expect_choice(submission, "answer_0_8a", 5, refuted)


@question("0.8", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "the interval of CIFAR-10 does not contain 0. Where does it begin and end?",
        2: "the two intervals overlap, and the two data sets were not compared in pairs",
        3: "one layer of one network was measured. What do the intervals say of other layers?",
    }
    expect_choice(submission, "answer_0_8b", 4, misread)


CAMERA = [
    (16, 3, 3, 3, 96, 128, 2, 1),
    (32, 16, 3, 3, 48, 64, 1, 1),
    (48, 32, 3, 3, 48, 64, 2, 1),
    (96, 48, 3, 3, 24, 32, 1, 1),
    (128, 96, 3, 3, 24, 32, 2, 1),
]


@question("0.9", points=0.5, claim="a: the memory that activations need at the same time")
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


@question("0.9", points=0.5, claim="b: how many times fewer MACs when weights are pruned")
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
