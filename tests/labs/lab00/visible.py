"""Lab 00, counting cost and storing zeros: what is claimed of each answer, and its
likely mistakes, each written once as a wrong function.

Inputs are drawn for every grading, so that the usual mistakes give other
results than the right answer: H and W, R and S, rows and columns differ, lengths are no
powers of two (or are, where that is the point), zeros stand at both ends.
"""

from __future__ import annotations

import functools
import math
from collections import namedtuple
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.cost.encodings import rle_encode
from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_equal,
    expect_int,
    expect_keys,
    expect_length,
    expect_number,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims import mistakes as known
from course_lib.grading.claims.mistakes import Case, Mistakes, apply_each
from course_lib.grading.claims.typed import expect_choice, expect_typed
from course_lib.labs import lab00 as reference

# --- recognising a mistake by its result ----------------------------------------------

Function = Callable[..., Any]
Wrong = dict[str, Function]  # what the student should think of -> a function that does it wrong
WRONG: dict[str, Wrong] = {}  # by graded name
Given = Callable[[], tuple[Any, ...]]  # draws arguments
Parts = Mapping[Any, Any]  # of a result: a dict's by its keys, a tuple's by their places


def parts(value: Any) -> Parts:
    """A result by its parts; what is neither a dict nor a tuple is part 0."""
    if isinstance(value, dict):
        return value
    return dict(enumerate(value if isinstance(value, tuple) else (value,)))


def draw_case(
    case: Given, right: Function, wrong: Wrong, keys: Collection[Any] = ()
) -> tuple[tuple[Any, ...], Parts, Mistakes]:
    """Draw arguments with which each mistake shows, and no two that change the same part
    change it alike (hardly ever, where there are many). With them the right parts, and
    those that each mistake changes.

    Args:
        keys: of the parts that are looked at; none says all of them.
    """

    def drawn() -> Case:
        arguments = case()
        some = {k: v for k, v in parts(right(*arguments)).items() if not keys or k in keys}
        return arguments, some, changed(some, apply_each(wrong, *arguments))

    def equal(one: Parts, other: Parts) -> bool:
        return not (one and other) or any(same(one[k], other[k]) for k in one.keys() & other.keys())

    return known.draw_discriminating_case(drawn, equal=equal, fewest=True)


def changed(right: Parts, mistakes: Mistakes) -> dict[str, dict[Any, Any]]:
    """Of what comes by mistake, the parts that are other than right."""
    return {
        said: {k: v for k, v in parts(value).items() if k in right and not same(v, right[k])}
        for said, value in mistakes.items()
    }


def of(part: Any, mistakes: Mistakes) -> dict[str, Any]:
    """This part, by the mistakes that change it."""
    return {said: wrong[part] for said, wrong in mistakes.items() if part in wrong}


def but(right: Function, i: int, wrong: Function) -> Function:
    """``right``, whose part i is what ``wrong`` makes of the same arguments."""

    def version(*given: Any) -> tuple[Any, ...]:
        result = right(*given)
        return (*result[:i], wrong(*given), *result[i + 1 :])

    return version


def same(one: Any, other: Any) -> bool:
    """Equal tensors, tuples or whole numbers; a float is the same as what it may be
    rounded to.
    """
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return abs(one - other) < 1
    return bool(one == other)


def expect_count(value: Any, what: str, right: int, mistakes: Mistakes | None = None) -> None:
    """A whole number, and the right one; else the mistake that explains it."""
    number = as_number(value)
    if isinstance(number, int | float | np.number) and number != right and math.isfinite(number):
        for sentence, wrong in (mistakes or {}).items():
            if number == wrong if isinstance(wrong, int) else abs(number - wrong) < 1:
                fail(
                    f"{what} is {number if isinstance(number, int) else f'{number:.10g}'}: {sentence}"
                )
    if isinstance(value, float | np.floating):
        fail(
            f"{what} is the float {number!r}, but a count must be an int. (Python's / and a mean return floats; // returns an int)"
        )
    expect_equal(expect_int(value, what), right, what)


def expect_counts(
    result: Any, call: str, right: Parts, mistakes: Mistakes, keys: list[str]
) -> None:
    """A dict with ``keys``, in which the counts of ``right`` are right."""
    expect_keys(result, keys, f"the result of {call}")
    for key, count in right.items():
        expect_count(result[key], f"{call}[{key!r}]", count, of(key, mistakes))


recognise = functools.partial(known.recognise, equal=same)


def as_number(value: Any) -> Any:
    """The number in a tensor of one element; anything else as it is."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def untouched(submission: Submission, name: str, *arguments: Any) -> Any:
    """What the student's function ``name`` makes of the arguments; the tensors among
    them stay as they were.
    """
    given = tuple(i for i, argument in enumerate(arguments) if isinstance(argument, Tensor))
    result, after = submission.call(name, *arguments, returning=given)
    for i, tensor in zip(given, after, strict=True):
        unchanged(arguments[i], tensor, f"argument {i + 1} of {name}")
    return result


# --- 0.1 conv_cost, linear_cost -------------------------------------------------------

COST = ["macs", "weight_bits", "input_bits", "output_bits"]
TWICE = "this is twice the number of MACs: a MAC is one multiplication together with its addition"
BIASED = "a bias was counted: this layer has no bias"


# a convolution, as conv_cost gets it
Conv = namedtuple("Conv", "M C R S H W stride padding bits", defaults=(1, 0, 32))


def places(c: Conv, **otherwise: int) -> tuple[int, int]:
    """E and F, if some of the numbers were others."""
    c = c._replace(**otherwise)
    free = (c.H + 2 * c.padding - c.R, c.W + 2 * c.padding - c.S)
    return free[0] // c.stride + 1, free[1] // c.stride + 1


def conv(at: Callable[[Conv], Any] = places, **otherwise: Callable[[Conv, int], float]) -> Function:
    """A version of conv_cost in which the places of the filter may be wrong, or what
    stands under a key: of the layer and the number of these places.
    """

    def version(*layer: int, **bits: int) -> dict[str, float]:
        c = Conv(*layer, **bits)
        weights, n = math.prod(c[:4]), math.prod(at(c))
        counts = (weights * n, c.bits * weights, c.bits * c.C * c.H * c.W, c.bits * c.M * n)
        wrong = {key: part(c, n) for key, part in otherwise.items()}
        return dict(zip(COST, counts, strict=True)) | wrong

    return version


def in_units(right: Function) -> Wrong:
    """A cost whose bits are in another unit."""

    def version(unit: Callable[[int, int], float]) -> Function:
        return lambda *layer, bits=32: {
            key: n if key == "macs" else unit(n, bits)
            for key, n in right(*layer, bits=bits).items()
        }

    return {
        "this looks like bytes: the end of the key names the unit": version(lambda n, bits: n / 8),
        "these are counts of numbers: multiply them by the bits per number": version(lambda n, bits: n // bits),
        "32 bits per number were used, but the call gives another width": version(lambda n, bits: n // bits * 32),
    }  # fmt: skip


PLACES: Wrong = {said: conv(at) for said, at in {
    "the filter moved by one pixel per step: where does the stride enter?": lambda c: places(c, stride=1),
    "the padding was not used: the filter can begin in the padding": lambda c: places(c, padding=0),
    "neither the stride nor the padding was used: what are E and F with these?": lambda c: places(c, stride=1, padding=0),
    "the padding was added once: it is added on both sides": lambda c: places(c, H=c.H - c.padding, W=c.W - c.padding),
    "H and W, or R and S, are exchanged: the filter's height R moves along the input's height H": lambda c: places(c, H=c.W, W=c.H),
    "E was used for both sides: the input is not square, so E and F differ": lambda c: 2 * places(c)[:1],
    "F was used for both sides: the input is not square, so E and F differ": lambda c: 2 * places(c)[1:],
    "E and F are one too small: count the filter's first place, too": lambda c: [n - 1 for n in places(c)],
    "1 was added before the division by the stride: add it after the division": lambda c: [n - 1 for n in places(c, R=c.R - 1, S=c.S - 1)],
    "the division by the stride was rounded up: a place counts only if the filter fits completely": lambda c: (
        places(c, H=c.H + c.stride - 1, W=c.W + c.stride - 1)
    ),
}.items()}  # fmt: skip
OF_MACS: Wrong = {said: conv(macs=wrong) for said, wrong in {
    "one product per pixel of the input was counted: use the places of the output": lambda c, n: math.prod(c[:6]),
    "the input channels are missing: how many products are summed for one output number?": lambda c, n: c.M * c.R * c.S * n,
    "the filters are missing: each filter computes its own output channel": lambda c, n: c.C * c.R * c.S * n,
    TWICE: lambda c, n: 2 * math.prod(c[:4]) * n,
    "the MACs were multiplied by the bits per number: MACs are operations, without bits": lambda c, n: c.bits * math.prod(c[:4]) * n,
}.items()}  # fmt: skip
OF_BITS: Wrong = in_units(reference.conv_cost) | {
    "the input channels are missing: a filter has C x R x S weights": conv(weight_bits=lambda c, n: c.bits * c.M * c.R * c.S),
    "the filters are missing: there are M filters": conv(weight_bits=lambda c, n: c.bits * c.C * c.R * c.S),
    "the padding was counted: its zeros are not stored": conv(
        input_bits=lambda c, n: c.bits * c.C * (c.H + 2 * c.padding) * (c.W + 2 * c.padding)
    ),
    "the channels are missing: the input has C channels": conv(input_bits=lambda c, n: c.bits * c.H * c.W),
    "M channels were counted: the input has C channels": conv(input_bits=lambda c, n: c.bits * c.M * c.H * c.W),
    "the channels are missing: the output has one channel per filter": conv(output_bits=lambda c, n: c.bits * n),
    "C channels were counted: the output has M channels": conv(output_bits=lambda c, n: c.bits * c.C * n),
    "the output size was taken to be the input size: the output has one number per place of the filter": conv(
        output_bits=lambda c, n: c.bits * c.M * c.H * c.W
    ),
}  # fmt: skip
OF_BOTH: Wrong = {BIASED: conv(
    macs=lambda c, n: (math.prod(c[:4]) + c.M) * n, weight_bits=lambda c, n: c.bits * (math.prod(c[:4]) + c.M)
)}  # fmt: skip
WRONG["conv_cost"] = PLACES | OF_MACS | OF_BITS | OF_BOTH


def linear(**otherwise: Callable[[int, int, int, int], float]) -> Function:
    """A version of linear_cost in which what stands under a key may be wrong."""
    return lambda batch, d_in, d_out, bits=32: (
        reference.linear_cost(batch, d_in, d_out, bits)
        | {key: part(batch, d_in, d_out, bits) for key, part in otherwise.items()}
    )


WRONG["linear_cost"] = in_units(reference.linear_cost) | {
    "the batch is missing: every row is multiplied by all weights": linear(macs=lambda B, i, o, bits: i * o),
    TWICE: linear(macs=lambda B, i, o, bits: 2 * B * i * o),
    "the MACs were multiplied by the bits per number: MACs are operations, without bits": linear(macs=lambda B, i, o, bits: bits * B * i * o),
    BIASED: linear(macs=lambda B, i, o, bits: B * (i + 1) * o, weight_bits=lambda B, i, o, bits: bits * (i + 1) * o),
    "the weights were counted once per row of the batch: all rows use the same weights": linear(
        weight_bits=lambda B, i, o, bits: bits * B * i * o
    ),
    "the batch is missing: count the input and the output of every row": linear(
        input_bits=lambda B, i, o, bits: bits * i, output_bits=lambda B, i, o, bits: bits * o
    ),
    "d_in and d_out are exchanged: an input row has d_in numbers, an output row has d_out": linear(
        input_bits=lambda B, i, o, bits: bits * B * o, output_bits=lambda B, i, o, bits: bits * B * i
    ),
}  # fmt: skip


def convolution(draw: Draw) -> tuple[int, ...]:
    """M, C, R, S, H, W, stride, padding, with nothing square. In one direction the filter just
    fits at the last place, in the other one pixel is missing to the next.
    """
    M, C = draw.distinct(2, 2, 6)
    R, S = draw.distinct(2, 2, 5)
    H, W = draw.distinct(2, 15, 60)
    stride, padding = draw.choice([(4, 1), (3, 4), (2, 5), (3, 5)])
    H -= (H + 2 * padding - R) % stride
    W -= (W + 2 * padding - S + 1) % stride
    return M, C, R, S, H, W, stride, padding


def joined(arguments: tuple[int, ...]) -> str:
    return ", ".join(map(str, arguments))


@question("0.1", points=0.5, claim="MACs of a convolution: E and F from stride and padding")
def test_macs_of_a_convolution(submission: Submission, draw: Draw) -> None:
    wrong = PLACES | OF_MACS | OF_BOTH
    layer, right, mistakes = draw_case(
        lambda: convolution(draw), reference.conv_cost, wrong, keys=["macs"]
    )
    expect_counts(submission.conv_cost(*layer), f"conv_cost{layer}", right, mistakes, COST)


@question(
    "0.1", points=1, claim="bits of weights, input and output; a linear layer for a whole batch"
)
def test_bits_of_both_layers(submission: Submission, draw: Draw) -> None:
    def of_width(right: Function) -> Function:
        return lambda layer, bits: right(*layer, bits=bits)

    def expect_cost(name: str, case: Given, wrong: Wrong, keys: list[str]) -> None:
        (layer, bits), right, mistakes = draw_case(
            lambda: (case(), draw.choice([4, 12, 16, 24])),
            of_width(getattr(reference, name)),
            {said: of_width(version) for said, version in wrong.items()},
            keys,
        )
        call = f"{name}({joined(layer)}, bits={bits})"
        expect_counts(submission.call(name, *layer, bits=bits), call, right, mistakes, COST)

    expect_cost("conv_cost", lambda: convolution(draw), PLACES | OF_BITS | OF_BOTH, COST[1:])
    six = convolution(draw)[:6]
    by_default, right = submission.conv_cost(*six), reference.conv_cost(*six)
    mistakes = changed(right, apply_each(PLACES, *six))
    what = f"conv_cost{six}['macs'], with the defaults stride 1, padding 0,"
    expect_count(by_default["macs"], what, right["macs"], of("macs", mistakes))
    what = f"conv_cost{six}['weight_bits'], with 32 bits per number,"
    expect_count(by_default["weight_bits"], what, right["weight_bits"])
    expect_cost("linear_cost", lambda: tuple(draw.distinct(3, 3, 40)), WRONG["linear_cost"], COST)


# --- 0.2 transformer_macs -------------------------------------------------------------

PARTS = ["projections", "attention", "ffn", "total", "scores"]


def encoder(**otherwise: Callable[[int, int, int, int], int]) -> Function:
    """A version of transformer_macs in which some parts may be wrong, of B, L, d and
    heads; the total is their sum.
    """

    def version(B: int, L: int, d: int, heads: int = 1) -> dict[str, int]:
        cost = reference.transformer_macs(B, L, d, heads)
        cost |= {part: wrong(B, L, d, heads) for part, wrong in otherwise.items()}
        return cost | {"total": total(cost)}

    return version


def matrices(change: Callable[[int, int, int, int, int], int]) -> dict[str, Any]:
    """Projections and FFN, of their right number, B, L, d and heads."""
    return {
        "projections": lambda B, L, d, heads: change(4 * B * L * d**2, B, L, d, heads),
        "ffn": lambda B, L, d, heads: change(8 * B * L * d**2, B, L, d, heads),
    }


EVERYWHERE: Wrong = {
    "the batch is missing": encoder(
        **matrices(lambda n, B, L, d, heads: n // B),
        attention=lambda B, L, d, heads: 2 * L**2 * d,
        scores=lambda B, L, d, heads: heads * L**2,
    ),
    TWICE: encoder(
        **matrices(lambda n, B, L, d, heads: 2 * n), attention=lambda B, L, d, heads: 4 * B * L**2 * d
    ),
}  # fmt: skip
MATRICES: Wrong = EVERYWHERE | {said: encoder(**matrices(change)) for said, change in {
    "L² is wrong here: a matrix multiplies each token separately. Only attention compares tokens with tokens": lambda n, B, L, d, heads: n * L,
    "L² is wrong here and d² is right: a matrix multiplies each token separately": lambda n, B, L, d, heads: n // d * L,
    "the result was multiplied by heads: the heads share the d columns, each head does not have d columns": lambda n, B, L, d, heads: n * heads,
    "the result was divided by heads: all heads together use all d columns": lambda n, B, L, d, heads: n // heads,
    "d² is missing: each matrix has d rows and d (or 4d) columns": lambda n, B, L, d, heads: n // d,
}.items()} | {
    "this counts three matrices: which matrix follows the heads?": encoder(projections=lambda B, L, d, heads: 3 * B * L * d**2),
    "this counts one matrix: how many matrices are there?": encoder(projections=lambda B, L, d, heads: B * L * d**2),
    "this counts one matrix of the FFN: the FFN goes from d to 4d and back to d": encoder(ffn=lambda B, L, d, heads: 4 * B * L * d**2),
    "the FFN was computed with width d in the middle: its middle is wider": encoder(ffn=lambda B, L, d, heads: 2 * B * L * d**2),
}  # fmt: skip
PAIRS: Wrong = EVERYWHERE | {said: encoder(attention=wrong) for said, wrong in {
    "the result is too large by a factor of heads: each head compares all pairs, but how many columns does each head use?": (
        lambda B, L, d, heads: 2 * B * L**2 * d * heads
    ),
    "the result is too small by a factor of heads: this is the work of a single head": lambda B, L, d, heads: 2 * B * L**2 * d // heads,
    "only one of the two products was counted: the values are weighted, too": lambda B, L, d, heads: B * L**2 * d,
    "tokens of different sentences were compared: only tokens of the same sentence form pairs": lambda B, L, d, heads: 2 * (B * L)**2 * d,
    "L² is missing: every token is compared with every token of its sentence": lambda B, L, d, heads: 2 * B * L * d,
    "d² is wrong here: two tokens are compared by one product of two vectors, without a matrix": (
        lambda B, L, d, heads: 2 * B * L**2 * d**2
    ),
    "L and d are exchanged: which of the two is squared when tokens are compared with tokens?": lambda B, L, d, heads: 2 * B * L * d**2,
    "d is missing: this is the number of pairs. How many MACs does one comparison take?": lambda B, L, d, heads: 2 * B * L**2,
}.items()} | {said: encoder(scores=wrong) for said, wrong in {
    "the heads are missing: each head has its own softmax": lambda B, L, d, heads: B * L**2,
    "L² is missing: there is one score per pair": lambda B, L, d, heads: B * heads * L,
    "tokens of different sentences were paired: pair only tokens of the same sentence": lambda B, L, d, heads: heads * (B * L)**2,
    "scores are numbers, not MACs: do not multiply by d": lambda B, L, d, heads: B * heads * L**2 * d,
    "scores are numbers, not MACs: do not multiply by the size of a head": lambda B, L, d, heads: B * L**2 * d,
    "this is twice the number of scores: the second product uses the scores and computes no new scores": lambda B, L, d, heads: 2 * B * heads * L**2,
}.items()}  # fmt: skip
IN_ALL = {  # what was summed up to the total
    "the scores were added to the total: they are numbers that pass through the softmax, not MACs": ("projections", "attention", "ffn", "scores"),
    "the FFN is missing in the total": ("projections", "attention"),
    "attention is missing in the total": ("projections", "ffn"),
    "the projections are missing in the total": ("attention", "ffn"),
}  # fmt: skip


def total(cost: Parts, of: Collection[str] = ("projections", "attention", "ffn")) -> int:
    return sum(cost[part] for part in of)


def encoder_with_total(of: Collection[str]) -> Function:
    return lambda *layer: (cost := reference.transformer_macs(*layer)) | {"total": total(cost, of)}


WRONG["transformer_macs"] = (
    MATRICES | PAIRS | {said: encoder_with_total(some) for said, some in IN_ALL.items()}
)


def expect_encoder(submission: Submission, draw: Draw, wrong: Wrong, *keys: str) -> None:
    """These parts of a layer's cost are right."""

    def case() -> tuple[int, ...]:
        heads = draw.integer(3, 5)
        return draw.integer(3, 6), draw.integer(7, 30), heads * draw.integer(2, 7), heads

    layer, right, mistakes = draw_case(case, reference.transformer_macs, wrong, keys)
    result = submission.transformer_macs(*layer)
    expect_counts(result, f"transformer_macs{layer}", right, mistakes, PARTS)


@question(
    "0.2",
    points=0.5,
    claim="projections and FFN, token by token; total is the sum of all three parts",
)
def test_matrices(submission: Submission, draw: Draw) -> None:
    expect_encoder(submission, draw, MATRICES, "projections", "ffn")
    heads = draw.integer(2, 5)
    expect_total(
        submission, draw.integer(2, 5), draw.integer(5, 30), heads * draw.integer(2, 6), heads
    )


def expect_total(submission: Submission, B: int, L: int, d: int, heads: int = 1) -> Parts:
    """total is the sum of the three parts, whatever these are. Returns the cost."""
    layer = (B, L, d, heads) if heads > 1 else (B, L, d)
    cost, call = submission.transformer_macs(*layer), f"transformer_macs{layer}"
    expect_keys(cost, PARTS, f"the result of {call}")
    counts = {
        part: expect_int(cost[part], f"{call}[{part!r}]") for part in PARTS if part != "total"
    }
    mistakes = {said: total(counts, some) for said, some in IN_ALL.items()}
    expect_count(cost["total"], f"{call}['total']", total(counts), mistakes)
    return counts


@question(
    "0.2", points=1, claim="attention: two products of all pairs; scores: all pairs of each head"
)
def test_attention_and_scores(submission: Submission, draw: Draw) -> None:
    expect_encoder(submission, draw, PAIRS, "attention", "scores")


# --- 0.3 nonzero_macs -----------------------------------------------------------------


def lumpy(draw: Draw, *shape: int) -> Tensor:
    """Whole numbers of both signs, with zeros that are dense in places: far from what
    chance makes of their share.
    """
    # of the non-zeros, by channel or feature
    density = torch.rand(shape[1:], generator=draw.generator)
    return draw.tied(*shape, levels=9).masked_fill(
        torch.rand(shape, generator=draw.generator) > density, 0
    )


count, ones = reference.nonzero_macs, torch.ones_like


def expected(w: Tensor, x: Tensor) -> float:
    """(1-p)(1-q)."""
    return float((w != 0).double().mean() * (x != 0).double().mean())


def walled(x: Tensor, padding: int) -> Tensor:
    """x with ones for padding; as it is, if it is no picture."""
    return F.pad(x, [padding] * 4, value=1.0) if x.ndim == 4 else x


def outputs(w: Tensor, x: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
    return x @ w.T if w.ndim == 2 else F.conv2d(x, w, stride=stride, padding=padding)


COUNTED: Wrong = {  # distinguishable without stride and padding, and with them
    "this is (1-p)(1-q) times the products, the average for zeros at random places: count the actual zeros at their actual places": (
        lambda w, x, *at: expected(w, x) * count(ones(w), ones(x), *at)
    ),
    "every product was counted, also the products with a zero": lambda w, x, *at: count(ones(w), ones(x), *at),
    "only zeros among the weights were skipped: a product with a zero input is not counted, either": lambda w, x, *at: count(w, ones(x), *at),
    "only zeros in the input were skipped: a product with a zero weight is not counted, either": lambda w, x, *at: count(ones(w), x, *at),
    "this looks like the number of products with a zero: count the products without a zero": (
        lambda w, x, *at: count(ones(w), ones(x), *at) - count(w, x, *at)
    ),
    "products were counted in which only one factor is non-zero: both factors must be non-zero": (
        lambda w, x, *at: count(w, ones(x), *at) + count(ones(w), x, *at) - count(w, x, *at)
    ),
    "negative numbers were skipped: negative numbers are not zero": lambda w, x, *at: count((w > 0).float(), (x > 0).float(), *at),
    "only the first sample of the batch was counted": lambda w, x, *at: count(w, x[:1], *at),
    "this is the mean over the batch: count the products of the whole batch": lambda w, x, *at: count(w, x, *at) / len(x),
    TWICE: lambda w, x, *at: 2 * count(w, x, *at),
    "non-zero outputs were counted: each output is a sum of many products": (
        lambda w, x, *at: int(outputs(w, x, *at).count_nonzero())
    ),
}  # fmt: skip
PADDED: Wrong = {  # distinguishable with stride and padding
    "products with padding were counted: padding holds zeros": (
        lambda w, x, stride=1, padding=0: count(w, walled(x, padding), stride)
    ),
    "this is (1-p)(1-q) times all MACs, the average for zeros at random places, and it includes products with padding: count the actual products": (
        lambda w, x, stride=1, padding=0: expected(w, x) * count(ones(w), walled(ones(x), padding), stride)
    ),
    "only zeros among the weights were skipped, and products with padding were counted": (
        lambda w, x, stride=1, padding=0: count(w, walled(ones(x), padding), stride)
    ),
    "every MAC was counted, also the MACs with padding": (
        lambda w, x, stride=1, padding=0: count(ones(w), walled(ones(x), padding), stride)
    ),
    "the filter moved by one pixel per step: where does the stride enter?": lambda w, x, stride=1, padding=0: count(w, x, 1, padding),
    "the padding was not used: with padding, the filter has more places": lambda w, x, stride=1, padding=0: count(w, x, stride),
    "neither the stride nor the padding was used": lambda w, x, stride=1, padding=0: count(w, x),
}  # fmt: skip
WRONG["nonzero_macs"] = COUNTED | PADDED


def expect_nonzero(submission: Submission, case: Given, wrong: Wrong) -> None:
    (w, x, *at), right, mistakes = draw_case(case, count, wrong)
    slid = f", stride {at[0]}, padding {at[1]}," if at else ""
    what = f"nonzero_macs for a weight {tuple(w.shape)} and an input {tuple(x.shape)}{slid}"
    expect_count(submission.nonzero_macs(w, x, *at), what, right[0], of(0, mistakes))


@question("0.3", points=1, claim="a linear layer: products with two non-zero operands")
def test_nonzero_macs_of_a_linear_layer(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, Tensor]:
        d_in, d_out, batch = draw.distinct(3, 3, 12)
        return lumpy(draw, d_out, d_in), lumpy(draw, batch, d_in)

    expect_nonzero(submission, case, COUNTED)


@question(
    "0.3", points=0.5, claim="a convolution, at every place of the filter and over the whole batch"
)
def test_nonzero_macs_of_a_convolution(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, Tensor]:
        M, C, R, S, H, W, *_ = convolution(draw)
        C = min(C, 3)
        return lumpy(draw, min(M, 4), C, min(R, 3), min(S, 3)), lumpy(
            draw, 2, C, min(H, 7), min(W, 8)
        )

    expect_nonzero(submission, case, COUNTED)


@question(
    "0.3", points=0.5, claim="the stride leaves places out; products with padding do not count"
)
def test_nonzero_macs_with_padding(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, Tensor, int, int]:
        w = lumpy(draw, 3, 2, *draw.distinct(2, 2, 4))
        x = lumpy(draw, 2, 2, *draw.distinct(2, 5, 8))
        stride, padding = draw.distinct(2, 1, 3)
        return w, x, max(2, stride), padding

    expect_nonzero(submission, case, COUNTED | PADDED)


# --- what all encodings share ---------------------------------------------------------


def figures(draw: Draw, *shape: int, sparsity: float = 0.6) -> Tensor:
    """Whole numbers from -9 to 9, easy to read; round(sparsity · n) of them are
    zero.
    """
    x = draw.tied(*shape, levels=9)
    x.view(-1)[draw.permutation(x.numel())[: round(sparsity * x.numel())]] = 0
    return x


def text(x: Tensor) -> str:
    """A short tensor of whole numbers, as one reads it."""
    return " ".join(f"{n:.3g}" for n in x.flatten().tolist())


def kind(x: Tensor) -> str:
    """Dtype and shape of a tensor, for a message."""
    zeros = "" if x.any() else ", all zeros,"
    name = str(x.dtype).removeprefix("torch.")
    return f"a{'n' * name.startswith('int')} {name} tensor of shape {tuple(x.shape)}{zeros}"


def as_values(value: Any, x: Tensor, what: str = "values") -> Tensor:
    """The value, if it has the form of an encoding's values: one after the other, of
    x's dtype.
    """
    if isinstance(value, Tensor) and value.ndim != 1:
        fail(
            f"{what} has shape {tuple(value.shape)}: the values must be in one dimension, one after the other"
        )
    if isinstance(value, Tensor) and value.dtype != x.dtype:
        fail(
            f"for {kind(x)}, {what} has dtype {str(value.dtype)[6:]}: a value keeps its dtype, also in a new tensor"
        )
    return expect_tensor(value, dtype=x.dtype, what=what)


def expect_values(value: Any, right: Tensor, x: Tensor, what: str = "values") -> None:
    """The values of an encoding, exactly."""
    expect_equal(as_values(value, x, what), right, what)


def as_index(value: Any, x: Tensor, what: str) -> Tensor:
    """The value, if it has the form of indices, runs or counts: one after the other,
    int64.
    """
    if isinstance(value, Tensor) and value.dtype != torch.int64:
        fail(
            f"{what} of {kind(x)} holds {str(value.dtype)[6:]}: positions and counts must be int64 (torch.long)"
        )
    if isinstance(value, Tensor) and value.ndim != 1:
        fail(
            f"{what} has shape {tuple(value.shape)}: its numbers must be in one dimension, one after the other"
        )
    return expect_tensor(value, dtype=torch.int64, what=what)


def expect_shape(value: Any, x: Tensor) -> None:
    """The shape of x as a tuple of ints."""
    if isinstance(value, list | Tensor):
        fail(f"the shape is a {type(value).__name__.lower()}: it must be a tuple of ints")
    expect_equal(value, tuple(x.shape), "the shape")


def expect_decoded(value: Any, x: Tensor, what: str, mistakes: Mistakes | None = None) -> None:
    """The tensor that was encoded: dtype, shape and values."""
    if isinstance(value, Tensor):
        if value.dtype != x.dtype:
            fail(
                f"{what} returned a {str(value.dtype)[6:]} tensor from {str(x.dtype)[6:]} values: new zeros are float32 by default. "
                "Which dtype should they have?"
            )
        recognise(value, x, mistakes or {})
        if value.ndim == 1 and x.ndim != 1:
            fail(
                f"{what} returned a vector of {len(value)} numbers: the shape must be {tuple(x.shape)}"
            )
    expect_equal(value, x, what)


# --- 0.4 bitmap -----------------------------------------------------------------------


def turned(x: Tensor) -> Tensor:
    """The transpose, whatever the number of dimensions."""
    return x.permute(*reversed(range(x.ndim)))


def filled_by_columns(bitmap: Tensor, values: Tensor) -> Tensor:
    x = values.new_zeros(bitmap.shape)
    turned(x)[turned(bitmap)] = values
    return x


def nnz(x: Tensor) -> int:
    """How many are not zero."""
    return int((x != 0).sum())


WRONG["bitmap_encode"] = {
    "the map is inverted: True means that there is a value": lambda x: (x == 0, x[x != 0]),
    "negative numbers are marked as zeros: only a number that equals 0 is a zero": lambda x: (x > 0, x[x > 0]),
    "values holds all elements of x: zeros are not stored, because the map marks their places": lambda x: (x != 0, x.flatten()),
    "the values are in column order: row-major means one row after the other": (
        lambda x: (x != 0, turned(x)[turned(x) != 0])
    ),
    "the signs are lost: store the values of x unchanged": lambda x: (x != 0, x[x != 0].abs()),
    "values is sorted: the order of the values determines their places": lambda x: (x != 0, x[x != 0].sort().values),
}  # fmt: skip
WRONG["bitmap_decode"] = {
    "bitmap_decode filled the places in column order: fill them row by row": filled_by_columns
}
WRONG["bitmap_bits"] = {
    "the map was not counted: without the map, the decoder does not know the places of the values": lambda x, n=32: nnz(x) * n,
    "the map has one bit per place: count the places of zeros, too": lambda x, n=32: nnz(x) * (n + 1),
    "the map was counted with n bits per place: how many bits does a yes or no need?": lambda x, n=32: (nnz(x) + x.numel()) * n,
    "one byte per place was counted, the size of a bool in PyTorch: one bit is enough": lambda x, n=32: nnz(x) * n + 8 * x.numel(),
    "every element was counted with n bits: only non-zero values are stored": lambda x, n=32: x.numel() * (n + 1),
    "the zeros were counted: the values are stored": lambda x, n=32: (x.numel() - nnz(x)) * n + x.numel(),
    "this is the size of the dense tensor": lambda x, n=32: x.numel() * n,
    "32 bits per value were used, but the call gives another n": lambda x, n=32: nnz(x) * 32 + x.numel(),
    "this looks like bytes: return bits": lambda x, n=32: (nnz(x) * n + x.numel()) / 8,
}  # fmt: skip


def as_bitmap(value: Any, x: Tensor) -> Tensor:
    """The value, if it has the form of a map of x: bool, one for each place."""
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        fail(
            f"the map holds {str(value.dtype)[6:]}: one bit per place is a bool, and a comparison returns bools"
        )
    if isinstance(value, Tensor) and value.shape != x.shape:
        fail(
            f"the map has shape {tuple(value.shape)}, but x has shape {tuple(x.shape)}: the map has one bit per place, in the shape of x"
        )
    return expect_tensor(value, shape=x.shape, dtype=torch.bool, what="the map")


@question(
    "0.4", points=0.5, claim="a map of the non-zeros, their values row by row, and back again"
)
def test_bitmap_there_and_back(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor]:
        return (figures(draw, draw.integer(3, 4), draw.integer(5, 6)),)

    (x,), right, mistakes = draw_case(case, reference.bitmap_encode, WRONG["bitmap_encode"])
    encoded = submission.bitmap_encode(x)
    expect_length(encoded, 2, "the result of bitmap_encode", tuple)
    bitmap, values = as_bitmap(encoded[0], x), as_values(encoded[1], x)
    recognise(bitmap, right[0], of(0, mistakes))
    expect_equal(bitmap, right[0], "the map")
    recognise(values, right[1], of(1, mistakes))
    expect_values(values, right[1], x)
    back = submission.bitmap_decode(right[0], right[1])
    expect_decoded(back, x, "bitmap_decode", apply_each(WRONG["bitmap_decode"], right[0], right[1]))


def expect_bits(
    submission: Submission, name: str, wrong: Wrong, case: Given, by_default: str
) -> None:
    """The size is right; and for x alone, with ``by_default`` as it is called."""
    (x, *rest), right, mistakes = draw_case(case, getattr(reference, name), wrong)
    call = f"{name}(x of shape {tuple(x.shape)}, {joined(tuple(rest))})"
    expect_count(submission.call(name, x, *rest), call, right[0], of(0, mistakes))
    bits = getattr(reference, name)(x)
    expect_count(submission.call(name, x), f"{name}(x), with {by_default} by default,", bits)


@question("0.4", points=0.5, claim="bits: n for each value, and the map")
def test_bitmap_bits(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, int]:
        n = draw.integer(4, 20)
        shape = draw.integer(3, 9), draw.integer(5, 9)
        return figures(draw, *shape, sparsity=draw.number(0.3, 0.8)), n

    expect_bits(submission, "bitmap_bits", WRONG["bitmap_bits"], case, "32 bits per value")


# --- 0.5 coordinates ------------------------------------------------------------------


def shuffled(draw: Draw, items: list[int]) -> list[int]:
    return [items[i] for i in draw.permutation(len(items)).tolist()]


def right_index(x: Tensor) -> Tensor:
    return reference.coo_encode(x)[0]


def put_by_columns(index: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    x = values.new_zeros(shape[::-1])
    x.view(-1)[index] = values
    return turned(x)


WRONG["coo_encode"] = {
    "the positions are in column order: row-major means one row after the other": (
        lambda x: (*reference.coo_encode(turned(x))[:2], tuple(x.shape))
    ),
    "these are the positions of the zeros: return the positions of the values": but(reference.coo_encode, 0, lambda x: (x.flatten() == 0).nonzero().flatten()),
    "negative numbers are missing: only a number that equals 0 is a zero": lambda x: reference.coo_encode(x * (x > 0)),
    "the positions are counted from 1: count from 0": but(reference.coo_encode, 0, lambda x: right_index(x) + 1),
    "the index holds the steps from one value to the next: return positions": (
        but(reference.coo_encode, 0, lambda x: right_index(x).diff(prepend=right_index(x)[:1] * 0))
    ),
    "the index holds the place in the last dimension only: use one position in the flattened tensor for each value": (
        but(reference.coo_encode, 0, lambda x: right_index(x) % max(1, x.shape[-1]))
    ),
}  # fmt: skip
WRONG["coo_decode"] = {
    "coo_decode read the positions in column order: positions count row by row": put_by_columns
}


def address(x: Tensor) -> int:
    return (x.numel() - 1).bit_length()


WRONG["coo_bits"] = {
    "the addresses are missing: each value needs an address": lambda x, n=32: nnz(x) * n,
    "an address has a fraction of a bit: where must it be rounded, and in which direction?": (
        lambda x, n=32: nnz(x) * (n + math.log2(x.numel()))
    ),
    "each address is a bit too short: it was rounded down, so it cannot express the last place": lambda x, n=32: nnz(x) * (n + address(x) - 1),
    "each address is a bit too long: which address is the largest if addresses begin at 0?": lambda x, n=32: nnz(x) * (n + address(x) + 1),
    "one address was counted in total: each value needs its own address": lambda x, n=32: nnz(x) * n + address(x),
    "one address per dimension was counted: an address is one position in the flattened tensor": (
        lambda x, n=32: nnz(x) * (n + sum((size - 1).bit_length() for size in x.shape))
    ),
    "addresses of 64 bits were counted, as in PyTorch: how many bits does an address need for L places?": lambda x, n=32: nnz(x) * (n + 64),
    "addresses of 32 bits were counted: how many bits does an address need for L places?": lambda x, n=32: nnz(x) * (n + 32),
    "addresses of zeros were counted: only values have an address": lambda x, n=32: x.numel() * (n + address(x)),
    "this is the size of a bitmap: here, each value has an address": lambda x, n=32: nnz(x) * n + x.numel(),
    "the width of an address was computed from the number of values: an address must distinguish all L places": (
        lambda x, n=32: nnz(x) * (n + max(0, nnz(x) - 1).bit_length())
    ),
    "L bits per address were counted: log₂ is missing": lambda x, n=32: nnz(x) * (n + x.numel()),
    "32 bits per value were used, but the call gives another n": lambda x, n=32: nnz(x) * (32 + address(x)),
    "this looks like bytes: return bits": lambda x, n=32: nnz(x) * (n + address(x)) / 8,
}  # fmt: skip


def as_coordinates(encoded: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Index and values of the result of coo_encode, if it has the right form."""
    expect_length(encoded, 3, "the result of coo_encode", tuple)
    index, values, shape = encoded
    if isinstance(index, Tensor) and index.ndim == 2 and x.ndim > 1 and x.ndim in index.shape:
        fail(
            "the index holds one number per dimension: use one position in the flattened tensor for each value"
        )
    index, values = as_index(index, x, "the index"), as_values(values, x)
    expect_shape(shape, x)
    return index, values


@question("0.5", points=0.5, claim="flat row-major positions and values, and back again")
def test_coo_there_and_back(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor]:
        return (figures(draw, 2, draw.integer(3, 4), draw.integer(5, 6)),)

    (x,), right, mistakes = draw_case(case, reference.coo_encode, WRONG["coo_encode"], keys=[0])
    index, values = as_coordinates(submission.coo_encode(x), x)
    recognise(index, right[0], of(0, mistakes))
    expect_equal(index, right[0], "the index")
    encoded = reference.coo_encode(x)
    expect_values(values, encoded[1], x)
    back = submission.coo_decode(*encoded)
    expect_decoded(back, x, "coo_decode", apply_each(WRONG["coo_decode"], *encoded))


@question("0.5", points=0.5, claim="bits: a value and a whole number of address bits each")
def test_coo_bits(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, int]:
        n = draw.integer(4, 20)
        shape = shuffled(draw, [5, 3, draw.choice([5, 9]), 3])
        return figures(draw, *shape, sparsity=draw.number(0.8, 0.9)), n

    expect_bits(submission, "coo_bits", WRONG["coo_bits"], case, "32 bits per value")


# --- 0.6 the roofline -----------------------------------------------------------------


def work(
    macs: Callable[[int, int, int, int], float] = lambda R, C, V, kept: kept * V,
    stored: Callable[[int, int, int, int, int], float] = lambda R, C, V, kept, bits: (
        kept * (4 + bits / 8)
    ),
    passed: Callable[[int, int, int], float] = lambda R, C, V: 4 * V * (R + C),
) -> Function:
    """A version of product_work: what is multiplied, stored with its index, and passed in
    and out?
    """

    def version(R: int, C: int, V: int, kept: int, bits: int = 0) -> dict[str, float]:
        return {"macs": macs(R, C, V, kept), "bytes": stored(R, C, V, kept, bits) + passed(R, C, V)}

    return version


WRONG["product_work"] = {
    "every product of the dense matrix was counted: a kernel that skips zeros multiplies only what is kept": work(macs=lambda R, C, V, kept: R * C * V),
    "each weight was multiplied once: it meets every vector": work(macs=lambda R, C, V, kept: kept),
    "the index is missing: it is moved together with its weight": work(stored=lambda R, C, V, kept, bits: 4 * kept),
    "every weight of the dense matrix was moved: zeros are not stored": work(stored=lambda R, C, V, kept, bits: R * C * (4 + bits / 8)),
    "an index was counted with index_bits bytes: 8 bits are a byte": work(
        stored=lambda R, C, V, kept, bits: kept * (4 + bits)
    ),
    "one index was counted for the whole matrix: every kept weight has one": work(
        stored=lambda R, C, V, kept, bits: 4 * kept + bits / 8
    ),
    "the weights were moved once per vector: at best each is read once and used for all": work(
        stored=lambda R, C, V, kept, bits: V * kept * (4 + bits / 8)
    ),
    "the outputs are missing: they are written, too": work(passed=lambda R, C, V: 4 * V * C),
    "the inputs are missing: they are read, too": work(passed=lambda R, C, V: 4 * V * R),
    "inputs and outputs are missing": work(passed=lambda R, C, V: 0),
    "one vector was counted: there are several": work(passed=lambda R, C, V: 4 * (R + C)),
    "this looks like bits: a number has 4 bytes": lambda R, C, V, kept, bits=0: {
        "macs": kept * V, "bytes": kept * (32 + bits) + 32 * V * (R + C)
    },
}  # fmt: skip
WRONG["least_seconds"] = {
    "the two times were added: both are done at once, and the longer one decides": lambda w, peak, bandwidth: w["macs"] / peak + w["bytes"] / bandwidth,
    "the shorter of the two times was taken: both must be done": lambda w, peak, bandwidth: min(w["macs"] / peak, w["bytes"] / bandwidth),
    "only the products were bounded: the bytes take time, too": lambda w, peak, bandwidth: w["macs"] / peak,
    "only the bytes were bounded: the products take time, too": lambda w, peak, bandwidth: w["bytes"] / bandwidth,
    "this is a rate: divide the work by the rate to get seconds": lambda w, peak, bandwidth: max(peak / w["macs"], bandwidth / w["bytes"]),
}  # fmt: skip
WORK = ["macs", "bytes"]


def nearly(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6)


def expect_work(submission: Submission, case: Given, keys: Collection[str]) -> None:
    sizes, right, mistakes = draw_case(
        case, reference.product_work, WRONG["product_work"], keys=keys
    )
    result, call = submission.product_work(*sizes), f"product_work{sizes}"
    expect_counts(result, call, right, mistakes, WORK)


@question("0.6", points=1, claim="MACs and bytes of a sparse matrix, times several vectors")
def test_work_of_a_sparse_matrix(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[int, ...]:
        R, C, V = draw.distinct(3, 3, 40)
        return R, C, V, draw.integer(2, R * C - 1), draw.choice([16, 64])

    expect_work(submission, case, WORK)


@question("0.6", points=0.5, claim="the bound: products and bytes at once")
def test_least_seconds(submission: Submission, draw: Draw) -> None:
    peak, bandwidth = draw.number(2.0, 4.0), draw.number(5.0, 9.0)
    works = [{"macs": draw.integer(20, 90), "bytes": draw.integer(20, 90)} for _ in range(2)]
    works[0]["macs"] *= 40
    works[1]["bytes"] *= 40

    def both(bound: Function) -> tuple[float, ...]:
        return tuple(float(bound(work, peak, bandwidth)) for work in works)

    found = tuple(expect_number(submission.least_seconds(w, peak, bandwidth)) for w in works)
    right = both(reference.least_seconds)
    mistakes = {said: both(wrong) for said, wrong in WRONG["least_seconds"].items()}
    recognise(found, right, mistakes, equal=lambda one, other: all(map(nearly, one, other)))
    for work, seconds, least in zip(works, found, right, strict=True):
        expect_close(seconds, least, f"least_seconds({work}, {peak:g}, {bandwidth:g})")


# --- 0.8 run lengths, CSR, CSC ------------------------------------------------------------------


def stream(draw: Draw, gaps: list[int], tail: int = 0) -> Tensor:
    """For every gap as many zeros and then a value; at the end ``tail`` zeros."""
    values = draw.tied(len(gaps), levels=9).tolist()
    return torch.tensor(
        [n for gap, v in zip(gaps, values, strict=True) for n in (*[0.0] * gap, v)] + [0.0] * tail
    )


def pairs(x: Tensor, k: int) -> int:
    return len(rle_encode(x, k)[0])


def fillers(x: Tensor, k: int) -> int:
    runs, values, _ = rle_encode(x, k)
    return int(((runs == 2**k - 1) & (values == 0)).sum())


def pairs_by_gaps(x: Tensor, per_filler: int) -> int:
    """Pairs, where a filler stands for so many zeros."""
    index, total = reference.coo_encode(x)[0], x.numel()
    stops = [-1, *index.tolist(), *([total - 1] if total and not x.flatten()[-1] else [])]
    return sum((b - a - 1) // per_filler + 1 for a, b in zip(stops, stops[1:], strict=False))


WRONG["rle_bits"] = {
    "a filler was counted for 2^k - 1 zeros: its own value is one more zero": lambda x, n=32, k=2: pairs_by_gaps(x, 2**k - 1) * (n + k),
    "the bits of the runs are missing: a pair has a run and a value": lambda x, n=32, k=2: pairs(x, k) * n,
    "fillers were not counted: each filler is stored like any other pair": lambda x, n=32, k=2: (pairs(x, k) - fillers(x, k)) * (n + k),
    "fillers were counted without their run: each filler is stored like any other pair": (
        lambda x, n=32, k=2: pairs(x, k) * (n + k) - fillers(x, k) * k
    ),
    "fillers were counted without their value: the decoder does not know which pairs are fillers": (
        lambda x, n=32, k=2: pairs(x, k) * (n + k) - fillers(x, k) * n
    ),
    "the pair for the zeros at the end is missing": lambda x, n=32, k=2: (nnz(x) + fillers(x, k)) * (n + k),
    "fillers and the pair for the zeros at the end are missing: each of them is stored like any other pair": (
        lambda x, n=32, k=2: nnz(x) * (n + k)
    ),
    "zero values in the pairs were not counted: each value takes n bits, also a 0": (
        lambda x, n=32, k=2: nnz(x) * n + pairs(x, k) * k
    ),
    "two bits per run were used, but the call gives another width": lambda x, n=32, k=2: pairs(x, k) * (n + 2),
    "the pairs of 2-bit runs were counted, but the call gives another width": lambda x, n=32, k=2: pairs(x, 2) * (n + k),
    "2-bit runs were used, but the call gives another width": lambda x, n=32, k=2: pairs(x, 2) * (n + 2),
    "32 bits per value were used, but the call gives another n": lambda x, n=32, k=2: pairs(x, k) * (32 + k),
    "this looks like 2^k bits per run: how many bits does a number below 2^k need?": lambda x, n=32, k=2: pairs(x, k) * (n + 2**k),
    "this is the formula, the average for zeros at random places: count the actual pairs": (
        lambda x, n=32, k=2: nnz(x) / (1 - (1 - nnz(x) / x.numel()) ** (2**k)) * (n + k)
    ),
    "this looks like bytes: return bits": lambda x, n=32, k=2: pairs(x, k) * (n + k) / 8,
}  # fmt: skip


@question("0.8", points=0.5, claim="run lengths: every pair takes n + k")
def test_rle_bits(submission: Submission, draw: Draw) -> None:
    k = 3
    full = 2**k

    def case() -> tuple[Tensor, int, int]:
        n = draw.choice([5, 8, 12, 16])
        gaps = [draw.integer(0, full - 1) for _ in range(draw.integer(4, 8))]
        gaps += [draw.integer(full + 1, 2 * full - 1), draw.integer(2 * full + 1, 3 * full - 1)]
        return stream(draw, shuffled(draw, gaps), tail=draw.integer(1, full - 1)), n, k

    expect_bits(submission, "rle_bits", WRONG["rle_bits"], case, "n = 32 and run_bits = 2")


Size = Callable[[int, int, int], float]  # R, C, how many values are kept


def sized(
    column: Size = lambda R, C, kept: (C - 1).bit_length(),
    entry: Size = lambda R, C, kept: kept.bit_length(),
    entries: Size = lambda R, C, kept: R + 1,
) -> Function:
    """A version of csr_bits: how wide are a column and an entry of ROW_INDEX, and how
    many entries are there?
    """

    def version(x2d: Tensor, n: int = 32) -> float:
        of = *x2d.shape, nnz(x2d)
        return nnz(x2d) * (n + column(*of)) + entries(*of) * entry(*of)

    return version


WIDTHS: Wrong = {  # distinguishable by powers of two, and where there is one column
    "one bit per column index was counted for a single column: how many different columns must it distinguish?": (
        sized(column=lambda R, C, kept: max(1, (C - 1).bit_length()))
    ),
    "an entry of ROW_INDEX is one bit too short: it ranges from 0 to the number of values, both included": (
        sized(entry=lambda R, C, kept: max(0, kept - 1).bit_length())
    ),
    "each column index has one bit too many: the largest column is C - 1": sized(column=lambda R, C, kept: C.bit_length()),
    "each column index has one bit too many, and each entry of ROW_INDEX one bit too few: which is the largest number in each array?": sized(
        column=lambda R, C, kept: C.bit_length(), entry=lambda R, C, kept: max(0, kept - 1).bit_length()
    ),
}  # fmt: skip
OF_PARTS: Wrong = {
    "the columns are missing: store one column per value": sized(column=lambda R, C, kept: 0),
    "each column index has the width of a position in the whole matrix: a column is one of C": (
        sized(column=lambda R, C, kept: (R * C - 1).bit_length())
    ),
    "each column index has the width of a row index: a column is one of C": sized(column=lambda R, C, kept: (R - 1).bit_length()),
    "each entry of ROW_INDEX has the width of a column index: it counts values. How large can it get?": (
        sized(entry=lambda R, C, kept: (C - 1).bit_length())
    ),
    "each entry of ROW_INDEX has the width of a row index: it counts values": sized(entry=lambda R, C, kept: (R - 1).bit_length()),
    "ROW_INDEX was counted with R entries: it has one more": sized(entries=lambda R, C, kept: R),
    "ROW_INDEX is missing": sized(entries=lambda R, C, kept: 0),
    "one row was counted per value: CSR has one entry per row instead": sized(
        column=lambda R, C, kept: (C - 1).bit_length() + (R - 1).bit_length(), entries=lambda R, C, kept: 0
    ),
    "this is the size of CSC": sized(column=lambda R, C, kept: (R - 1).bit_length(), entries=lambda R, C, kept: C + 1),
    "indices and pointers of 64 bits were counted, as in PyTorch: how many bits do they need?": (
        sized(column=lambda R, C, kept: 64, entry=lambda R, C, kept: 64)
    ),
    "indices and pointers of 32 bits were counted: how many bits do they need?": sized(column=lambda R, C, kept: 32, entry=lambda R, C, kept: 32),
    "fractions of bits were counted: round each width up": (
        sized(column=lambda R, C, kept: math.log2(C), entry=lambda R, C, kept: math.log2(kept + 1))
    ),
    "32 bits per value were used, but the call gives another n": lambda x2d, n=32: reference.csr_bits(x2d),
    "this looks like bytes: return bits": lambda x2d, n=32: reference.csr_bits(x2d, n) / 8,
    "the entries of ROW_INDEX were counted with n bits: they are counts, not values. How large can they get?": (
        lambda x2d, n=32: sized(entry=lambda R, C, kept: n)(x2d, n)
    ),
}  # fmt: skip
WRONG["csr_bits"] = OF_PARTS | WIDTHS
WRONG["csc_bits"] = {
    "this is the size of CSR: CSC has one count per column, and a row per value": reference.csr_bits,
    "a column was stored with each value: in CSC each value has its row": lambda x2d, n=32: (
        nnz(x2d) * (n + (x2d.shape[1] - 1).bit_length())
        + (x2d.shape[1] + 1) * nnz(x2d).bit_length()
    ),
    "one count per row was stored: in CSC the counts are those of the columns": lambda x2d, n=32: (
        nnz(x2d) * (n + (x2d.shape[0] - 1).bit_length())
        + (x2d.shape[0] + 1) * nnz(x2d).bit_length()
    ),
}


@question(
    "0.8", points=1, claim="CSR, and CSC: a value and an index each, and a count for every line"
)
def test_csr_bits(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, int]:
        n = draw.integer(4, 20)
        R, C = shuffled(draw, [draw.choice([5, 7]), draw.choice([17, 23, 31])])
        kept = draw.choice([9, 11, 13, 15])  # 4 bits, where rows and columns have 3 and 5
        return figures(draw, R, C, sparsity=1 - kept / (R * C)), n

    expect_bits(submission, "csr_bits", OF_PARTS, case, "32 bits per value")
    n, k = draw.integer(4, 20), draw.integer(2, 4)
    # R + 1 is no power of two, so a bit too many and one too few do not cancel
    x = torch.zeros(draw.integer(4, 6), 2**k)
    x.view(-1)[draw.permutation(x.numel())[: 2**k]] = 1  # 2^k values among 2^k columns
    one = draw.normal(len(x), 1)
    for y, what in (
        (x, f"{2**k} values in {len(x)} rows and {2**k} columns"),
        (one, f"{len(x)} values in one column"),
    ):
        mistakes = apply_each(WIDTHS, y, n)
        right = reference.csr_bits(y, n)
        expect_count(submission.csr_bits(y, n), f"csr_bits of {what}, n = {n},", right, mistakes)
    (x, n), right, mistakes = draw_case(case, reference.csc_bits, WRONG["csc_bits"])
    call = f"csc_bits(x of shape {tuple(x.shape)}, {n})"
    expect_count(submission.csc_bits(x, n), call, right[0], of(0, mistakes))


# --- 0.7 values -----------------------------------------------------------------------


def whole_bits(submission: Submission) -> float:
    """Answer 0.7b, if it can be a size in bits."""
    need = expect_typed(submission, "answer_0_7b")
    if not (need > 0 and need % 1 == 0):
        fail(f"{need:.10g} is not a number of bits: it must be a positive whole number")
    return need


def times_fewer(submission: Submission) -> float:
    """Answer 0.7c, if it can be a saving."""
    form = "not a number of times fewer. Is it the share of MACs that remains, or the share that is saved?"
    return expect_typed(submission, "answer_0_7c", (1 + 1e-9, math.inf), form)


@question(
    "0.7",
    points=0,
    claim="the form: a is a letter, b in bits, c in times fewer; the grader looks at all three",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_0_7a", 5, {})
    whole_bits(submission)
    times_fewer(submission)
