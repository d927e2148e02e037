"""Lab 00, counting cost and storing zeros: what is claimed of each answer, and what its
likely mistakes look like.

Inputs are drawn anew for every grading, and so that the usual mistakes give other
results than the right answer: H and W, R and S, rows and columns differ, lengths are no
powers of two (or are, where that is the point), zeros stand at both ends.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import combinations
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
    expect_number,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims import mistakes as known
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab00 as reference

# --- recognising a mistake by its result ----------------------------------------------

Mistakes = dict[str, Any]  # what the student should think of -> what the code returns then
Claims = dict[str, tuple[Any, Mistakes]]  # by the name of a result: the right one, and the mistakes


def telling(case: Callable[[], tuple[Any, Claims]]) -> tuple[Any, Claims]:
    """A drawn case in which the right results and those of all mistakes differ from one
    another.

    A case takes a few draws. If none of 200 were to do, the one with the fewest results
    alike is as good for a right answer.
    """
    best: tuple[int, tuple[Any, Claims]] | None = None
    for _ in range(200):
        drawn, claims = case()
        pairs = [
            two
            for right, wrong in claims.values()
            for two in combinations((right, *wrong.values()), 2)
        ]
        alike = sum(same(*two) for two in pairs)
        if best is None or alike < best[0]:
            best = alike, (drawn, claims)
        if not alike:
            break
    assert best is not None
    return best[1]


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


def expect_counts(result: Any, call: str, claims: Claims, keys: list[str]) -> None:
    """A dict with ``keys``, in which the counts of ``claims`` are right."""
    expect_keys(result, keys, f"the result of {call}")
    for key, (right, mistakes) in claims.items():
        expect_count(result[key], f"{call}[{key!r}]", right, mistakes)


recognise = functools.partial(known.recognise, alike=same)


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


def places(H: int, W: int, R: int, S: int, stride: int = 1, padding: int = 0) -> tuple[int, int]:
    """E and F."""
    return (H + 2 * padding - R) // stride + 1, (W + 2 * padding - S) // stride + 1


def joined(arguments: tuple[int, ...]) -> str:
    return ", ".join(map(str, arguments))


def convolution(draw: Draw) -> tuple[int, ...]:
    """M, C, R, S, H, W, stride, padding, with nothing square."""
    M, C = draw.distinct(2, 2, 6)
    R, S = draw.distinct(2, 2, 5)
    H, W = draw.distinct(2, 15, 60)
    return M, C, R, S, H, W, *draw.choice([(4, 1), (3, 4), (2, 5), (3, 5)])


def misplaced(layer: tuple[int, ...]) -> dict[str, int]:
    """How many places the filter of a convolution has, E · F, by the mistakes that are
    made of it.
    """
    _, _, R, S, H, W, u, p = layer
    E, F = places(H, W, R, S, u, p)
    return {
        "the filter went on by one pixel at a time: where does the stride come in?": math.prod(
            places(H, W, R, S, 1, p)
        ),
        "the padding does not show in it: the filter may begin in the padding": math.prod(
            places(H, W, R, S, u)
        ),
        "neither the stride nor the padding shows in it: what are E and F for these?": math.prod(
            places(H, W, R, S)
        ),
        "the padding was added once: it stands on both sides": ((H + p - R) // u + 1)
        * ((W + p - S) // u + 1),
        "H and W, or R and S, are crossed: the filter's height R moves along the input's height H": (
            math.prod(places(W, H, R, S, u, p))
        ),
        "E was used for both sides: the input is not square": E * E,
        "F was used for both sides: the input is not square": F * F,
        "one place too few in E and in F: the filter's first place counts as well": (E - 1)
        * (F - 1),
        "the + 1 comes after the division by the stride, not before it": (
            ((H + 2 * p - R + 1) // u) * ((W + 2 * p - S + 1) // u)
        ),
        "the division by the stride was rounded up: a place where the filter does not fit completely is none": (
            (-((R - H - 2 * p) // u) + 1) * (-((S - W - 2 * p) // u) + 1)
        ),
    }


@question("0.1", points=0.5, claim="MACs of a convolution: E and F from stride and padding")
def test_macs_of_a_convolution(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Any, Claims]:
        M, C, R, S, H, W, u, p = layer = convolution(draw)
        E, F = places(H, W, R, S, u, p)
        one = M * C * R * S  # MACs at one place
        return layer, {"macs": (one * E * F, {said: one * wrong for said, wrong in misplaced(layer).items()} | {
            "there is one product for every pixel of the input: count the places of the output": one * H * W,
            "the input channels are missing: how many products does one output number sum?": one // C * E * F,
            "the filters are missing: each of them makes an output of its own": one // M * E * F,
            "twice as many: a MAC is one multiplication together with its addition": 2 * one * E * F,
            "the bits per number were multiplied in: MACs are operations": 32 * one * E * F,
            "a bias was counted: there is none here": (one + M) * E * F,
        })}  # fmt: skip

    layer, claims = telling(case)
    expect_counts(submission.conv_cost(*layer), f"conv_cost{layer}", claims, COST)


def sizes_in_bits(count: int, bits: int) -> Mistakes:
    """What becomes of ``count`` numbers of ``bits`` bits where the unit is wrong."""
    return {
        "bytes, it seems: the key's name says which unit": count * bits / 8,
        "how many numbers there are, without the bits of each": count,
        "32 bits a number, although another width was asked for": 32 * count,
    }


@question(
    "0.1", points=0.5, claim="bits of weights, input and output; a linear layer for a whole batch"
)
def test_bits_of_both_layers(submission: Submission, draw: Draw) -> None:
    expect_bits_of_a_convolution(submission, draw)
    expect_linear_cost(submission, draw)


def expect_bits_of_a_convolution(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Any, Claims]:
        bits = draw.choice([4, 12, 16, 24])
        M, C, R, S, H, W, u, p = layer = convolution(draw)
        E, F = places(H, W, R, S, u, p)
        weights, inputs, outputs = M * C * R * S, C * H * W, M * E * F
        return (layer, bits), {
            "weight_bits": (bits * weights, sizes_in_bits(weights, bits) | {
                "the input channels are missing: a filter is C x R x S": bits * M * R * S,
                "the filters are missing: there are M of them": bits * C * R * S,
                "a bias was counted: there is none here": bits * (weights + M),
            }),
            "input_bits": (bits * inputs, sizes_in_bits(inputs, bits) | {
                "the padding was counted: nobody needs to store zeros whose place is known": bits * C * (H + 2 * p) * (W + 2 * p),
                "the channels are missing": bits * H * W,
                "M channels were counted: the input has C": bits * M * H * W,
            }),
            "output_bits": (bits * outputs, sizes_in_bits(outputs, bits) | {
                said: bits * M * wrong for said, wrong in misplaced(layer).items()
            } | {
                "the channels are missing: the output has one for each filter": bits * E * F,
                "C channels were counted: the output has M": bits * C * E * F,
                "the output is not as large as the input: it has one number for each place of the filter": bits * M * H * W,
            }),
        }  # fmt: skip

    (layer, bits), claims = telling(case)
    expect_counts(
        submission.conv_cost(*layer, bits=bits),
        f"conv_cost({joined(layer)}, bits={bits})",
        claims,
        COST,
    )
    six, kernel = layer[:6], math.prod(layer[:4])
    E, F = places(*layer[4:6], *layer[2:4])
    result = submission.conv_cost(*six)
    defaults = {said: kernel * wrong for said, wrong in misplaced((*six, 1, 0)).items()}
    expect_count(
        result["macs"],
        f"conv_cost{six}['macs'], with the defaults stride 1, padding 0,",
        kernel * E * F,
        defaults,
    )
    expect_count(
        result["weight_bits"], f"conv_cost{six}['weight_bits'], with 32 bits a number,", 32 * kernel
    )


def expect_linear_cost(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Any, Claims]:
        bits = draw.choice([4, 12, 16, 24])
        batch, d_in, d_out = layer = tuple(draw.distinct(3, 3, 40))
        return (layer, bits), {
            "macs": (math.prod(layer), {
                "the batch is missing: every row is multiplied with all weights": d_in * d_out,
                "twice as many: a MAC is one multiplication together with its addition": 2 * math.prod(layer),
                "the bits per number were multiplied in: MACs are operations": bits * math.prod(layer),
                "a bias was counted: there is none here": batch * (d_in + 1) * d_out,
            }),
            "weight_bits": (bits * d_in * d_out, sizes_in_bits(d_in * d_out, bits) | {
                "the weights were counted once per row of the batch: all rows share them": bits * math.prod(layer),
                "a bias was counted: there is none here": bits * (d_in + 1) * d_out,
            }),
            "input_bits": (bits * batch * d_in, sizes_in_bits(batch * d_in, bits) | {
                "the batch is missing: every row is an input": bits * d_in,
                "the input's rows have d_in numbers, the output's d_out": bits * batch * d_out,
            }),
            "output_bits": (bits * batch * d_out, sizes_in_bits(batch * d_out, bits) | {
                "the batch is missing: every row has an output": bits * d_out,
                "the input's rows have d_in numbers, the output's d_out": bits * batch * d_in,
            }),
        }  # fmt: skip

    (layer, bits), claims = telling(case)
    expect_counts(
        submission.linear_cost(*layer, bits=bits),
        f"linear_cost({joined(layer)}, bits={bits})",
        claims,
        COST,
    )


# --- 0.2 transformer_macs -------------------------------------------------------------

PARTS = ["projections", "attention", "ffn", "total", "scores"]


def expect_part(
    submission: Submission, draw: Draw, part: str, claim: Callable[..., tuple[int, Mistakes]]
) -> None:
    """One of PARTS is right for B, L, E, heads that are drawn such that no two mistakes
    look alike.
    """

    def case() -> tuple[Any, Claims]:
        heads = draw.integer(3, 5)
        # B, L, E, heads
        layer = (draw.integer(3, 6), draw.integer(7, 30), heads * draw.integer(2, 7), heads)
        return layer, {part: claim(*layer)}

    layer, claims = telling(case)
    expect_counts(submission.transformer_macs(*layer), f"transformer_macs{layer}", claims, PARTS)


@question(
    "0.2",
    points=0.5,
    claim="projections and FFN, token by token; total is the sum of all three parts",
)
def test_matrices(submission: Submission, draw: Draw) -> None:
    def projections(B: int, L: int, E: int, heads: int) -> tuple[int, Mistakes]:
        right = 4 * B * L * E**2
        return right, shared(right, B, L, E, heads) | {
            "that makes three matrices: which one comes after the heads?": 3 * B * L * E**2,
            "that makes one matrix: how many are there?": B * L * E**2,
        }  # fmt: skip

    def ffn(B: int, L: int, E: int, heads: int) -> tuple[int, Mistakes]:
        right = 8 * B * L * E**2
        return right, shared(right, B, L, E, heads) | {
            "that is one matrix of the FFN: it goes from E to 4E, and back again": right // 2,
            "the FFN is wider than E in the middle": right // 4,
        }  # fmt: skip

    def shared(right: int, B: int, L: int, E: int, heads: int) -> Mistakes:
        return {
            "L² does not belong here: only attention compares tokens with tokens, matrices take them one by one": right * L,
            "L² does not belong here, E² does: a matrix takes the tokens one by one": right // E * L,
            "the batch is missing": right // B,
            "the heads were multiplied in: they share the E columns, they do not each have E": right * heads,
            "the heads were divided out: all heads together use all E columns": right // heads,
            "E² is missing: the matrices have E rows and E (or 4E) columns": right // E,
            "twice as many: a MAC is one multiplication together with its addition": 2 * right,
        }  # fmt: skip

    expect_part(submission, draw, "projections", projections)
    expect_part(submission, draw, "ffn", ffn)
    heads = draw.integer(2, 5)
    expect_total(
        submission, draw.integer(2, 5), draw.integer(5, 30), heads * draw.integer(2, 6), heads
    )


def expect_total(submission: Submission, B: int, L: int, E: int, heads: int = 1) -> tuple[int, ...]:
    """total is the sum of the three parts, whatever these are. Returns projections,
    attention, ffn and scores.
    """
    layer = (B, L, E, heads) if heads > 1 else (B, L, E)
    cost = submission.transformer_macs(*layer)
    call = f"transformer_macs{layer}"
    expect_keys(cost, PARTS, f"the result of {call}")
    p, a, f, s = (
        expect_int(cost[part], f"{call}[{part!r}]")
        for part in ("projections", "attention", "ffn", "scores")
    )
    expect_count(cost["total"], f"{call}['total']", p + a + f, {
        "the scores were added in: they are numbers that go through the softmax, not MACs": p + a + f + s,
        "the FFN is missing in it": p + a,
        "attention is missing in it": p + f,
        "the projections are missing in it": a + f,
    })  # fmt: skip
    return p, a, f, s


@question(
    "0.2", points=0.5, claim="attention: two products of all pairs; scores: all pairs of each head"
)
def test_attention_and_scores(submission: Submission, draw: Draw) -> None:
    def attention(B: int, L: int, E: int, heads: int) -> tuple[int, Mistakes]:
        right = 2 * B * L**2 * E
        return right, {
            "a factor of heads too many: each head compares all pairs, but how many columns does it have for that?": right * heads,
            "a factor of heads too few: that is the work of a single head": right // heads,
            "only one of the two products: the values are weighted, too": right // 2,
            "tokens of different sentences were compared: pairs are formed within a sentence": right * B,
            "the batch is missing": right // B,
            "L² is missing: every token is compared with every token of its sentence": right // L,
            "E² does not belong here: comparing two tokens takes one product of vectors, not a matrix": right * E,
            "L and E are exchanged: which of the two is squared where tokens meet tokens?": 2 * B * L * E**2,
            "E is missing: these are pairs. How many MACs does it take to compare one?": right // E,
            "twice as many: a MAC is one multiplication together with its addition": right * 2,
        }  # fmt: skip

    def scores(B: int, L: int, E: int, heads: int) -> tuple[int, Mistakes]:
        right = B * heads * L**2
        return right, {
            "the heads are missing: each of them has a softmax of its own": right // heads,
            "the batch is missing": right // B,
            "L² is missing: there is one score for every pair": right // L,
            "tokens of different sentences were paired": right * B,
            "scores are numbers, not MACs: E does not belong here": right * E,
            "scores are numbers, not MACs: the size of a head does not belong here": right * E // heads,
            "twice as many: the second product uses the scores, it makes none": right * 2,
        }  # fmt: skip

    expect_part(submission, draw, "attention", attention)
    expect_part(submission, draw, "scores", scores)


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


def miscounted(w: Tensor, x: Tensor, stride: int = 1, padding: int = 0) -> tuple[int, Mistakes]:
    """How many products have two non-zero operands, and what mistakes make of it."""

    def count(w: Tensor, x: Tensor) -> int:
        return reference.nonzero_macs(w, x, stride, padding)

    some_w, some_x = torch.ones_like(w), torch.ones_like(x)
    right, all_products = count(w, x), count(some_w, some_x)
    density = float((w != 0).double().mean() * (x != 0).double().mean())
    outputs = x @ w.T if w.ndim == 2 else F.conv2d(x, w, stride=stride, padding=padding)
    return right, {
        "that is (1-p)(1-q) times the products, what zeros at random places give on average: count these zeros, where they are": (
            density * all_products
        ),
        "every product was counted, with zeros or without": all_products,
        "only zeros among the weights were left out: a zero input spares a product, too": count(w, some_x),
        "only zeros in the input were left out: a zero weight spares a product, too": count(some_w, x),
        "the products with a zero in them were counted, it seems: those without one are asked for": all_products - right,
        "a product was counted where only one of the two is non-zero: both have to be": (
            count(w, some_x) + count(some_w, x) - right
        ),
        "negative numbers were left out: they are not zero either": count((w > 0).float(), (x > 0).float()),
        "only the first sample of the batch was counted": count(w, x[:1]),
        "that is the mean over the batch: count the whole batch": right / len(x),
        "twice as many: a MAC is one multiplication together with its addition": 2 * right,
        "outputs that are not zero were counted: each of them is a sum of many products": int(outputs.count_nonzero()),
    }  # fmt: skip


@question("0.3", points=0.5, claim="a linear layer: products with two non-zero operands")
def test_nonzero_macs_of_a_linear_layer(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Any, Claims]:
        d_in, d_out, batch = draw.distinct(3, 3, 12)
        w, x = lumpy(draw, d_out, d_in), lumpy(draw, batch, d_in)
        return (w, x), {"count": miscounted(w, x)}

    (w, x), claims = telling(case)
    what = f"nonzero_macs for a weight {tuple(w.shape)} and an input {tuple(x.shape)}"
    expect_count(submission.nonzero_macs(w, x), what, *claims["count"])


@question(
    "0.3", points=0.5, claim="a convolution, at every place of the filter and over the whole batch"
)
def test_nonzero_macs_of_a_convolution(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Any, Claims]:
        M, C, R, S, H, W, _, _ = convolution(draw)
        w, x = (
            lumpy(draw, min(M, 4), min(C, 3), min(R, 3), min(S, 3)),
            lumpy(draw, 2, min(C, 3), min(H, 7), min(W, 8)),
        )
        return (w, x), {"count": miscounted(w, x)}

    (w, x), claims = telling(case)
    what = f"nonzero_macs for a weight {tuple(w.shape)} and an input {tuple(x.shape)}"
    expect_count(submission.nonzero_macs(w, x), what, *claims["count"])


@question(
    "0.3", points=0.5, claim="the stride leaves places out; products with padding do not count"
)
def test_nonzero_macs_with_padding(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Any, Claims]:
        w, x = (
            lumpy(draw, 3, 2, *draw.distinct(2, 2, 4)),
            lumpy(draw, 2, 2, *draw.distinct(2, 5, 8)),
        )
        stride, padding = draw.distinct(2, 1, 3)
        stride = max(2, stride)
        right, mistakes = miscounted(w, x, stride, padding)
        places_padded = math.prod(places(*x.shape[2:], *w.shape[2:], stride, padding))
        every = len(x) * w.numel() * places_padded
        density = float((w != 0).double().mean() * (x != 0).double().mean())
        return (w, x, stride, padding), {"count": (right, mistakes | {
            "products with padding were counted, as if it held something: it holds zeros": (
                reference.nonzero_macs(w, F.pad(x, [padding] * 4, value=1.0), stride)
            ),
            "that is (1-p)(1-q) times all MACs, what random zeros give on average, and products with padding are among them": (
                density * every
            ),
            "only zeros among the weights were left out, and products with padding were counted": (
                int((w != 0).sum()) * len(x) * places_padded
            ),
            "every MAC was counted, also those with padding": every,
            "the filter went on by one pixel at a time: where does the stride come in?": reference.nonzero_macs(w, x, 1, padding),
            "the padding was left away: with it, the filter stands at more places": reference.nonzero_macs(w, x, stride),
            "neither the stride nor the padding shows in it": reference.nonzero_macs(w, x),
        })}  # fmt: skip

    (w, x, stride, padding), claims = telling(case)
    what = f"nonzero_macs for a weight {tuple(w.shape)} and an input {tuple(x.shape)}, stride {stride}, padding {padding},"
    expect_count(submission.nonzero_macs(w, x, stride, padding), what, *claims["count"])


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
    x = figures(draw, draw.integer(3, 4), draw.integer(5, 6))
    right_map, right_values = reference.bitmap_encode(x)
    encoded = submission.bitmap_encode(x)
    expect_length(encoded, 2, "the result of bitmap_encode", tuple)
    bitmap, values = as_bitmap(encoded[0], x), as_values(encoded[1], x)
    recognise(bitmap, right_map, {
        "the map is upside down: True means that there is a value": ~right_map,
        "negative numbers are marked as zeros: only what equals 0 is one": x > 0,
    })  # fmt: skip
    expect_equal(bitmap, right_map, "the map")
    recognise(values, right_values, {
        "values holds all elements of x: a zero is not stored, the map says where it is": x.flatten(),
        "the values stand column by column: row-major means that a row comes after the other": x.T[x.T != 0],
        "the signs are lost: the values are those of x": right_values.abs(),
        "values is sorted: the order tells where they belong": right_values.sort().values,
    })  # fmt: skip
    expect_values(values, right_values, x)
    back = submission.bitmap_decode(right_map, right_values)
    wrong = torch.zeros_like(x)
    wrong.T[right_map.T] = right_values
    expect_decoded(
        back, x, "bitmap_decode", {"bitmap_decode filled the places column by column": wrong}
    )


@question("0.4", points=0.5, claim="bits: n for each value, and the map")
def test_bitmap_bits(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Any, Claims]:
        n = draw.integer(4, 20)
        x = figures(draw, draw.integer(3, 9), draw.integer(5, 9), sparsity=draw.number(0.3, 0.8))
        L, kept = x.numel(), int((x != 0).sum())
        return (x, n), {"bits": (kept * n + L, {
            "the map was forgotten: someone must know where the values belong": kept * n,
            "the map has one bit for each place, for the zeros as well": kept * n + kept,
            "the map was counted with n bits a place: what does a yes or no take?": kept * n + L * n,
            "a bool of PyTorch takes a byte, but a bit is enough": kept * n + 8 * L,
            "every element was counted with n bits: only values are stored": L * n + L,
            "that is the size of the zeros: the values are stored": (L - kept) * n + L,
            "that is the dense tensor": L * n,
            "32 bits a value, although another n was asked for": kept * 32 + L,
            "bytes, it seems: the name says bits": (kept * n + L) / 8,
        })}  # fmt: skip

    (x, n), claims = telling(case)
    expect_count(
        submission.bitmap_bits(x, n),
        f"bitmap_bits(x of shape {tuple(x.shape)}, {n})",
        *claims["bits"],
    )
    right = reference.bitmap_bits(x)
    expect_count(
        submission.bitmap_bits(x), "bitmap_bits(x), with 32 bits a value by default,", right
    )


# --- 0.5 run lengths ------------------------------------------------------------------


def stream(draw: Draw, gaps: list[int], tail: int = 0) -> Tensor:
    """For every gap as many zeros and then a value; at the end ``tail`` zeros."""
    values = draw.tied(len(gaps), levels=9).tolist()
    return torch.tensor(
        [n for gap, v in zip(gaps, values, strict=True) for n in (*[0.0] * gap, v)] + [0.0] * tail
    )


def shuffled(draw: Draw, items: list[int]) -> list[int]:
    return [items[i] for i in draw.permutation(len(items)).tolist()]


Runs = Callable[[int], list[int]]  # zeros -> the runs of the pairs that are written for them


def written(x: Tensor, before: Runs, after: Runs) -> tuple[Tensor, Tensor]:
    """Runs and values where ``before`` says what is written for zeros before a value,
    ``after`` for those at the end.
    """
    index, values, _ = reference.coo_encode(x)
    ends = [-1, *index.tolist(), x.numel()]
    *gaps, tail = [b - a - 1 for a, b in zip(ends, ends[1:], strict=False)]
    runs: list[int] = []
    said: list[float] = []
    for gap, value in zip(gaps, values.tolist(), strict=True):
        runs += before(gap)
        said += [0.0] * (len(runs) - len(said) - 1) + [value]
    runs += after(tail) if tail else []
    said += [0.0] * (len(runs) - len(said))
    return torch.tensor(runs, dtype=torch.int64), torch.tensor(said, dtype=x.dtype)


def misread_runs(x: Tensor, k: int) -> Mistakes:
    """What mistakes make of the zeros in x."""
    full, most = 2**k, 2**k - 1

    def right(gap: int) -> list[int]:
        return [most] * (gap // full) + [gap % full]

    def once_more(gap: int) -> list[int]:
        fillers = max(0, gap - 1) // most
        return [most] * fillers + [gap - most * fillers]

    def too_early(gap: int) -> list[int]:
        return [most] * (gap // most) + [gap % most]

    def at_the_end(runs: Runs) -> Runs:
        return lambda zeros: runs(zeros)[:-1] + [rest - 1 for rest in runs(zeros)[-1:] if rest]

    tail = at_the_end(right)
    index, values, _ = reference.coo_encode(x)
    behind = torch.tensor([*index.tolist(), x.numel()]).diff() - 1
    runs, said, _ = reference.rle_encode(x, k)
    early = f"a filler ({most}, 0) was written as soon as {most} zero{'s' * (most > 1)} had come: which element is its value?"
    lost = "the zeros at the end are lost: no value comes behind them, but the decoder must know of them"
    return {
        "the pair (0, 0) at the end adds a zero that x does not have: the pair before it has taken the last one": (
            torch.cat([runs, runs.new_zeros(1)]),
            torch.cat([said, said.new_zeros(1)]),
        ),
        f"the count behind a filler ({most}, 0) takes a zero once more that was the filler's value": (
            written(x, once_more, at_the_end(once_more))
        ),
        early: written(x, too_early, at_the_end(too_early)),
        early + " The same at the end": written(x, too_early, too_early),
        f"a run longer than {most} was cut off, and zeros are lost: which pair stands for the rest?": (
            written(x, lambda gap: [min(gap, most)], lambda zeros: [min(zeros - 1, most)])
        ),
        f"a run longer than {most} wrapped around, and zeros are lost: which pair stands for the rest?": (
            written(x, lambda gap: [gap % full], lambda zeros: [(zeros - 1) % full])
        ),
        lost: written(x, right, lambda zeros: []),
        lost + ", also of those that need no filler": written(
            x, right, lambda zeros: right(zeros)[:-1]
        ),
        "the zeros at the end became one too many: in a pair (r, 0) the value is one of them": written(
            x, right, right
        ),
        "the runs count the zeros behind each value: in a pair the zeros come first": (
            behind,
            values,
        ),
        "the runs are one too large: they count the zeros between, not the steps from one value to the next": (
            written(
                x,
                lambda gap: [r + 1 for r in right(gap)],
                lambda zeros: [r + 1 for r in tail(zeros)],
            )
        ),
        "the runs hold positions: they count the zeros in front of each value": (index, values),
    }


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
    *right, _ = reference.rle_encode(x, k)
    if same((runs, values), tuple(right)):
        return
    most = 2**k - 1
    said = (
        f"x = {text(x)} became {pairs_text(runs, values)}: "
        if x.numel() <= 40
        else f"with {k}-bit runs: "
    )
    by_columns = reference.rle_encode(x.permute(*reversed(range(x.ndim))), k)[:2]
    by_rows = "x was read column by column: row-major means that one row comes after the other"
    recognise((runs, values), tuple(right), {by_rows: by_columns} | misread_runs(x, k), said)
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

    def case() -> tuple[Any, Claims]:
        n = draw.choice([5, 8, 12, 16])
        gaps = [draw.integer(0, full - 1) for _ in range(draw.integer(4, 8))]
        gaps += [draw.integer(full + 1, 2 * full - 1), draw.integer(2 * full + 1, 3 * full - 1)]
        x = stream(draw, shuffled(draw, gaps), tail=draw.integer(1, full - 1))
        kept, pairs = len(gaps), len(reference.rle_encode(x, k)[0])
        fillers = pairs - kept - 1
        p = 1 - kept / x.numel()
        return (x, n), {"bits": (pairs * (n + k), {
            "the bits of the runs are missing: a pair is a run and a value": pairs * n,
            "fillers were left out: each is stored like any other pair": (pairs - fillers) * (n + k),
            "fillers were counted without their run: each is stored like any other pair": pairs * n + (pairs - fillers) * k,
            "fillers were counted without their value: the decoder cannot know which pairs are fillers": (
                (pairs - fillers) * n + pairs * k
            ),
            "the pair for the zeros at the end is missing": (pairs - 1) * (n + k),
            "fillers and the pair for the zeros at the end are missing: each is stored like any other pair": kept * (n + k),
            "the zeros in the pairs were counted as free: each value takes n bits, 0 as well": kept * n + pairs * k,
            "two bits a run, although another width was asked for": pairs * (n + 2),
            "pairs for runs of 2 bits, although another width was asked for": len(reference.rle_encode(x)[0]) * (n + k),
            "runs of 2 bits, although another width was asked for": reference.rle_bits(x, n),
            "32 bits a value, although another n was asked for": pairs * (32 + k),
            "a run takes 2^k bits, it seems: how many bits has a number below 2^k?": pairs * (n + full),
            "that is the formula, what zeros at random places give on average: count the pairs": (
                x.numel() * (1 - p) / (1 - p**full) * (n + k)
            ),
            "bytes, it seems: the name says bits": pairs * (n + k) / 8,
        })}  # fmt: skip

    (x, n), claims = telling(case)
    expect_count(
        submission.rle_bits(x, n, k),
        f"rle_bits(x, {n}, {k}) for {x.numel()} elements",
        *claims["bits"],
    )
    default = reference.rle_bits(x)
    expect_count(
        submission.rle_bits(x), "rle_bits(x), with n = 32 and run_bits = 2 by default,", default
    )


# --- 0.6 coordinates ------------------------------------------------------------------


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
    x = figures(draw, 2, draw.integer(3, 4), draw.integer(5, 6))
    encoded = submission.coo_encode(x)
    index, values = as_coordinates(encoded, x)
    right, right_values, shape = reference.coo_encode(x)
    columns = x.permute(2, 1, 0)
    recognise(index, right, {
        "the positions count column by column: row-major means that a row comes after the other": reference.coo_encode(columns)[0],
        "the positions are those of the zeros": (x.flatten() == 0).nonzero().flatten(),
        "negative numbers are missing: only what equals 0 is a zero": (x.flatten() > 0).nonzero().flatten(),
        "the positions count from 1": right + 1,
        "the index holds the steps from one value to the next: positions are asked for": right.diff(prepend=right[:1] * 0),
        "the index holds the place in the last row only: the flattened tensor has one number for each place": right % x.shape[-1],
    })  # fmt: skip
    expect_equal(index, right, "the index")
    expect_values(values, right_values, x)
    wrong = torch.zeros_like(columns).flatten()
    wrong[right] = right_values
    expect_decoded(submission.coo_decode(right, right_values, shape), x, "coo_decode", {
        "coo_decode counted the positions column by column": wrong.view(columns.shape).permute(2, 1, 0)
    })  # fmt: skip


@question("0.6", points=0.5, claim="bits: a value and a whole number of address bits each")
def test_coo_bits(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Any, Claims]:
        n = draw.integer(4, 20)
        x = figures(
            draw, *shuffled(draw, [5, 3, draw.choice([5, 9]), 3]), sparsity=draw.number(0.8, 0.9)
        )
        L, kept = x.numel(), int((x != 0).sum())
        width = (L - 1).bit_length()
        return (x, n), {"bits": (kept * (n + width), {
            "the addresses are missing: each value needs one": kept * n,
            "an address with a fraction of a bit: where must it be rounded, and in which direction?": kept * (n + math.log2(L)),
            "each address is a bit too short: rounded down, they do not reach the last place": kept * (n + width - 1),
            "each address is a bit too long: which is the largest, when they begin at 0?": kept * (n + width + 1),
            "one address for all: each value needs its own": kept * n + width,
            "an address of one number per dimension: it is one position in the flattened tensor": (
                kept * (n + sum((size - 1).bit_length() for size in x.shape))
            ),
            "addresses of 64 bits, as PyTorch keeps them: how many does it take among L places?": kept * (n + 64),
            "addresses of 32 bits: how many does it take among L places?": kept * (n + 32),
            "the zeros got an address, too": L * (n + width),
            "that is a bitmap: here each value has an address": kept * n + L,
            "the addresses are as wide as for as many places as there are values: they go over all L places": (
                kept * (n + (kept - 1).bit_length())
            ),
            "L bits an address: log₂ is missing": kept * (n + L),
            "32 bits a value, although another n was asked for": kept * (32 + width),
            "bytes, it seems: the name says bits": kept * (n + width) / 8,
        })}  # fmt: skip

    (x, n), claims = telling(case)
    expect_count(
        submission.coo_bits(x, n), f"coo_bits(x of shape {tuple(x.shape)}, {n})", *claims["bits"]
    )
    right = reference.coo_bits(x)
    expect_count(submission.coo_bits(x), "coo_bits(x), with 32 bits a value by default,", right)


# --- 0.7 CSR and CSC ------------------------------------------------------------------

LECTURE = torch.tensor(
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


def misread_lines(x: Tensor, line: str) -> Mistakes:
    """What mistakes make of the pointers to the rows of x (which are columns, if x is a
    transpose).
    """
    _, _, pointer = reference.csr_encode(x)
    counts = pointer.diff()
    adding_up = (
        f"the numbers are not added up: an entry says how many values come before its {line}"
    )
    return {
        adding_up: counts,
        adding_up + ", and it is 0 for the first": torch.cat([pointer[:1], counts]),
        f"the last entry is missing: where does the last {line} end?": pointer[:-1],
        f"the first entry is missing: where does the first {line} begin?": pointer[1:],
        f"that is the {line} of each value, as in coordinates: one entry for each {line} is enough": (
            torch.arange(len(x)).repeat_interleave(counts)
        ),
        "the entries count from 1": pointer + 1,
        "the entries count places, zeros and all: they count values": torch.arange(len(x) + 1)
        * x.shape[1],
    }


def expect_compressed(
    encoded: Any, x: Tensor, names: tuple[str, ...], lines: tuple[str, str], said: str
) -> None:
    """The three arrays of CSR for the rows of x. For CSC give the transpose, and CSC's
    names.
    """
    line, across = lines
    expect_length(encoded, 3, f"{said}the result", tuple)
    v, index, pointer = (
        as_values(encoded[0], x),
        as_index(encoded[1], x, names[1]),
        as_index(encoded[2], x, names[2]),
    )
    _, right_index, right_pointer = right = reference.csr_encode(x)
    if len(v) != len(right[0]):
        negative = len(v) == int((x > 0).sum())
        thought = ": negative numbers are missing, only what equals 0 is a zero" if negative else ""
        fail(f"{said}{names[0]} has {len(v)} values, but {len(right[0])} are not zero{thought}")
    recognise((v, index, pointer), right, {
        f"these are the arrays of the other one of CSR and CSC: here the values stand {line} by {line}": reference.csr_encode(x.T),
        f"the last two arrays are exchanged: first the {across} of each value, then the entries for the {line}s": (
            right[0], right_pointer, right_index
        ),
    }, said)  # fmt: skip
    recognise(v, right[0], {
        f"the values stand {across} by {across}, here they go {line} by {line}": reference.csr_encode(x.T)[0]
    }, f"{said}{names[0]}: ")  # fmt: skip
    recognise(index, right_index, {
        f"these are positions in the flattened matrix: the {across} alone is asked for": reference.coo_encode(x)[0],
        f"these are the {line}s of the values: which {across} is each in?": (
            torch.arange(len(x)).repeat_interleave(right_pointer.diff())
        ),
        f"the {across}s count from 1": right_index + 1,
    }, f"{said}{names[1]}: ")  # fmt: skip
    recognise(pointer, right_pointer, misread_lines(x, line), f"{said}{names[2]}: ")
    if len(pointer) != len(right_pointer):
        fail(
            f"{said}{names[2]} has {len(pointer)} entries for {len(x)} {line}s: one for where each begins, empty ones too, and the "
            "end"
        )
    for value, other, name in zip((v, index, pointer), right, names, strict=True):
        expect_equal(value, other, f"{said}{name}")


def expect_csr(encoded: Any, x: Tensor, said: str = "") -> None:
    """The three arrays of CSR."""
    expect_compressed(
        encoded, x, ("v", "COL_INDEX", "ROW_INDEX"), ("row", "column"), said or f"{show(x)}: "
    )


def expect_csc(encoded: Any, x: Tensor, said: str = "") -> None:
    """The three arrays of CSC."""
    expect_compressed(
        encoded, x.T, ("v", "ROW_INDEX", "COL_POINTER"), ("column", "row"), said or f"{show(x)}: "
    )


@question("0.7", points=0.5, claim="CSR of the lecture's matrix and of another, and back again")
def test_csr_encode(submission: Submission, draw: Draw) -> None:
    expect_csr(submission.csr_encode(LECTURE), LECTURE, "the lecture's matrix: ")
    x = matrix(draw)
    expect_csr(submission.csr_encode(x), x)
    for y in (LECTURE, x):
        expect_back(submission, "csr_decode", reference.csr_encode(y), y)


@question(
    "0.7", points=0.5, claim="CSC: column by column, with the row of each value, and back again"
)
def test_csc_encode(submission: Submission, draw: Draw) -> None:
    matrices = (LECTURE, matrix(draw))
    for x in matrices:
        expect_csc(submission.csc_encode(x), x)
    for x in matrices:
        expect_back(submission, "csc_decode", reference.csc_encode(x), x)


def expect_back(submission: Submission, name: str, encoded: tuple[Tensor, ...], x: Tensor) -> None:
    """The student's decoder ``name`` makes x of its three arrays."""
    shape = tuple(x.shape)
    when, thought = (
        f"for {show(x)}",
        "How many rows are there, how many columns, and how many values?",
    )
    back = ask(lambda: untouched(submission, name, *encoded, shape), f"{name}: {when}", thought)
    if isinstance(back, Tensor) and back.shape == x.T.shape != x.shape:
        fail(
            f"{name} gave a matrix of shape {tuple(back.shape)}, and the shape handed over was {shape}: rows first"
        )
    expect_decoded(back, x, f"{name}, {when},")


@question(
    "0.7", points=0.5, claim="bits: a value and a column each, and a count that fits for every row"
)
def test_csr_bits(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Any, Claims]:
        n = draw.integer(4, 20)
        R, C = shuffled(draw, [draw.choice([5, 7]), draw.choice([17, 23, 31])])
        kept = draw.choice([9, 11, 13, 15])  # 4 bits, where rows and columns have 3 and 5
        x = figures(draw, R, C, sparsity=1 - kept / (R * C))
        column = (C - 1).bit_length()
        entry, pointer = n + column, kept.bit_length()
        return (x, n), {"bits": (kept * entry + (R + 1) * pointer, {
            "the entries of ROW_INDEX were counted with n bits: they are counts, not values. How large do they get?": kept * entry + (R + 1) * n,
            "an entry of ROW_INDEX got the width of a column: it counts values. How large does it get?": kept * entry + (R + 1) * column,
            "ROW_INDEX was counted with R entries: there is one more": kept * entry + R * pointer,
            "ROW_INDEX is missing": kept * entry,
            "the columns are missing: each value has one": kept * n + (R + 1) * pointer,
            "an entry of ROW_INDEX was made to tell rows apart: it counts values": kept * entry + (R + 1) * (R - 1).bit_length(),
            "a row was counted for every value: CSR has one entry for each row instead": kept * (entry + (R - 1).bit_length()),
            "the columns have the width of a position in the whole matrix: a column is one of C": (
                kept * (n + (R * C - 1).bit_length()) + (R + 1) * pointer
            ),
            "the columns have the width of a row: a column is one of C": kept * (n + (R - 1).bit_length()) + (R + 1) * pointer,
            "that is CSC": kept * (n + (R - 1).bit_length()) + (C + 1) * pointer,
            "indices and pointers of 64 bits, as PyTorch keeps them: how many are needed?": kept * (n + 64) + (R + 1) * 64,
            "indices and pointers of 32 bits: how many are needed?": kept * (n + 32) + (R + 1) * 32,
            "fractions of bits: round each width up": kept * (n + math.log2(C)) + (R + 1) * math.log2(kept + 1),
            "32 bits a value, although another n was asked for": kept * (32 + column) + (R + 1) * pointer,
            "bytes, it seems: the name says bits": (kept * entry + (R + 1) * pointer) / 8,
        })}  # fmt: skip

    (x, n), claims = telling(case)
    expect_count(
        submission.csr_bits(x, n), f"csr_bits(x of shape {tuple(x.shape)}, {n})", *claims["bits"]
    )
    right = reference.csr_bits(x)
    expect_count(submission.csr_bits(x), "csr_bits(x), with 32 bits a value by default,", right)
    k = draw.integer(2, 4)
    x = torch.zeros(draw.integer(3, 6), 2**k)
    x.view(-1)[draw.permutation(x.numel())[: 2**k]] = 1  # 2^k values among 2^k columns
    R, entry = len(x), n + k
    what = f"csr_bits of {2**k} values in {R} rows and {2**k} columns, n = {n},"
    expect_count(submission.csr_bits(x, n), what, 2**k * entry + (R + 1) * (k + 1), {
        "an entry of ROW_INDEX is one bit short: it goes from 0 to the number of values, both included": 2**k * entry + (R + 1) * k,
        "a column has one bit too many: the largest is C - 1": 2**k * (entry + 1) + (R + 1) * (k + 1),
        "a column has one bit too many and an entry of ROW_INDEX too few: which is the largest number of each?": (
            2**k * (entry + 1) + (R + 1) * k
        ),
    })  # fmt: skip
    x = draw.normal(R, 1)
    expect_count(submission.csr_bits(x, n), f"csr_bits of {R} values in one column, n = {n},", R * n + (R + 1) * R.bit_length(), {
        "one bit for the column where there is only one column: what could it tell apart?": R * (n + 1) + (R + 1) * R.bit_length()
    })  # fmt: skip


# --- 0.8, 0.9: values -----------------------------------------------------------------


def answer(submission: Submission, name: str) -> float:
    """A number that was typed in."""
    value = submission.value(name)
    if value is ...:
        fail(f"{name} is not answered yet")
    if isinstance(value, str):
        fail(f"{name} is the text {value[:40]!r}: type a number, without quotes and without a unit")
    return expect_number(value, name)


def percentage(submission: Submission) -> float:
    """Answer b, if it is a sparsity in %."""
    percent = answer(submission, "answer_0_8b")
    if 0 < percent < 1:
        fail(f"{percent:g} is a fraction: the answer is asked for in %")
    if not 0 <= percent <= 100:
        fail(f"{percent:g} % is no sparsity")
    return percent


@question(
    "0.8", points=0, claim="the form: a is one of the letters, b is in %; the grader looks at both"
)
def test_a_letter_and_a_percentage(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_0_8a", 5, {})
    percentage(submission)


def whole_bits(submission: Submission) -> float:
    """Answer a, if it can be a size in bits."""
    need = answer(submission, "answer_0_9a")
    if not (need > 0 and need % 1 == 0):
        fail(f"{need:.10g} is no number of bits: they are counted, and the count is exact")
    return need


def times_fewer(submission: Submission) -> float:
    """Answer b, if it can be a saving."""
    times = answer(submission, "answer_0_9b")
    if not times > 1:  # NaN, too
        fail(
            f"{times:g} times fewer would be no saving. Is it the share of MACs that is left, or that is saved?"
        )
    return times


@question(
    "0.9", points=0, claim="the form: a is in bits, b in times fewer; the grader looks at both"
)
def test_two_numbers(submission: Submission, draw: Draw) -> None:
    whole_bits(submission)
    times_fewer(submission)
