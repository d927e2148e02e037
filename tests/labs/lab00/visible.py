"""Lab 00, counting cost and storing zeros: what is claimed of each answer, and its
likely mistakes, each written once as a wrong function.

Inputs are drawn anew for every grading, and so that the usual mistakes give other
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

from course_lib.grading import (
    Draw,
    Submission,
    ask,
    expect_equal,
    expect_int,
    expect_keys,
    expect_length,
    expect_raises,
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
            f"{what} is the float {number!r}, and a count is an int. (Python's / makes a float, and so does a mean; // does not)"
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
TWICE = "twice as many: a MAC is one multiplication together with its addition"
BIASED = "a bias was counted: there is none here"


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
        "bytes, it seems: the key's name says which unit": version(lambda n, bits: n / 8),
        "how many numbers there are, without the bits of each": version(lambda n, bits: n // bits),
        "32 bits a number, although another width was asked for": version(lambda n, bits: n // bits * 32),
    }  # fmt: skip


PLACES: Wrong = {said: conv(at) for said, at in {
    "the filter went on by one pixel at a time: where does the stride come in?": lambda c: places(c, stride=1),
    "the padding does not show in it: the filter may begin in the padding": lambda c: places(c, padding=0),
    "neither the stride nor the padding shows in it: what are E and F for these?": lambda c: places(c, stride=1, padding=0),
    "the padding was added once: it stands on both sides": lambda c: places(c, H=c.H - c.padding, W=c.W - c.padding),
    "H and W, or R and S, are crossed: the filter's height R moves along the input's height H": lambda c: places(c, H=c.W, W=c.H),
    "E was used for both sides: the input is not square": lambda c: 2 * places(c)[:1],
    "F was used for both sides: the input is not square": lambda c: 2 * places(c)[1:],
    "one place too few in E and in F: the filter's first place counts as well": lambda c: [n - 1 for n in places(c)],
    "the + 1 comes after the division by the stride, not before it": lambda c: [n - 1 for n in places(c, R=c.R - 1, S=c.S - 1)],
    "the division by the stride was rounded up: a place where the filter does not fit completely is none": lambda c: (
        places(c, H=c.H + c.stride - 1, W=c.W + c.stride - 1)
    ),
}.items()}  # fmt: skip
OF_MACS: Wrong = {said: conv(macs=wrong) for said, wrong in {
    "there is one product for every pixel of the input: count the places of the output": lambda c, n: math.prod(c[:6]),
    "the input channels are missing: how many products does one output number sum?": lambda c, n: c.M * c.R * c.S * n,
    "the filters are missing: each of them makes an output of its own": lambda c, n: c.C * c.R * c.S * n,
    TWICE: lambda c, n: 2 * math.prod(c[:4]) * n,
    "the bits per number were multiplied in: MACs are operations": lambda c, n: c.bits * math.prod(c[:4]) * n,
}.items()}  # fmt: skip
OF_BITS: Wrong = in_units(reference.conv_cost) | {
    "the input channels are missing: a filter is C x R x S": conv(weight_bits=lambda c, n: c.bits * c.M * c.R * c.S),
    "the filters are missing: there are M of them": conv(weight_bits=lambda c, n: c.bits * c.C * c.R * c.S),
    "the padding was counted: nobody needs to store zeros whose place is known": conv(
        input_bits=lambda c, n: c.bits * c.C * (c.H + 2 * c.padding) * (c.W + 2 * c.padding)
    ),
    "the channels are missing: the input has C": conv(input_bits=lambda c, n: c.bits * c.H * c.W),
    "M channels were counted: the input has C": conv(input_bits=lambda c, n: c.bits * c.M * c.H * c.W),
    "the channels are missing: the output has one for each filter": conv(output_bits=lambda c, n: c.bits * n),
    "C channels were counted: the output has M": conv(output_bits=lambda c, n: c.bits * c.C * n),
    "the output is not as large as the input: it has one number for each place of the filter": conv(
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
    "the batch is missing: every row is multiplied with all weights": linear(macs=lambda B, i, o, bits: i * o),
    TWICE: linear(macs=lambda B, i, o, bits: 2 * B * i * o),
    "the bits per number were multiplied in: MACs are operations": linear(macs=lambda B, i, o, bits: bits * B * i * o),
    BIASED: linear(macs=lambda B, i, o, bits: B * (i + 1) * o, weight_bits=lambda B, i, o, bits: bits * (i + 1) * o),
    "the weights were counted once per row of the batch: all rows share them": linear(
        weight_bits=lambda B, i, o, bits: bits * B * i * o
    ),
    "the batch is missing: every row is an input, and has an output": linear(
        input_bits=lambda B, i, o, bits: bits * i, output_bits=lambda B, i, o, bits: bits * o
    ),
    "the input's rows have d_in numbers, the output's d_out": linear(
        input_bits=lambda B, i, o, bits: bits * B * o, output_bits=lambda B, i, o, bits: bits * B * i
    ),
}  # fmt: skip


def convolution(draw: Draw) -> tuple[int, ...]:
    """M, C, R, S, H, W, stride, padding, with nothing square."""
    M, C = draw.distinct(2, 2, 6)
    R, S = draw.distinct(2, 2, 5)
    H, W = draw.distinct(2, 15, 60)
    return M, C, R, S, H, W, *draw.choice([(4, 1), (3, 4), (2, 5), (3, 5)])


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
    "0.1", points=0.5, claim="bits of weights, input and output; a linear layer for a whole batch"
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
    what = f"conv_cost{six}['weight_bits'], with 32 bits a number,"
    expect_count(by_default["weight_bits"], what, right["weight_bits"])
    expect_cost("linear_cost", lambda: tuple(draw.distinct(3, 3, 40)), WRONG["linear_cost"], COST)


@question("0.1", points=0.5, claim="arguments: a kernel that does not fit raises ValueError")
def test_kernels_that_do_not_fit(submission: Submission, draw: Draw) -> None:
    M, C, R, S = draw.distinct(4, 2, 7)
    bad = {
        "a kernel that is higher than its input": (M, C, R, S, R - 1, S),
        "a kernel that is wider than its input": (M, C, R, S, R, S - 1),
        "a kernel that is higher than its input, by less than a stride": (M, C, R, S, R - 1, S, 3),
        "a kernel that is wider than its input, by less than a stride": (M, C, R, S, R, S - 1, 3),
    }
    fits = (M, C, R, S, R + 1, S + 2)
    right = {"input_bits": reference.conv_cost(*fits)["input_bits"]}
    expect_counts(submission.conv_cost(*fits), f"conv_cost{fits}", right, {}, COST)
    for when, layer in bad.items():
        call = functools.partial(submission.conv_cost, *layer)
        expect_raises(ValueError, call, f"{when}, conv_cost{layer},")


# --- 0.2 transformer_macs -------------------------------------------------------------

PARTS = ["projections", "attention", "ffn", "total", "scores"]


def encoder(**otherwise: Callable[[int, int, int, int], int]) -> Function:
    """A version of transformer_macs in which some parts may be wrong, of B, L, E and
    heads; the total is their sum.
    """

    def version(B: int, L: int, E: int, heads: int = 1) -> dict[str, int]:
        cost = reference.transformer_macs(B, L, E, heads)
        cost |= {part: wrong(B, L, E, heads) for part, wrong in otherwise.items()}
        return cost | {"total": total(cost)}

    return version


def matrices(change: Callable[[int, int, int, int, int], int]) -> dict[str, Any]:
    """Projections and FFN, of their right number, B, L, E and heads."""
    return {
        "projections": lambda B, L, E, heads: change(4 * B * L * E**2, B, L, E, heads),
        "ffn": lambda B, L, E, heads: change(8 * B * L * E**2, B, L, E, heads),
    }


EVERYWHERE: Wrong = {
    "the batch is missing": encoder(
        **matrices(lambda n, B, L, E, heads: n // B),
        attention=lambda B, L, E, heads: 2 * L**2 * E,
        scores=lambda B, L, E, heads: heads * L**2,
    ),
    TWICE: encoder(
        **matrices(lambda n, B, L, E, heads: 2 * n), attention=lambda B, L, E, heads: 4 * B * L**2 * E
    ),
}  # fmt: skip
MATRICES: Wrong = EVERYWHERE | {said: encoder(**matrices(change)) for said, change in {
    "L² does not belong here: only attention compares tokens with tokens, matrices take them one by one": lambda n, B, L, E, heads: n * L,
    "L² does not belong here, E² does: a matrix takes the tokens one by one": lambda n, B, L, E, heads: n // E * L,
    "the heads were multiplied in: they share the E columns, they do not each have E": lambda n, B, L, E, heads: n * heads,
    "the heads were divided out: all heads together use all E columns": lambda n, B, L, E, heads: n // heads,
    "E² is missing: the matrices have E rows and E (or 4E) columns": lambda n, B, L, E, heads: n // E,
}.items()} | {
    "that makes three matrices: which one comes after the heads?": encoder(projections=lambda B, L, E, heads: 3 * B * L * E**2),
    "that makes one matrix: how many are there?": encoder(projections=lambda B, L, E, heads: B * L * E**2),
    "that is one matrix of the FFN: it goes from E to 4E, and back again": encoder(ffn=lambda B, L, E, heads: 4 * B * L * E**2),
    "the FFN is wider than E in the middle": encoder(ffn=lambda B, L, E, heads: 2 * B * L * E**2),
}  # fmt: skip
PAIRS: Wrong = EVERYWHERE | {said: encoder(attention=wrong) for said, wrong in {
    "a factor of heads too many: each head compares all pairs, but how many columns does it have for that?": (
        lambda B, L, E, heads: 2 * B * L**2 * E * heads
    ),
    "a factor of heads too few: that is the work of a single head": lambda B, L, E, heads: 2 * B * L**2 * E // heads,
    "only one of the two products: the values are weighted, too": lambda B, L, E, heads: B * L**2 * E,
    "tokens of different sentences were compared: pairs are formed within a sentence": lambda B, L, E, heads: 2 * (B * L)**2 * E,
    "L² is missing: every token is compared with every token of its sentence": lambda B, L, E, heads: 2 * B * L * E,
    "E² does not belong here: comparing two tokens takes one product of vectors, not a matrix": (
        lambda B, L, E, heads: 2 * B * L**2 * E**2
    ),
    "L and E are exchanged: which of the two is squared where tokens meet tokens?": lambda B, L, E, heads: 2 * B * L * E**2,
    "E is missing: these are pairs. How many MACs does it take to compare one?": lambda B, L, E, heads: 2 * B * L**2,
}.items()} | {said: encoder(scores=wrong) for said, wrong in {
    "the heads are missing: each of them has a softmax of its own": lambda B, L, E, heads: B * L**2,
    "L² is missing: there is one score for every pair": lambda B, L, E, heads: B * heads * L,
    "tokens of different sentences were paired": lambda B, L, E, heads: heads * (B * L)**2,
    "scores are numbers, not MACs: E does not belong here": lambda B, L, E, heads: B * heads * L**2 * E,
    "scores are numbers, not MACs: the size of a head does not belong here": lambda B, L, E, heads: B * L**2 * E,
    "twice as many: the second product uses the scores, it makes none": lambda B, L, E, heads: 2 * B * heads * L**2,
}.items()}  # fmt: skip
IN_ALL = {  # what was summed up to the total
    "the scores were added in: they are numbers that go through the softmax, not MACs": ("projections", "attention", "ffn", "scores"),
    "the FFN is missing in it": ("projections", "attention"),
    "attention is missing in it": ("projections", "ffn"),
    "the projections are missing in it": ("attention", "ffn"),
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


def expect_total(submission: Submission, B: int, L: int, E: int, heads: int = 1) -> Parts:
    """total is the sum of the three parts, whatever these are. Returns the cost."""
    layer = (B, L, E, heads) if heads > 1 else (B, L, E)
    cost, call = submission.transformer_macs(*layer), f"transformer_macs{layer}"
    expect_keys(cost, PARTS, f"the result of {call}")
    counts = {
        part: expect_int(cost[part], f"{call}[{part!r}]") for part in PARTS if part != "total"
    }
    mistakes = {said: total(counts, some) for said, some in IN_ALL.items()}
    expect_count(cost["total"], f"{call}['total']", total(counts), mistakes)
    return counts


@question(
    "0.2", points=0.5, claim="attention: two products of all pairs; scores: all pairs of each head"
)
def test_attention_and_scores(submission: Submission, draw: Draw) -> None:
    expect_encoder(submission, draw, PAIRS, "attention", "scores")


@question("0.2", points=0.5, claim="arguments: heads that do not divide E raise ValueError")
def test_heads_that_do_not_divide(submission: Submission, draw: Draw) -> None:
    heads = draw.integer(3, 7)
    E = heads * draw.integer(2, 5)
    right = {"ffn": reference.transformer_macs(2, 5, E, heads)["ffn"]}
    result = submission.transformer_macs(2, 5, E, heads)
    expect_counts(result, f"transformer_macs{(2, 5, E, heads)}", right, {}, PARTS)
    E += draw.integer(1, heads - 1)
    when = f"transformer_macs(2, 5, {E}, heads={heads}), where the heads cannot share {E} columns evenly,"
    expect_raises(ValueError, lambda: submission.transformer_macs(2, 5, E, heads), when)


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
    "that is (1-p)(1-q) times the products, what zeros at random places give on average: count these zeros, where they are": (
        lambda w, x, *at: expected(w, x) * count(ones(w), ones(x), *at)
    ),
    "every product was counted, with zeros or without": lambda w, x, *at: count(ones(w), ones(x), *at),
    "only zeros among the weights were left out: a zero input spares a product, too": lambda w, x, *at: count(w, ones(x), *at),
    "only zeros in the input were left out: a zero weight spares a product, too": lambda w, x, *at: count(ones(w), x, *at),
    "the products with a zero in them were counted, it seems: those without one are asked for": (
        lambda w, x, *at: count(ones(w), ones(x), *at) - count(w, x, *at)
    ),
    "a product was counted where only one of the two is non-zero: both have to be": (
        lambda w, x, *at: count(w, ones(x), *at) + count(ones(w), x, *at) - count(w, x, *at)
    ),
    "negative numbers were left out: they are not zero either": lambda w, x, *at: count((w > 0).float(), (x > 0).float(), *at),
    "only the first sample of the batch was counted": lambda w, x, *at: count(w, x[:1], *at),
    "that is the mean over the batch: count the whole batch": lambda w, x, *at: count(w, x, *at) / len(x),
    TWICE: lambda w, x, *at: 2 * count(w, x, *at),
    "outputs that are not zero were counted: each of them is a sum of many products": (
        lambda w, x, *at: int(outputs(w, x, *at).count_nonzero())
    ),
}  # fmt: skip
PADDED: Wrong = {  # distinguishable with stride and padding
    "products with padding were counted, as if it held something: it holds zeros": (
        lambda w, x, stride=1, padding=0: count(w, walled(x, padding), stride)
    ),
    "that is (1-p)(1-q) times all MACs, what random zeros give on average, and products with padding are among them": (
        lambda w, x, stride=1, padding=0: expected(w, x) * count(ones(w), walled(ones(x), padding), stride)
    ),
    "only zeros among the weights were left out, and products with padding were counted": (
        lambda w, x, stride=1, padding=0: count(w, walled(ones(x), padding), stride)
    ),
    "every MAC was counted, also those with padding": (
        lambda w, x, stride=1, padding=0: count(ones(w), walled(ones(x), padding), stride)
    ),
    "the filter went on by one pixel at a time: where does the stride come in?": lambda w, x, stride=1, padding=0: count(w, x, 1, padding),
    "the padding was left away: with it, the filter stands at more places": lambda w, x, stride=1, padding=0: count(w, x, stride),
    "neither the stride nor the padding shows in it": lambda w, x, stride=1, padding=0: count(w, x),
}  # fmt: skip
WRONG["nonzero_macs"] = COUNTED | PADDED


def expect_nonzero(submission: Submission, case: Given, wrong: Wrong) -> None:
    (w, x, *at), right, mistakes = draw_case(case, count, wrong)
    slid = f", stride {at[0]}, padding {at[1]}," if at else ""
    what = f"nonzero_macs for a weight {tuple(w.shape)} and an input {tuple(x.shape)}{slid}"
    expect_count(submission.nonzero_macs(w, x, *at), what, right[0], of(0, mistakes))


@question("0.3", points=0.5, claim="a linear layer: products with two non-zero operands")
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


def show(x: Tensor) -> str:
    """A small matrix, row by row."""
    return "[" + " | ".join(text(row) for row in x) + "]"


def kind(x: Tensor) -> str:
    """Dtype and shape of a tensor, for a message."""
    turned = "" if x.is_contiguous() else "transposed "
    zeros = "" if x.any() else ", all zeros,"
    name = f"{turned}{str(x.dtype).removeprefix('torch.')}"
    return f"a{'n' * name.startswith('int')} {name} tensor of shape {tuple(x.shape)}{zeros}"


def in_memory(x: Tensor) -> Tensor:
    """The elements of x in the order in which they lie in memory."""
    return x.permute(sorted(range(x.ndim), key=lambda d: -x.stride()[d])).flatten()


def as_values(value: Any, x: Tensor, what: str = "values") -> Tensor:
    """The value, if it has the form of an encoding's values: one after the other, of
    x's dtype.
    """
    if isinstance(value, Tensor) and value.ndim != 1:
        fail(
            f"{what} has shape {tuple(value.shape)}: the values stand one after the other, in one dimension"
        )
    if isinstance(value, Tensor) and value.dtype != x.dtype:
        fail(
            f"of {kind(x)}, {what} came out as {str(value.dtype)[6:]}: a value keeps its dtype, also in a new tensor"
        )
    return expect_tensor(value, dtype=x.dtype, what=what)


def expect_values(value: Any, right: Tensor, x: Tensor, what: str = "values") -> None:
    """The values of an encoding, exactly."""
    values = as_values(value, x, what)
    if len(values) == len(right) and x.dtype.itemsize == 8 and not same(values, right):
        if same(values, right.float().to(right.dtype)):
            fail(f"the numbers of {kind(x)} were rounded: on their way, did they become float32?")
    lie = in_memory(x)
    if not x.is_contiguous() and same(values, lie[lie != 0]) and not same(values, right):
        fail(
            f"the values of {kind(x)} came as they lie in memory: row-major means by rows of x, wherever these lie"
        )
    expect_equal(values, right, what)


def as_index(value: Any, x: Tensor, what: str) -> Tensor:
    """The value, if it has the form of indices, runs or counts: one after the other,
    int64.
    """
    if isinstance(value, Tensor) and value.dtype != torch.int64:
        fail(
            f"{what} of {kind(x)} holds {str(value.dtype)[6:]}: positions and counts are int64 (torch.long) here"
        )
    if isinstance(value, Tensor) and value.ndim != 1:
        fail(
            f"{what} has shape {tuple(value.shape)}: its numbers stand one after the other, in one dimension"
        )
    return expect_tensor(value, dtype=torch.int64, what=what)


def expect_shape(value: Any, x: Tensor) -> None:
    """The shape of x as a tuple of ints."""
    if isinstance(value, list | Tensor):
        fail(f"the shape came as a {type(value).__name__.lower()}: it is a tuple of ints")
    expect_equal(value, tuple(x.shape), "the shape")


def expect_decoded(value: Any, x: Tensor, what: str, mistakes: Mistakes | None = None) -> None:
    """The tensor that was encoded: dtype, shape and values, and no -0.0 among them."""
    if isinstance(value, Tensor):
        if value.dtype != x.dtype:
            fail(
                f"{what} gave a {str(value.dtype)[6:]} tensor from {str(x.dtype)[6:]} values: new zeros are float32 unless told "
                "otherwise. Whose dtype should they have?"
            )
        recognise(value, x, mistakes or {})
        if value.ndim == 1 and x.ndim != 1:
            fail(f"{what} gave one long row of {len(value)}: the shape was {tuple(x.shape)}")
        if value.shape == x.shape and bool(((value == 0) & value.signbit() & (x == 0)).any()):
            fail(
                f"a -0.0 came back from {what} as -0.0: it equals 0, and comes back as +0.0. Where was it copied?"
            )
    expect_equal(value, x + 0 if x.dtype != torch.bool else x, what)


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
    "the map is upside down: True means that there is a value": lambda x: (x == 0, x[x != 0]),
    "negative numbers are marked as zeros: only what equals 0 is one": lambda x: (x > 0, x[x > 0]),
    "values holds all elements of x: a zero is not stored, the map says where it is": lambda x: (x != 0, x.flatten()),
    "the values stand column by column: row-major means that a row comes after the other": (
        lambda x: (x != 0, turned(x)[turned(x) != 0])
    ),
    "the signs are lost: the values are those of x": lambda x: (x != 0, x[x != 0].abs()),
    "values is sorted: the order tells where they belong": lambda x: (x != 0, x[x != 0].sort().values),
}  # fmt: skip
WRONG["bitmap_decode"] = {"bitmap_decode filled the places column by column": filled_by_columns}
WRONG["bitmap_bits"] = {
    "the map was forgotten: someone must know where the values belong": lambda x, n=32: nnz(x) * n,
    "the map has one bit for each place, for the zeros as well": lambda x, n=32: nnz(x) * (n + 1),
    "the map was counted with n bits a place: what does a yes or no take?": lambda x, n=32: (nnz(x) + x.numel()) * n,
    "a bool of PyTorch takes a byte, but a bit is enough": lambda x, n=32: nnz(x) * n + 8 * x.numel(),
    "every element was counted with n bits: only values are stored": lambda x, n=32: x.numel() * (n + 1),
    "that is the size of the zeros: the values are stored": lambda x, n=32: (x.numel() - nnz(x)) * n + x.numel(),
    "that is the dense tensor": lambda x, n=32: x.numel() * n,
    "32 bits a value, although another n was asked for": lambda x, n=32: nnz(x) * 32 + x.numel(),
    "bytes, it seems: the name says bits": lambda x, n=32: (nnz(x) * n + x.numel()) / 8,
}  # fmt: skip


def as_bitmap(value: Any, x: Tensor) -> Tensor:
    """The value, if it has the form of a map of x: bool, one for each place."""
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        fail(
            f"the map holds {str(value.dtype)[6:]}: one bit a place is a bool, what a comparison gives"
        )
    if isinstance(value, Tensor) and value.shape != x.shape:
        fail(
            f"the map has shape {tuple(value.shape)}, x has {tuple(x.shape)}: one bit for each place, where it is in x"
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

    expect_bits(submission, "bitmap_bits", WRONG["bitmap_bits"], case, "32 bits a value")


# --- 0.5 run lengths ------------------------------------------------------------------


def stream(draw: Draw, gaps: list[int], tail: int = 0) -> Tensor:
    """For every gap as many zeros and then a value; at the end ``tail`` zeros."""
    values = draw.tied(len(gaps), levels=9).tolist()
    return torch.tensor(
        [n for gap, v in zip(gaps, values, strict=True) for n in (*[0.0] * gap, v)] + [0.0] * tail
    )


def shuffled(draw: Draw, items: list[int]) -> list[int]:
    return [items[i] for i in draw.permutation(len(items)).tolist()]


Runs = Callable[[int, int], list[int]]  # zeros, the largest run -> the runs written for them


def written(before: Runs, after: Runs) -> Function:
    """A version of rle_encode: ``before`` says what is written for zeros before a
    value, ``after`` for those at the end.
    """

    def version(x: Tensor, run_bits: int = 2) -> tuple[Tensor, Tensor, tuple[int, ...]]:
        most = 2**run_bits - 1
        index, values, _ = reference.coo_encode(x)
        ends = [-1, *index.tolist(), x.numel()]
        *gaps, tail = [b - a - 1 for a, b in zip(ends, ends[1:], strict=False)]
        runs: list[int] = []
        said: list[float] = []
        for gap, value in zip(gaps, values.tolist(), strict=True):
            runs += before(gap, most)
            said += [0.0] * (len(runs) - len(said) - 1) + [value]
        runs += after(tail, most) if tail else []
        said += [0.0] * (len(runs) - len(said))
        pairs = torch.tensor(runs, dtype=torch.int64), torch.tensor(said, dtype=x.dtype)
        return *pairs, tuple(x.shape)

    return version


def right_runs(gap: int, most: int) -> list[int]:
    return [most] * (gap // (most + 1)) + [gap % (most + 1)]


def once_more(gap: int, most: int) -> list[int]:
    fillers = max(0, gap - 1) // most
    return [most] * fillers + [gap - most * fillers]


def too_early(gap: int, most: int) -> list[int]:
    return [most] * (gap // most) + [gap % most]


def at_the_end(runs: Runs) -> Runs:
    """The last zero is a value; where a filler has taken it, nothing follows."""
    return lambda zeros, most: (
        runs(zeros, most)[:-1] + [rest - 1 for rest in runs(zeros, most)[-1:] if rest]
    )


def one_zero_more(x: Tensor, run_bits: int = 2) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """By mistake: a pair (0, 0) behind all others, where the end is a zero."""
    runs, values, shape = reference.rle_encode(x, run_bits)
    more = int(x.numel() > 0 and x.flatten()[-1] == 0)
    return *(torch.cat([part, part.new_zeros(more)]) for part in (runs, values)), shape


def right_index(x: Tensor) -> Tensor:
    return reference.coo_encode(x)[0]


EARLY = "a filler was written as soon as the zeros of its run had come: which element is its value?"
WRONG["rle_encode"] = {
    "x was read column by column: row-major means that one row comes after the other": (
        lambda x, run_bits=2: (*reference.rle_encode(turned(x), run_bits)[:2], tuple(x.shape))
    ),
    "the pair (0, 0) at the end adds a zero that x does not have: the pair before it has taken the last one": one_zero_more,
    "the count behind a filler takes a zero once more that was the filler's value": written(once_more, at_the_end(once_more)),
    EARLY: written(too_early, at_the_end(too_early)),
    f"{EARLY} The same at the end": written(too_early, too_early),
    "a run that the field cannot hold was cut off, and zeros are lost: which pair stands for the rest?": (
        written(lambda gap, most: [min(gap, most)], lambda zeros, most: [min(zeros - 1, most)])
    ),
    "a run that the field cannot hold wrapped around, and zeros are lost: which pair stands for the rest?": (
        written(lambda gap, most: [gap % (most + 1)], lambda zeros, most: [(zeros - 1) % (most + 1)])
    ),
    "the zeros at the end are lost: no value comes behind them, but the decoder must know of them": written(right_runs, lambda zeros, most: []),
    "the zeros at the end became one too many: in a pair (r, 0) the value is one of them": written(right_runs, right_runs),
    "the runs count the zeros behind each value: in a pair the zeros come first": (
        lambda x, k=2: ((i := right_index(x)).diff(append=i.new_tensor([x.numel()])) - 1, *reference.coo_encode(x)[1:])
    ),
    "the runs are one too large: they count the zeros between, not the steps from one value to the next": written(
        lambda gap, most: [r + 1 for r in right_runs(gap, most)],
        lambda zeros, most: [r + 1 for r in at_the_end(right_runs)(zeros, most)],
    ),
    "the runs hold positions: they count the zeros in front of each value": lambda x, k=2: reference.coo_encode(x),
}  # fmt: skip


def pairs(x: Tensor, k: int) -> int:
    return len(reference.rle_encode(x, k)[0])


def fillers(x: Tensor, k: int) -> int:
    runs, values, _ = reference.rle_encode(x, k)
    return int(((runs == 2**k - 1) & (values == 0)).sum())


WRONG["rle_bits"] = {
    "the bits of the runs are missing: a pair is a run and a value": lambda x, n=32, k=2: pairs(x, k) * n,
    "fillers were left out: each is stored like any other pair": lambda x, n=32, k=2: (pairs(x, k) - fillers(x, k)) * (n + k),
    "fillers were counted without their run: each is stored like any other pair": (
        lambda x, n=32, k=2: pairs(x, k) * (n + k) - fillers(x, k) * k
    ),
    "fillers were counted without their value: the decoder cannot know which pairs are fillers": (
        lambda x, n=32, k=2: pairs(x, k) * (n + k) - fillers(x, k) * n
    ),
    "the pair for the zeros at the end is missing": lambda x, n=32, k=2: (nnz(x) + fillers(x, k)) * (n + k),
    "fillers and the pair for the zeros at the end are missing: each is stored like any other pair": (
        lambda x, n=32, k=2: nnz(x) * (n + k)
    ),
    "the zeros in the pairs were counted as free: each value takes n bits, 0 as well": (
        lambda x, n=32, k=2: nnz(x) * n + pairs(x, k) * k
    ),
    "two bits a run, although another width was asked for": lambda x, n=32, k=2: pairs(x, k) * (n + 2),
    "pairs for runs of 2 bits, although another width was asked for": lambda x, n=32, k=2: pairs(x, 2) * (n + k),
    "runs of 2 bits, although another width was asked for": lambda x, n=32, k=2: pairs(x, 2) * (n + 2),
    "32 bits a value, although another n was asked for": lambda x, n=32, k=2: pairs(x, k) * (32 + k),
    "a run takes 2^k bits, it seems: how many bits has a number below 2^k?": lambda x, n=32, k=2: pairs(x, k) * (n + 2**k),
    "that is the formula, what zeros at random places give on average: count the pairs": (
        lambda x, n=32, k=2: nnz(x) / (1 - (1 - nnz(x) / x.numel()) ** (2**k)) * (n + k)
    ),
    "bytes, it seems: the name says bits": lambda x, n=32, k=2: pairs(x, k) * (n + k) / 8,
}  # fmt: skip


def pairs_text(runs: Tensor, values: Tensor) -> str:
    return " ".join(f"({r}, {v:.3g})" for r, v in zip(runs.tolist(), values.tolist(), strict=True))


def as_pairs(encoded: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Runs and values of the result of rle_encode, if it has the right form."""
    expect_length(encoded, 3, "the result of rle_encode", tuple)
    runs, values, shape = as_index(encoded[0], x, "runs"), as_values(encoded[1], x), encoded[2]
    expect_shape(shape, x)
    if len(runs) != len(values):
        fail(
            f"there are {len(runs)} runs and {len(values)} values: every pair has one of each, a filler and the zeros at the end too"
        )
    return runs, values


def expect_pairs(encoded: Any, x: Tensor, k: int) -> None:
    """The right pairs, and no others; else say what they make of x."""
    runs, values = as_pairs(encoded, x)
    given = runs, values, tuple(x.shape)
    right = reference.rle_encode(x, k)
    if same(given, right):
        return
    most = 2**k - 1
    said = (
        f"x = {text(x)} became {pairs_text(runs, values)}: "
        if x.numel() <= 40
        else f"with {k}-bit runs: "
    )
    recognise(given, right, apply_each(WRONG["rle_encode"], x, k), said)
    if bool((runs < 0).any()):
        fail(
            f"{said}a run of {int(runs.min())} zeros cannot be. Which pair did you write before it?"
        )
    if len(runs) and int(runs.max()) > most:
        which = "exactly" if int(runs.max()) == most + 1 else "even"
        fail(
            f"{said}a run of {which} {int(runs.max())} stands in one pair, but the field holds 0 to {most}. What says more?"
        )
    described = [
        n for r, v in zip(runs.tolist(), values.tolist(), strict=True) for n in (*[0.0] * r, v)
    ]
    if len(described) != x.numel():
        fail(
            f"{said}these pairs describe {len(described)} elements, x has {x.numel()}. How many does one pair stand for?"
        )
    for at, (one, other) in enumerate(zip(described, x.flatten().tolist(), strict=True)):
        if one != other:
            fail(f"{said}reading these pairs back, element {at} is {one:g}, in x it is {other:g}")
    fail(
        f"{said}these pairs do describe x, but others are asked for: fillers ({most}, 0) come first, and only if needed"
    )


@question("0.5", points=0.5, claim="short runs: the zeros before each value, and back again")
def test_short_runs(submission: Submission, draw: Draw) -> None:
    x = stream(draw, [0, *shuffled(draw, [3, 1, draw.integer(0, 3), 2, draw.integer(0, 3)])])
    expect_pairs(submission.rle_encode(x), x, 2)
    runs, values, shape = reference.rle_encode(x)
    expect_decoded(
        submission.rle_decode(runs, values, shape), x, f"rle_decode of {pairs_text(runs, values)}"
    )


@question("0.5", points=0.5, claim="a run that the field cannot hold begins with fillers")
def test_long_runs(submission: Submission, draw: Draw) -> None:
    gaps = [draw.integer(5, 7), draw.integer(9, 11), draw.integer(0, 3), draw.integer(0, 3)]
    x = stream(draw, shuffled(draw, gaps))
    expect_pairs(submission.rle_encode(x), x, 2)


@question("0.5", points=0.5, claim="zeros at the end are written, too")
def test_trailing_zeros(submission: Submission, draw: Draw) -> None:
    for tail in (draw.integer(1, 3), draw.integer(5, 7)):
        x = stream(draw, [draw.integer(0, 3) for _ in range(3)], tail)
        expect_pairs(submission.rle_encode(x), x, 2)


@question("0.5", points=0.5, claim="bits: every pair takes n + k")
def test_rle_bits(submission: Submission, draw: Draw) -> None:
    k = 3
    full = 2**k

    def case() -> tuple[Tensor, int, int]:
        n = draw.choice([5, 8, 12, 16])
        gaps = [draw.integer(0, full - 1) for _ in range(draw.integer(4, 8))]
        gaps += [draw.integer(full + 1, 2 * full - 1), draw.integer(2 * full + 1, 3 * full - 1)]
        return stream(draw, shuffled(draw, gaps), tail=draw.integer(1, full - 1)), n, k

    expect_bits(submission, "rle_bits", WRONG["rle_bits"], case, "n = 32 and run_bits = 2")


# --- 0.6 coordinates ------------------------------------------------------------------


def put_by_columns(index: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    x = values.new_zeros(shape[::-1])
    x.view(-1)[index] = values
    return turned(x)


WRONG["coo_encode"] = {
    "the positions count column by column: row-major means that a row comes after the other": (
        lambda x: (*reference.coo_encode(turned(x))[:2], tuple(x.shape))
    ),
    "the positions are those of the zeros": but(reference.coo_encode, 0, lambda x: (x.flatten() == 0).nonzero().flatten()),
    "negative numbers are missing: only what equals 0 is a zero": lambda x: reference.coo_encode(x * (x > 0)),
    "the positions count from 1": but(reference.coo_encode, 0, lambda x: right_index(x) + 1),
    "the index holds the steps from one value to the next: positions are asked for": (
        but(reference.coo_encode, 0, lambda x: right_index(x).diff(prepend=right_index(x)[:1] * 0))
    ),
    "the index holds the place in the last row only: the flattened tensor has one number for each place": (
        but(reference.coo_encode, 0, lambda x: right_index(x) % max(1, x.shape[-1]))
    ),
}  # fmt: skip
WRONG["coo_decode"] = {"coo_decode counted the positions column by column": put_by_columns}


def address(x: Tensor) -> int:
    return (x.numel() - 1).bit_length()


WRONG["coo_bits"] = {
    "the addresses are missing: each value needs one": lambda x, n=32: nnz(x) * n,
    "an address with a fraction of a bit: where must it be rounded, and in which direction?": (
        lambda x, n=32: nnz(x) * (n + math.log2(x.numel()))
    ),
    "each address is a bit too short: rounded down, they do not reach the last place": lambda x, n=32: nnz(x) * (n + address(x) - 1),
    "each address is a bit too long: which is the largest, when they begin at 0?": lambda x, n=32: nnz(x) * (n + address(x) + 1),
    "one address for all: each value needs its own": lambda x, n=32: nnz(x) * n + address(x),
    "an address of one number per dimension: it is one position in the flattened tensor": (
        lambda x, n=32: nnz(x) * (n + sum((size - 1).bit_length() for size in x.shape))
    ),
    "addresses of 64 bits, as PyTorch keeps them: how many does it take among L places?": lambda x, n=32: nnz(x) * (n + 64),
    "addresses of 32 bits: how many does it take among L places?": lambda x, n=32: nnz(x) * (n + 32),
    "the zeros got an address, too": lambda x, n=32: x.numel() * (n + address(x)),
    "that is a bitmap: here each value has an address": lambda x, n=32: nnz(x) * n + x.numel(),
    "the addresses are as wide as for as many places as there are values: they go over all L places": (
        lambda x, n=32: nnz(x) * (n + max(0, nnz(x) - 1).bit_length())
    ),
    "L bits an address: log₂ is missing": lambda x, n=32: nnz(x) * (n + x.numel()),
    "32 bits a value, although another n was asked for": lambda x, n=32: nnz(x) * (32 + address(x)),
    "bytes, it seems: the name says bits": lambda x, n=32: nnz(x) * (n + address(x)) / 8,
}  # fmt: skip


def as_coordinates(encoded: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Index and values of the result of coo_encode, if it has the right form."""
    expect_length(encoded, 3, "the result of coo_encode", tuple)
    index, values, shape = encoded
    if isinstance(index, Tensor) and index.ndim == 2 and x.ndim > 1 and x.ndim in index.shape:
        fail("the index holds one number per dimension: it is one position in the flattened tensor")
    index, values = as_index(index, x, "the index"), as_values(values, x)
    expect_shape(shape, x)
    return index, values


@question("0.6", points=0.5, claim="flat row-major positions and values, and back again")
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


@question("0.6", points=0.5, claim="bits: a value and a whole number of address bits each")
def test_coo_bits(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, int]:
        n = draw.integer(4, 20)
        shape = shuffled(draw, [5, 3, draw.choice([5, 9]), 3])
        return figures(draw, *shape, sparsity=draw.number(0.8, 0.9)), n

    expect_bits(submission, "coo_bits", WRONG["coo_bits"], case, "32 bits a value")


# --- 0.7 CSR, 0.10 CSC ----------------------------------------------------------------

EXAMPLE = torch.tensor(
    [[10.0, 20, 0, 0, 0, 0], [0, 30, 0, 40, 0, 0], [0, 0, 50, 60, 70, 0], [0, 0, 0, 0, 0, 80]]
)  # (4, 6)


def matrix(draw: Draw) -> Tensor:
    """Whole numbers; more columns than rows or the other way round; no row and no
    column is empty, none is full.
    """
    R, C = draw.distinct(2, 5, 8)
    while True:
        x = figures(draw, R, C, sparsity=0.6)
        if bool((x != 0).any(0).all() and (x != 0).any(1).all()):
            return x


Arrays = tuple[Tensor, Tensor, Tensor]


def compressed(line: str, across: str) -> list[Wrong]:
    """What mistakes make of a matrix whose rows are the lines that are compressed: in
    CSR these are rows, for CSC hand in the transpose. In all three arrays together, in
    the values, in the index, in the pointer.
    """
    csr = reference.csr_encode
    only = functools.partial(but, csr)

    def lines(x: Tensor) -> Tensor:
        """The line of each value."""
        return torch.arange(len(x)).repeat_interleave((x != 0).sum(1))

    adding_up = (
        f"the numbers are not added up: an entry says how many values come before its {line}"
    )
    return [
        {
            f"these are the arrays of the other one of CSR and CSC: here the values stand {line} by {line}": lambda x: csr(x.T),
            f"the last two arrays are exchanged: first the {across} of each value, then the entries for the {line}s": (
                lambda x: (csr(x)[0], csr(x)[2], csr(x)[1])
            ),
            "negative numbers are missing: only what equals 0 is a zero": lambda x: csr(x * (x > 0)),
        },
        {f"the values stand {across} by {across}, here they go {line} by {line}": only(0, lambda x: csr(x.T)[0])},
        {
            f"these are positions in the flattened matrix: the {across} alone is asked for": only(1, right_index),
            f"these are the {line}s of the values: which {across} is each in?": only(1, lines),
            f"the {across}s count from 1": only(1, lambda x: csr(x)[1] + 1),
        },
        {
            adding_up: only(2, lambda x: csr(x)[2].diff()),
            f"{adding_up}, and it is 0 for the first": only(2, lambda x: csr(x)[2].diff(prepend=csr(x)[2][:1])),
            f"the last entry is missing: where does the last {line} end?": only(2, lambda x: csr(x)[2][:-1]),
            f"the first entry is missing: where does the first {line} begin?": only(2, lambda x: csr(x)[2][1:]),
            f"that is the {line} of each value, as in coordinates: one entry for each {line} is enough": only(2, lines),
            "the entries count from 1": only(2, lambda x: csr(x)[2] + 1),
            "the entries count places, zeros and all: they count values": (
                only(2, lambda x: torch.arange(len(x) + 1) * x.shape[1])
            ),
        },
    ]  # fmt: skip


ROWS, COLUMNS = compressed("row", "column"), compressed("column", "row")
WRONG["csr_encode"] = {said: wrong for table in ROWS for said, wrong in table.items()}
WRONG["csc_encode"] = {
    said: lambda x, wrong=wrong: wrong(x.T) for table in COLUMNS for said, wrong in table.items()
}


def expect_compressed(
    encoded: Any, x: Tensor, names: tuple[str, ...], line: str, tables: list[Wrong], said: str
) -> None:
    """The three arrays of CSR for the rows of x. For CSC give the transpose, and CSC's
    names and mistakes.
    """
    expect_length(encoded, 3, f"{said}the result", tuple)
    given = (
        as_values(encoded[0], x),
        as_index(encoded[1], x, names[1]),
        as_index(encoded[2], x, names[2]),
    )
    right = reference.csr_encode(x)
    if same(given, right):
        return
    recognise(given, right, apply_each(tables[0], x), said)
    if len(given[0]) != len(right[0]):
        fail(f"{said}{names[0]} has {len(given[0])} values, but {len(right[0])} are not zero")
    for i, name in enumerate(names):
        mistakes = {what: arrays[i] for what, arrays in apply_each(tables[i + 1], x).items()}
        recognise(given[i], right[i], mistakes, f"{said}{name}: ")
    if len(given[2]) != len(right[2]):
        fail(
            f"{said}{names[2]} has {len(given[2])} entries for {len(x)} {line}s: one for where each begins, empty ones too, and the "
            "end"
        )
    for value, other, name in zip(given, right, names, strict=True):
        expect_equal(value, other, f"{said}{name}")


def expect_csr(encoded: Any, x: Tensor, said: str = "") -> None:
    """The three arrays of CSR."""
    names = "v", "COL_INDEX", "ROW_INDEX"
    expect_compressed(encoded, x, names, "row", ROWS, said or f"{show(x)}: ")


def expect_csc(encoded: Any, x: Tensor, said: str = "") -> None:
    """The three arrays of CSC."""
    names = "v", "ROW_INDEX", "COL_POINTER"
    expect_compressed(encoded, x.T, names, "column", COLUMNS, said or f"{show(x)}: ")


@question("0.7", points=0.5, claim="the three arrays of the exercise's matrix and of another")
def test_csr_encode(submission: Submission, draw: Draw) -> None:
    expect_csr(submission.csr_encode(EXAMPLE), EXAMPLE, "the exercise's matrix: ")
    x = matrix(draw)
    expect_csr(submission.csr_encode(x), x)


def with_empty_lines(draw: Draw) -> tuple[Tensor, ...]:
    """A tall matrix, its transpose, and zeros; float64 or int64."""
    tall = torch.cat([matrix(draw)[:5, :5], figures(draw, 2, 5)]).to(
        draw.choice([torch.float64, torch.int64])
    )
    tall[draw.integer(0, 4)] = 0
    tall[:, draw.integer(0, 3)] = 0
    # a row that no column can be, and in the other matrix a column that no row can be
    tall[-1, -1] = 3
    return tall, tall.T.contiguous(), torch.zeros_like(tall)


@question(
    "0.7", points=0.5, claim="back again: empty rows, the last row and column, other dtypes, too"
)
def test_csr_decode(submission: Submission, draw: Draw) -> None:
    for x in (EXAMPLE, matrix(draw), *with_empty_lines(draw)):
        expect_back(submission, "csr_decode", reference.csr_encode(x), x)


@question(
    "0.10", points=0.5, claim="CSC: column by column, with the row of each value, and back again"
)
def test_csc_encode(submission: Submission, draw: Draw) -> None:
    matrices = (EXAMPLE, matrix(draw))
    for x in matrices:
        expect_csc(submission.csc_encode(x), x)
    for x in matrices:
        expect_back(submission, "csc_decode", reference.csc_encode(x), x)


def expect_back(submission: Submission, name: str, encoded: tuple[Tensor, ...], x: Tensor) -> None:
    """The student's decoder ``name`` makes x of its three arrays."""
    shape = tuple(x.shape)
    when = f"for {show(x)}"
    thought = "How many rows are there, how many columns, and how many values?"
    back = ask(lambda: untouched(submission, name, *encoded, shape), f"{name}: {when}", thought)
    if isinstance(back, Tensor) and back.shape == x.T.shape != x.shape:
        fail(
            f"{name} gave a matrix of shape {tuple(back.shape)}, and the shape handed over was {shape}: rows first"
        )
    expect_decoded(back, x, f"{name}, {when},")


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
    "one bit for the column where there is only one column: what could it tell apart?": (
        sized(column=lambda R, C, kept: max(1, (C - 1).bit_length()))
    ),
    "an entry of ROW_INDEX is one bit short: it goes from 0 to the number of values, both included": (
        sized(entry=lambda R, C, kept: max(0, kept - 1).bit_length())
    ),
    "a column has one bit too many: the largest is C - 1": sized(column=lambda R, C, kept: C.bit_length()),
    "a column has one bit too many and an entry of ROW_INDEX too few: which is the largest number of each?": sized(
        column=lambda R, C, kept: C.bit_length(), entry=lambda R, C, kept: max(0, kept - 1).bit_length()
    ),
}  # fmt: skip
OF_PARTS: Wrong = {
    "the columns are missing: each value has one": sized(column=lambda R, C, kept: 0),
    "the columns have the width of a position in the whole matrix: a column is one of C": (
        sized(column=lambda R, C, kept: (R * C - 1).bit_length())
    ),
    "the columns have the width of a row: a column is one of C": sized(column=lambda R, C, kept: (R - 1).bit_length()),
    "an entry of ROW_INDEX got the width of a column: it counts values. How large does it get?": (
        sized(entry=lambda R, C, kept: (C - 1).bit_length())
    ),
    "an entry of ROW_INDEX was made to tell rows apart: it counts values": sized(entry=lambda R, C, kept: (R - 1).bit_length()),
    "ROW_INDEX was counted with R entries: there is one more": sized(entries=lambda R, C, kept: R),
    "ROW_INDEX is missing": sized(entries=lambda R, C, kept: 0),
    "a row was counted for every value: CSR has one entry for each row instead": sized(
        column=lambda R, C, kept: (C - 1).bit_length() + (R - 1).bit_length(), entries=lambda R, C, kept: 0
    ),
    "that is CSC": sized(column=lambda R, C, kept: (R - 1).bit_length(), entries=lambda R, C, kept: C + 1),
    "indices and pointers of 64 bits, as PyTorch keeps them: how many are needed?": (
        sized(column=lambda R, C, kept: 64, entry=lambda R, C, kept: 64)
    ),
    "indices and pointers of 32 bits: how many are needed?": sized(column=lambda R, C, kept: 32, entry=lambda R, C, kept: 32),
    "fractions of bits: round each width up": (
        sized(column=lambda R, C, kept: math.log2(C), entry=lambda R, C, kept: math.log2(kept + 1))
    ),
    "32 bits a value, although another n was asked for": lambda x2d, n=32: reference.csr_bits(x2d),
    "bytes, it seems: the name says bits": lambda x2d, n=32: reference.csr_bits(x2d, n) / 8,
    "the entries of ROW_INDEX were counted with n bits: they are counts, not values. How large do they get?": (
        lambda x2d, n=32: sized(entry=lambda R, C, kept: n)(x2d, n)
    ),
}  # fmt: skip
WRONG["csr_bits"] = OF_PARTS | WIDTHS


@question(
    "0.7", points=0.5, claim="bits: a value and a column each, and a count that fits for every row"
)
def test_csr_bits(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, int]:
        n = draw.integer(4, 20)
        R, C = shuffled(draw, [draw.choice([5, 7]), draw.choice([17, 23, 31])])
        kept = draw.choice([9, 11, 13, 15])  # 4 bits, where rows and columns have 3 and 5
        return figures(draw, R, C, sparsity=1 - kept / (R * C)), n

    expect_bits(submission, "csr_bits", OF_PARTS, case, "32 bits a value")
    n, k = draw.integer(4, 20), draw.integer(2, 4)
    x = torch.zeros(draw.integer(3, 6), 2**k)
    x.view(-1)[draw.permutation(x.numel())[: 2**k]] = 1  # 2^k values among 2^k columns
    one = draw.normal(len(x), 1)
    for y, what in (
        (x, f"{2**k} values in {len(x)} rows and {2**k} columns"),
        (one, f"{len(x)} values in one column"),
    ):
        mistakes = apply_each(WIDTHS, y, n)
        right = reference.csr_bits(y, n)
        expect_count(submission.csr_bits(y, n), f"csr_bits of {what}, n = {n},", right, mistakes)


# --- 0.8, 0.9: values -----------------------------------------------------------------


def percentage(submission: Submission) -> float:
    """Answer 0.8b, if it is a sparsity in %."""
    form = "no sparsity in %: that lies between 1 and 100, and is no fraction"
    return expect_typed(submission, "answer_0_8b", (1, 100), form)


@question(
    "0.8", points=0, claim="the form: a is one of the letters, b is in %; the grader looks at both"
)
def test_a_letter_and_a_percentage(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_0_8a", 5, {})
    percentage(submission)


def whole_bits(submission: Submission) -> float:
    """Answer 0.9a, if it can be a size in bits."""
    need = expect_typed(submission, "answer_0_9a")
    if not (need > 0 and need % 1 == 0):
        fail(f"{need:.10g} is no number of bits: they are counted, and the count is exact")
    return need


def times_fewer(submission: Submission) -> float:
    """Answer 0.9b, if it can be a saving."""
    form = "no saving, in times fewer. Is it the share of MACs that is left, or that is saved?"
    return expect_typed(submission, "answer_0_9b", (1 + 1e-9, math.inf), form)


@question(
    "0.9", points=0, claim="the form: a is in bits, b in times fewer; the grader looks at both"
)
def test_two_numbers(submission: Submission, draw: Draw) -> None:
    whole_bits(submission)
    times_fewer(submission)
