"""Lab 10, tokens: the claims that only the grader sees. The claims in the notebook,
and the sentences for both, are in visible.py.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from course_lib.grading import Draw, Submission, describe, expect_equal, fail, question, unchanged
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import Case, apply_each
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab10 as reference

from .visible import (
    CLS_ROW,
    FIRST_HEAD,
    FIRST_MASK,
    NO_SQUARE,
    NOT_FROM_ITSELF,
    NOT_SCALED,
    OF_A_LAYER,
    OPTIONS,
    OWN_N,
    PADDING_ASKS,
    PROMISE,
    RIGHT,
    ROUNDED,
    STRONGEST_HEAD,
    WHOLE_BATCH,
    Layer,
    Texts,
    Thresholds,
    Wrong,
    as_table,
    attention,
    chosen,
    close,
    count,
    draw_case,
    draw_discriminating_case,
    draw_texts,
    expect_gate,
    expect_keep,
    expect_kept,
    expect_macs,
    expect_step,
    expect_table,
    falling,
    gate_mistakes,
    gates,
    keeping,
    kept_where,
    macs,
    padded,
    parts,
    real_first,
    received,
    scaled,
    some_scores,
    summed,
)
from .visible import WRONG as SEEN

BETWEEN = "Padding can lie between real tokens. Use the positions in token_mask, not only the number of real tokens"


# --- texts ----------------------------------------------------------------------------


def scattered(draw: Draw, lengths: list[int], L: int) -> Tensor:
    """A token_mask (B, L) with padding anywhere but in column 0, and where there is
    some, not only at the end.
    """
    mask = torch.zeros(len(lengths), L, dtype=torch.bool)
    mask[:, 0] = True
    for row, n in zip(mask, lengths, strict=True):
        while True:
            row[1:] = False
            row[1 + draw.permutation(L - 1)[: n - 1]] = True
            if n in (1, L) or not row[:n].all():
                break
    return mask


def at_the_end(mask: Tensor) -> Tensor:
    """By mistake: as many real tokens, all of them before the padding."""
    return padded(mask.sum(1).tolist(), mask.shape[1])


# --- 10.1 attention_received ----------------------------------------------------------

RECEIVED: Wrong = {BETWEEN: lambda attn, mask: reference.attention_received(attn, at_the_end(mask))}


@question("10.1", points=0.5, claim="padding anywhere; nothing given is changed")
def test_received_between(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, Tensor]:
        M, L = draw.integer(2, 4), draw.integer(9, 11)
        return attention(draw, 3, M, L), scattered(draw, [L - 3, L, 5], L)

    (attn, mask), _, _ = draw_case(case, reference.attention_received, RECEIVED)
    received(submission, attn, mask, RECEIVED, "where padding lies between real tokens")
    given = attn, mask
    _, after = submission.call("attention_received", *given, returning=(0, 1))
    for value, now, what in zip(given, after, ("the attention weights", "token_mask"), strict=True):
        unchanged(value, now, what)


# --- 10.2 keep_tokens -----------------------------------------------------------------


def in_order(mask: Tensor) -> Tensor:
    return torch.arange(mask.shape[1]).double()


PADDED_TEXTS: Wrong = {
    BETWEEN: lambda mask, scores, k: chosen(real_first(scores, at_the_end(mask)), k),
    "a short text was filled up with the last padding. Use the first padding first": (
        lambda mask, scores, k: chosen(scores.double().where(mask, in_order(mask) - 1e6), k)
    ),
}
EQUAL_SCORES: Wrong = {
    "of equal scores the last row was kept. Keep the first of them": (
        lambda mask, scores, k: chosen(real_first(scores + in_order(mask) / 1e6, mask), k)
    ),
}


@question("10.2", points=0.5, claim="padding anywhere; nothing given is changed")
def test_padding_between(submission: Submission, draw: Draw) -> None:
    def case() -> Texts:
        k = draw.integer(5, 6)
        L = 2 * k + 3
        mask = scattered(draw, [L - 3, k + 1, k - 2], L)
        return Texts(draw, mask, some_scores(draw, 3, L), k)

    texts = draw_texts(case, PADDED_TEXTS)
    _, after = submission.call("keep_tokens", *texts.given, returning=(0, 1, 2))
    names = "the rows (hidden)", "token_mask", "the scores"
    for value, now, what in zip(texts.given, after, names, strict=False):
        unchanged(value, now, what)
    expect_kept(submission, texts, PADDED_TEXTS, "where padding lies between real tokens")


@question("10.2", points=0.5, claim="of equal scores the first is kept")
def test_equal_scores(submission: Submission, draw: Draw) -> None:
    def case() -> Texts:
        scores = draw.tied(3, draw.integer(66, 70), levels=2) / 4
        scores[:, 0] = 0.9
        return Texts(draw, torch.ones_like(scores, dtype=torch.bool), scores, draw.integer(20, 25))

    expect_kept(submission, draw_texts(case, EQUAL_SCORES), EQUAL_SCORES, "where scores are equal")


@question("10.2", points=0.5, claim="k = 1 keeps [CLS], k ≥ L keeps all rows")
def test_small_and_large_k(submission: Submission, draw: Draw) -> None:
    L = draw.integer(6, 8)
    mask = padded([L - 2, L - 3], L)
    scores = some_scores(draw, 2, L)
    for k, when in (
        (1, "where k is 1"),
        (L - 1, "where k is L - 1"),
        (L, "where k is L"),
        (L + draw.integer(1, 4), "where k is larger than L"),
    ):
        expect_kept(submission, Texts(draw, mask, scores, k), {}, when)


# --- 10.3 progressive -----------------------------------------------------------------


def in_single(lengths: Tensor, layers: int, final: float) -> Tensor:
    """By mistake: in float32."""
    shares = torch.tensor([final ** (i / (layers - 1)) for i in range(layers)], dtype=torch.float32)
    return torch.ceil(lengths * shares[:, None] - 1e-9).clamp(min=1).long()


ROUNDED_UP: Wrong = {
    "products like 100 · 0.07 = 7.000000000000001 were rounded up. Subtract 1e-9 before rounding up, as stated": falling(
        number=torch.ceil
    ),
    "1 was added to the rounded-down product, also where the product is an integer": (
        lambda lengths, layers, final: torch.minimum(
            falling(number=lambda x: (x + 1e-9).floor() + 1)(lengths, layers, final), lengths
        )
    ),
    "float32 is too coarse for a difference of 1e-9 in n · share. Compute in float64": in_single,
}


@question("10.3", points=0.5, claim="rounded up, exact products as they are, 1 at least")
def test_progressive_rounding(submission: Submission, draw: Draw) -> None:
    def shares() -> tuple[Tensor, int, float]:
        lengths = torch.tensor(draw.distinct(6, 30, 200))
        # no product is near a whole number
        return lengths, draw.integer(5, 7), 0.103 + draw.integer(0, 19) / 100

    (lengths, layers, final), _, _ = draw_case(shares, reference.progressive, ROUNDED)
    value = submission.progressive(lengths, layers, final)
    expect_table(value, lengths, layers, final, ROUNDED)
    for said in ROUNDED_UP:  # hardly a draw shows them all: one for each

        def case(said: str = said) -> Case:
            # n · share is often a whole number, or nearly
            lengths, final = 50 * torch.tensor(draw.distinct(12, 1, 20)), draw.integer(3, 97) / 100
            lengths[:3] += draw.integer(1, 40)
            right = reference.progressive(lengths, 2, final)
            wrong = apply_each(ROUNDED_UP, lengths, 2, final).items()
            seen = {s: value for s, value in wrong if s == said or not torch.equal(value, right)}
            return (lengths, final), right, seen

        (lengths, final), _, _ = draw_discriminating_case(case)
        value = submission.progressive(lengths, 2, final)
        expect_table(value, lengths, 2, final, ROUNDED_UP | ROUNDED)
    lengths = torch.tensor([1, 2, draw.integer(3, 9)])
    value = submission.progressive(lengths, 3, 1e-12)
    if (as_table(value, lengths, 3, "for final = 1e-12") < 1).any():
        fail("for final = 1e-12 a layer works on no token. It must work on [CLS] at least")
    expect_table(value, lengths, 3, 1e-12, {})


# --- 10.3 threshold_policy ------------------------------------------------------------

EXACTLY: Wrong = {
    "a token exactly at the threshold was dropped. Keep it (≥)": kept_where(
        lambda scores, theta, mask: count(mask) * scores > theta
    ),
}
AT_ZERO: Wrong = {
    "padding was kept at θ = 0, because its score 0 is not below θ. Always drop padding": (
        lambda scores, theta, mask: (
            (count(mask) * scores >= theta) | (torch.arange(mask.shape[1]) == 0)
        )
    ),
}


@question(
    "10.3",
    points=0.5,
    claim="a token exactly at the threshold is kept; at θ = 0 all real tokens are",
)
def test_at_the_threshold(submission: Submission, draw: Draw) -> None:
    for n, L in ((4, 6), (8, 8), (8, 11)):
        mask = padded([n, n], L)
        mask[1] = scattered(draw, [n], L)[0] if n < L else mask[1]
        eighths = torch.zeros(2, L)
        for row, real in zip(eighths, mask, strict=True):  # in units of the average: they sum to n
            values = torch.tensor([0.0, 1.0, 1.0] + [1.5, 0.5, 1.5, 0.5] * (n == 8))
            row[real] = torch.cat([torch.tensor([2.0]), values[draw.permutation(n - 1)]])
        expect_keep(
            submission, eighths / n, 1.0, mask, EXACTLY, f"for texts of {n} tokens at θ = 1"
        )
        expect_keep(submission, eighths / n, 0.0, mask, AT_ZERO, "at θ = 0")


@question("10.3", points=0.5, claim="the same decision alone, in a batch, and padded to any length")
def test_same_decision(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, float, Tensor]:
        L = draw.integer(14, 18)
        mask = scattered(draw, [L - 4, 6, L], L)
        scores = parts(draw, mask)
        scores[:, 0] = 3 * scores.amax(1)
        drawn = scaled(scores), draw.number(0.7, 1.3), mask
        return case() if close(*drawn) else drawn

    (scores, theta, mask), _, _ = draw_case(case, reference.threshold_policy, OWN_N)
    expect_keep(submission, scores, theta, mask, OWN_N, "where padding lies between real tokens")
    right = reference.threshold_policy(scores, theta, mask)
    for b, real in enumerate(mask):
        alone = submission.threshold_policy(scores[b : b + 1, real], theta, mask[b : b + 1, real])
        expect_equal(
            alone, right[b : b + 1, real], "for the same text alone and without padding, the result"
        )
    _, (scores_after, mask_after) = submission.call(
        "threshold_policy", scores, theta, mask, returning=(0, 2)
    )
    unchanged(scores, scores_after, "the scores")
    unchanged(mask, mask_after, "token_mask")


# --- 10.4 SoftThreshold ---------------------------------------------------------------

AT_THETA: Wrong = {
    "the gate of a token exactly at the threshold is 0. It must be 1 (≥)": gates(
        hard=lambda x: (x > 0).to(x.dtype)
    ),
}


@question("10.4", points=0.5, claim="exactly at θ is 1 in evaluation; θ may be 0 or below")
def test_gate_at_the_threshold(submission: Submission, draw: Draw) -> None:
    theirs = Thresholds(submission, draw, 0.0, 1.0, -0.5, 1.5)
    mask = padded([8, 4], 10)
    units = torch.zeros(2, 10)  # n·s
    units[0, :8] = torch.tensor([0.0, 0.5, 2.0, 1.5, 1.0, 0.5, 1.5, 1.0])[draw.permutation(8)]
    units[1, :4] = torch.tensor([0.5, 1.0, 1.5, 1.0])[draw.permutation(4)]
    scores = units / torch.tensor([[8.0], [4.0]])
    for layer in (2, 0, 1, 3):
        when = f"in training mode at θ = {theirs.theta[layer]:g}"
        right = theirs.soft(scores, layer, mask)
        expect_gate(theirs(scores, layer, mask), right, mask, {}, when)
    submission.train(theirs.module, False)
    for layer in (1, 3, 0, 2):
        mistakes = gate_mistakes(theirs, AT_THETA, scores, layer, mask, training=False)
        when = f"in evaluation mode at θ = {theirs.theta[layer]:g}"
        expect_gate(
            theirs(scores, layer, mask), theirs.hard(scores, layer, mask), mask, mistakes, when
        )


@question(
    "10.4", points=0.5, claim="padding anywhere, closed gates, float64; nothing given is changed"
)
def test_gate_of_odd_texts(submission: Submission, draw: Draw) -> None:
    theirs = Thresholds(submission, draw, 0.9, 1.2, 80.0)
    L = draw.integer(9, 12)
    mask = scattered(draw, [L - 3, L, 5], L)
    scores = parts(draw, mask)
    for given, layer, when in (
        (scores, 1, "where padding lies between real tokens"),
        (scores, 2, "at a θ that closes all gates"),
        (scores.double(), 1, "in float64"),
    ):
        right = theirs.soft(given, layer, mask)
        expect_gate(theirs(given, layer, mask), right, mask, {}, when)
    _, (scores_after, mask_after) = theirs(scores, 0, mask, returning=(0, 2))
    unchanged(scores, scores_after, "the scores")
    unchanged(mask, mask_after, "token_mask")


# --- 10.5 cascade_step ----------------------------------------------------------------

WRONG: dict[str, Wrong] = {
    "attention_received": RECEIVED,
    "keep_tokens": {
        said: keeping(rows=rows) for said, rows in (PADDED_TEXTS | EQUAL_SCORES).items()
    },
    "progressive": ROUNDED_UP,
    "threshold_policy": EXACTLY | AT_ZERO,
    "SoftThreshold": AT_THETA,
}


@question("10.5", points=0.5, claim="of equal scores the first is kept; scores below 0")
def test_ties_in_the_cascade(submission: Submission, draw: Draw) -> None:
    layer = Layer(draw, cls=-1, lowest=-60)
    expect_step(submission, layer, "where all scores are below 0")
    layer = Layer(draw, ties=True)
    expect_step(submission, layer, "where scores are equal")


@question("10.5", points=0.5, claim="if fewer are alive, all of those; nothing given changes")
def test_numbers_of_the_cascade(submission: Submission, draw: Draw) -> None:
    for n_tokens, n_heads, when in (
        (1, 1, "where one token and one head are kept"),
        (0, 0, "where fewer are alive than n"),
        (3, 99, "where fewer heads are alive than n_heads"),
        (99, 2, "where fewer tokens are alive than n_tokens"),
    ):
        layer = Layer(draw)
        # 0: all but one
        layer.n_tokens = n_tokens or len(layer.tokens) - 1
        layer.n_heads = n_heads or len(layer.heads) - 1
        expect_step(submission, layer, when)
    layer = Layer(draw)
    _, after = submission.call("cascade_step", *layer.given, returning=(0, 1, 2, 3))
    names = ("the tokens' scores", "the heads' scores", "alive_tokens", "alive_heads")
    for value, now, what in zip(layer.given, after, names, strict=False):
        unchanged(value, now, what)


# --- 10.6 token_macs ------------------------------------------------------------------


@question("10.6", points=0.5, claim="long texts: an exact int, however large; an unchanged list")
def test_macs_are_exact(submission: Submission, draw: Draw) -> None:
    lengths = [2 * draw.integer(1_000_000, 1_400_000) + 1 for _ in range(3)]
    E = 2 * draw.integer(5000, 6000) + 1
    right = summed(macs)(lengths, E)
    value, (after,) = submission.call("token_macs", lengths, E, returning=(0,))
    when = f"for {lengths} tokens of width {E}"
    if isinstance(value, int) and value != right and math.isclose(value, right, rel_tol=1e-12):
        fail(
            f"{when} the result differs by {abs(value - right)}. Your code uses floats or fixed-size integers somewhere, which cannot store "
            "such large whole numbers exactly. Compute with Python's ints"
        )
    expect_macs(value, right, {NO_SQUARE: OF_A_LAYER[NO_SQUARE](lengths, E)}, when)
    if after != lengths:
        fail(f"your function changed the list of lengths that it was given, to {describe(after)}")


# --- 10.7 two short answers -----------------------------------------------------------

MISREAD = {  # by the order in the lab's source
    0: "after the last layer nothing is left to save: all layers have worked on all tokens",
    1: "look at the panel after layer 1. Dropping half of the tokens by attention cost many points there: what a word means for the verdict (negated, or "
    "outweighed by another clause) has not been read yet",
    2: "look at the line of polar words. Keeping them alone cost many points after every layer: a polar word is not enough without its negator, "
    "or without the word that shows which clause decides",
}


@question("10.7", points=0.5, claim="a: after which layer tokens can be dropped")
def test_which_layer(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_10_7a", OPTIONS, MISREAD)


@question("10.7", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "a lower mean is not enough. What does the interval contain?",
        1: "an interval that contains 0 also contains other differences. Does it show that they are equal?",
        3: "the interval is about the mean over fine-tunings, not about single sentences",
    }
    expect_choice(submission, "answer_10_7b", 4, misread)


# --- 10.8 find_bug --------------------------------------------------------------------


def by_loops(attn: Tensor, token_mask: Tensor) -> Tensor:
    """A right version that goes through the texts, and relies on its arguments."""
    out = attn.new_zeros(token_mask.shape)
    for b, real in enumerate(token_mask):
        among = attn[b][:, real][:, :, real].sum((0, 1))
        out[b, real] = among / among.sum()
    return out


@question("10.8", points=0.5, claim="eight subtle bugs are found, and no right version is accused")
def test_hunt_subtle_bugs(submission: Submission, draw: Draw) -> None:
    wrong = SEEN["attention_received"]
    expect_verdicts(
        submission,
        draw,
        "attention_received",
        right=RIGHT | {"one that goes through the texts": by_loops},
        wrong={
            "includes the queries of padding": wrong[PADDING_ASKS],
            "sets padding to 0 and does not scale the other scores": wrong[NOT_SCALED],
            "uses the row of [CLS] alone": wrong[CLS_ROW],
            "takes the maximum over heads instead of the mean": wrong[STRONGEST_HEAD],
            "uses the first head alone": wrong[FIRST_HEAD],
            "uses the padding of the first text for all texts": wrong[FIRST_MASK],
            "scales the scores of the whole batch to sum to 1": wrong[WHOLE_BATCH],
            "leaves out the attention of a token to itself": wrong[NOT_FROM_ITSELF],
        },
        promise=PROMISE,
    )
