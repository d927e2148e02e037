"""Lab 05, between single weights and whole filters: what is claimed of each answer, and
its likely mistakes, each written once as a wrong function.

Inputs are drawn for every grading: n other than m − n, shapes in which every dimension would
do and no two are equal, long blocks with equal sizes, negative numbers, columns that meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    Submission,
    describe,
    expect_close,
    expect_equal,
    expect_gradient,
    expect_int,
    expect_length,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.mistakes import (
    Case,
    Exercises,
    apply_each,
    draw_case,
    draw_discriminating_case,
    near,
    recognise,
)
from course_lib.grading.claims.student import StudentError
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab05 as reference
from course_lib.student_code import plain_data
from course_lib.student_code.plain_data import Ref

Groups = list[list[int]]
PATTERNS = ((1, 4), (3, 4), (1, 3), (2, 6), (1, 2))  # n of m


def blocks_of(x: Tensor, m: int, dim: int) -> Tensor:
    """(blocks, m): the neighbours along dim."""
    return x.movedim(dim, -1).reshape(-1, m)


def in_blocks(x: Tensor, m: int, dim: int, kept: Callable[[Tensor], Tensor]) -> Tensor:
    """``kept(blocks (K, m))`` back in the shape of x."""
    turned = x.movedim(dim, -1)
    return kept(turned.reshape(-1, m)).view(turned.shape).movedim(-1, dim)


def all_but_smallest(score: Tensor, goes: int) -> Tensor:
    """(K, m) -> bool, all but the ``goes`` smallest of each row, of equal ones the
    first.
    """
    order = score.argsort(dim=1, stable=True)[:, :goes]
    return torch.ones_like(score, dtype=torch.bool).scatter(1, order, False)


# --- 5.1 nm_mask ----------------------------------------------------------------------

N_GO = "in each block n weights were pruned: n:m means that n of m weights are *kept* (2:4 does not show the difference)"
STRIDED = "a block was made of every (size/m)-th entry: a block must be m neighbouring entries"
LAST_DIM = "blocks were formed along the last dimension: form them along dim"
FLAT = "the flattened tensor was cut into blocks: entries of one block must differ only in their index along dim"
SIGNED = "signed weights were ranked: keep the weights with the largest |w|"
SMALLEST_STAY = "the smallest weights were kept: keep the weights with the largest |w|"
PER_ROW = "n/m of the whole row were kept, at any position: keep exactly n weights in every block"
UPSIDE_DOWN = "the mask is upside down: True means kept"
NOT_MOVED_BACK = "dim was moved to the end and the result was only reshaped to the weight's shape: move the dimension back to its position"
UNSTABLE = "of some equal |w|, not the one with the lower index was pruned: use prune_lowest, or a sort with stable=True"
LATER_GOES = "among equal |w|, the one with the higher index was pruned: prune the one with the lower index first"
EQUALS_STAY = "all weights that equal the n-th largest were kept: keep exactly n in each block"


def _rule(kept: Callable[[Tensor, int, int], Tensor]) -> Callable[..., Tensor]:
    return lambda w, n, m, dim: in_blocks(w, m, dim, lambda b: kept(b, n, m))


def _strided(w: Tensor, n: int, m: int, dim: int) -> Tensor:
    turned = w.movedim(dim, -1)
    shape = turned.shape
    # every (size/m)-th
    blocks = turned.reshape(-1, m, shape[-1] // m).transpose(1, 2).reshape(-1, m)
    kept = all_but_smallest(blocks.abs(), m - n).reshape(-1, shape[-1] // m, m).transpose(1, 2)
    return kept.reshape(shape).movedim(-1, dim)


def _along_last(w: Tensor, n: int, m: int, dim: int) -> Tensor:
    return (
        reference.nm_mask(w, n, m, -1) if w.shape[-1] % m == 0 else reference.nm_mask(w, n, m, dim)
    )


def _flat(w: Tensor, n: int, m: int, dim: int) -> Tensor:
    return reference.nm_mask(w.reshape(-1), n, m, 0).view(w.shape)


def _per_row(w: Tensor, n: int, m: int, dim: int) -> Tensor:
    size = w.shape[dim]
    return in_blocks(w, size, dim, lambda b: all_but_smallest(b.abs(), size - size // m * n))


def _not_moved_back(w: Tensor, n: int, m: int, dim: int) -> Tensor:
    return all_but_smallest(blocks_of(w, m, dim).abs(), m - n).reshape(w.shape)


WRONG: dict[str, dict[str, Callable[..., Any]]] = {
    "nm_mask": {
        N_GO: _rule(lambda b, n, m: all_but_smallest(b.abs(), n)),
        STRIDED: _strided,
        LAST_DIM: _along_last,
        FLAT: _flat,
        SIGNED: _rule(lambda b, n, m: all_but_smallest(b, m - n)),
        SMALLEST_STAY: _rule(lambda b, n, m: all_but_smallest(-b.abs(), m - n)),
        PER_ROW: _per_row,
        UPSIDE_DOWN: lambda w, n, m, dim: ~reference.nm_mask(w, n, m, dim),
        NOT_MOVED_BACK: _not_moved_back,
        LATER_GOES: _rule(lambda b, n, m: all_but_smallest(b.abs().flip(1), m - n).flip(1)),
        EQUALS_STAY: _rule(
            lambda b, n, m: b.abs() >= b.abs().sort(dim=1, descending=True).values[:, n - 1 : n]
        ),
    }
}
TIED = (LATER_GOES, EQUALS_STAY)  # show only among equal sizes
exercises = Exercises(reference, WRONG)


def expect_nm_mask(
    submission: Submission, w: Tensor, n: int, m: int, dim: int, mistakes: dict[str, Any]
) -> None:
    """The student's mask of w is right; else what is wrong with it."""
    right = reference.nm_mask(w, n, m, dim)
    value = expect_tensor(submission.nm_mask(w, n, m, dim), shape=w.shape, dtype=torch.bool)
    recognise(value, right, mistakes)
    where = f"{n}:{m} of {tuple(w.shape)} along {dim}"
    counts = blocks_of(value, m, dim).sum(1)
    if (counts != n).any():
        fail(
            f"{where}: one block kept {int(counts[counts != n][0])} weights, but each block must keep exactly n = {n}"
        )
    if not torch.equal(value, right):
        kept = (blocks_of(w.abs() * mask, m, dim).sort(dim=1).values for mask in (value, right))
        if torch.equal(*kept):
            fail(f"{where}: {UNSTABLE}")
        fail(f"{where}: each block kept n weights, but not the n largest |w|")


@question("5.1", points=1.5, claim="in every block of m neighbours along dim the n largest stay")
def test_nm_mask(submission: Submission, draw: Draw) -> None:
    n, m = draw.choice(PATTERNS[:4])
    wrong = {
        said: wrong for said, wrong in WRONG["nm_mask"].items() if said not in (FLAT, *TIED)
    }  # FLAT is LAST_DIM, where m divides the last
    odd = draw.normal(2 * m, m + 1)  # here m does not divide the last
    of_odd = {said: w for said, w in WRONG["nm_mask"].items() if said not in TIED}
    expect_nm_mask(submission, odd, n, m, 0, apply_each(of_odd, odd, n, m, 0))
    given, _, mistakes = draw_case(
        lambda: (draw.normal(2 * m, m + 1, 3 * m), n, m, 0), reference.nm_mask, wrong
    )
    expect_nm_mask(submission, *given, mistakes)


@question("5.1", points=0.5, claim="of equal |w| the lower index is pruned first, in long blocks")
def test_nm_mask_ties(submission: Submission, draw: Draw) -> None:
    expect_ties(submission, draw, 31, 80)


def expect_ties(submission: Submission, draw: Draw, n: int, m: int) -> None:
    """Among equal sizes, the first is pruned first. In blocks of more than 64 entries a sort
    that is not stable shows, whatever the draw.
    """
    wrong = {said: wrong for said, wrong in WRONG["nm_mask"].items() if said in TIED}
    given, _, mistakes = draw_case(lambda: (draw.tied(3, 2 * m), n, m, 1), reference.nm_mask, wrong)
    expect_nm_mask(submission, *given, mistakes)


# --- 5.2 combine_columns --------------------------------------------------------------

ADDED = "weights in the same row and group were added: keep the weight with the largest |w| and prune the others"
WITH_SIGN = "the largest signed weight was kept: keep the weight with the largest |w|"
SIGN_LOST = "the sign is lost: rank by |w|, but store the weight with its sign"
PLACE_IN_GROUP = "channel holds the position in the group: it must hold the column of the matrix"
NAMED_NOBODY = (
    "channel contains a column where the group has no weight in that row: it must be −1 there"
)
NEGATIVE_NEVER = (
    "negative weights were never stored: keep the weight with the largest |w|, positive or negative"
)
ALL_KEPT = (
    "mask keeps non-zeros that collide with a larger weight in their row: prune these non-zeros"
)
FIRST_WINS = "the first non-zero weight was kept: keep the weight with the largest |w|"


def thin(draw: Draw, rows: int, columns: int) -> Tensor:
    """A sparse matrix whose columns are of unlike density, some of them empty."""
    w = draw.normal(rows, columns)
    dense = 0.15 + 0.5 * torch.rand(columns, generator=draw.generator)
    w = w.masked_fill(torch.rand(rows, columns, generator=draw.generator) > dense, 0)
    w[:, draw.distinct(2, 0, columns - 1)] = 0
    return w


def tournament(
    w: Tensor,
    groups: Groups,
    score: Callable[[Tensor], Tensor],
    enters: Callable[[Tensor], Tensor] = lambda v: v != 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Combined, the winner of each cell being the highest score among those that enter,
    of equal ones the first of the group.
    """
    packed, channel = torch.zeros(len(w), len(groups)), torch.full((len(w), len(groups)), -1)
    mask = torch.zeros_like(w, dtype=torch.bool)
    for g, group in enumerate(groups):
        for r in range(len(w)):
            there = [c for c in group if enters(w[r, c])]
            if there:
                best = max(there, key=lambda c, r=r: float(score(w[r, c])))
                packed[r, g], channel[r, g], mask[r, best] = w[r, best], best, True
    return packed, channel, mask


def _added(w: Tensor, groups: Groups) -> Any:
    _, channel, mask = reference.combine_columns(w, groups)
    return torch.stack([w[:, group].sum(1) for group in groups], 1), channel, mask


def _sign_lost(w: Tensor, groups: Groups) -> Any:
    packed, channel, mask = reference.combine_columns(w, groups)
    return packed.abs(), channel, mask


def _place(w: Tensor, groups: Groups) -> Any:
    packed, channel, mask = reference.combine_columns(w, groups)
    found = [
        [group.index(c) if c >= 0 else -1 for c in column]
        for group, column in zip(groups, channel.T.tolist(), strict=True)
    ]
    return packed, torch.tensor(found).T, mask


def _all_kept(w: Tensor, groups: Groups) -> Any:
    packed, channel, _ = reference.combine_columns(w, groups)
    mask = torch.zeros_like(w, dtype=torch.bool)
    for group in groups:
        mask[:, group] = w[:, group] != 0
    return packed, channel, mask


def _nobody(w: Tensor, groups: Groups) -> Any:
    packed, channel, mask = reference.combine_columns(w, groups)
    first = torch.tensor([group[0] for group in groups])
    return packed, torch.where(channel < 0, first, channel), mask


WRONG["combine_columns"] = {
    ADDED: _added,
    WITH_SIGN: lambda w, groups: tournament(w, groups, lambda v: v),
    SIGN_LOST: _sign_lost,
    PLACE_IN_GROUP: _place,
    NAMED_NOBODY: _nobody,
    FIRST_WINS: lambda w, groups: tournament(w, groups, torch.zeros_like),
    NEGATIVE_NEVER: lambda w, groups: tournament(w, groups, lambda v: v, lambda v: v > 0),
    ALL_KEPT: _all_kept,
}


def triple(value: Any) -> dict[str, Tensor]:
    return dict(zip(("packed", "channel", "mask"), value, strict=True))


def as_combined(value: Any, w: Tensor, groups: Groups) -> dict[str, Tensor]:
    expect_length(value, 3, "combine_columns(weight, groups)")
    shape = (len(w), len(groups))
    return {
        "packed": expect_tensor(value[0], shape=shape, dtype=w.dtype, what="packed"),
        "channel": expect_tensor(value[1], shape=shape, dtype=torch.int64, what="channel"),
        "mask": expect_tensor(value[2], shape=w.shape, dtype=torch.bool, what="mask"),
    }


@question(
    "5.2",
    points=2,
    claim="in each row of a group the largest |w| stays, and channel says whose it is",
)
def test_combine_columns(submission: Submission, draw: Draw) -> None:
    def grouped() -> tuple[Tensor, Groups]:
        order = draw.permutation(10).tolist()
        return thin(draw, 8, 10), [order[:3], order[3:5], order[5:9]]

    (w, groups), right, mistakes = exercises.draw_case("combine_columns", grouped, view=triple)
    result, after = submission.call("combine_columns", w, groups, returning=(0,))
    unchanged([w], after, "the weight")
    value = as_combined(result, w, groups)
    recognise(value, right, mistakes)
    for name, part in right.items():  # one of three may be wrong, and another with it
        recognise(value[name], part, {said: wrong[name] for said, wrong in mistakes.items()})
        if name == "channel" and (value[name][part < 0] >= 0).any():
            fail(NAMED_NOBODY)
        expect_equal(value[name], part, name)


# --- 5.3 topk_activation, nm_activation -----------------------------------------------

OF_THE_BATCH = (
    "the k·B largest activations of the whole batch were kept: keep k activations of *each* sample"
)
SIGNED_X = "negative activations were ranked below positive ones: keep the activations with the largest |x|"
LAST_ONLY = "k activations of each row of the last dimension were kept: keep k of all activations of a sample"
K_GO = "k activations were removed: k is the number of activations to keep"
MASK_ONLY = "this is the mask: return the activations, with 0 where the mask is False"


def _topk(x: Tensor, k: int) -> Tensor:
    return x * all_but_smallest(x.abs().flatten(1), max(0, x[0].numel() - k)).view(x.shape)


def _batch(x: Tensor, k: int) -> Tensor:
    return x * all_but_smallest(x.abs().reshape(1, -1), max(0, x.numel() - k * len(x))).view(
        x.shape
    )


def _last(x: Tensor, k: int) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])
    return x * all_but_smallest(flat.abs(), max(0, x.shape[-1] - k)).view(x.shape)


WRONG["topk_activation"] = {
    OF_THE_BATCH: _batch,
    SIGNED_X: lambda x, k: (
        x * all_but_smallest(x.flatten(1), max(0, x[0].numel() - k)).view(x.shape)
    ),
    LAST_ONLY: _last,
    K_GO: lambda x, k: _topk(x, x[0].numel() - k),
    MASK_ONLY: lambda x, k: (_topk(x, k) != 0).to(x.dtype),
}


@question("5.3", points=0.5, claim="topk_activation: of each sample the k largest |x|")
def test_topk(submission: Submission, draw: Draw) -> None:
    def maps() -> tuple[Tensor, int]:
        x = draw.normal(3, 2, 3, 4) * draw.sizes(3, 0.3, 3.0).float()[:, None, None, None]
        return x, draw.integer(3, 9)

    (x, k), right, mistakes = exercises.draw_case("topk_activation", maps)
    value = expect_tensor(submission.topk_activation(x, k), shape=x.shape, dtype=x.dtype)
    recognise(value, right, mistakes)
    counts = (value != 0).flatten(1).sum(1)
    if (counts != k).any():
        fail(f"one sample kept {int(counts[counts != k][0])} activations instead of k = {k}")
    expect_equal(
        value,
        right,
        message="the number of kept activations is right, but they must be the activations with the largest |x|, unchanged",
    )


THROUGH = "the gradient is 1 everywhere: where an activation is dropped the gradient must be 0, as with ReLU"
NO_GRADIENT = "x receives no gradient: did your code detach x from the graph (.detach(), .data, a new tensor)?"


DIM_1 = "dim was ignored: nm_activation(x, n, m, dim) must form its blocks along dim"
LAST_BLOCKS = "blocks were formed along the last dimension: form them along dim, by default dimension 1 (the channels)"
WRONG["nm_activation"] = {
    DIM_1: lambda x, n, m, dim=1: x * reference.nm_mask(x, n, m, 1),
    LAST_BLOCKS: lambda x, n, m, dim=1: x * reference.nm_mask(x, n, m, -1),
}


@question(
    "5.3",
    points=0.5,
    claim="the gradient is 1 where kept and 0 elsewhere; nm_activation is 5.1 on |x|",
)
def test_activation_gradient(submission: Submission, draw: Draw) -> None:
    # m divides every dimension, and no two are equal
    x, g = draw.normal(3, 6, 12, 9), draw.normal(3, 6, 12, 9)
    x[1] *= 10  # so that the largest of the batch are not those of each sample
    for name, rest in (
        ("topk_activation", (50,)),
        ("nm_activation", (1, 3)),
        ("nm_activation", (2, 3, 2)),
    ):
        call = f"{name}(x, {', '.join(map(str, rest))})"
        right = getattr(reference, name)(x, *rest)
        result, after = submission.call(name, x, *rest, returning=(0,))
        unchanged([x], after, "x")
        value = expect_tensor(result, shape=x.shape, dtype=x.dtype, what=call)
        if name == "nm_activation":
            recognise(value, right, apply_each(WRONG[name], x, *(*rest, 1)[:3]), f"{call}: ")
        expect_equal(value, right, call)
        given = submission.put(x, requires_grad=True)
        out = submission.call(name, given, *rest, keep=True)
        gradient = expect_gradient(submission, out, given, g, f"{call}: {NO_GRADIENT}")
        recognise(gradient, g * (right != 0), {THROUGH: g}, f"{call}: ")
        expect_close(gradient, g * (right != 0), f"the gradient of {call}")


# --- 5.4 ChannelGate ------------------------------------------------------


class Gate:
    """A student's gate with drawn parameters, kept with their code."""

    def __init__(self, submission: Submission, draw: Draw, C: int = 3, M: int = 5) -> None:
        self.submission = submission
        self.module = made_of_class(submission, "ChannelGate", C, M)
        state = submission.get(self.module)
        if not isinstance(state, plain_data.Model):
            fail(
                f"ChannelGate({C}, {M}) must be an nn.Module, but it is {describe(state)}: begin the class with `class ChannelGate(nn.Module):`"
            )
        if {n: tuple(p.shape) for n, p in state.state.items()} != {
            "score.weight": (M, C),
            "score.bias": (M,),
        }:
            holds = ", ".join(f"{n} {tuple(p.shape)}" for n, p in state.state.items()) or "none"
            fail(
                f"the only parameters of ChannelGate({C}, {M}) must be those of self.score = nn.Linear({C}, {M}); its parameters are {holds}"
            )
        self.weight, self.bias = draw.normal(M, C), draw.normal(M, scale=0.3)
        for name, value in (("weight", self.weight), ("bias", self.bias)):
            submission.call(f"score.{name}.data.copy_", value, on=self.module, keep=True)

    def scores(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x.mean((2, 3)), self.weight, self.bias)

    def gates(self, x: Tensor) -> Tensor:
        return (self.scores(x) > 0).to(x.dtype)


ALWAYS_OPEN = "every gate is open: σ(score) is always above 0. Compare the *score* with 0"
FUNCTION = "{} is a function, but it must be a class: write `class {}(nn.Module):` with __init__ and forward"


def made_of_class(submission: Submission, name: str, *settings: Any) -> Ref:
    """An object of the student's class, kept with their code."""
    what = submission.value(name)
    function = isinstance(what, plain_data.Unserializable) and what.type == "function"
    try:
        made = submission.call(name, *settings, keep=True)
        if function and not isinstance(submission.get(made), plain_data.Model):
            fail(FUNCTION.format(name, name))
    except StudentError as error:
        if function and error.kind == "raised" and not error.unwritten:
            fail(FUNCTION.format(name, name))
        raise
    return made


def gate_mistakes(gate: Gate, x: Tensor) -> dict[str, Any]:
    score, hard = gate.scores(x), gate.gates(x)
    largest = torch.nn.functional.linear(x.amax((2, 3)), gate.weight, gate.bias)
    return {
        "the gate is soft: it must be 0 or 1, also in training": score.sigmoid(),
        "one decision was made for the whole batch: decide for each image separately": (
            score.mean(0) > 0
        )
        .to(x.dtype)
        .expand(hard.shape),
        ALWAYS_OPEN: torch.ones_like(hard),
        "the decision is inverted: it must be 1 where the score is above 0": 1 - hard,
        "the score was computed from the maximum of each map: compute it from the mean of each map": (
            largest > 0
        ).to(x.dtype),
        "the score was computed from the sum of each map: compute it from the mean of each map": (
            torch.nn.functional.linear(x.sum((2, 3)), gate.weight, gate.bias) > 0
        ).to(x.dtype),
        "the decision does not depend on the input: the score is a linear function of the maps' means": (
            gate.bias > 0
        )
        .to(x.dtype)
        .expand(hard.shape),
    }


@question(
    "5.4",
    points=1.5,
    claim="ChannelGate: 1 where score(mean of each map) > 0, else 0, in training and evaluation",
)
def test_gate(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        gate = Gate(submission, draw)
        x = draw.normal(6, 3, 2, 3) + draw.normal(6, 3, 1, 1)
        return (gate, x), gate.gates(x), gate_mistakes(gate, x)

    (gate, x), right, mistakes = draw_discriminating_case(case)
    for mode in (True, False):
        submission.train(gate.module, mode)
        value = expect_tensor(
            submission.call("", x, on=gate.module), shape=right.shape, dtype=x.dtype
        )
        recognise(value, right, mistakes, "in training mode: " if mode else "in evaluation mode: ")
        if not torch.equal(value, right) and torch.allclose(value, right):
            fail(
                "the gate is 0 and 1 only up to rounding (0.99999994 instead of 1): a sum of the hard decision and soft is rounded. "
                "In which order are all sums exact?"
            )
        expect_equal(value, right, "the gate (exactly 0 and 1)")


@question("5.4", points=2, claim="backwards it is σ(score), for the parameters and for x")
def test_gate_gradient(submission: Submission, draw: Draw) -> None:
    gate = Gate(submission, draw)
    x, g = draw.normal(4, 3, 2, 2), draw.normal(4, 5)
    given = submission.put(x, requires_grad=True)
    out = submission.call("", given, on=gate.module, keep=True)
    expect_tensor(submission.get(out), shape=(4, 5), dtype=x.dtype)
    try:
        submission.backward(out, g)
    except StudentError as error:
        if error.kind != "raised":
            raise
        fail(
            "no gradient flows back, because a comparison has no gradient: use the hard decision in the forward pass and the "
            "gradient of σ(score) in the backward pass"
        )
    soft = gate.scores(x).sigmoid()
    slope = g * soft * (1 - soft)  # (B, M)
    found = {
        name: submission.grad(
            submission.call("get_parameter", f"score.{name}", on=gate.module, keep=True)
        )
        for name in ("weight", "bias")
    }
    right = {"weight": slope.T @ x.mean((2, 3)), "bias": slope.sum(0)}
    straight = {"weight": g.T @ x.mean((2, 3)), "bias": g.sum(0)}
    if found["weight"] is None or found["bias"] is None:
        fail(
            "the gradient does not reach self.score: use the hard decision in the forward pass and the gradient of σ(score) in the backward pass"
        )
    recognise(
        found,
        right,
        {
            "the gradient is 1, the gradient of the score itself: it must be the gradient of σ(score)": straight,
            "the gradient has the wrong sign: it must be the gradient of σ(score), which increases with the score": {
                name: -r for name, r in right.items()
            },
        },
        equal=near,
    )
    for name, r in right.items():
        expect_close(found[name], r, f"the gradient of score.{name}")
    at_x = (slope @ gate.weight)[:, :, None, None].expand(x.shape) / x[0, 0].numel()
    if (back := submission.grad(given)) is None:
        fail(
            "the gradient reaches self.score, but not x: earlier layers must receive a gradient through the gate, too"
        )
    expect_close(back, at_x, "the gradient of x")


# --- 5.5 joint_nm ---------------------------------------------------------------------

EXPECTED = "this is the expected number without kept zeros and with independent patterns: count the actual products"
WEIGHTS_ONLY = "only the zeros of the weights were considered: a product needs two non-zero factors"
EXCHANGED = "n_x and n_w were exchanged: prune activations to n_x:m and weights to n_w:m"
ALONG_SAMPLES = "inputs were pruned along the samples: prune them along C, so that each sample keeps n_x of every m"
KEPT_ZEROS = "kept zeros were counted: a kept 0 contributes no product"


OUTPUTS = "non-zero outputs were counted: each output is a sum of products. Count the products"
BOUND = "this is the upper bound, min(n_x, n_w) per block: count the actual products"
ANY_PAIR = "every non-zero input was paired with every non-zero weight: both factors of a product must have the same column c"
X_AS_IT_CAME = "y was computed from inputs that were not pruned: prune inputs and weights"
W_AS_IT_CAME = "y was computed from weights that were not pruned: prune inputs and weights"
BOTH_AS_THEY_CAME = "y was computed from inputs and weights that were not pruned: prune both first"


def _joint(count: Callable[[Tensor, Tensor, Tensor, Tensor], int]) -> Callable[..., Any]:
    def joint(x: Tensor, w: Tensor, n_x: int, n_w: int, m: int) -> Any:
        keep_x, keep_w = reference.nm_mask(x, n_x, m, 1), reference.nm_mask(w, n_w, m, 1)
        y = (x * keep_x) @ (w * keep_w).T
        return y, count(x * keep_x, w * keep_w, keep_x, keep_w)

    return joint


def _along_samples(x: Tensor, w: Tensor, n_x: int, n_w: int, m: int) -> Any:
    kept = x * reference.nm_mask(x, n_x, m, 0)
    return reference.joint_nm(kept, w, m, n_w, m)


WRONG["joint_nm"] = {
    ALONG_SAMPLES: _along_samples,
    EXPECTED: _joint(
        lambda x, w, kx, kw: round(
            x.shape[0] * w.shape[0] * x.shape[1] * float(kx.float().mean() * kw.float().mean())
        )
    ),
    WEIGHTS_ONLY: _joint(lambda x, w, kx, kw: len(x) * int((w != 0).sum())),
    EXCHANGED: lambda x, w, n_x, n_w, m: reference.joint_nm(x, w, n_w, n_x, m),
    OUTPUTS: _joint(lambda x, w, kx, kw: int((x @ w.T != 0).sum())),
    BOUND: lambda x, w, n_x, n_w, m: (
        reference.joint_nm(x, w, n_x, n_w, m)[0],
        len(x) * len(w) * (x.shape[1] // m) * min(n_x, n_w),
    ),
    ANY_PAIR: _joint(lambda x, w, kx, kw: int((x != 0).sum() * (w != 0).sum())),
    X_AS_IT_CAME: lambda x, w, n_x, n_w, m: (
        x @ (w * reference.nm_mask(w, n_w, m, 1)).T,
        reference.joint_nm(x, w, n_x, n_w, m)[1],
    ),
    W_AS_IT_CAME: lambda x, w, n_x, n_w, m: (
        (x * reference.nm_mask(x, n_x, m, 1)) @ w.T,
        reference.joint_nm(x, w, n_x, n_w, m)[1],
    ),
    BOTH_AS_THEY_CAME: lambda x, w, n_x, n_w, m: (
        x @ w.T,
        reference.joint_nm(x, w, n_x, n_w, m)[1],
    ),
    KEPT_ZEROS: _joint(lambda x, w, kx, kw: int((kx.sum(0) * kw.sum(0)).sum())),
}


def product(value: Any) -> dict[str, Any]:
    return {"y": value[0], "products": torch.tensor(value[1])}


@question("5.5", points=1, claim="both pruned along C, and the products counted that are there")
def test_joint(submission: Submission, draw: Draw) -> None:
    # n_x < n_w: else a block's bound is the number of its weights
    n_x, n_w, m = draw.choice(((1, 2, 4), (1, 3, 4), (2, 3, 4), (1, 3, 6)))
    given, right, mistakes = exercises.draw_case(
        "joint_nm",
        lambda: (draw.normal(m, 3 * m).relu(), draw.normal(5, 3 * m), n_x, n_w, m),
        near,
        product,
    )
    result = submission.joint_nm(*given)
    expect_length(result, 2, "joint_nm(…)")
    y = expect_tensor(result[0], shape=(m, 5), what="y")
    recognise(y, right["y"], {said: wrong["y"] for said, wrong in mistakes.items()}, equal=near)
    if isinstance(result[1], float) and 0 < result[1] < 1:
        fail(f"products is a share, {result[1]:.3g}: return the number of products")
    count = expect_int(result[1], "products")
    value = {"y": y, "products": torch.tensor(count)}
    recognise(value, right, mistakes, equal=near)
    for said, wrong in mistakes.items():
        if count == int(wrong["products"]) != int(right["products"]) and near(y, right["y"]):
            fail(said)
    expect_close(y, right["y"], "y")
    expect_equal(count, int(right["products"]), "the number of products")


# --- 5.6 ------------------------------------------------------------------------------


@question(
    "5.6",
    points=0,
    claim="the answer is a letter (which one is right is looked at when it is handed in)",
)
def test_form_of_the_answer(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_5_6", 4, {})
