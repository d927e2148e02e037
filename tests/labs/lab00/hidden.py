"""Lab 00, counting cost and storing zeros: the claims that only the grader sees. What
is seen in the notebook, and the words for both, stand in visible.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    Submission,
    ask,
    expect_equal,
    expect_keys,
    expect_length,
    expect_raises,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.typed import expect_choice
from course_lib.grading.wall import workers
from course_lib.labs import lab00 as reference

from .visible import (
    COST,
    LECTURE,
    Claims,
    as_bitmap,
    as_coordinates,
    as_number,
    as_pairs,
    as_values,
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
    percentage,
    recognise,
    same,
    show,
    shuffled,
    stream,
    telling,
    times_fewer,
    untouched,
    whole_bits,
)

# --- 0.1 conv_cost, linear_cost -------------------------------------------------------


@question("0.1", points=0.5, claim="a kernel that just fits is fine, one that does not raises")
def test_kernels_as_large_as_the_input(submission: Submission, draw: Draw) -> None:
    M, C, R, S = draw.distinct(4, 2, 7)
    fits = (M, C, R, S, R, S, draw.integer(1, 3), 0)
    thought = "A kernel as large as its input has one place"
    cost = ask(lambda: submission.conv_cost(*fits), f"for conv_cost{fits}", thought)
    expect_keys(cost, COST, f"the result of conv_cost{fits}")
    expect_count(
        cost["macs"], f"conv_cost{fits}['macs'], where the kernel has one place,", M * C * R * S
    )
    large = (512, 512, 3, 3, 1000, 999 + draw.integer(0, 1), 1, 1)
    macs = math.prod(large[:6])
    expect_counts(submission.conv_cost(*large), f"conv_cost{large}", {"macs": (macs, {})}, COST)
    for layer, when in (
        ((M, C, R, S, R - 1, S), "a kernel that is higher than its input"),
        ((M, C, R, S, R, S - 1), "a kernel that is wider than its input"),
        (
            (M, C, R, S, R - 1, S, 3),
            "a kernel that is higher than its input, by less than a stride",
        ),
        ((M, C, R, S, R, S - 1, 3), "a kernel that is wider than its input, by less than a stride"),
    ):
        expect_raises(
            ValueError,
            lambda layer=layer: submission.conv_cost(*layer),
            f"{when}, conv_cost{layer},",
        )


@question("0.1", points=0.5, claim="sizes, batches, strides and bits that make no sense raise")
def test_arguments_of_the_costs(submission: Submission, draw: Draw) -> None:
    M, C, R, S = draw.distinct(4, 2, 7)
    for layer, when in (
        ((M, C, R, S, 9, 9, 0), "a stride of 0"),
        ((M, C, R, S, 9, 9, 1, -1), "a negative padding"),
        ((0, C, R, S, 9, 9), "a layer without filters"),
        ((-M, C, R, S, 9, 9), "a negative number of filters"),
        ((M, -C, R, S, 9, 9), "a negative number of channels"),
        ((M, C, R, S, 9, 9, 1, 0, -8), "a negative number of bits"),
    ):
        expect_raises(
            ValueError,
            lambda layer=layer: submission.conv_cost(*layer),
            f"{when}, conv_cost{layer},",
        )
    for rows, when in (
        ((0, 4, 5), "a batch of 0"),
        ((-2, 4, 5), "a negative batch"),
        ((2, 4, -5), "a negative d_out"),
    ):
        expect_raises(
            ValueError,
            lambda rows=rows: submission.linear_cost(*rows),
            f"{when}, linear_cost{rows},",
        )


# --- 0.2 transformer_macs -------------------------------------------------------------


@question("0.2", points=0.5, claim="one head by default, and the same matrices for it")
def test_one_head(submission: Submission, draw: Draw) -> None:
    B, L, E = draw.integer(2, 5), draw.integer(5, 30), draw.integer(4, 20)
    call = f"transformer_macs({B}, {L}, {E})"
    p, a, f, s = expect_total(submission, B, L, E)
    expect_count(s, f"{call}['scores'], with one head by default,", B * L**2)
    one_head = "with one head by default,"
    expect_count(p, f"{call}['projections'], {one_head}", 4 * B * L * E**2, {
        "a matrix is missing that you count for several heads: the layer has it whatever the heads": 3 * B * L * E**2,
    })  # fmt: skip
    expect_count(a, f"{call}['attention'], {one_head}", 2 * B * L**2 * E)
    expect_count(f, f"{call}['ffn'], {one_head}", 8 * B * L * E**2)


@question("0.2", points=0.5, claim="heads must divide E, and all arguments are at least 1")
def test_transformer_arguments(submission: Submission, draw: Draw) -> None:
    heads = draw.integer(3, 7)
    E = heads * draw.integer(2, 5) + draw.integer(1, heads - 1)
    when = f"transformer_macs(2, 5, {E}, heads={heads}), where the heads cannot share {E} columns evenly,"
    expect_raises(ValueError, lambda: submission.transformer_macs(2, 5, E, heads), when)
    expect_raises(ValueError, lambda: submission.transformer_macs(2, 5, 6, 0), "0 heads")
    expect_raises(
        ValueError, lambda: submission.transformer_macs(2, 0, 6), "a sentence of 0 tokens"
    )
    expect_raises(ValueError, lambda: submission.transformer_macs(-1, 5, 6), "a batch of -1")
    one_each = submission.transformer_macs(2, 5, heads, heads)
    expect_count(
        one_each["attention"],
        f"attention with {heads} heads of one column each",
        2 * 2 * 25 * heads,
    )


# --- 0.3 nonzero_macs -----------------------------------------------------------------


@question("0.3", points=0.5, claim="NaN, infinity and tiny numbers are not zero; -0.0 is")
def test_nonzero_macs_of_strange_numbers(submission: Submission, draw: Draw) -> None:
    def strange(*shape: int) -> Tensor:
        numbers = torch.tensor(
            [torch.nan, torch.inf, -torch.inf, -0.0, 0.0, 1e-30, -1e-30, 2.0, -3.0]
        )
        return numbers[draw.labels(math.prod(shape), len(numbers))].view(shape)

    def case() -> tuple[Any, Claims]:
        w, x = strange(4, 7), strange(5, 7)

        def count(zero: Callable[[Tensor], Tensor]) -> int:
            return reference.nonzero_macs((~zero(w)).float(), (~zero(x)).float())

        products = w * x[:, None]  # (5, 4, 7)
        return (w, x), {"nonzero_macs": (reference.nonzero_macs(w, x), {
            "NaN was taken for a zero: it is no number, but it is there": count(lambda t: (t == 0) | t.isnan()),
            "-0.0 was taken for a value: it equals 0": count(lambda t: (t == 0) & ~t.signbit()),
            "1e-30 was taken for a zero: small is not zero": count(lambda t: t.abs() < 1e-8),
            "infinity was taken for a zero": count(lambda t: (t == 0) | t.isinf()),
            "negative numbers were taken for zeros": count(lambda t: t <= 0),
            "it was multiplied first and looked at afterwards: 1e-30 · 1e-30 is 0 in float32, and NaN · 0 is NaN. Ask each operand": (
                int((products != 0).sum())
            ),
        })}  # fmt: skip

    (w, x), claims = telling(case)
    expect_count(submission.nonzero_macs(w, x), "nonzero_macs", *claims["nonzero_macs"])


@question("0.3", points=0.5, claim="exact, however many there are")
def test_nonzero_macs_is_exact(submission: Submission, draw: Draw) -> None:
    w, x = (draw.mask(rows, 300, kept=0.97).float() for rows in (3, 4))
    right = reference.nonzero_macs(w, x)
    count = submission.nonzero_macs(w, x)
    number = as_number(count)
    if isinstance(number, int | float) and number != right and (number - right) % 256 == 0:
        fail(
            f"for a weight {tuple(w.shape)} and an input {tuple(x.shape)} the count is off by {abs(right - int(number))}, a multiple of "
            "256: it wraps around where a dtype of 8 bits is full. Where in your code do counts have so few?"
        )
    expect_count(count, "nonzero_macs", right)

    def layer(filters: int, side: int) -> tuple[Tensor, Tensor]:
        dense = 0.99
        return draw.mask(filters, 1, 12, 12, kept=dense).float(), draw.mask(
            1, 1, side, side, kept=dense
        ).float()

    # large enough that a call which is slow for other reasons, four of five, does not
    # look like a loop over products
    w, x = layer(2, 30)
    products, most = w.numel() * 19**2, 16 * 144 * 89**2
    for tries in (4, 3, 2, 1, 0):
        start = time.perf_counter()
        expect_count(submission.nonzero_macs(w, x), "nonzero_macs", reference.nonzero_macs(w, x))
        seconds = (time.perf_counter() - start) * most / products
        if seconds < workers.Seconds().reply / 2:
            break
        if not tries or seconds > 10 * workers.Seconds().reply:
            # one product after the other, so counted in Python's ints: and it would not
            # be done in time
            return
    while True:
        w, x = layer(16, 100)
        right = reference.nonzero_macs(w, x)
        if right > 2**24 and right % 2:  # so no float32 equals it
            break
    count = submission.nonzero_macs(w, x)
    number = as_number(count)
    if isinstance(number, int | float) and number != right and abs(number - right) < 1e-4 * right:
        fail(
            f"the count is off by {abs(right - int(number))} of {right}: above 2²⁴ = {2**24} a float32 cannot hold every whole "
            "number. Where in your code do counts become floats?"
        )
    expect_count(count, "nonzero_macs", right)


@question(
    "0.3",
    points=0.5,
    claim="a linear layer ignores stride and padding; shapes that do not fit raise",
)
def test_nonzero_macs_arguments(submission: Submission, draw: Draw) -> None:
    w, x = lumpy(draw, 3, 2, 3, 3), lumpy(draw, 2, 2, 5, 6)
    _, (w_after, x_after) = submission.call("nonzero_macs", w, x, 1, 1, returning=(0, 1))
    unchanged(w, w_after, "the weight")
    unchanged(x, x_after, "the input x")
    w, x = lumpy(draw, 4, 7), lumpy(draw, 5, 7)
    w[:, 0] = x[:, 0] = 1  # so that some products count
    for stride in (2, 3):
        when, thought = (
            f"for a linear layer, stride {stride} and padding 1,",
            "What does a linear layer do with them?",
        )
        count = ask(lambda u=stride: submission.nonzero_macs(w, x, u, 1), when, thought)
        expect_count(count, f"{when} nonzero_macs", reference.nonzero_macs(w, x), {
            "no product was counted: was the stride or the padding used? There is no picture to slide over": 0
        })  # fmt: skip
    for shapes, when in (
        (((3, 4), (2, 5)), "a weight for 4 features with an input of 5"),
        (
            ((3, 4), (2, 1)),
            "a weight for 4 features with an input of 1 (PyTorch would broadcast it)",
        ),
        (
            ((3, 1), (2, 4)),
            "a weight for 1 feature with an input of 4 (PyTorch would broadcast it)",
        ),
        (((3, 2, 3, 3), (2, 3, 5, 6)), "a weight for 2 channels with an input of 3"),
        (
            ((3, 2, 3, 3), (2, 1, 5, 6)),
            "a weight for 2 channels with an input of 1 (PyTorch would broadcast it)",
        ),
        (((3, 2, 3, 3), (2, 18)), "a weight (M, C, R, S) with an input (B, d_in)"),
    ):
        weight, given = (draw.normal(*shape) for shape in shapes)
        expect_raises(ValueError, lambda w=weight, x=given: submission.nonzero_macs(w, x), when)


# --- what all encodings share ---------------------------------------------------------


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


def expect_same_zeros(stored: Tensor, x: Tensor) -> None:
    """Among the values stored of x there is no -0.0, and every NaN, infinity, tiny and
    negative number.
    """
    if bool(((stored == 0) & stored.signbit()).any()):
        fail(
            "-0.0 was stored as a value: it equals 0, so it is a zero. Does your code look at bits or signs?"
        )
    kinds: dict[str, Callable[[Tensor], Tensor]] = {
        "NaN": Tensor.isnan,
        "infinity": Tensor.isinf,
        "1e-30": lambda t: (t.abs() < 1e-8) & (t != 0),
        "a negative number": lambda t: t < 0,
    }
    for name, there in kinds.items():
        if int(there(stored).sum()) < int(there(x).sum()):
            fail(f"{name} was lost, taken for a zero: a zero is what equals 0, and nothing else")


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


@question("0.4", points=0.5, claim="any dtype and shape, also all zeros; too few values raise")
def test_bitmap_of_any_kind(submission: Submission, draw: Draw) -> None:
    for x in (
        *of_many_kinds(draw),
        torch.zeros(3, 4),
        torch.zeros(0, 3),
        figures(draw, 7, sparsity=0),
    ):
        when = f"for {kind(x)}"
        encoded = ask(
            lambda x=x: untouched(submission, "bitmap_encode", x), when, "What is special about it?"
        )
        expect_length(encoded, 2, "the result of bitmap_encode", tuple)
        right_map, right_values = reference.bitmap_encode(x)
        expect_equal(as_bitmap(encoded[0], x), right_map, f"{when} the map")
        expect_values(encoded[1], right_values, x)
        pair = (right_map, right_values)
        back = ask(
            lambda p=pair: untouched(submission, "bitmap_decode", *p),
            when,
            "What is special about it?",
        )
        expect_decoded(back, x, "bitmap_decode")
    first, second = figures(draw, 4, 7), figures(draw, 4, 7)
    submission.bitmap_decode(*reference.bitmap_encode(first))
    expect_decoded(submission.bitmap_decode(*reference.bitmap_encode(second)), second, "bitmap_decode", {
        "bitmap_decode of a second tensor still has values of the one before: does your code keep something between two calls?": (
            torch.where(second != 0, second, first)
        )
    })  # fmt: skip
    bitmap, values = reference.bitmap_encode(figures(draw, 4, 5))
    expect_raises(
        ValueError,
        lambda: submission.bitmap_decode(bitmap, values[:-1]),
        "one value too few for the map",
    )
    many = torch.cat([values, values[:1]])
    expect_raises(
        ValueError, lambda: submission.bitmap_decode(bitmap, many), "one value too many for the map"
    )


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


@question(
    "0.5", points=0.5, claim="back again: fillers, shape and dtype; pairs that do not fit raise"
)
def test_rle_decode(submission: Submission, draw: Draw) -> None:
    for k in (2, draw.choice([1, 3])):
        x = figures(draw, draw.integer(4, 5), 3, draw.integer(3, 4), sparsity=0.85).to(
            draw.choice([torch.float64, torch.int64])
        )
        x[0] = 0  # a long run,
        x[-1, -1] = 0  # and zeros at the end
        runs, values, shape = reference.rle_encode(x, k)
        filler = (values == 0) & (runs == 2**k - 1)
        lengths = (runs + 1 - filler.long()).clamp(min=0)
        wrong = x.new_zeros(int(lengths.sum()) + 1)
        wrong[lengths.cumsum(0) - 1] = values
        said = f"a filler ({2**k - 1}, 0) was read as {2**k - 1} zeros: its own value is one more zero. Every pair is read the same way"
        pairs = (runs, values, shape)
        back = ask(
            lambda p=pairs: untouched(submission, "rle_decode", *p),
            f"decoding pairs of {kind(x)}",
            said,
        )
        if isinstance(back, Tensor) and back.numel() < x.numel():
            fail(
                f"{back.numel()} of {x.numel()} elements came back. How many elements does one pair stand for?"
            )
        expect_decoded(back, x, "rle_decode")
    for other, when in (
        ((*shape[:-1], shape[-1] + 1), "a shape that is larger than what the pairs describe"),
        ((*shape[:-1], shape[-1] - 1), "a shape that is smaller than what the pairs describe"),
    ):
        expect_raises(ValueError, lambda s=other: submission.rle_decode(runs, values, s), when)


@question("0.5", points=0.5, claim="-0.0 is a zero, NaN is none; any dtype, also all zeros or none")
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
    for x in (
        *of_many_kinds(draw),
        torch.zeros(draw.integer(3, 9)),
        torch.zeros(0),
        figures(draw, 7, sparsity=0),
    ):
        when = f"for {kind(x)}"
        encoded = ask(
            lambda x=x: untouched(submission, "rle_encode", x), when, "What is special about it?"
        )
        expect_pairs(encoded, x, 2)
        pairs = reference.rle_encode(x)
        back = ask(
            lambda pairs=pairs: submission.rle_decode(*pairs), when, "What is special about it?"
        )
        expect_decoded(back, x, "rle_decode")


@question("0.5", points=0.5, claim="any width of the run field from 1 bit on, any shape")
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
    expect_raises(ValueError, lambda: submission.rle_encode(x, 0), "a run field of 0 bits")


# --- 0.6 coordinates ------------------------------------------------------------------


@question(
    "0.6", points=0.5, claim="the width at powers of two, beside them, and for a single place"
)
def test_address_widths(submission: Submission, draw: Draw) -> None:
    n = draw.integer(5, 20)
    for k in (2, 3, draw.integer(4, 10)):
        for L in (2**k - 1, 2**k, 2**k + 1):
            x = figures(draw, L, sparsity=0.5)
            x[-1] = 1  # the last place is used
            kept = int((x != 0).sum())
            expect_count(submission.coo_bits(x, n), f"coo_bits of {kept} values in {L} places, n = {n},", reference.coo_bits(x, n), {
                "each address is a bit too long: the largest is L - 1, since they begin at 0": kept * (n + (L - 1).bit_length() + 1),
                "each address is a bit too short: the last place cannot be named": kept * (n + (L - 1).bit_length() - 1),
            })  # fmt: skip
    one = draw.normal(1)
    expect_count(submission.coo_bits(one, n), f"coo_bits of one value in one place, n = {n},", n, {
        "one bit of address where there is only one place: what could it tell apart?": n + 1
    })  # fmt: skip


@question("0.6", points=0.5, claim="-0.0 is a zero, NaN is none; any dtype; bad positions raise")
def test_coo_of_any_kind(submission: Submission, draw: Draw) -> None:
    strange = strange_numbers(draw, draw.integer(4, 5), 6)
    _, values = as_coordinates(submission.coo_encode(strange), strange)
    expect_same_zeros(values, strange)
    bits = reference.coo_bits(strange)
    expect_count(submission.coo_bits(strange), "coo_bits of a tensor with -0.0 and NaN", bits)
    for x in (
        strange,
        *of_many_kinds(draw),
        torch.zeros(3, 4),
        torch.zeros(0, 3),
        figures(draw, 7, sparsity=0),
    ):
        when, thought = f"for {kind(x)}", "What is special about it?"
        encoded = ask(lambda x=x: untouched(submission, "coo_encode", x), when, thought)
        index, values = as_coordinates(encoded, x)
        right, right_values, shape = reference.coo_encode(x)
        by_strides = ((x != 0).nonzero() * torch.tensor(x.stride(), dtype=torch.int64)).sum(1)
        lie = "the index counts places in memory, not row by row as x is read"
        recognise(
            index,
            right,
            {lie: by_strides, lie + " (and sorted)": by_strides.sort().values},
            f"{when} ",
        )
        expect_equal(index, right, f"{when} the index")
        expect_values(values, right_values, x)
        encoded = (right, right_values, shape)
        back = ask(lambda e=encoded: untouched(submission, "coo_decode", *e), when, thought)
        expect_decoded(back, x, "coo_decode")
    index, values = torch.tensor([1, 4]), torch.tensor([2.0, 3.0])
    for bad, when in (
        ((index, values[:1], (6,)), "two positions with one value"),
        ((index, values, (4,)), "a position behind the end"),
        ((index - 2, values, (6,)), "a position of -1 (in Python it would wrap around)"),
    ):
        expect_raises(ValueError, lambda bad=bad: submission.coo_decode(*bad), when)


# --- 0.7 CSR and CSC ------------------------------------------------------------------


@question("0.7", points=0.5, claim="empty rows and columns have their entry, too")
def test_empty_rows(submission: Submission, draw: Draw) -> None:
    for empty in (2, 0, -1):
        x = matrix(draw)
        x[empty], x[:, empty] = 0, 0
        for y, when in ((x, f"{show(x)}: "), (torch.zeros_like(x), "a matrix of zeros: ")):
            thought = "What does your code do with a row that has no values?"
            csr = ask(lambda y=y: submission.csr_encode(y), f"for {when}", thought)
            expect_csr(csr, y, when)
            csc = ask(
                lambda y=y: submission.csc_encode(y),
                f"for {when}",
                thought.replace("row", "column"),
            )
            expect_csc(csc, y, when)
    expect_count(submission.csr_bits(torch.zeros(4, 5)), "csr_bits of a matrix of zeros", 0, {
        "an entry of ROW_INDEX that can only be 0 takes no bit": 5,
    })  # fmt: skip


@question("0.7", points=0.5, claim="back again, empty rows too; arrays that do not fit raise")
def test_compressed_decode(submission: Submission, draw: Draw) -> None:
    tall = torch.cat([matrix(draw)[:5, :5], figures(draw, 2, 5)]).to(
        draw.choice([torch.float64, torch.int64])
    )
    tall[draw.integer(0, 4)] = 0
    tall[:, draw.integer(0, 3)] = 0
    # a row that no column can be, and in the other matrix a column that no row can be
    tall[-1, -1] = 3
    for x in (tall, tall.T.contiguous(), torch.zeros_like(tall)):
        expect_back(submission, "csr_decode", reference.csr_encode(x), x)
        expect_back(submission, "csc_decode", reference.csc_encode(x), x)
    v, column, row = reference.csr_encode(LECTURE)
    far = column.clone()
    far[-1] = 6
    for bad, when in (
        ((v, column, row[:-1], (4, 6)), "a ROW_INDEX without its last entry"),
        ((v[:-1], column[:-1], row, (4, 6)), "a ROW_INDEX that ends beyond the values"),
        ((v, far, row, (4, 6)), "a column of 6 in a matrix with 6 columns"),
    ):
        expect_raises(ValueError, lambda bad=bad: submission.csr_decode(*bad), when)


@question(
    "0.7", points=0.5, claim="-0.0 is a zero, NaN is none; any dtype; what is no matrix raises"
)
def test_compressed_of_any_kind(submission: Submission, draw: Draw) -> None:
    strange = strange_numbers(draw, draw.integer(4, 5), 6)
    encoded = submission.csr_encode(strange)
    expect_length(encoded, 3, "the result of csr_encode", tuple)
    expect_same_zeros(as_values(encoded[0], strange), strange)
    bits = reference.csr_bits(strange)
    expect_count(submission.csr_bits(strange), "csr_bits of a matrix with -0.0 and NaN", bits)
    for x in (
        strange,
        *(
            y.flatten(1) if y.ndim > 2 else y[None] if y.ndim < 2 else y
            for y in of_many_kinds(draw)
        ),
    ):
        when = f"for {kind(x)}: "
        expect_csr(untouched(submission, "csr_encode", x), x, when)
        expect_csc(untouched(submission, "csc_encode", x), x, when)
        shape = tuple(x.shape)
        expect_decoded(submission.csr_decode(*reference.csr_encode(x), shape), x, "csr_decode")
        expect_decoded(submission.csc_decode(*reference.csc_encode(x), shape), x, "csc_decode")
    for name in ("csr_encode", "csc_encode", "csr_bits"):
        for x in (draw.normal(5), draw.normal(2, 3, 4)):
            when = f"{name} of a tensor with {x.ndim} dimension{'s' * (x.ndim > 1)}"
            expect_raises(ValueError, lambda name=name, x=x: submission.call(name, x), when)


# --- 0.8, 0.9: values -----------------------------------------------------------------


@question("0.8", points=0.5, claim="a: what (1-p)(1-q) says about a layer")
def test_what_the_formula_says(submission: Submission, draw: Draw) -> None:
    refuted = {
        0: "a lower bound would hold for every layer. How many products are left of w = (1, 0) and x = (0, 1)?",
        1: "so it would not matter where the zeros are. How many products are left of w = (1, 0) and x = (0, 1)?",
        3: "an upper bound would hold for every layer. How many products are left of w = (1, 0) and x = (1, 0)?",
        4: "so a zero input never meets a weight that is there. How many products are left of w = (1, 0) and x = (0, 1)?",
    }
    expect_choice(submission, "answer_0_8a", 5, refuted)


@question("0.8", points=0.5, claim="b: where COO needs fewer bits than the bitmap")
def test_where_coo_pays(submission: Submission, draw: Draw) -> None:
    percent = percentage(submission)
    for sentence, (low, high) in {
        "from there on COO is smaller than the dense layer: the question is about the bitmap": (
            31,
            35,
        ),
        "from there on the bitmap is smaller than the dense layer: the question is about COO and the bitmap": (
            2.5,
            4,
        ),
        "from there on run lengths of 5 bits need less than the bitmap: COO is another line": (
            79,
            82,
        ),
        "from there on CSR needs less than the bitmap: COO is another line": (89, 92),
    }.items():
        if low <= percent <= high:
            fail(f"{percent:g} %: {sentence}")
    # 36,864 places: 16 bits of address for each value against 1 bit for each place
    if abs(percent - 93.75) > 1.5:
        fail(
            f"at {percent:g} % the two lines do not cross. Compare your coo_bits with your bitmap_bits there"
        )


CAMERA = [
    (16, 3, 3, 3, 96, 128, 2, 1),
    (32, 16, 3, 3, 48, 64, 1, 1),
    (48, 32, 3, 3, 48, 64, 2, 1),
    (96, 48, 3, 3, 24, 32, 1, 1),
    (128, 96, 3, 3, 24, 32, 2, 1),
]


@question("0.9", points=0.5, claim="a: the memory that activations need at once")
def test_a_device_to_buy(submission: Submission, draw: Draw) -> None:
    costs = [reference.conv_cost(*layer, bits=16) for layer in CAMERA]
    alive = [cost["input_bits"] + cost["output_bits"] for cost in costs]
    tensors = [bits for cost in costs for bits in (cost["input_bits"], cost["output_bits"])]
    need = whole_bits(submission)
    right = max(alive)
    for sentence, wrong in {
        "that is what all layers need together: but is the first layer's input still there when the last one works?": sum(
            alive
        ),
        "that is all tensors together, each once: which of them must be there at the same time?": sum(
            tensors[:1] + tensors[1::2]
        ),
        "that is the largest tensor: while a layer works, more than one tensor is there": max(
            tensors
        ),
        "that is in bytes: bits are asked for": right / 8,
        "that is how many numbers there are: each has 16 bits": right / 16,
        "that is with 32 bits a number: these activations have 16": 2 * right,
        "the weights are in it: activations alone are asked for": max(
            bits + cost["weight_bits"] for bits, cost in zip(alive, costs, strict=True)
        ),
        "that is the first layer: is there none that needs more?": alive[0],
        "that is the last layer: is there none that needs more?": alive[-1],
    }.items():
        if need == wrong:
            fail(f"{need:.0f}: {sentence}")
    if need != right:
        fail(
            f"{need:.10g} bits are not what is alive at the fullest moment, and the count is exact: add up one layer by hand"
        )


@question("0.9", points=0.5, claim="b: how many times fewer MACs when weights are pruned")
def test_what_weights_cannot_save(submission: Submission, draw: Draw) -> None:
    cost = reference.transformer_macs(1, 512, 768)
    matrices, attention, all_macs = (
        cost["projections"] + cost["ffn"],
        cost["attention"],
        cost["total"],
    )
    times = times_fewer(submission)
    right = all_macs / (0.1 * matrices + attention)
    for sentence, wrong in {
        "that would be so if every MAC had a weight in it: does each of the three parts have?": 10.0,
        "that is the share of MACs that is left, in %: how many times fewer are they?": 100 / right,
        "that is the share of MACs that is saved, in %: how many times fewer are they?": 100
        - 100 / right,
        "that is with 90 % of the weights kept: 90 % are pruned": all_macs
        / (0.9 * matrices + attention),
        "the projections were left dense: their weights are pruned as well": all_macs
        / (all_macs - 0.9 * cost["ffn"]),
        "the FFN was left dense: its weights are pruned as well": all_macs
        / (all_macs - 0.9 * cost["projections"]),
    }.items():
        if abs(times - wrong) <= 0.01 * wrong:
            fail(f"{times:g}: {sentence}")
    if abs(times - right) > 0.05 + 1e-9:
        fail(
            f"not {times:g} times: which part of the layer multiplies with weights, and which does not? Divide before by after"
        )
