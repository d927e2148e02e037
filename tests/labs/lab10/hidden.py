"""Lab 10, tokens: the claims that only the grader sees. What is seen in the notebook, and the words for both, stand in visible.py."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from course_lib.grading import Draw, Submission, describe, expect_equal, fail, question, unchanged
from course_lib.grading.claims import mistakes as known
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import Case
from course_lib.grading.claims.typed import expect_choice, expect_figure
from course_lib.labs import lab10 as reference

from .visible import (
    OPTIONS,
    PROMISE,
    RIGHT,
    TOO_CLOSE,
    Layer,
    Texts,
    Thresholds,
    altered,
    as_table,
    at_least,
    attention,
    batch,
    best,
    chosen,
    closed,
    expect_gate,
    expect_keep,
    expect_kept,
    expect_macs,
    expect_step,
    expect_table,
    macs,
    padded,
    parts,
    points_typed,
    received,
    scaled,
    telling,
    wrong_rounding,
)

BETWEEN = "padding may stand between real tokens, and token_mask says where: their number alone does not"


# --- texts ---------------------------------------------------------------------------------------------------------


def scattered(draw: Draw, lengths: list[int], L: int) -> Tensor:
    """A token_mask (B, L) with padding anywhere but in column 0, and where there is some, not only at the end."""
    mask = torch.zeros(len(lengths), L, dtype=torch.bool)
    mask[:, 0] = True
    for row, n in zip(mask, lengths, strict=True):
        while True:
            row[1:] = False
            row[1 + draw.permutation(L - 1)[: n - 1]] = True
            if n in (1, L) or not row[:n].all():
                break
    return mask


# --- 10.1 attention_received ---------------------------------------------------------------------------------------


@question("10.1", points=0.5, claim="padding may stand anywhere between the real tokens")
def test_received_between(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        M, L = draw.integer(2, 4), draw.integer(9, 11)
        lengths = [L - 3, L, 5]
        mask, attn = scattered(draw, lengths, L), attention(draw, 3, M, L)
        right = reference.attention_received(attn, mask)
        return (attn, mask), right, {BETWEEN: reference.attention_received(attn, padded(lengths, L))}

    (attn, mask), right, mistakes = telling(case)
    received(submission, attn, mask, right, mistakes, "where padding stands between real tokens")


@question("10.1", points=0.5, claim="one head, one text, one token, float64; nothing given is changed")
def test_received_of_odd_shapes(submission: Submission, draw: Draw) -> None:
    for lengths, M, L, when in (
        ([5], 1, 7, "for one text and one head"),
        ([1, 4], 3, 4, "for a text of [CLS] alone"),
        ([1], 1, 1, "for one token"),
        ([4, 3, 2, 4], 4, 4, "where B, M and L are equal"),
    ):
        mask, attn = padded(lengths, L), attention(draw, len(lengths), M, L)
        received(submission, attn, mask, reference.attention_received(attn, mask), {}, when)
        double = attn.double()
        received(submission, double, mask, reference.attention_received(double, mask), {}, f"{when}, in float64")
    attn, mask = attention(draw, 2, 3, 6), padded([6, 4], 6)
    _, (attn_after, mask_after) = submission.call("attention_received", attn, mask, returning=(0, 1))
    unchanged(attn, attn_after, "the attention weights")
    unchanged(mask, mask_after, "token_mask")


# --- 10.2 keep_tokens ----------------------------------------------------------------------------------------------


@question("10.2", points=0.5, claim="padding between real tokens, of which the first fills up")
def test_padding_between(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        k = draw.integer(5, 6)
        L = 2 * k + 3
        lengths = [L - 3, k + 1, k - 2]
        mask = scattered(draw, lengths, L)
        texts = Texts(draw, mask, draw.normal(3, L, scale=3), k)
        by_number = chosen(texts.scores.masked_fill(~padded(lengths, L), -torch.inf), k)
        back = texts.scores.double().where(mask, -1e6 + torch.arange(L))
        return texts, texts.index, {
            BETWEEN: by_number,
            "of padding the last filled up a short text: the first padding first": chosen(back, k),
        }  # fmt: skip

    texts, _, mistakes = telling(case)
    expect_kept(submission, texts, mistakes, "where padding stands between real tokens")


@question("10.2", points=0.5, claim="of equal scores the first stays")
def test_equal_scores(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        L, k = draw.integer(60, 70), draw.integer(20, 25)
        scores = draw.tied(3, L, levels=2)
        texts = Texts(draw, torch.ones_like(scores, dtype=torch.bool), scores, k)
        back = scores.double() + torch.arange(L) / 1e6
        return texts, texts.index, {"of equal scores the last stayed: the one that comes first does": chosen(back, k)}

    texts, _, mistakes = telling(case)
    expect_kept(submission, texts, mistakes, "where scores are equal")


@question("10.2", points=0.5, claim="k = 1 leaves [CLS], k ≥ L all")
def test_small_and_large_k(submission: Submission, draw: Draw) -> None:
    L = draw.integer(6, 8)
    mask = padded([L - 2, L - 3], L)
    scores = draw.normal(2, L)
    for k, when in (
        (1, "where k is 1"),
        (L - 1, "where k is L - 1"),
        (L, "where k is L"),
        (L + draw.integer(1, 4), "where k is larger than L"),
    ):
        expect_kept(submission, Texts(draw, mask, scores, k), {}, when)


@question("10.2", points=0.5, claim="one text, equal sizes, float64, width 1; nothing given is changed")
def test_kept_of_odd_shapes(submission: Submission, draw: Draw) -> None:
    texts = Texts(draw, scattered(draw, [8, 4], 9), draw.normal(2, 9), 5)
    _, after = submission.call("keep_tokens", *texts.given, returning=(0, 1, 2))
    for value, now, what in zip(texts.given, after, ("the rows (hidden)", "token_mask", "the scores"), strict=False):
        unchanged(value, now, what)
    n = draw.integer(4, 5)
    for lengths, L, E, k, when in (
        ([5], 7, 3, 3, "for one text"),
        ([n, n - 1, n - 2, n, n][:n], n, n, n - 1, "where B, L and E are equal"),
        ([6, 3], 6, 1, 4, "for rows of width 1"),
        ([9, 7], 9, 20, 2, "for wide rows"),
    ):
        mask = padded(lengths, L)
        texts = Texts(draw, mask, draw.normal(*mask.shape), k, E)
        expect_kept(submission, texts, {}, when)
        texts = Texts(draw, mask, draw.normal(*mask.shape, dtype=torch.float64), k, E)
        texts.hidden = draw.normal(*mask.shape, E, dtype=torch.float64)
        expect_kept(submission, texts, {}, f"{when}, in float64")


# --- 10.3 progressive ----------------------------------------------------------------------------------------------


@question("10.3", points=0.5, claim="rounded up, exact products as they are, 1 at least")
def test_progressive_rounding(submission: Submission, draw: Draw) -> None:
    for said in wrong_rounding(torch.ones(1), [1.0]):  # hardly a draw shows them all: one for each

        def case(said: str = said) -> Case:
            final = draw.integer(3, 97) / 100
            lengths = 50 * torch.tensor(draw.distinct(12, 1, 20))  # n · share is often a whole number, or nearly
            lengths[:3] += draw.integer(1, 40)
            right = reference.progressive(lengths, 2, final)
            wrong = wrong_rounding(lengths, [1.0, final])
            seen = {s: value for s, value in wrong.items() if s == said or not torch.equal(value, right)}
            return (lengths, final), right, seen

        (lengths, final), _, mistakes = telling(case)
        expect_table(submission.progressive(lengths, 2, final), lengths, 2, final, mistakes)
    lengths = torch.tensor([1, 2, draw.integer(3, 9)])
    for final in (0.01, 1e-12):
        value = submission.progressive(lengths, 3, final)
        counts = as_table(value, lengths, 3, f"for final = {final}")
        if (counts < 1).any():
            fail(
                f"for final = {final} a layer works on {int(counts.min())} tokens: [CLS] alone is left at least, max(1, …)"
            )
        expect_table(value, lengths, 3, final, {})


# --- 10.3 threshold_policy -----------------------------------------------------------------------------------------

NOT_REAL_N = "n was counted from the scores above 0: a real token may have the score 0, and token_mask says who is real"


@question("10.3", points=0.5, claim="exactly at the threshold stays; at θ = 0 all real tokens do")
def test_at_the_threshold(submission: Submission, draw: Draw) -> None:
    for n, L in ((4, 6), (8, 8), (8, 11)):
        mask = padded([n, n], L)
        mask[1] = scattered(draw, [n], L)[0] if n < L else mask[1]
        eighths = torch.zeros(2, L)
        for row, real in zip(eighths, mask, strict=True):  # in units of the average: they sum to n
            values = torch.tensor([0.0, 0.5, 2.0, 1.5] + [1.0, 0.5, 1.5, 1.0] * (n == 8))
            row[real] = values[draw.permutation(n)]
        scores = eighths / n
        strict = (eighths > 1) & mask
        strict[:, 0] = True
        mistakes = {"a token exactly at the threshold went: it stays, ≥": strict}
        expect_keep(submission, scores, 1.0, mask, mistakes, f"for texts of {n} tokens at θ = 1")
        nothing = (eighths > 0) & mask
        nothing[:, 0] = True
        everything = torch.ones_like(mask)
        mistakes = {"padding was kept, since its 0 is not below θ = 0: it never is": everything} if n < L else {}
        mistakes |= {"a real token of score 0 went at θ = 0: it is exactly at the threshold, and stays": nothing}
        expect_keep(submission, scores, 0.0, mask, mistakes, "at θ = 0")


@question("10.3", points=0.5, claim="the same decision alone, in a batch, and padded to any length")
def test_same_decision(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        L = draw.integer(14, 18)
        lengths = [L - 4, 6, L]
        mask = scattered(draw, lengths, L)
        scores = parts(draw, mask)
        for row, real in zip(scores, mask, strict=True):
            row[real.nonzero()[2:4]] = 0
        scores = scaled(scores)
        n = mask.sum(1, keepdim=True)
        theta = draw.number(0.7, 1.3)
        last = (torch.arange(1, L + 1) * mask).amax(1, keepdim=True)
        right = reference.threshold_policy(scores, theta, mask)
        mistakes = {
            "n was counted without [CLS]: [CLS] is one of the n": at_least((n - 1) * scores, theta, mask),
            "n was the longest text of the batch: each text has its own n": at_least(int(n.max()) * scores, theta, mask),
            f"n was the place of the last real token: {BETWEEN}": at_least(last * scores, theta, mask),
            NOT_REAL_N: at_least((scores > 0).sum(1, keepdim=True) * scores, theta, mask),
        }  # fmt: skip
        if ((n * scores - theta).abs() < 1e-3).any():
            mistakes[TOO_CLOSE] = right
        return (scores, theta, mask), right, mistakes

    (scores, theta, mask), right, mistakes = telling(case)
    expect_keep(submission, scores, theta, mask, mistakes, "where padding stands between real tokens")
    for b, real in enumerate(mask):
        alone = submission.threshold_policy(scores[b : b + 1, real], theta, mask[b : b + 1, real])
        expect_equal(alone, right[b : b + 1, real], "for the same text alone and without padding, the result")
    double = parts(draw, mask, torch.float64)
    expect_keep(submission, double, 1.1, mask, {}, "in float64")
    _, (scores_after, mask_after) = submission.call("threshold_policy", scores, theta, mask, returning=(0, 2))
    unchanged(scores, scores_after, "the scores")
    unchanged(mask, mask_after, "token_mask")


# --- 10.4 SoftThreshold --------------------------------------------------------------------------------------------


@question("10.4", points=0.5, claim="exactly at θ is 1 in evaluation; θ may be 0 or below")
def test_gate_at_the_threshold(submission: Submission, draw: Draw) -> None:
    made = Thresholds(submission, draw, theta=[0.0, 1.0, -0.5, 1.5])
    mask = padded([8, 4], 10)
    units = torch.zeros(2, 10)  # n·s
    units[0, :8] = torch.tensor([0.0, 0.5, 2.0, 1.5, 1.0, 0.5, 1.5, 1.0])[draw.permutation(8)]
    units[1, :4] = torch.tensor([0.5, 1.0, 1.5, 1.0])[draw.permutation(4)]
    scores = units / torch.tensor([[8.0], [4.0]])
    for layer in (2, 0, 1, 3):
        theta = float(made.theta[layer])
        below = closed(torch.sigmoid(units / made.T), mask)
        sentence = "a θ below 0 was taken for 0: it is a number like any other, and has a gradient there"
        expect_gate(
            made(scores, layer, mask), made.soft(scores, layer, mask), mask,
            {sentence: below} if theta < 0 else {}, f"in training mode at θ = {theta:g}",
        )  # fmt: skip
    submission.train(made.module, False)
    for layer in (1, 3, 0, 2):
        theta = float(made.theta[layer])
        strict = closed((units > theta).float(), mask)
        mistakes = {"a token exactly at the threshold went: ≥ lets it go on": strict} if theta >= 0 else {}
        expect_gate(
            made(scores, layer, mask), made.hard(scores, layer, mask), mask, mistakes,
            f"in evaluation mode at θ = {theta:g}",
        )  # fmt: skip


@question("10.4", points=0.5, claim="the gate has the dtype of the scores")
def test_dtype_of_the_gate(submission: Submission, draw: Draw) -> None:
    made = Thresholds(submission, draw, theta=[1.0, 0.75, 1.25])
    _, mask = batch(draw)
    n = mask.sum(1, keepdim=True)
    for dtype, tolerance in ((torch.float64, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)):
        name = str(dtype).removeprefix("torch.")
        scores = parts(draw, mask, torch.float64)
        for layer in range(3):
            far = (n * scores - made.theta[layer]).abs() > 0.05  # so that rounding decides nothing
            words = torch.where(far, scores, 2 / n * mask).to(dtype)
            for training in (True, False):
                submission.train(made.module, training)
                mode = "training" if training else "evaluation"
                right = (made.soft if training else made.hard)(words.double(), layer, mask).to(dtype)
                expect_gate(
                    made(words, layer, mask), right, mask, {}, f"for scores in {name}, in {mode} mode,", tolerance
                )


@question("10.4", points=0.5, claim="padding anywhere, scores of 0, shut gates; nothing given is changed")
def test_gate_of_odd_texts(submission: Submission, draw: Draw) -> None:
    made = Thresholds(submission, draw, theta=[0.9, 1.2, 80.0])
    L = draw.integer(9, 12)
    lengths = [L - 3, L, 5]
    mask = scattered(draw, lengths, L)
    last = (torch.arange(1, L + 1) * mask).amax(1, keepdim=True)
    scores = parts(draw, mask)
    for row, real in zip(scores, mask, strict=True):
        row[real.nonzero()[2]] = 0
    scores = scaled(scores)

    def gate(n: Tensor) -> Tensor:
        return closed(torch.sigmoid((n * scores - made.theta[1]) / made.T), mask)

    mistakes = {NOT_REAL_N: gate((scores > 0).sum(1, keepdim=True)), f"n was the place of the last real token: {BETWEEN}": gate(last)}  # fmt: skip
    when = "where padding stands between real tokens"
    expect_gate(made(scores, 1, mask), made.soft(scores, 1, mask), mask, mistakes, when)
    when = "at a θ that lets nothing through"
    expect_gate(made(scores, 2, mask), made.soft(scores, 2, mask), mask, {}, when)
    alone, one = torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool)
    expect_gate(made(alone, 2, one), alone, one, {}, "for a text of [CLS] alone")
    _, (scores_after, mask_after) = made(scores, 0, mask, returning=(0, 2))
    unchanged(scores, scores_after, "the scores")
    unchanged(mask, mask_after, "token_mask")


# --- 10.5 cascade_step ---------------------------------------------------------------------------------------------


@question("10.5", points=0.5, claim="of equal scores the first goes on; all below 0")
def test_ties_in_the_cascade(submission: Submission, draw: Draw) -> None:
    def equal() -> Case:
        layer = Layer(draw, cls=1.0, levels=1)
        choices = []
        for _, scores, alive, n in layer.kinds():
            right = best(scores, alive, n)
            back, level = scores + torch.arange(len(scores)) / 1e6, scores[right].min()
            wrong = {
                "of equal scores the last went on: the one that comes first does": best(back, alive, n),
                "of equal scores all went on, and so too many: a threshold cannot tell them apart": (
                    alive & (scores >= level)
                ),
            }
            choices.append((right, wrong))
        return layer, choices[0][0], choices[0][1] | {"heads": choices[1]}

    def alike(one: Any, other: Any) -> bool:
        """Of the tokens; of the heads, whether their own answers are alike."""
        if isinstance(other, tuple):
            one, other = other, one
        if isinstance(one, tuple):
            return any(torch.equal(one[0], wrong) for wrong in one[1].values())
        return torch.equal(one, other)

    layer = Layer(draw, cls=-3.0)
    layer.token_scores -= 9
    layer.head_scores -= 9
    zero = "those that are not alive were ranked as 0: a score may be below 0"
    wrong = [{zero: best((s * a).nan_to_num(), torch.ones_like(a), n)} for _, s, a, n in layer.kinds()]
    expect_step(submission, layer, wrong, "where all scores are below 0")
    layer, _, mistakes = known.telling(equal, alike=alike)
    _, of_heads = mistakes.pop("heads")
    expect_step(submission, layer, [mistakes, of_heads], "where scores are equal")


@question("10.5", points=0.5, claim="if fewer are alive, all of those; nothing given changes")
def test_numbers_of_the_cascade(submission: Submission, draw: Draw) -> None:
    for n_tokens, n_heads, when in (
        (1, 1, "where one of each goes on"),
        (99, 99, "where fewer are alive than asked for"),
        (3, 99, "where fewer heads are alive than asked for"),
        (99, 2, "where fewer tokens are alive than asked for"),
    ):
        layer = Layer(draw, cls=draw.choice([-9.0, 9.0]))
        layer.n_tokens, layer.n_heads = n_tokens, n_heads
        expect_step(submission, layer, [{}, {}], when)
        if n_tokens > 1 and n_heads > 1:  # as many as there are, at the most
            layer.n_tokens, layer.n_heads = min(n_tokens, len(layer.tokens) - 1), min(n_heads, len(layer.heads) - 1)
            expect_step(submission, layer, [{}, {}], when)
    layer = Layer(draw, cls=-9.0)
    _, after = submission.call("cascade_step", *layer.given, returning=(0, 1, 2, 3))
    names = ("the tokens' scores", "the heads' scores", "alive_tokens", "alive_heads")
    for value, now, what in zip(layer.given, after, names, strict=False):
        unchanged(value, now, what)


# --- 10.6 token_macs -----------------------------------------------------------------------------------------------


@question("10.6", points=0.5, claim="an exact int, however large")
def test_macs_are_exact(submission: Submission, draw: Draw) -> None:
    lengths = [2 * draw.integer(1_000_000, 1_400_000) + 1 for _ in range(3)]
    E = 2 * draw.integer(5000, 6000) + 1
    right = sum(macs(l, E) for l in lengths)  # noqa: E741
    value = submission.token_macs(lengths, E)
    if isinstance(value, int) and value != right and math.isclose(value, right, rel_tol=1e-12):
        fail(
            f"for {lengths} tokens of width {E} the result is off by {abs(value - right)}: somewhere it went through floats, which "
            "do not hold such whole numbers. Ints do"
        )
    expect_macs(value, right, {}, f"for {lengths} tokens of width {E}")
    expect_macs(submission.token_macs([1], 1), 14, {}, "for one token of width 1")


@question("10.6", points=0.5, claim="long texts, where l² counts most; the list stays as it was")
def test_macs_of_long_texts(submission: Submission, draw: Draw) -> None:
    lengths, E = [draw.integer(3000, 9000) for _ in range(4)], 2 * draw.integer(8, 16)
    right = sum(macs(l, E) for l in lengths)  # noqa: E741
    mistakes = {"l² is missing, and here it is nearly all": sum(macs(l, E, square=0) for l in lengths)}  # noqa: E741
    value, (after,) = submission.call("token_macs", lengths, E, returning=(0,))
    expect_macs(value, right, mistakes, f"for layers on {lengths} tokens of width {E}")
    if after != lengths:
        fail(f"your function changed the list of lengths that it was given, to {describe(after)}")


# --- 10.7 two short answers ----------------------------------------------------------------------------------------

MISREAD = {  # by the order in the lab's source
    0: "after the last layer nothing is left to save: all of them have worked on all tokens",
    1: "look at the top row. After the first layer half of the tokens, chosen by attention, cost some fifteen points: what a word "
    "means for the verdict, negated or outweighed by another clause, has not been read yet",
    2: "look at the green line. Keeping the polar words alone cost more than ten points after every layer: without its negator, "
    "or the word that says which clause to believe, a polar word does not know what it is worth",
}


@question("10.7", points=0.5, claim="a: after which layer tokens can go")
def test_which_layer(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_10_7a", OPTIONS, MISREAD)


# θ = 1/37 on s takes 85.4 % of the longest quarter and 20.0 % of the shortest. Model and reviews are the same everywhere, so
# only rounding differs, the printout's among it. Who has not looked says some 10 to 50 points.
APART = (63, 68)
READ_INSTEAD = (  # of the same printout, by mistake: from, to, what
    (1, 6, "the difference that n·s leaves"),
    (17, 23, "the share of the shortest quarter alone, or what lies between the two rules in the longest"),
    (41, 46, "what lies between the two rules in the shortest quarter"),
    (83, 88, "the share of the longest quarter alone"),
)


@question("10.7", points=0.5, claim="b: what a threshold on s takes more from long texts")
def test_long_and_short_texts(submission: Submission, draw: Draw) -> None:
    what = "what lies between the two quarters for these reviews"
    expect_figure(points_typed(submission), APART, what, READ_INSTEAD, "Which two numbers belong to a threshold on s?")


# --- 10.8 find_bug -------------------------------------------------------------------------------------------------


def by_loops(attn: Tensor, token_mask: Tensor) -> Tensor:
    """A right version that goes through the texts, and relies on its arguments."""
    out = attn.new_zeros(token_mask.shape)
    for b, real in enumerate(token_mask):
        among = attn[b][:, real][:, :, real].sum((0, 1))
        out[b, real] = among / among.sum()
    return out


def not_scaled(attn: Tensor, token_mask: Tensor) -> Tensor:
    real = token_mask.to(attn.dtype)
    return (attn.mean(1) * real[:, :, None]).sum(1) * real / real.sum(1, keepdim=True)


def only_cls(real: Tensor) -> Tensor:
    return real * (torch.arange(real.shape[1]) == 0)


@question("10.8", points=0.5, claim="eight subtle bugs are found, and nothing right is accused")
def test_hunt_subtle_bugs(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "attention_received",
        right=RIGHT | {"one that goes through the texts": by_loops},
        wrong={
            "counts the queries of padding": altered(asks=torch.ones_like),
            "sets padding to 0 and does not scale the rest": not_scaled,
            "reads the row of [CLS] alone": altered(asks=only_cls),
            "takes the strongest head for the mean of all": altered(weights=lambda attn: attn.amax(1)),
            "reads the first head alone": altered(weights=lambda attn: attn[:, 0]),
            "takes the padding of the first text for that of all": altered(
                asks=lambda real: real[:1].expand_as(real), receives=lambda real: real[:1].expand_as(real)
            ),
            "lets the scores of the whole batch sum to 1": altered(end=lambda total: total / total.sum()),
            "leaves out what a token takes from itself": altered(
                weights=lambda attn: attn.mean(1) * (1 - torch.eye(attn.shape[-1], dtype=attn.dtype))
            ),
        },
        promise=PROMISE,
    )
