"""Lab 10, tokens: what is claimed of each answer, and what its likely mistakes look like.

Inputs are drawn anew for every grading, and so that the usual mistakes give other results than the right answer: texts of unlike
lengths, padding that has the largest scores, that is looked at, and that stands between real tokens, scores of both signs and
above 1, ties, a [CLS] that nobody looks at, and layers whose thresholds all differ.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    StudentError,
    Submission,
    ask,
    describe,
    expect_close,
    expect_equal,
    expect_int,
    expect_raises,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims import mistakes as known
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import Case, Mistakes
from course_lib.grading.claims.typed import expect_choice, expect_typed
from course_lib.labs import lab10 as reference
from course_lib.worker import wire

near = functools.partial(known.near, relative=False)
recognise = functools.partial(known.recognise, alike=near)
telling = functools.partial(known.telling, alike=near)


# --- texts ---------------------------------------------------------------------------------------------------------


def scaled(x: Tensor) -> Tensor:
    """Rows that sum to 1."""
    return x / x.sum(1, keepdim=True)


def padded(lengths: list[int], L: int) -> Tensor:
    """A token_mask (B, L) with the padding at the end."""
    return torch.arange(L) < torch.tensor(lengths)[:, None]


def attention(draw: Draw, B: int, M: int, L: int, seen: Tensor | None = None) -> Tensor:
    """Attention weights (B, M, L, L); ``seen`` (B, L) says what the rows may look at."""
    raw = draw.normal(B, M, L, L, scale=1.5)
    return (raw if seen is None else raw.masked_fill(~seen[:, None, None], -torch.inf)).softmax(-1)


# --- 10.1 attention_received ---------------------------------------------------------------------------------------

ROWS = (
    "every token has the same score, 1/n: a row says where a token looks, and sums to 1 whatever it is worth. What the others "
    "take from token i stands in column i"
)


def received(submission: Submission, attn: Tensor, mask: Tensor, right: Tensor, mistakes: Mistakes, when: str) -> None:
    """The student's scores are the right ones; else the mistake whose result they are."""
    thought = "attn is (B, M, L, L), token_mask (B, L)"
    scores = ask(lambda: submission.attention_received(attn, mask), when, thought)
    expect_tensor(scores, shape=mask.shape, what="the result")
    recognise(scores, right, mistakes, f"{when}: ")
    if scores.isnan().any():
        fail(f"{when}, some scores are NaN: what is divided by 0?")
    if (scores[~mask] != 0).any():
        fail(f"{when}, padding has a score above 0: set its columns to 0, and then let the rest sum to 1")
    sums = scores.double().sum(1)
    b = int((sums - 1).abs().argmax())
    if abs(float(sums[b]) - 1) > 1e-4:
        fail(f"{when}, the scores of text {b} sum to {sums[b]:.4g}, not to 1: divide by their sum, text by text")
    expect_close(scores, right, f"{when}, the result")


@question("10.1", points=1, claim="the mean of column i, over heads and over queries")
def test_mean_of_the_columns(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        B, M, L = draw.integer(2, 3), draw.integer(4, 5), draw.integer(6, 8)
        attn = attention(draw, B, M, L)
        mask = torch.ones(B, L, dtype=torch.bool)
        right, mean = reference.attention_received(attn, mask), attn.mean(1)
        others = 1 - torch.eye(L)
        scale = "divide, so that the scores of a text sum to 1"
        mistakes = {
            ROWS: torch.full_like(right, 1 / L),
            "only the row of [CLS] was read: here every query counts": mean[:, 0],
            "only the row of the last query was read: here every query counts": mean[:, -1],
            f"the scores were summed over the heads: take the mean, or {scale}": M * right,
            f"the scores were summed over the queries: take the mean, or {scale}": L * right,
            f"the scores were summed over heads and queries: {scale}": M * L * right,
            "of the heads, the strongest head was taken for each query: take the mean over heads": scaled(
                attn.amax(1).sum(1)
            ),
            "of the heads, the strongest head was taken for each query, and nothing scaled: take the mean": (
                attn.amax(1).mean(1)
            ),
            "of the queries, the query that asks most was taken: take the mean over queries": scaled(mean.amax(1)),
            "of the queries, the query that asks most was taken, and nothing scaled: take the mean": mean.amax(1),
            "only the first head was read: take the mean over heads": attn[:, 0].mean(1),
            "only the last head was read: take the mean over heads": attn[:, -1].mean(1),
            "what a token takes from itself was left out: it counts like the rest of its column": scaled(
                (mean * others).sum(1)
            ),
            "only the diagonal was read, what each token takes from itself": scaled(mean.diagonal(dim1=1, dim2=2)),
            "the scores sum to 1 over the whole batch: over each text they should": right / B,
            "a softmax was taken of the scores, which evens them out: divide by their sum": right.softmax(1),
            "the largest score is 1: it is their sum that should be 1": right / right.amax(1, keepdim=True),
        }
        return (attn, mask), right, mistakes

    (attn, mask), right, mistakes = telling(case)
    received(submission, attn, mask, right, mistakes, "for texts without padding")


@question("10.1", points=0.5, claim="padding receives nothing, and the rest sums to 1")
def test_padding_receives_nothing(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        M, L = draw.integer(2, 4), draw.integer(8, 10)
        lengths = [L - 1, L, L - draw.integer(3, 4)]
        mask, attn = padded(lengths, L), attention(draw, 3, M, L)
        for b, length in enumerate(lengths):
            attn[b, :, length:] = attn[b, :, :length].mean(
                1, keepdim=True
            )  # so that it does not matter here whether they count
        right, real = reference.attention_received(attn, mask), mask.float()
        n = real.sum(1, keepdim=True)
        mean = (attn.mean(1) * real[:, :, None]).sum(1) / n  # (B, L), looked at by real queries
        by_head = torch.einsum("bmji,bj->bmi", attn, real) * real[:, None]
        by_query = attn.mean(1) * real[:, None, :]
        first = real[0]
        mistakes = {
            "padding has a score: what was taken from it counts for nothing, and the rest is scaled to sum to 1": mean,
            "padding has score 0, and the rest was not scaled (or before the zeros were set): it sums to less than 1": (
                mean * real
            ),
            "the sum over real queries was divided by all L, and the rest was not scaled to sum to 1": (
                mean * real * n / L
            ),
            "the padding of the first text was taken for that of all": scaled(
                (attn.mean(1) * first[:, None]).sum(1) * first
            ),
            "each head was scaled to sum to 1 before the mean was taken: first the mean over heads, at the end the scaling": (
                (by_head / by_head.sum(2, keepdim=True)).mean(1)
            ),
            "each query was scaled to sum to 1 before the mean was taken: one that looks at padding most counts as much as one "
            "that never does. Scale once, at the end": (
                (by_query / by_query.sum(2, keepdim=True) * real[:, :, None]).sum(1) / n
            ),
        }
        return (attn, mask), right, mistakes

    (attn, mask), right, mistakes = telling(case)
    received(submission, attn, mask, right, mistakes, "where real tokens look at padding")


@question("10.1", points=0.5, claim="padding does not ask: only real queries count")
def test_padding_does_not_ask(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        M, L = draw.integer(2, 4), draw.integer(8, 10)
        mask = padded([L, L - 2, draw.integer(2, 4)], L)
        attn = attention(draw, 3, M, L, seen=mask)
        right = reference.attention_received(attn, mask)
        asked = (
            "queries of padding were counted: their rows sum to 1 like all others, but nobody reads what comes of them"
        )
        mistakes = {
            asked: scaled(attn.mean((1, 2)) * mask),
            f"{asked}, and the mean was taken over fewer": attn.mean(1).sum(1) / mask.sum(1, keepdim=True),
        }
        return (attn, mask), right, mistakes

    (attn, mask), right, mistakes = telling(case)
    received(submission, attn, mask, right, mistakes, "where nobody looks at padding")


# --- 10.2 keep_tokens ----------------------------------------------------------------------------------------------

EQUALS = (
    "of equal scores the wrong ones went: the one that comes first stays, and a plain topk or argsort promises no order among "
    "equals"
)
KEPT = "the result (hidden, token_mask, index)"


def chosen(rank: Tensor, k: int) -> Tensor:
    """Where the k largest of each row stand, [CLS] among them, ascending; of equal ones the first. int64 (B, k')."""
    rank = rank.double()
    rank[:, 0] = torch.inf
    return rank.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values


class Texts:
    """What keep_tokens is given, and what it should return."""

    def __init__(self, draw: Draw, mask: Tensor, scores: Tensor, k: int, E: int = 3) -> None:
        self.hidden = draw.normal(*mask.shape, E)
        self.mask, self.scores, self.k = mask, scores, k

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor, int]:
        return self.hidden, self.mask, self.scores, self.k

    @functools.cached_property
    def right(self) -> tuple[Tensor, Tensor, Tensor]:
        return reference.keep_tokens(*self.given)

    @property
    def index(self) -> Tensor:
        return self.right[2]


def stood(rows: Tensor, hidden: Tensor) -> Tensor:
    """Where each row stood in its text, int64 (B, k'); -1 where it is none of its rows."""
    same = (rows[:, :, None] == hidden[:, None]).all(-1)  # (B, k', L)
    return same.int().argmax(-1).where(same.any(-1), -1)


def as_kept(value: Any, texts: Texts, when: str) -> tuple[Tensor, Tensor, Tensor]:
    """The value, if it has the form of rows, a mask and an index."""
    if not isinstance(value, list | tuple) or len(value) != 3:
        fail(f"{KEPT} should be a tuple of three, it is {describe(value)}")
    rows, mask, index = value
    if isinstance(rows, Tensor) and isinstance(index, Tensor) and index.is_floating_point() > rows.is_floating_point():
        fail(f"{KEPT} has its parts in another order: the rows come first, then their mask, then where they stood")
    B, L, E = texts.hidden.shape
    left = min(texts.k, L)
    if isinstance(rows, Tensor) and rows.ndim == 3 and left < L:
        if rows.shape[1] == L:
            fail(
                f"{when}, all {L} rows are there still: rows that are set to 0 cost as much as before. Here they leave, and "
                f"(B, {left}, E) stay"
            )
        if rows.shape[1] == left + 1:
            fail(f"{when}, {left + 1} rows stay where k = {texts.k}: k is all that stay, [CLS] among them")
        if rows.shape[1] == L - left:
            fail(f"{when}, {L - left} of {L} rows stay where k = {texts.k}: k is how many stay, not how many go")
    expect_tensor(rows, shape=(B, left, E), dtype=texts.hidden.dtype, what=f"{when}, hidden")
    expect_tensor(mask, shape=(B, left), dtype=torch.bool, what=f"{when}, the mask")
    expect_tensor(index, shape=(B, left), dtype=torch.int64, what=f"{when}, index")
    return rows, mask, index


def expect_kept(submission: Submission, texts: Texts, mistakes: Mistakes, when: str) -> None:
    """Rows, mask and index are right; else the mistake whose result they are. ``mistakes``: where the rows stood."""
    thought = "k' = min(k, L) rows of each text stay"
    value = ask(lambda: submission.keep_tokens(*texts.given), when, thought)
    rows, mask, index = as_kept(value, texts, when)
    _expect_rows(rows, texts, mistakes, when)
    right = texts.index
    if not torch.equal(index, right):
        among = (texts.mask.long().cumsum(1) - 1).gather(1, right)
        flat = right + texts.mask.shape[1] * torch.arange(len(right))[:, None]
        said = f"{when}, the rows are right, but index does not say where they stood: "
        places = torch.arange(right.shape[1]).expand_as(right)
        recognise(
            index,
            right,
            {
                "it was counted anew, 0 to k' - 1. It says where each row stood before": places,
                "it counts among the real tokens. It says which column of hidden it was": among,
                "it counts from 1, and columns count from 0": right + 1,
                "it counts through one long list of all texts. It says which column of its text": flat,
            },
            said,
        )
        if torch.equal(index.sort(1).values, right):
            fail(f"{when}, index says another order than the rows have: both rise along the text")
        fail(f"{said}text 0 has {index[0].tolist()} instead of {right[0].tolist()}")
    if not torch.equal(mask, texts.right[1]):
        said = f"{when}, the rows are right, but their mask is not: "
        recognise(
            mask,
            texts.right[1],
            {
                "the mask calls padding real: it stays padding when it fills up a short text": torch.ones_like(mask),
                "it is the first k columns of token_mask. The mask leaves with the rows, by the same index": (
                    texts.mask[:, : mask.shape[1]]
                ),
                "it is upside down: True is a real token": ~texts.right[1],
            },
            said,
        )
        fail(f"{said}text 0 has {mask[0].tolist()} instead of {texts.right[1][0].tolist()}")


def _expect_rows(rows: Tensor, texts: Texts, mistakes: Mistakes, when: str) -> None:
    at, right = stood(rows, texts.hidden), texts.index
    if torch.equal(at, right):
        return
    strange = at < 0
    if strange.any():
        if (rows[strange] == 0).all():
            fail(
                f"{when}, rows of padding that stay are 0 now: a row stays as it is, and the mask says that it is padding"
            )
        everywhere = texts.hidden.flatten(0, 1)[None].expand(len(rows), -1, -1)
        if (stood(rows, everywhere) >= 0).all():
            fail(f"{when}, there are rows of another text: index counts within each text")
        fail(f"{when}, there are rows that were not given: choose among them, and change none")
    if torch.equal(at.sort(1).values, right):
        fail(
            f"{when}, the right rows stay, but not in their order: text 0 has the columns {at[0].tolist()}. Whoever reads them next "
            "takes their order for that of the text"
        )
    recognise(at, right, mistakes, f"{when}: ")
    for b in range(len(at)):
        _expect_choice(at[b].tolist(), right[b].tolist(), texts.mask[b], texts.scores[b], f"{when}, in text {b}, ")


def _expect_choice(kept: list[int], right: list[int], mask: Tensor, scores: Tensor, where: str) -> None:
    """One text."""
    if kept == right:
        return
    if 0 not in kept:
        fail(f"{where}[CLS] was dropped: the answer is read from it, whatever its score")
    if len(set(kept)) < len(kept):
        fail(f"{where}a row stays twice: columns {kept}")
    wrong, missed = sorted(set(kept) - set(right)), sorted(set(right) - set(kept))
    if not mask[wrong].all():
        if mask[missed].any():
            fail(f"{where}padding stays while real tokens went: whatever scores say of padding, it comes last")
        fail(f"{where}{missed[0]} should fill up, not {wrong[0]}: of padding, the first padding first")
    if missed and wrong and scores[wrong].sort().values.equal(scores[missed].sort().values):
        fail(f"{where}{EQUALS}")
    low, high = wrong[scores[wrong].argmin()], missed[scores[missed].argmax()]
    fail(
        f"{where}the token of score {scores[low]:.3g} (column {low}) stays and that of {scores[high]:.3g} (column {high}) went: "
        "the largest stay"
    )


@question("10.2", points=1, claim="the k rows with the largest scores, in their order")
def test_best_rows_in_order(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        k = draw.integer(4, 5)
        L = 2 * k + 3
        scores = draw.normal(3, L, scale=3)
        scores[:, 0] = scores.abs().amax(1) + 1
        texts = Texts(draw, torch.ones(3, L, dtype=torch.bool), scores, k)
        mistakes = {
            "the rows with the smallest scores stayed: larger = more important": chosen(-scores, k),
            "the scores were ranked without their sign: larger = more important, and -3 is not": chosen(scores.abs(), k),
            "the choice of the first text was made for all: each text has scores of its own": texts.index[:1].expand(3, -1),
            "the mean over the texts was ranked: each text has scores of its own": chosen(scores.mean(0).expand(3, -1).clone(), k),
            "the first k rows stayed, whatever their scores": torch.arange(k).expand(3, -1),
        }  # fmt: skip
        return texts, texts.index, mistakes

    texts, _, mistakes = telling(case)
    expect_kept(submission, texts, mistakes, "for texts without padding")


@question("10.2", points=0.5, claim="[CLS] stays whatever its score, as one of the k")
def test_cls_stays(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        k = draw.integer(4, 5)
        scores = draw.normal(3, 2 * k + 3, scale=3) + 5
        scores[:, 0] = scores.amin(1) - 2
        texts = Texts(draw, torch.ones_like(scores, dtype=torch.bool), scores, k)
        plain = scores.argsort(1, descending=True)[:, :k].sort(1).values
        first, last = plain.clone(), plain.clone()
        first[:, 0], last[:, -1] = 0, 0
        place = "[CLS] took the place of one of the best k, but not of the one with the smallest score"
        mistakes = {
            "[CLS] was dropped: the answer is read from it, whatever its score": plain,
            f"{place}: the first in the text went": first,
            f"{place}: the last in the text went": last.sort(1).values,
        }
        return texts, texts.index, mistakes

    texts, _, mistakes = telling(case)
    expect_kept(submission, texts, mistakes, "where [CLS] has the smallest score")


@question("10.2", points=0.5, claim="real tokens before padding, whatever the scores say of it")
def test_real_before_padding(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        k = draw.integer(5, 6)
        L = 2 * k + 3
        mask = padded([L - 3, L - 1, k - 2], L)
        scores = (draw.normal(3, L, scale=3) - 4).where(mask, draw.normal(3, L).abs() + 9)
        texts = Texts(draw, mask, scores, k)
        zero, one = scores.masked_fill(~mask, 0), scores.masked_fill(~mask, -1)
        rank = "padding was ranked by a fixed number, {}: a real token may have less"
        return (
            texts,
            texts.index,
            {rank.format("as 0"): chosen(zero, k), rank.format("as -1"): chosen(one, k)},
        )

    texts, _, mistakes = telling(case)
    expect_kept(submission, texts, mistakes, "where padding has the largest scores")


# --- 10.3 progressive ----------------------------------------------------------------------------------------------

Rounding = Callable[[Tensor], Tensor]


def table(lengths: Tensor, shares: list[float], number: Rounding = lambda x: torch.ceil(x - 1e-9)) -> Tensor:
    """Tokens in each layer, (layers, B), of shares of its own; at least 1."""
    return number(lengths.double() * torch.tensor(shares, dtype=torch.float64)[:, None]).clamp(min=1).long()


def wrong_rounding(lengths: Tensor, shares: list[float]) -> dict[str, Tensor]:
    """What comes of the right shares by mistake."""
    single = lengths * torch.tensor(shares, dtype=torch.float32)[:, None]
    return {
        "the numbers were cut off: a part of a token that is left over is one more token, ⌈…⌉": table(
            lengths, shares, torch.floor
        ),
        "the numbers were rounded to the nearest: a part of a token that is left over is one more token, ⌈…⌉": table(
            lengths, shares, torch.round
        ),
        "products like 100 · 0.07 = 7.000000000000001 were rounded up: that is what the 1e-9 is for": table(
            lengths, shares, torch.ceil
        ),
        "one more than the whole part was taken, also where the product is a whole number": torch.minimum(
            table(lengths, shares, lambda x: (x + 1e-9).floor() + 1), lengths[None]
        ),
        "float32 is too coarse: it cannot tell n · share - 1e-9 from n · share. Compute in float64": (
            torch.ceil(single - 1e-9).clamp(min=1).long()
        ),
    }


def as_table(value: Any, lengths: Tensor, layers: int, when: str) -> Tensor:
    if isinstance(value, Tensor) and layers != len(lengths) and value.shape == (len(lengths), layers):
        fail(
            f"{when} the result has shape {tuple(value.shape)}: it has one row for each layer, and a column for each text"
        )
    return expect_tensor(value, shape=(layers, len(lengths)), dtype=torch.int64, what=f"{when} the result")


def expect_table(value: Any, lengths: Tensor, layers: int, final: float, mistakes: Mistakes) -> None:
    when = f"for texts of {lengths.tolist()} tokens, {layers} layers and final = {final:.3g}"
    counts = as_table(value, lengths, layers, when)
    right = reference.progressive(lengths, layers, final)
    recognise(counts, right, mistakes, f"{when}: ")
    if not torch.equal(counts[0], lengths):
        fail(f"{when} the first layer works on {counts[0].tolist()}: the first layer works on all")
    expect_equal(counts, right, f"{when} the result")


@question("10.3", points=0.5, claim="the share falls by the same factor, from 1 to final")
def test_progressive_shares(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        layers, final = draw.integer(5, 7), round(draw.number(0.1, 0.3), 2)
        lengths = torch.tensor(draw.distinct(4, 30, 200))
        last = layers - 1
        shares = [final ** (i / last) for i in range(layers)]
        right = reference.progressive(lengths, layers, final)
        before, rows = lengths, [lengths]
        for _ in range(last):
            before = torch.ceil(before.double() * final ** (1 / last) - 1e-9).clamp(min=1).long()
            rows.append(before)
        mistakes = {
            "the share begins to fall before the first layer: the first layer works on all": table(
                lengths, [final ** ((i + 1) / layers) for i in range(layers)]
            ),
            "the last layer works on the share final, and here it works on more: layers count from 0 to layers - 1": table(
                lengths, [final ** (i / layers) for i in range(layers)]
            ),
            "the shares come one layer late": table(lengths, [1.0, *shares[:-1]]),
            "the shares come one layer early: the first layer works on all": table(lengths, [*shares[1:], final]),
            "the share falls by the same amount in each layer: it should fall by the same factor": table(
                lengths, [1 - (1 - final) * i / last for i in range(layers)]
            ),
            "the share falls by final from each layer to the next: final is reached in the last layer, not in the second": (
                table(lengths, [final**i for i in range(layers)])
            ),
            "all layers but the first work on the share final: it is reached in the last": table(
                lengths, [1.0] + [final] * last
            ),
            "the numbers were taken from the rounded number of the layer before, so that rounding adds up: take them from n": (
                torch.stack(rows)
            ),
            "shares of the longest text were taken for all: each text has its own n": torch.minimum(
                table(lengths.max().expand(4), shares), lengths
            ),
            "that is how many leave: the result is how many each layer works on": lengths - right,
            "[CLS] was counted apart, n - 1 shared and 1 added: [CLS] counts like the others": (
                1 + torch.ceil((lengths.double() - 1) * torch.tensor(shares).double()[:, None] - 1e-9).long()
            ),
            "the table is the other way round: layer 0, the first, works on all": right.flip(0),
            **{
                sentence: wrong
                for sentence, wrong in wrong_rounding(lengths, shares).items()
                if ("cut off: a part" in sentence or "nearest" in sentence)
            },
        }
        return (lengths, layers, final), right, mistakes

    (lengths, layers, final), _, mistakes = telling(case)
    expect_table(submission.progressive(lengths, layers, final), lengths, layers, final, mistakes)
    for shape in ([draw.integer(5, 50)], draw.distinct(4, 5, 50)):  # one text; as many texts as layers
        lengths = torch.tensor(shape)
        value, (after,) = submission.call("progressive", lengths, 4, 0.3, returning=(0,))
        expect_table(value, lengths, 4, 0.3, {})
        unchanged(lengths, after, "lengths")


@question("10.3", points=0.5, claim="arguments: a final outside (0, 1] raises ValueError, and 1 keeps all")
def test_progressive_arguments(submission: Submission, draw: Draw) -> None:
    lengths, layers = torch.tensor(draw.distinct(3, 5, 40)), draw.integer(4, 6)
    thought = "A share of 1 keeps all tokens in all layers"
    value = ask(lambda: submission.progressive(lengths, layers, 1.0), "for final = 1", thought)
    expect_table(value, lengths, layers, 1.0, {})
    final = round(draw.number(0.2, 0.6), 2)
    expect_table(submission.progressive(lengths, layers, final), lengths, layers, final, {})
    for final in (0.0, -0.2, 1.01, 30.0):
        expect_raises(ValueError, functools.partial(submission.progressive, lengths, 3, final), f"final = {final}")


# --- 10.3 threshold_policy -----------------------------------------------------------------------------------------

WITHOUT_N = (
    "θ was compared without n: s sums to 1 over a text, so an average token of a long text has less than one of a short text. "
    "Compare n · s, where 1 is average"
)
PADDED_N = "padding was counted in n: the same text would keep other tokens when it is padded further"
TOO_CLOSE = "(rounding could decide: draw again)"


def parts(draw: Draw, mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Scores (B, L): 0 for padding, summing to 1 over each text, from far below the average to far above it."""
    sizes = draw.sizes(mask.numel(), 0.1, 4).view(mask.shape)
    return scaled(sizes * mask).to(dtype)


def at_least(scaled_scores: Tensor, theta: float, mask: Tensor) -> Tensor:
    keep = (scaled_scores >= theta) & mask
    keep[:, 0] = True
    return keep


def expect_keep(
    submission: Submission, scores: Tensor, theta: float, mask: Tensor, mistakes: Mistakes, when: str
) -> None:
    keep = submission.threshold_policy(scores, theta, mask)
    expect_tensor(keep, shape=mask.shape, dtype=torch.bool, what="the result")
    right = reference.threshold_policy(scores, theta, mask)
    recognise(keep, right, mistakes, f"{when}: ")
    if not keep[:, 0].all():
        fail(f"{when}, [CLS] was dropped: [CLS] stays whatever its score, since the answer is read from it")
    if (keep & ~mask).any():
        fail(f"{when}, padding was kept: it never is")
    expect_equal(keep, right, f"{when}, the result")


@question("10.3", points=0.5, claim="kept where n · s ≥ θ, and [CLS] always")
def test_threshold(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        L = draw.integer(14, 18)
        mask = padded([L, L // 2, 5], L)
        scores = parts(draw, mask)
        scores[:, 0] = 0.01 / L
        scores = scaled(scores)
        theta = draw.number(0.8, 1.4)
        n = mask.sum(1, keepdim=True)
        right = reference.threshold_policy(scores, theta, mask)
        with_cls = at_least(n * scores, theta, mask)
        dropped, below = with_cls.clone(), (n * scores < theta) & mask
        dropped[:, 0] = False
        below[:, 0] = True
        mistakes = {
            WITHOUT_N: at_least(scores, theta, mask),
            PADDED_N: at_least(L * scores, theta, mask),
            "n was the mean length of the batch: each text has its own n": at_least(n.double().mean() * scores, theta, mask),
            "θ was compared with parts of the largest score: n · s has no upper end at 1, and 1 is its average": at_least(
                scores / scores.amax(1, keepdim=True), theta, mask
            ),
            "[CLS] was dropped: [CLS] stays whatever its score, since the answer is read from it": dropped,
            "tokens below the threshold stayed: those at and above it do": below,
        }  # fmt: skip
        if ((n * scores - theta).abs() < 1e-3).any():
            mistakes[TOO_CLOSE] = right
        return (scores, theta, mask), right, mistakes

    (scores, theta, mask), _, mistakes = telling(case)
    expect_keep(submission, scores, theta, mask, mistakes, f"at θ = {theta:.3g}")


# --- 10.4 SoftThreshold --------------------------------------------------------------------------------------------

NO_PARAMETER = "theta is no nn.Parameter of the module: an optimizer that gets module.parameters() will never move it"
NOT_REACHED = (
    "the gradient never reaches theta: is its value taken out on the way (.item(), .data, .detach(), a new tensor, no_grad), or is "
    "the gate a comparison?"
)
HARD = "the gate is hard while training, and a step has no gradient: in training mode it is σ((n·s - θ)/T)"


class Thresholds:
    """A student's module, kept beside their code, with thresholds that all differ."""

    def __init__(self, submission: Submission, draw: Draw, theta: list[float] | None = None, T: float = 0) -> None:
        self.submission = submission
        self.T = T or round(draw.number(0.2, 0.5), 2)
        self.theta = torch.tensor(theta or [draw.number(*ends) for ends in 2 * ((0.55, 0.8), (1.25, 1.5))])
        self.module = submission.SoftThreshold(len(self.theta), self.T, keep=True)
        try:
            submission.call("theta.data.copy_", self.theta, on=self.module)
        except StudentError as error:
            if error.kind != "raised" or error.unwritten:
                raise
            said = f"{error.type}: {error.message}"
            fail(
                f"theta could not be set to {describe(self.theta)} ({said}): it is an nn.Parameter, one for each layer"
            )

    def __call__(self, scores: Tensor, layer: int, mask: Tensor, **settings: Any) -> Any:
        return self.submission.call("", scores, layer, mask, on=self.module, **settings)

    def above(self, scores: Tensor, layer: int, mask: Tensor) -> Tensor:
        """n·s - θ."""
        return mask.sum(1, keepdim=True) * scores - self.theta[layer].to(scores.dtype)

    def soft(self, scores: Tensor, layer: int, mask: Tensor) -> Tensor:
        return closed(torch.sigmoid(self.above(scores, layer, mask) / self.T), mask)

    def hard(self, scores: Tensor, layer: int, mask: Tensor) -> Tensor:
        return closed((self.above(scores, layer, mask) >= 0).to(scores.dtype), mask)


def closed(gate: Tensor, mask: Tensor) -> Tensor:
    """[CLS] 1, padding 0."""
    gate = gate * mask
    gate[:, 0] = 1
    return gate


def wrong_gates(made: Thresholds, scores: Tensor, layer: int, mask: Tensor) -> dict[str, Tensor]:
    """What comes out in training mode by mistake."""
    n, theta, T = mask.sum(1, keepdim=True), made.theta, made.T
    x = made.above(scores, layer, mask)
    gates = {
        "n·s - θ was multiplied by the temperature: it is divided by it, so that a low one makes a steep step": x * T,
        "the temperature does nothing: n·s - θ is divided by it": x,
        "the temperature divides n·s alone: it divides the whole difference": n * scores / T - theta[layer],
        "the gate is the wrong way round: what is far above θ goes on": -x / T,
        WITHOUT_N: (scores - theta[layer]) / T,
        PADDED_N: (mask.shape[1] * scores - theta[layer]) / T,
        "the mean of all layers' thresholds was used: each layer has its own": (n * scores - theta.mean()) / T,
        "the thresholds of the layers before were added: each layer has its own": (
            n * scores - theta[: layer + 1].sum()
        )
        / T,
    }
    for other in range(len(theta)):
        if other != layer:
            said = f"theta[{other}] was used for layer {layer}, that of another layer: layers count from 0"
            gates[said] = made.above(scores, other, mask) / T
    wrong = {said: closed(torch.sigmoid(gate), mask) for said, gate in gates.items()}
    wrong[HARD] = made.hard(scores, layer, mask)
    said = "what comes out is the gate times the score itself: return how much of the token goes on, 1 for all of it"
    wrong[said] = closed(torch.sigmoid(x / T) * scores, mask)
    return wrong


def expect_gate(
    value: Any, right: Tensor, mask: Tensor, mistakes: Mistakes, when: str, tolerance: float = 1e-5
) -> None:
    """The gate is right; else say which part of it is not."""
    expect_tensor(value, shape=mask.shape, dtype=right.dtype, what=f"{when} the gate")
    if value.isnan().any():
        fail(f"{when} the gate is NaN at some token: is something divided by itself that may be 0?")
    words = mask.clone()
    words[:, 0] = False
    recognise(value * words, right * words, {said: wrong * words for said, wrong in mistakes.items()}, f"{when}: ")
    if not (value[:, 0] == 1).all():
        fail(f"{when} [CLS] goes on to {value[0, 0].item():.4g}: its gate is 1 whatever its score")
    if (value[~mask] != 0).any():
        fail(f"{when} padding has a gate of {value[~mask].double().abs().max().item():.4g}: it is 0 whatever θ is")
    expect_close(value, right, f"{when} the gate", tolerance=tolerance)


@question("10.4", points=0.5, claim="theta is an nn.Parameter (layers,), 0 at first")
def test_theta_is_a_parameter(submission: Submission, draw: Draw) -> None:
    for layers in draw.distinct(2, 2, 6):
        module = submission.SoftThreshold(layers, 0.3, keep=True)
        model = submission.get(module)
        if not isinstance(model, wire.Model):
            fail(f"SoftThreshold(layers, temperature) is {describe(model)}: it should be an nn.Module")
        try:
            submission.call("get_parameter", "theta", on=module, keep=True)
        except StudentError as error:
            if error.kind != "raised":
                raise
            others = f" (it holds {', '.join(model.state)})" if model.state else ""
            fail(f"{NO_PARAMETER}{others}")
        theta = model.state.get("theta")
        if isinstance(theta, Tensor) and theta.shape != (layers,):
            fail(f"theta has shape {tuple(theta.shape)} for {layers} layers: one for each layer, ({layers},)")
        theta = expect_tensor(theta, what="theta")
        if (theta != 0).any():
            fail(f"theta is {describe(theta)} when it is made: 0 at first, so that all tokens go on")
        if submission.get(module, "theta.requires_grad") is not True:
            fail("theta.requires_grad is False: nothing will ever train it")


def batch(draw: Draw) -> tuple[Tensor, Tensor]:
    """Scores and token_mask of three texts, the padding at the end; [CLS] has a small score."""
    L = draw.integer(8, 10)
    mask = padded([L - 1, 6, 3], L)
    scores = parts(draw, mask)
    scores[:, 0] *= 0.3
    return scaled(scores), mask


@question("10.4", points=1, claim="in training a soft gate at the layer's own θ; [CLS] 1, padding 0")
def test_soft_gate(submission: Submission, draw: Draw) -> None:
    made = Thresholds(submission, draw)
    layer = draw.integer(1, 2)

    def case() -> Case:
        scores, mask = batch(draw)
        return (scores, mask), made.soft(scores, layer, mask), wrong_gates(made, scores, layer, mask)

    (scores, mask), right, mistakes = telling(case)
    expect_gate(made(scores, layer, mask), right, mask, mistakes, "in training mode")
    for other in range(4):
        right, mistakes = made.soft(scores, other, mask), wrong_gates(made, scores, other, mask)
        expect_gate(made(scores, other, mask), right, mask, mistakes, f"in training mode, in layer {other}")


@question("10.4", points=0.5, claim="in evaluation a hard one: 1 or 0")
def test_hard_gate(submission: Submission, draw: Draw) -> None:
    made = Thresholds(submission, draw)
    layer = draw.integer(1, 2)

    def case() -> Case:
        scores, mask = batch(draw)
        n = mask.sum(1, keepdim=True)
        right = made.hard(scores, layer, mask)
        mistakes = {
            "the gate is soft: here it is a step, 1 or 0, so that rows can leave": made.soft(scores, layer, mask),
            "the gate is the wrong way round: what is at θ and above goes on": closed(1 - right, mask),
            "the gate does not look at θ": closed((n * scores >= 1).float(), mask),
            WITHOUT_N: closed((scores >= made.theta[layer]).float(), mask),
            PADDED_N: closed((mask.shape[1] * scores >= made.theta[layer]).float(), mask),
        }
        if (made.above(scores, layer, mask).abs() < 1e-3).any():
            mistakes[TOO_CLOSE] = right
        return (scores, mask), right, mistakes

    (scores, mask), right, mistakes = telling(case)
    submission.train(made.module, False)
    expect_gate(made(scores, layer, mask), right, mask, mistakes, "in evaluation mode")
    submission.train(made.module, True)
    again = "back in training mode"
    expect_gate(made(scores, layer, mask), made.soft(scores, layer, mask), mask, {HARD: right}, again)


@question("10.4", points=0.5, claim="a gradient reaches the layer's θ, from its words alone")
def test_gradient_of_theta(submission: Submission, draw: Draw) -> None:
    made, layer = Thresholds(submission, draw), draw.integer(1, 2)
    scores, mask = batch(draw)
    weights = draw.normal(*mask.shape)
    gate = made(scores, layer, mask, keep=True)
    try:
        submission.backward(gate, weights)
    except StudentError as error:
        if error.kind != "raised" or error.unwritten:
            raise
        if "inplace" in error.message:
            fail(
                "the gradient cannot be computed: autograd needs the gate as it was, and the code changed it in place (gate[:, 0] = 1?). "
                "Change a new tensor, or put the columns together"
            )
        if "does not require grad" in error.message:
            fail(NOT_REACHED)
        fail(f"backward() through the gate raised {error.type}: {error.message}")
    gradient = submission.get(made.module, "theta.grad")
    if gradient is None:
        fail(NOT_REACHED)
    expect_tensor(gradient, shape=made.theta.shape, what="theta.grad")
    open_ = torch.sigmoid(made.above(scores, layer, mask) / made.T)
    each = -weights * open_ * (1 - open_) / made.T  # (B, L)
    words = mask.clone()
    words[:, 0] = False

    def at_layer(value: Tensor) -> Tensor:
        return torch.zeros_like(made.theta).index_fill(0, torch.tensor([layer]), float(value))

    right = at_layer(each[words].sum())
    others = "the gradient of theta comes from {} too, whose gate is always {}: it can teach theta nothing"
    mistakes = {
        others.format("[CLS]", 1): at_layer(each[mask].sum()),
        others.format("padding", 0): at_layer(each[words | ~mask].sum()),
        "the gradient of theta has the wrong sign: a higher θ lets less through": -right,
    }
    recognise(gradient, right, mistakes)
    if not gradient.any():
        fail(f"the gradient of theta is 0 everywhere: {NOT_REACHED}")
    expect_close(gradient, right, f"the gradient of theta, after a pass through layer {layer},")


# --- 10.5 cascade_step ---------------------------------------------------------------------------------------------


def best(scores: Tensor, alive: Tensor, n: int) -> Tensor:
    """The n largest of those alive; of equal ones the first."""
    order = scores.double().masked_fill(~alive, -torch.inf).argsort(descending=True, stable=True)
    keep = torch.zeros_like(alive)
    keep[order[:n]] = True
    return keep & alive


class Layer:
    """What cascade_step is given, and what it should return."""

    def __init__(self, draw: Draw, cls: float, levels: int = 0) -> None:
        L, M = draw.integer(15, 18), draw.integer(11, 13)
        self.token_scores = draw.tied(L, levels=levels) if levels else draw.normal(L, scale=2)
        self.head_scores = draw.tied(M, levels=levels) if levels else draw.normal(M, scale=2)
        self.tokens, self.heads = draw.permutation(L) < L - 5, draw.permutation(M) < M - 4
        self.token_scores[0] = self.head_scores[0] = cls
        self.tokens[0] = self.heads[0] = True
        self.n_tokens, self.n_heads = draw.integer(5, 6), draw.integer(3, 4)

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int]:
        return self.token_scores, self.head_scores, self.tokens, self.heads, self.n_tokens, self.n_heads

    @property
    def right(self) -> tuple[Tensor, Tensor]:
        return reference.cascade_step(*self.given)

    def kinds(self) -> list[tuple[str, Tensor, Tensor, int]]:
        """Tokens, then heads: their name, scores ([CLS] protected), who is alive, how many go on."""
        protected = self.token_scores.double()
        protected[0] = torch.inf
        heads = ("heads", self.head_scores.double(), self.heads, self.n_heads)
        return [("tokens", protected, self.tokens, self.n_tokens), heads]


def wrong_choices(scores: Tensor, alive: Tensor, n: int) -> dict[str, Tensor]:
    """What comes of one kind by mistake."""
    everyone, cls = torch.ones_like(alive), scores == torch.inf
    return {
        "those that are not alive took places: choose among the living, and then as many as asked": (
            best(scores, everyone, n) & alive
        ),
        "those with the smallest scores went on: larger = more important": best((-scores).masked_fill(cls, 99), alive, n),
        "the scores were ranked without their sign": best(scores.abs(), alive, n),
        "the number is how many go on, not how many go": best(scores, alive, int(alive.sum()) - n),
    }  # fmt: skip


def as_pair(value: Any, layer: Layer) -> tuple[Tensor, Tensor]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        fail(f"the result should be the tuple (tokens, heads), it is {describe(value)}")
    tokens, heads = value
    if all(isinstance(v, Tensor) for v in (tokens, heads)):
        if tokens.shape == layer.heads.shape and heads.shape == layer.tokens.shape:
            fail("tokens and heads are in the wrong order: tokens come first")
        for given, name in ((tokens, "tokens"), (heads, "heads")):
            if given.dtype != torch.bool:
                fail(f"the {name} are {describe(given)}: who goes on is a bool for each, as a comparison gives it")
    expect_tensor(tokens, shape=layer.tokens.shape, dtype=torch.bool, what="the tokens")
    expect_tensor(heads, shape=layer.heads.shape, dtype=torch.bool, what="the heads")
    return tokens, heads


def expect_step(submission: Submission, layer: Layer, mistakes: Sequence[Mistakes], when: str) -> None:
    """Tokens and heads are right; else the mistake whose result they are (of tokens, and of heads)."""
    thought = "If fewer are alive than asked for, all of those go on"
    value = ask(lambda: submission.cascade_step(*layer.given), when, thought)
    pair = as_pair(value, layer)
    for keep, right, wrong, (name, scores, alive, n) in zip(pair, layer.right, mistakes, layer.kinds(), strict=True):
        recognise(keep, right, wrong, f"{when}, of the {name}: ")
        if (keep & ~alive).any():
            fail(f"{when}, {name} came back that were not alive: what has gone is gone for good")
        if name == "tokens" and not keep[0]:
            fail(f"{when}, [CLS] was dropped: the answer is read from it, whatever its score")
        if keep.sum() != right.sum():
            said = f"{int(keep.sum())} {name} go on where {int(right.sum())} should"
            fail(f"{when}, {said}: {n} asked for, {int(alive.sum())} alive")
        if not torch.equal(keep, right):
            if scores[keep].sort().values.equal(scores[right].sort().values):
                fail(
                    f"{when}, of equal {name} the wrong ones went on: the one that comes first does, and a plain topk or argsort "
                    "promises no order among equals"
                )
            fail(f"{when}, it is not the {name} with the largest scores that go on")


@question("10.5", points=0.5, claim="of those alive, the ones with the largest scores")
def test_best_of_those_alive(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        layer = Layer(draw, cls=9.0)
        layer.token_scores = layer.token_scores.where(layer.tokens, layer.token_scores + 3)
        layer.head_scores = layer.head_scores.where(layer.heads, layer.head_scores + 3)
        layer.token_scores[0] = 9
        choices = [wrong_choices(*kind[1:]) for kind in layer.kinds()]
        choices[1] |= {
            "n_tokens was used for them, too: they have a number of their own": best(
                layer.head_scores, layer.heads, layer.n_tokens
            ),
            "all heads that are alive went on: only the best n_heads do": layer.heads,
        }
        tokens, heads = layer.right
        answers = [*choices[0].values(), tokens], [*choices[1].values(), heads]
        alike = any(torch.equal(a, b) for of in answers for i, a in enumerate(of) for b in of[:i])
        return (layer, choices), torch.tensor(0), {"tell apart": torch.tensor(0)} if alike else {}

    (layer, choices), _, _ = telling(case)
    expect_step(submission, layer, choices, "in a layer where some are gone")


@question("10.5", points=0.5, claim="[CLS] goes on whatever its score, as one of n_tokens; no head does")
def test_cls_goes_on(submission: Submission, draw: Draw) -> None:
    layer = Layer(draw, cls=-9.0)
    plain = best(layer.token_scores, layer.tokens, layer.n_tokens)
    with_cls = plain.clone()
    with_cls[0] = True
    scores = layer.head_scores.clone()
    scores[0] = 99
    tokens: Mistakes = {
        "[CLS] was dropped: the answer is read from it, whatever its score": plain,
        "one too many: [CLS] is one of the n_tokens": with_cls,
    }
    heads: Mistakes = {
        "head 0 went on whatever its score: [CLS] is a token, and no head is protected": best(
            scores, layer.heads, layer.n_heads
        )
    }
    expect_step(submission, layer, [tokens, heads], "where [CLS] and head 0 have the smallest scores")


# --- 10.6 token_macs -----------------------------------------------------------------------------------------------


def macs(length: int, E: int, linear: int = 12, square: int = 2) -> int:
    return linear * length * E**2 + square * length**2 * E


def expect_macs(value: Any, right: int, mistakes: Mapping[str, float], when: str) -> None:
    """The number is right; else the mistake whose result it is."""
    if isinstance(value, float | int) and value != right:
        for said, wrong in mistakes.items():
            if math.isclose(value, wrong, rel_tol=1e-9):
                fail(f"{when}: {said}")
    if isinstance(value, float) and value == right:
        fail(f"{when} the result is {value!r}: MACs are counted, and should be an int")
    if expect_int(value, f"{when} the result") != right:
        fail(f"{when} the result is {int(value):,} instead of {right:,}")


@question("10.6", points=0.5, claim="one layer: projections, feed-forward block and both products of attention")
def test_macs_of_a_layer(submission: Submission, draw: Draw) -> None:
    l, E = draw.integer(30, 60), 2 * draw.integer(40, 80)  # noqa: E741
    right = macs(l, E)
    mistakes = {
        "l² is missing: every token looks at every other, 2·l²·E": macs(l, E, square=0),
        "l² is missing: Q·Kᵀ has l · l entries of E products each, not l": 12 * l * E**2 + 2 * l * E,
        "one of the two products with l² is missing: Q·Kᵀ is one, A·V the other": macs(l, E, square=1),
        "that is too much for the attention matrix: 2·l²·E, for Q·Kᵀ and A·V": macs(l, E, square=4),
        "those are two operations for each MAC: a multiplication with its addition counts once": 2 * right,
        "the feed-forward block is missing, 8·l·E²": macs(l, E, linear=4),
        "one of its two matrices is missing: the feed-forward block has two matrices, E by 4E and back": macs(l, E, linear=8),
        "the feed-forward block is as wide as the rows: it is 4·E wide": macs(l, E, linear=6),
        "the attention is missing, its four projections and its matrix": 8 * l * E**2,
        "one projection is missing: Q, K, V and the output": macs(l, E, linear=11),
        "E² is missing: a matrix of E by E has as many weights for each token": 12 * l * E + 2 * l**2 * E,
        "E² belongs to the projections alone: the attention matrix needs 2·l²·E": 12 * l * E**2 + 2 * l**2 * E**2,
        "those are millions: count MACs, the unit is 1": right // 10**6,
        "those are millions: count MACs, and the unit is 1": right / 10**6,
    }  # fmt: skip
    expect_macs(submission.token_macs([l], E), right, mistakes, f"for one layer on {l} tokens of width {E}")


@question("10.6", points=0.5, claim="the sum over layers, each with its own length")
def test_macs_of_layers(submission: Submission, draw: Draw) -> None:
    lengths = sorted(draw.distinct(draw.integer(4, 6), 5, 60), reverse=True)
    E, layers = 2 * draw.integer(20, 40), len(lengths)
    right, mean = sum(macs(l, E) for l in lengths), sum(lengths) / len(lengths)  # noqa: E741
    after = [*lengths[1:], lengths[-1]]
    mistakes: dict[str, float] = {
        "the lengths were added, and then squared, as if all layers together were one text": macs(sum(lengths), E),
        "all layers were counted at their mean length: the mean of l² is more than the square of the mean": (
            layers * (12 * mean * E**2 + 2 * mean**2 * E)
        ),
        "all layers were counted at their mean length, and rounded: l² does not work on means": (
            round(layers * (12 * mean * E**2 + 2 * mean**2 * E))
        ),
        "all layers were counted at the length of the first layer: they get shorter": layers * macs(lengths[0], E),
        "only the first layer was counted": macs(lengths[0], E),
        "only the last layer was counted": macs(lengths[-1], E),
        "a layer is missing: the last": right - macs(lengths[-1], E),
        "a layer is missing: the first": right - macs(lengths[0], E),
        "the feed-forward block was counted at the length of the next layer: each l is for the whole layer": sum(
            4 * l * E**2 + 2 * l**2 * E + 8 * n * E**2
            for l, n in zip(lengths, after, strict=True)  # noqa: E741
        ),
        "l² is missing: every token looks at every other": sum(12 * l * E**2 for l in lengths),  # noqa: E741
    }
    value = submission.token_macs(lengths, E)
    if isinstance(value, int) and value not in (right, *mistakes.values()):
        each = [submission.token_macs([l], E) for l in lengths]  # noqa: E741
        if each != [macs(l, E) for l in lengths] and value == sum(each):  # noqa: E741
            fail(
                f"{value:,} is the sum of what your code counts for each layer alone, and that is not right yet: see the first claim"
            )
    expect_macs(value, right, mistakes, f"for layers on {lengths} tokens of width {E}")


# --- 10.7 two short answers ----------------------------------------------------------------------------------------

OPTIONS = 4  # of 10.7a


@question(
    "10.7",
    points=0,
    claim="a is one of the letters, b a number of percentage points (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_10_7a", OPTIONS, {})
    points_typed(submission)


def points_typed(submission: Submission) -> float:
    """10.7b."""
    form = "no number of percentage points between two shares: 85 % and 50 % are 35 points apart"
    return expect_typed(submission, "answer_10_7b", (1, 100), form)


# --- 10.8 find_bug -------------------------------------------------------------------------------------------------

PROMISE = "10.1 promises of attention weights (B, M, L, L) and a bool mask (B, L)"


def by_einsum(attn: Tensor, token_mask: Tensor) -> Tensor:
    """A right version that sums in another order, and relies on its arguments."""
    real = token_mask.to(attn.dtype)
    total = torch.einsum("bmji,bj->bi", attn, real / real.sum(1, keepdim=True)) / attn.shape[1] * real
    return total / total.sum(-1, keepdim=True)


def altered(
    weights: Callable[[Tensor], Tensor] = lambda attn: attn.mean(1),
    asks: Callable[[Tensor], Tensor] = lambda real: real,
    receives: Callable[[Tensor], Tensor] = lambda real: real,
    end: Callable[[Tensor], Tensor] = scaled,
) -> Callable[[Tensor, Tensor], Tensor]:
    """A version of attention_received of which one part may be wrong: how heads become one, (B, L, L), which queries ask, which
    columns count, and what is done at the end."""

    def version(attn: Tensor, token_mask: Tensor) -> Tensor:
        real = token_mask.to(attn.dtype)
        return end((weights(attn) * asks(real)[:, :, None]).sum(1) * receives(real))

    return version


RIGHT = {"the library's": reference.attention_received, "one that sums in another order": by_einsum}


@question("10.8", points=0.5, claim="two plain bugs are found, and nothing right is accused")
def test_hunt_plain_bugs(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "attention_received",
        right=RIGHT,
        wrong={
            "sums rows instead of columns": altered(weights=lambda attn: attn.mean(1).mT),
            "gives padding a score": altered(receives=torch.ones_like),
        },
        promise=PROMISE,
    )
