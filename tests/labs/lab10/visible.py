"""Lab 10, tokens: what is claimed of each answer, and what its likely mistakes look
like.

New inputs are drawn for every grading, such that the usual mistakes give other
results than the right answer: texts of different lengths, padding that has the largest
scores, that is attended to, and that lies between real tokens, scores of both signs and
above 1, ties, a [CLS] that no token attends to, and layers whose thresholds all differ.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    StudentError,
    Submission,
    ask,
    describe,
    expect_close,
    expect_equal,
    expect_int,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims import mistakes as known
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import Case, apply_each
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab10 as reference
from course_lib.student_code import plain_data

near = functools.partial(known.near, relative=False)
recognise = functools.partial(known.recognise, equal=near)
draw_case = functools.partial(known.draw_case, equal=near)
draw_discriminating_case = functools.partial(known.draw_discriminating_case, equal=near)

# a sentence for the student -> a function that makes this mistake
Wrong = dict[str, Callable[..., Any]]
WRONG: dict[str, Wrong] = {}  # by graded name


# --- texts ----------------------------------------------------------------------------


def scaled(x: Tensor) -> Tensor:
    """Rows that sum to 1."""
    return x / x.sum(1, keepdim=True)


def padded(lengths: list[int], L: int) -> Tensor:
    """A token_mask (B, L) with the padding at the end."""
    return torch.arange(L) < torch.tensor(lengths)[:, None]


def attention(draw: Draw, B: int, M: int, L: int, seen: Tensor | None = None) -> Tensor:
    """Attention weights (B, H, L, L); ``seen`` (B, L) marks the tokens that rows may
    attend to.
    """
    raw = draw.normal(B, M, L, L, scale=1.5)
    return (raw if seen is None else raw.masked_fill(~seen[:, None, None], -torch.inf)).softmax(-1)


# --- 10.1 attention_received ----------------------------------------------------------

ROWS = (
    "every token has the same score, 1/n. Row i contains the attention that token i pays, so every row sums to 1. "
    "Column i contains the attention that token i receives"
)
CLS_ROW = "only the row of [CLS] was used. Use the rows of all queries"
STRONGEST_HEAD = "the maximum over heads was used. Take the mean over heads"
FIRST_HEAD = "only the first head was used. Take the mean over heads"
NOT_FROM_ITSELF = "the attention of a token to itself was left out. Include the diagonal"
WHOLE_BATCH = "the scores sum to 1 over the whole batch. They should sum to 1 over each text"
PADDING_RECEIVES = (
    "padding has a score. Set the scores of padding to 0 and scale the other scores to sum to 1"
)
NOT_SCALED = "padding has score 0, but the other scores sum to less than 1. Scale them after setting padding to 0"
FIRST_MASK = "the padding of the first text was used for all texts"
PADDING_ASKS = "the rows of padding queries were included. Their outputs are never used, so include real queries only"

Part = Callable[[Tensor], Tensor]


def altered(
    weights: Part = lambda attn: attn.mean(1),
    asks: Part = lambda real: real,
    receives: Part = lambda real: real,
    end: Part = scaled,
) -> Callable[[Tensor, Tensor], Tensor]:
    """A version of attention_received with one part that may be wrong: how heads become
    one, (B, L, L), which queries ask, which columns count, and the last step.
    """

    def version(attn: Tensor, token_mask: Tensor) -> Tensor:
        real = token_mask.to(attn.dtype)
        return end((weights(attn) * asks(real)[:, :, None]).sum(1) * receives(real))

    return version


def not_scaled(attn: Tensor, token_mask: Tensor) -> Tensor:
    return altered(end=lambda total: total)(attn, token_mask) / token_mask.sum(1, keepdim=True)


def by_heads(attn: Tensor, token_mask: Tensor) -> Tensor:
    """By mistake: each head is scaled by itself."""
    return torch.stack(
        [reference.attention_received(head[:, None], token_mask) for head in attn.unbind(1)]
    ).mean(0)


def by_queries(attn: Tensor, token_mask: Tensor) -> Tensor:
    """By mistake: each query is scaled by itself."""
    real = token_mask.to(attn.dtype)
    rows = attn.mean(1) * real[:, None, :]
    return (rows / rows.sum(2, keepdim=True) * real[:, :, None]).sum(1) / real.sum(1, keepdim=True)


COLUMNS: Wrong = {  # distinguishable where there is no padding
    ROWS: altered(weights=lambda attn: attn.mean(1).mT),
    CLS_ROW: altered(asks=lambda real: real * (torch.arange(real.shape[1]) == 0)),
    STRONGEST_HEAD: altered(weights=lambda attn: attn.amax(1)),
    "the maximum over queries was used. Take the mean over queries": (
        lambda attn, mask: scaled((attn.mean(1) * mask[:, :, None]).amax(1) * mask)
    ),
    FIRST_HEAD: altered(weights=lambda attn: attn[:, 0]),
    NOT_FROM_ITSELF: altered(
        weights=lambda attn: attn.mean(1) * (1 - torch.eye(attn.shape[-1], dtype=attn.dtype))
    ),
    WHOLE_BATCH: altered(end=lambda total: total / total.sum()),
    "a softmax was applied to the scores, which makes them more equal. Divide by their sum": (
        lambda attn, mask: not_scaled(attn, mask).masked_fill(~mask, -torch.inf).softmax(1)
    ),
}
LEAKS: Wrong = {  # distinguishable where real tokens attend to padding
    PADDING_RECEIVES: altered(receives=torch.ones_like),
    NOT_SCALED: not_scaled,
    FIRST_MASK: altered(
        asks=lambda real: real[:1].expand_as(real), receives=lambda real: real[:1].expand_as(real)
    ),
    "each head was scaled to sum to 1 before the mean over heads. Take the mean first and scale at the end": (
        by_heads
    ),
    "each query was scaled to sum to 1 before the mean over queries, so a query that attends mostly to padding has as much weight as "
    "any other. Scale once, at the end": by_queries,
}
VOTES: Wrong = {  # distinguishable where no token attends to padding
    PADDING_ASKS: altered(asks=torch.ones_like),
}
WRONG["attention_received"] = COLUMNS | LEAKS | VOTES


def received(submission: Submission, attn: Tensor, mask: Tensor, wrong: Wrong, when: str) -> None:
    """The student's scores are the right ones; else the mistake whose result they
    are.
    """
    thought = "attn has shape (B, H, L, L), token_mask has shape (B, L)"
    scores = ask(lambda: submission.attention_received(attn, mask), when, thought)
    expect_tensor(scores, shape=mask.shape, what="the result")
    right = reference.attention_received(attn, mask)
    recognise(scores, right, apply_each(wrong, attn, mask), f"{when}: ")
    recognise(scores, right, {ROWS: scaled(mask.to(attn.dtype))}, f"{when}: ")
    if (scores[~mask] != 0).any():
        fail(
            f"{when}, padding has a score above 0. Set its columns to 0, then scale the other scores to sum to 1"
        )
    sums = scores.double().sum(1)
    b = int((sums - 1).abs().argmax())
    if abs(float(sums[b]) - 1) > 1e-4:
        fail(
            f"{when}, the scores of text {b} sum to {sums[b]:.4g}, not to 1. Divide the scores of each text by their sum"
        )
    expect_close(scores, right, f"{when}, the result")


@question("10.1", points=1, claim="the mean of column i, over heads and over queries")
def test_mean_of_the_columns(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, Tensor]:
        B, M, L = draw.integer(2, 3), draw.integer(4, 5), draw.integer(6, 8)
        return attention(draw, B, M, L), torch.ones(B, L, dtype=torch.bool)

    (attn, mask), _, _ = draw_case(case, reference.attention_received, COLUMNS)
    received(submission, attn, mask, COLUMNS, "for texts without padding")


@question("10.1", points=0.5, claim="padding receives nothing, and the rest sums to 1")
def test_padding_receives_nothing(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, Tensor]:
        M, L = draw.integer(2, 4), draw.integer(8, 10)
        lengths = [L - 1, L, L - draw.integer(3, 4)]
        mask, attn = padded(lengths, L), attention(draw, 3, M, L)
        for b, n in enumerate(lengths):  # so that it does not matter here whether padding asks
            attn[b, :, n:] = attn[b, :, :n].mean(1, keepdim=True)
        return attn, mask

    (attn, mask), _, _ = draw_case(case, reference.attention_received, LEAKS)
    received(submission, attn, mask, LEAKS, "where real tokens attend to padding")


@question("10.1", points=1, claim="padding does not ask: only real queries count")
def test_padding_does_not_ask(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, Tensor]:
        M, L = draw.integer(2, 4), draw.integer(8, 10)
        mask = padded([L, L - 2, draw.integer(2, 4)], L)
        return attention(draw, 3, M, L, seen=mask), mask

    (attn, mask), _, _ = draw_case(case, reference.attention_received, VOTES)
    received(submission, attn, mask, VOTES, "where no token attends to padding")


# --- 10.2 keep_tokens -----------------------------------------------------------------

EQUALS = (
    "of equal scores the wrong rows were dropped. Keep the first of them. topk and argsort (without stable=True) guarantee no order among "
    "equal values"
)
KEPT = "the result (hidden, token_mask, index)"
CLS_DROPPED = (
    "[CLS] was dropped. Keep it for every score, because the prediction is computed from it"
)
PADDING_LAST = (
    "padding is kept, but real tokens were dropped. Padding ranks last, whatever its scores are"
)


def chosen(rank: Tensor, k: int, cls: bool = True) -> Tensor:
    """The columns of the k largest of each row, [CLS] among them, ascending; of equal ones
    the first. int64 (B, k').
    """
    rank = rank.double().clone()
    if cls:
        rank[:, 0] = torch.inf
    return rank.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values


def real_first(scores: Tensor, mask: Tensor, padding: float = -torch.inf) -> Tensor:
    """The scores, and a number for padding."""
    return scores.double().masked_fill(~mask, padding)


class Texts:
    """The arguments of keep_tokens and the right result."""

    def __init__(self, draw: Draw, mask: Tensor, scores: Tensor, k: int, E: int = 3) -> None:
        self.hidden = draw.normal(*mask.shape, E)
        self.mask, self.scores, self.k = mask, scores, k

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor, int]:
        return self.hidden, self.mask, self.scores, self.k

    @property
    def ranked(self) -> tuple[Tensor, Tensor, int]:
        """The arguments that determine the choice."""
        return self.given[1:]

    @functools.cached_property
    def right(self) -> tuple[Tensor, Tensor, Tensor]:
        return reference.keep_tokens(*self.given)

    @property
    def index(self) -> Tensor:
        return self.right[2]


def cls_in_place_of_first(mask: Tensor, scores: Tensor, k: int) -> Tensor:
    """By mistake: [CLS] replaces the first in the text of the best k."""
    index = chosen(real_first(scores, mask), k, cls=False)
    index[:, 0] = 0
    return index


BEST: Wrong = {  # from token_mask, scores and k: the columns of the kept rows, int64 (B, k')
    "the rows with the smallest scores were kept. A larger score means more important": (
        lambda mask, scores, k: chosen(real_first(-scores, mask), k)
    ),
    "the scores were ranked without their sign. A larger score means more important, so -3 ranks below 0": (
        lambda mask, scores, k: chosen(real_first(scores.abs(), mask), k)
    ),
    "the choice for the first text was used for all texts. Each text has its own scores": (
        lambda mask, scores, k: chosen(real_first(scores, mask), k)[:1].expand(len(scores), -1)
    ),
}
CLS_STAYS: Wrong = {
    CLS_DROPPED: lambda mask, scores, k: chosen(real_first(scores, mask), k, cls=False),
    "[CLS] replaced one of the best k rows, but not the one with the smallest score: it replaced the first in the text": (
        cls_in_place_of_first
    ),
}
REAL_FIRST: Wrong = {
    PADDING_LAST: lambda mask, scores, k: chosen(scores, k),
    "padding was ranked as if its score were 0. A real token can have a lower score": (
        lambda mask, scores, k: chosen(real_first(scores, mask, 0), k)
    ),
}
PLACES: Wrong = {  # wrong index, from the right one and token_mask
    "index counts from 0 to k' - 1. It must contain the column that each row had in hidden": (
        lambda index, mask: torch.arange(index.shape[1]).expand_as(index)
    ),
}
MASKS: Wrong = {  # wrong mask of the rows, from the same
    "the mask marks padding as real. Padding that fills up a short text is still padding": (
        lambda index, mask: torch.ones_like(index, dtype=torch.bool)
    ),
    "it is the first k columns of token_mask. Select the mask with the same index as the rows": (
        lambda index, mask: mask[:, : index.shape[1]]
    ),
}


def keeping(
    rows: Callable[..., Tensor] | None = None,
    index: Callable[[Tensor, Tensor], Tensor] | None = None,
    mask: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """keep_tokens with another choice of rows, another index, or another mask."""

    def version(
        hidden: Tensor, token_mask: Tensor, scores: Tensor, k: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        at = (rows or (lambda mask, scores, k: chosen(real_first(scores, mask), k)))(
            token_mask, scores, k
        )
        there = hidden.gather(1, at[:, :, None].expand(-1, -1, hidden.shape[2]))
        real = mask(at, token_mask) if mask else token_mask.gather(1, at)
        return there, real, index(at, token_mask) if index else at

    return version


WRONG["keep_tokens"] = {
    **{said: keeping(rows=rows) for said, rows in (BEST | CLS_STAYS | REAL_FIRST).items()},
    **{said: keeping(index=index) for said, index in PLACES.items()},
    **{said: keeping(mask=mask) for said, mask in MASKS.items()},
}


def draw_texts(case: Callable[[], Texts], wrong: Wrong) -> Texts:
    """Draw texts in which the table's mistakes keep other rows."""

    def drawn() -> Case:
        texts = case()
        return texts, texts.index, apply_each(wrong, *texts.ranked)

    return draw_discriminating_case(drawn)[0]


def stood(rows: Tensor, hidden: Tensor) -> Tensor:
    """The column of each row in its text, int64 (B, k'); -1 where it is none of its
    rows.
    """
    same = (rows[:, :, None] == hidden[:, None]).all(-1)  # (B, k', L)
    return same.int().argmax(-1).where(same.any(-1), -1)


def as_kept(value: Any, texts: Texts, when: str) -> tuple[Tensor, Tensor, Tensor]:
    """The value, if it has the form of rows, a mask and an index."""
    if not isinstance(value, list | tuple) or len(value) != 3:
        fail(f"{KEPT} should be a tuple of three, it is {describe(value)}")
    rows, mask, index = value
    if (
        isinstance(rows, Tensor)
        and isinstance(index, Tensor)
        and index.is_floating_point() > rows.is_floating_point()
    ):
        fail(
            f"{KEPT} has its parts in another order. The rows come first, then their mask, then their columns (index)"
        )
    B, L, E = texts.hidden.shape
    left = min(texts.k, L)
    if isinstance(rows, Tensor) and rows.ndim == 3 and left < L:
        if rows.shape[1] == L:
            fail(
                f"{when}, the result still has all {L} rows. Rows set to 0 cost as much as before; drop them, so that "
                f"the shape is (B, {left}, E)"
            )
        if rows.shape[1] == left + 1:
            fail(
                f"{when}, {left + 1} rows are kept for k = {texts.k}. k is the number of kept rows, including [CLS]"
            )
        if rows.shape[1] == L - left:
            fail(
                f"{when}, {L - left} of {L} rows are kept for k = {texts.k}. k is the number of rows to keep, not to drop"
            )
    expect_tensor(rows, shape=(B, left, E), dtype=texts.hidden.dtype, what=f"{when}, hidden")
    expect_tensor(mask, shape=(B, left), dtype=torch.bool, what=f"{when}, the mask")
    expect_tensor(index, shape=(B, left), dtype=torch.int64, what=f"{when}, index")
    return rows, mask, index


def expect_kept(submission: Submission, texts: Texts, wrong: Wrong, when: str) -> None:
    """Rows, mask and index are right; else the mistake whose result they are.
    ``wrong``: the columns of the rows.
    """
    thought = "Keep k' = min(k, L) rows of each text"
    value = ask(lambda: submission.keep_tokens(*texts.given), when, thought)
    rows, mask, index = as_kept(value, texts, when)
    _expect_rows(rows, texts, wrong, when)
    right = texts.index
    if not torch.equal(index, right):
        said = f"{when}, the rows are right, but index does not contain their columns: "
        recognise(index, right, apply_each(PLACES, right, texts.mask), said)
        if torch.equal(index.sort(1).values, right):
            fail(
                f"{when}, index has another order than the rows. Both must be in the order of the text"
            )
        fail(f"{said}text 0 has {index[0].tolist()} instead of {right[0].tolist()}")
    if not torch.equal(mask, texts.right[1]):
        said = f"{when}, the rows are right, but their mask is not: "
        recognise(mask, texts.right[1], apply_each(MASKS, right, texts.mask), said)
        fail(f"{said}text 0 has {mask[0].tolist()} instead of {texts.right[1][0].tolist()}")


def _expect_rows(rows: Tensor, texts: Texts, wrong: Wrong, when: str) -> None:
    at = stood(rows, texts.hidden)
    if torch.equal(at, texts.index):
        return
    if (at < 0).any():
        if (rows[at < 0] == 0).all():
            fail(
                f"{when}, kept rows of padding are 0 now. Keep each row unchanged; the mask marks it as padding"
            )
        fail(f"{when}, some rows are not rows of their text. Select rows and leave them unchanged")
    recognise(at, texts.index, apply_each(wrong, *texts.ranked), f"{when}: ")
    b = int((at != texts.index).any(1).nonzero()[0])
    kept, right = at[b].tolist(), texts.index[b].tolist()
    where, mask, scores = f"{when}, in text {b}, ", texts.mask[b], texts.scores[b]
    extra, missed = sorted(set(kept) - set(right)), sorted(set(right) - set(kept))
    if not missed:
        fail(
            f"{where}the right rows are kept, but not in their order: columns {kept}. The next layers read this order as the order of the text"
        )
    if 0 not in kept:
        fail(f"{where}{CLS_DROPPED}")
    if len(set(kept)) < len(kept):
        fail(f"{where}a row is kept twice: columns {kept}")
    if not mask[extra].all():
        fail(
            f"{where}{PADDING_LAST if mask[missed].any() else 'not the first padding fills up. Use the first padding first'}"
        )
    if scores[extra].sort().values.equal(scores[missed].sort().values):
        fail(f"{where}{EQUALS}")
    fail(
        f"{where}columns {extra} are kept instead of columns {missed}, which have larger scores. Keep the largest scores"
    )


def some_scores(draw: Draw, B: int, L: int) -> Tensor:
    """(B, L) of both signs between -1 and 1, the largest of [CLS]: it matters in one claim
    alone whether [CLS] is protected.
    """
    scores = draw.normal(B, L)
    scores = 0.9 * scores / scores.abs().amax(1, keepdim=True)
    scores[:, 0] = 0.99
    return scores


@question("10.2", points=1.5, claim="the k rows with the largest scores, in their order")
def test_best_rows_in_order(submission: Submission, draw: Draw) -> None:
    def case() -> Texts:
        k = draw.integer(4, 5)
        scores = some_scores(draw, 3, 2 * k + 3)
        return Texts(draw, torch.ones_like(scores, dtype=torch.bool), scores, k)

    expect_kept(submission, draw_texts(case, BEST), BEST, "for texts without padding")


@question("10.2", points=0.5, claim="[CLS] is kept whatever its score, as one of the k")
def test_cls_stays(submission: Submission, draw: Draw) -> None:
    def case() -> Texts:
        k = draw.integer(4, 5)
        scores = 9 + some_scores(draw, 3, 2 * k + 3)
        scores[:, 0] = 5
        return Texts(draw, torch.ones_like(scores, dtype=torch.bool), scores, k)

    when = "where [CLS] has the smallest score"
    expect_kept(submission, draw_texts(case, CLS_STAYS), CLS_STAYS, when)


@question("10.2", points=0.5, claim="real tokens before padding, whatever the scores say of it")
def test_real_before_padding(submission: Submission, draw: Draw) -> None:
    def case() -> Texts:
        k = draw.integer(5, 6)
        L = 2 * k + 3
        mask = padded([L - 3, L - 1, k - 2], L)
        scores = (100 * some_scores(draw, 3, L) - 2000).where(mask, 9 + some_scores(draw, 3, L))
        return Texts(draw, mask, scores, k)

    when = "where padding has the largest scores"
    expect_kept(submission, draw_texts(case, REAL_FIRST), REAL_FIRST, when)


# --- 10.3 progressive -----------------------------------------------------------------

Rounding = Callable[[Tensor], Tensor]
CUT_OFF = "the numbers were rounded down. Round up, ⌈…⌉"
NEAREST = "the numbers were rounded to the nearest integer. Round up, ⌈…⌉"


def up(x: Tensor) -> Tensor:
    return torch.ceil(x - 1e-9)


def falling(
    share: Callable[[int, int, float], float] = lambda i, last, final: final ** (i / last),
    number: Rounding = up,
) -> Callable[[Tensor, int, float], Tensor]:
    """progressive with another share for layer i from 0 to ``last``, or
    another rounding.
    """

    def version(lengths: Tensor, layers: int, final: float) -> Tensor:
        shares = torch.tensor(
            [share(layer, layers - 1, final) for layer in range(layers)], dtype=torch.float64
        )
        return number(lengths.double() * shares[:, None]).clamp(min=1).long()

    return version


def from_the_rounded(lengths: Tensor, layers: int, final: float) -> Tensor:
    """By mistake: the share of a layer is multiplied by the previous layer's number."""
    rows = [lengths]
    for _ in range(layers - 1):
        rows.append(up(rows[-1].double() * final ** (1 / (layers - 1))).clamp(min=1).long())
    return torch.stack(rows)


ROUNDED: Wrong = {
    CUT_OFF: falling(number=torch.floor),
    NEAREST: falling(number=torch.round),
    "each number was computed from the rounded number of the previous layer, so rounding errors add up. Compute it from n": (
        from_the_rounded
    ),
    "the share was applied to n - 1 tokens and 1 was added for [CLS]. Apply the share to n, which includes [CLS]": (
        lambda lengths, layers, final: 1 + falling()(lengths - 1, layers, final)
    ),
}
SHARES: Wrong = {
    "the share is below 1 in the first layer already. The first layer works on all tokens": falling(
        lambda i, last, final: final ** ((i + 1) / (last + 1))
    ),
    "the last layer works on more than the share final. Layers count from 0 to layers - 1": falling(
        lambda i, last, final: final ** (i / (last + 1))
    ),
    "the share decreases by the same amount in each layer. It should decrease by the same factor": falling(
        lambda i, last, final: 1 - (1 - final) * i / last
    ),
    "the share is multiplied by final in each layer. It should reach final in the last layer, not in the second": falling(
        lambda i, last, final: final**i
    ),
    "the n of the longest text was used for all texts. Each text has its own n": (
        lambda lengths, layers, final: torch.minimum(
            falling()(lengths.max().expand(len(lengths)), layers, final), lengths
        )
    ),
    "the result is the number of dropped tokens. It should be the number that each layer works on": (
        lambda lengths, layers, final: lengths - falling()(lengths, layers, final)
    ),
}
WRONG["progressive"] = SHARES | ROUNDED


def as_table(value: Any, lengths: Tensor, layers: int, when: str) -> Tensor:
    if (
        isinstance(value, Tensor)
        and layers != len(lengths)
        and value.shape == (len(lengths), layers)
    ):
        fail(
            f"{when} the result has shape {tuple(value.shape)}. It should have one row for each layer and one column for each text"
        )
    return expect_tensor(
        value, shape=(layers, len(lengths)), dtype=torch.int64, what=f"{when} the result"
    )


def expect_table(value: Any, lengths: Tensor, layers: int, final: float, wrong: Wrong) -> None:
    when = f"for texts of {lengths.tolist()} tokens, {layers} layers and final = {final:.3g}"
    counts = as_table(value, lengths, layers, when)
    right = reference.progressive(lengths, layers, final)
    recognise(counts, right, apply_each(wrong, lengths, layers, final), f"{when}: ")
    if not torch.equal(counts[0], lengths):
        fail(
            f"{when} the first layer works on {counts[0].tolist()} tokens. The first layer works on all tokens"
        )
    expect_equal(counts, right, f"{when} the result")


@question("10.3", points=1, claim="the share falls by the same factor, from 1 to final")
def test_progressive_shares(submission: Submission, draw: Draw) -> None:
    def shares() -> tuple[Tensor, int, float]:  # halves: nothing needs rounding
        layers = draw.integer(4, 5)
        return 16 * torch.tensor(draw.distinct(3, 2, 12)), layers, 0.5 ** (layers - 1)

    (lengths, layers, final), _, _ = draw_case(shares, reference.progressive, SHARES)
    value, (after,) = submission.call("progressive", lengths, layers, final, returning=(0,))
    expect_table(value, lengths, layers, final, SHARES)
    unchanged(lengths, after, "lengths")


# --- 10.3 threshold_policy ------------------------------------------------------------

WITHOUT_N = (
    "θ was compared with s. s sums to 1 over a text, so the average score is lower in a long text than in a short one. "
    "Compare n · s, which averages to 1"
)
PADDED_N = "n includes padding. Then the tokens kept depend on the amount of padding; count real tokens only"


def parts(draw: Draw, mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Scores (B, L): 0 for padding, summing to 1 over each text, from far below the
    average to far above it.
    """
    sizes = draw.sizes(mask.numel(), 0.1, 4).view(mask.shape)
    return scaled(sizes * mask).to(dtype)


def count(mask: Tensor) -> Tensor:
    """n, the real tokens of each text, (B, 1)."""
    return mask.sum(1, keepdim=True)


def close(scores: Tensor, theta: float, mask: Tensor) -> bool:
    """Whether rounding could change the result."""
    return bool(((count(mask) * scores - theta).abs() < 1e-3).any())


def kept_where(
    kept: Callable[[Tensor, float, Tensor], Tensor], cls: bool = True
) -> Callable[..., Tensor]:
    """threshold_policy with another rule, padding never, [CLS] always if ``cls``."""

    def version(scores: Tensor, theta: float, token_mask: Tensor) -> Tensor:
        keep = kept(scores, theta, token_mask) & token_mask
        keep[:, 0] |= cls
        return keep

    return version


def largest_that_sum_to(scores: Tensor, theta: float, mask: Tensor) -> Tensor:
    order = scores.argsort(dim=1, descending=True, stable=True)
    enough = scores.gather(1, order).cumsum(1) <= theta
    return torch.zeros_like(mask).scatter(1, order, enough)


OWN_N: Wrong = {
    "tokens were kept until their scores sum to θ. Compare n · s of each token with θ": kept_where(
        largest_that_sum_to
    ),
    "n was counted without [CLS]. Include [CLS]": kept_where(
        lambda scores, theta, mask: (count(mask) - 1) * scores >= theta
    ),
    "the length of the longest text of the batch was used for n. Each text has its own n": kept_where(
        lambda scores, theta, mask: count(mask).max() * scores >= theta
    ),
}
POLICIES: Wrong = OWN_N | {
    WITHOUT_N: kept_where(lambda scores, theta, mask: scores >= theta),
    PADDED_N: kept_where(lambda scores, theta, mask: mask.shape[1] * scores >= theta),
    "θ was compared with the score divided by the largest score. Compare n · s, whose average is 1": kept_where(
        lambda scores, theta, mask: scores / scores.amax(1, keepdim=True) >= theta
    ),
    CLS_DROPPED: kept_where(lambda scores, theta, mask: count(mask) * scores >= theta, cls=False),
}
WRONG["threshold_policy"] = POLICIES


def expect_keep(
    submission: Submission, scores: Tensor, theta: float, mask: Tensor, wrong: Wrong, when: str
) -> None:
    keep = submission.threshold_policy(scores, theta, mask)
    expect_tensor(keep, shape=mask.shape, dtype=torch.bool, what="the result")
    right = reference.threshold_policy(scores, theta, mask)
    recognise(keep, right, apply_each(wrong, scores, theta, mask), f"{when}: ")
    if not keep[:, 0].all():
        fail(f"{when}, {CLS_DROPPED}")
    if (keep & ~mask).any():
        fail(f"{when}, padding was kept. Always drop padding")
    expect_equal(keep, right, f"{when}, the result")


@question("10.3", points=0.5, claim="kept where n · s ≥ θ, and [CLS] always")
def test_threshold(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[Tensor, float, Tensor]:
        L = draw.integer(14, 18)
        mask = padded([L - 2, L // 2, 5], L)
        scores = parts(draw, mask)
        scores[:, 0] = 0.01 / L
        drawn = scaled(scores), draw.number(0.8, 1.4), mask
        return case() if close(*drawn) else drawn

    (scores, theta, mask), _, _ = draw_case(case, reference.threshold_policy, POLICIES)
    expect_keep(submission, scores, theta, mask, POLICIES, f"at θ = {theta:.3g}")


# --- 10.4 SoftThreshold ---------------------------------------------------------------

NO_PARAMETER = "theta is no nn.Parameter of the module, so an optimizer of module.parameters() will never update it"
NOT_REACHED = (
    "the gradient never reaches theta. Does your code use .item(), .data, .detach(), no_grad or a new tensor on the way? Or is "
    "the gate a comparison?"
)
INVERTED = "the gate is inverted. It is open at θ and above"
HARD = "the gate is hard in training mode, and a step has no gradient. In training mode the gate is σ((n·s - θ)/T)"


class Thresholds:
    """A student's module, held in their process, with thresholds that all differ."""

    def __init__(self, submission: Submission, draw: Draw, *theta: float) -> None:
        self.submission = submission
        self.T = round(draw.number(0.32, 0.48), 3)  # neither 0.3 nor 0.5
        drawn = [draw.number(*ends) for ends in 2 * ((0.55, 0.8), (1.25, 1.5))]
        self.theta = torch.tensor(theta or drawn)
        self.module = submission.SoftThreshold(len(self.theta), self.T, keep=True)
        try:
            submission.call("theta.data.copy_", self.theta, on=self.module)
        except StudentError as error:
            if error.kind != "raised" or error.unwritten:
                raise
            said = f"{error.type}: {error.message}"
            fail(
                f"theta could not be set to {describe(self.theta)} ({said}). It should be an nn.Parameter with one entry for each layer"
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


# of scores, theta, layer, T and token_mask
Above = Callable[[Tensor, Tensor, int, float, Tensor], Tensor]


def over_t(scores: Tensor, theta: Tensor, layer: int, T: float, mask: Tensor) -> Tensor:
    """(n·s - θ)/T."""
    return (count(mask) * scores - theta[layer]) / T


def step(x: Tensor) -> Tensor:
    return (x >= 0).to(x.dtype)


class Gate(nn.Module):
    """SoftThreshold with one part that may be wrong: the argument of sigmoid and step,
    the gate of each mode, and the treatment of [CLS] and padding."""

    def __init__(
        self,
        layers: int,
        temperature: float,
        above: Above = over_t,
        soft: Part = torch.sigmoid,
        hard: Part = step,
        end: Callable[[Tensor, Tensor], Tensor] = closed,
    ) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(layers))
        self.parts = temperature, above, soft, hard, end

    def forward(self, scores: Tensor, layer: int, token_mask: Tensor) -> Tensor:
        temperature, above, soft, hard, end = self.parts
        x = above(scores, self.theta.to(scores.dtype), layer, temperature, token_mask)
        return end((soft if self.training else hard)(x), token_mask)


def gates(**parts: Any) -> Callable[[int, float], Gate]:
    return functools.partial(Gate, **parts)


ARGUMENTS: dict[str, Above] = {  # wrong arguments of the sigmoid and the step
    "n·s - θ was multiplied by the temperature. Divide by it, so that a low temperature gives a steep step": (
        lambda scores, theta, layer, T, mask: T * T * over_t(scores, theta, layer, T, mask)
    ),
    "the temperature has no effect. Divide n·s - θ by it": (
        lambda scores, theta, layer, T, mask: over_t(scores, theta, layer, 1, mask)
    ),
    "only n·s was divided by the temperature. Divide the whole difference n·s - θ": (
        lambda scores, theta, layer, T, mask: count(mask) * scores / T - theta[layer]
    ),
    INVERTED: (lambda scores, theta, layer, T, mask: -over_t(scores, theta, layer, T, mask)),
    WITHOUT_N: lambda scores, theta, layer, T, mask: (scores - theta[layer]) / T,
    PADDED_N: lambda scores, theta, layer, T, mask: (mask.shape[1] * scores - theta[layer]) / T,
    "theta[0] was used, which belongs to another layer. Each layer has its own threshold": (
        lambda scores, theta, layer, T, mask: over_t(scores, theta, 0, T, mask)
    ),
    "theta[layer - 1] was used, which belongs to another layer. Layers count from 0": (
        lambda scores, theta, layer, T, mask: over_t(scores, theta, layer - 1, T, mask)
    ),
}
TRAINING: Wrong = {said: gates(above=above) for said, above in ARGUMENTS.items()} | {
    HARD: gates(soft=step),
}
EVALUATION: Wrong = {
    "the gate is soft. In evaluation mode it must be a step, 1 or 0, so that rows can be dropped": gates(
        hard=torch.sigmoid
    ),
}
CLS_TEACHES = "the gradient of theta also comes from [CLS], whose gate is always 1. This part of the gradient should be 0"


def and_gradient_of_cls(gate: Tensor, mask: Tensor) -> Tensor:
    """By mistake: right gates, through which a gradient flows from [CLS], too."""
    return closed(gate, mask) + (gate - gate.detach()) * (torch.arange(mask.shape[1]) == 0)


GRADIENTS: Wrong = {CLS_TEACHES: gates(end=and_gradient_of_cls)}
WRONG["SoftThreshold"] = TRAINING | EVALUATION | GRADIENTS


def with_theta(theirs: Thresholds, kind: Callable[[int, float], Any], training: bool = True) -> Any:
    """A module of this kind, right or wrong, with the student's thresholds and
    temperature.
    """
    module = kind(len(theirs.theta), theirs.T).train(training)
    module.theta.data.copy_(theirs.theta)
    return module


def gate_mistakes(
    theirs: Thresholds, wrong: Wrong, *given: Any, training: bool = True
) -> dict[str, Tensor]:
    """The gates that the table's modules make."""
    return {
        said: with_theta(theirs, kind, training)(*given).detach() for said, kind in wrong.items()
    }


def expect_gate(
    value: Any, right: Tensor, mask: Tensor, mistakes: known.Mistakes, when: str
) -> None:
    """The gate is right; else name the part that is wrong."""
    expect_tensor(value, shape=mask.shape, dtype=right.dtype, what=f"{when} the gate")
    words = mask.clone()
    words[:, 0] = False
    of_words = {said: wrong * words for said, wrong in mistakes.items()}
    recognise(value * words, right * words, of_words, f"{when}: ")
    if not (value[:, 0] == 1).all():
        fail(f"{when} the gate of [CLS] is {value[0, 0].item():.4g}. It must be 1 for every score")
    if (value[~mask] != 0).any():
        fail(
            f"{when} padding has a gate of {value[~mask].double().abs().max().item():.4g}. It must be 0 for every θ"
        )
    expect_close(value, right, f"{when} the gate", tolerance=1e-5)


@question("10.4", points=0.5, claim="theta is an nn.Parameter (layers,), 0 at first")
def test_theta_is_a_parameter(submission: Submission, draw: Draw) -> None:
    for layers in draw.distinct(2, 2, 6):
        module = submission.SoftThreshold(layers, 0.3, keep=True)
        model = submission.get(module)
        if not isinstance(model, plain_data.Model):
            fail(
                f"SoftThreshold(layers, temperature) should be an nn.Module, it is {describe(model)}"
            )
        try:
            submission.call("get_parameter", "theta", on=module, keep=True)
        except StudentError as error:
            if error.kind != "raised":
                raise
            others = f" (it holds {', '.join(model.state)})" if model.state else ""
            fail(f"{NO_PARAMETER}{others}")
        theta = model.state.get("theta")
        if isinstance(theta, Tensor) and theta.shape != (layers,):
            fail(
                f"theta has shape {tuple(theta.shape)} for {layers} layers. It should have one for each layer, shape ({layers},)"
            )
        theta = expect_tensor(theta, what="theta")
        if (theta != 0).any():
            fail(
                f"theta is initialised to {describe(theta)}. It should be 0 at first, so that all tokens are kept"
            )


def batch(draw: Draw) -> tuple[Tensor, Tensor]:
    """Scores and token_mask of three texts, the padding at the end; [CLS] has a small
    score.
    """
    L = draw.integer(8, 10)
    mask = padded([L - 1, 6, 3], L)
    scores = parts(draw, mask)
    scores[:, 0] *= 0.3
    return scaled(scores), mask


@question(
    "10.4", points=1, claim="in training a soft gate at the layer's own θ; [CLS] 1, padding 0"
)
def test_soft_gate(submission: Submission, draw: Draw) -> None:
    theirs = Thresholds(submission, draw)

    def case() -> Case:
        scores, mask = batch(draw)
        mistakes = gate_mistakes(theirs, TRAINING, scores, 2, mask)
        return (scores, mask), theirs.soft(scores, 2, mask), mistakes

    (scores, mask), right, mistakes = draw_discriminating_case(case)
    expect_gate(theirs(scores, 2, mask), right, mask, mistakes, "in training mode")
    for other in (0, 1, 3):
        right = theirs.soft(scores, other, mask)
        expect_gate(theirs(scores, other, mask), right, mask, {}, f"in training, in layer {other}")


HARD_GATES = EVALUATION | {  # the sentences that the hard gate can distinguish
    said: TRAINING[said] for said in (INVERTED, WITHOUT_N, PADDED_N)
}


@question("10.4", points=0.5, claim="in evaluation a hard one: 1 or 0")
def test_hard_gate(submission: Submission, draw: Draw) -> None:
    theirs = Thresholds(submission, draw)
    layer = draw.integer(1, 2)

    def case() -> Case:
        scores, mask = batch(draw)
        if close(scores, float(theirs.theta[layer]), mask):
            return case()
        mistakes = gate_mistakes(theirs, HARD_GATES, scores, layer, mask, training=False)
        return (scores, mask), theirs.hard(scores, layer, mask), mistakes

    (scores, mask), right, mistakes = draw_discriminating_case(case)
    submission.train(theirs.module, False)
    expect_gate(theirs(scores, layer, mask), right, mask, mistakes, "in evaluation mode")
    submission.train(theirs.module, True)
    value, soft = theirs(scores, layer, mask), theirs.soft(scores, layer, mask)
    expect_gate(value, soft, mask, {HARD: right}, "back in training mode")


@question("10.4", points=1, claim="a gradient reaches the layer's θ, from its words alone")
def test_gradient_of_theta(submission: Submission, draw: Draw) -> None:
    theirs, layer = Thresholds(submission, draw), draw.integer(1, 2)
    scores, mask = batch(draw)
    weights = draw.normal(*mask.shape)
    gate = theirs(scores, layer, mask, keep=True)
    try:
        submission.backward(gate, weights)
    except StudentError as error:
        if error.kind != "raised" or error.unwritten:
            raise
        if "inplace" in error.message:
            fail(
                "the gradient cannot be computed, because your code changed in place a tensor that autograd needs (gate[:, 0] = 1?). "
                "Change a copy, or concatenate the columns"
            )
        if "does not require grad" in error.message:
            fail(NOT_REACHED)
        fail(f"backward() through the gate raised {error.type}: {error.message}")
    gradient = submission.get(theirs.module, "theta.grad")
    if gradient is None:
        fail(NOT_REACHED)
    expect_tensor(gradient, shape=theirs.theta.shape, what="theta.grad")

    def gradient_of(kind: Callable[[int, float], Any]) -> Tensor:
        module = with_theta(theirs, kind)
        (module(scores, layer, mask) * weights).sum().backward()
        return module.theta.grad

    right = gradient_of(reference.SoftThreshold)
    recognise(gradient, right, {said: gradient_of(kind) for said, kind in GRADIENTS.items()})
    if not gradient.any():
        fail(f"the gradient of theta is 0 everywhere: {NOT_REACHED}")
    expect_close(gradient, right, f"the gradient of theta, after a pass through layer {layer},")


# --- 10.5 cascade_step ----------------------------------------------------------------

Pair = tuple[Tensor, Tensor]  # tokens, heads


def best(scores: Tensor, alive: Tensor, n: int) -> Tensor:
    """The n largest among the alive; of equal ones the first."""
    order = scores.double().masked_fill(~alive, -torch.inf).argsort(descending=True, stable=True)
    keep = torch.zeros_like(alive)
    keep[order[:n]] = True
    return keep & alive


class Layer:
    """The arguments of cascade_step and the right result. The scores of those alive are
    ``lowest`` and above, no two equal without ``ties``, and [CLS] and head 0 have ``cls``;
    ``dropped`` is added to the scores of the others. So each mistake always shows in the
    same claims.
    """

    def __init__(
        self,
        draw: Draw,
        cls: float = 50,
        lowest: float = 10,
        dropped: float = -100,
        ties: bool = False,
    ) -> None:
        def scores_and_alive(n: int, dead: int) -> tuple[Tensor, Tensor]:
            alive = torch.cat([torch.ones(1).bool(), draw.permutation(n - 1) >= dead])
            # of many equal ones: an unstable sort keeps the order of few
            scores = lowest + (draw.tied(n, levels=1) if ties else draw.permutation(n).float())
            scores = scores.where(alive, scores + dropped)
            scores[0] = cls
            return scores, alive

        L, M = draw.integer(16, 18), draw.integer(12, 13)
        self.token_scores, self.tokens = scores_and_alive(L + 60 * ties, 4)
        self.head_scores, self.heads = scores_and_alive(M + 60 * ties, 3)
        self.n_tokens, self.n_heads = draw.integer(4, 5), 3

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int]:
        scores = self.token_scores, self.head_scores
        return *scores, self.tokens, self.heads, self.n_tokens, self.n_heads

    def kinds(self) -> list[tuple[str, Tensor, Tensor, int]]:
        """Tokens, then heads: their name, scores ([CLS] protected), who is alive, how
        many are kept.
        """
        tokens = ("tokens", protected(self.token_scores), self.tokens, self.n_tokens)
        return [tokens, ("heads", self.head_scores.double(), self.heads, self.n_heads)]


def protected(scores: Tensor) -> Tensor:
    """With the first above all others."""
    scores = scores.double().clone()
    scores[0] = torch.inf
    return scores


def of_both(choose: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[..., Pair]:
    """cascade_step with another choice of n among those alive, for tokens ([CLS]
    protected) and for heads.
    """

    def version(token_scores: Tensor, head_scores: Tensor, *given: Any) -> Pair:
        alive_tokens, alive_heads, n_tokens, n_heads = given
        tokens = choose(protected(token_scores), alive_tokens, n_tokens)
        return tokens, choose(head_scores.double(), alive_heads, n_heads)

    return version


def with_cls(token_scores: Tensor, head_scores: Tensor, *given: Any) -> Pair:
    """By mistake: [CLS] as one more."""
    tokens, heads = best(token_scores, given[0], given[2]), best(head_scores, given[1], given[3])
    tokens[0] = True
    return tokens, heads


WRONG["cascade_step"] = {
    "dropped tokens or heads were counted among the n. Choose n among the alive ones only": of_both(
        lambda scores, alive, n: best(scores, torch.ones_like(alive), n) & alive
    ),
    "some that were not alive came back. A dropped token or head can never come back": of_both(
        lambda scores, alive, n: best(scores, torch.ones_like(alive), n)
    ),
    "those with the smallest scores were kept. A larger score means more important": of_both(
        lambda scores, alive, n: best((-scores).masked_fill(scores == torch.inf, 999), alive, n)
    ),
    "n was used as the number to drop. It is the number to keep": of_both(
        lambda scores, alive, n: best(scores, alive, max(1, int(alive.sum()) - n))
    ),
    "those that are not alive were ranked as if their score were 0. The score of an alive one can be below 0": of_both(
        lambda scores, alive, n: best(scores.where(alive, 0), torch.ones_like(alive), n) & alive
    ),
    "of equal scores the last was kept. Keep the first of them": of_both(
        lambda scores, alive, n: best(scores + torch.arange(len(scores)) / 1e6, alive, n)
    ),
    "of equal scores all were kept, which is too many. A threshold cannot distinguish equal values": of_both(
        lambda scores, alive, n: alive & (scores >= scores[best(scores, alive, n)].min())
    ),
    "n_tokens was used for the heads, too. Use n_heads for them": (
        lambda *given: (reference.cascade_step(*given)[0], best(given[1], given[3], given[4]))
    ),
    CLS_DROPPED: lambda *given: (
        best(given[0], given[2], given[4]),
        reference.cascade_step(*given)[1],
    ),
    "one token too many is kept. n_tokens includes [CLS]": with_cls,
    "head 0 was kept for every score. [CLS] is a token; no head is protected": (
        lambda *given: (
            reference.cascade_step(*given)[0],
            best(protected(given[1]), given[3], given[5]),
        )
    ),
}


def as_pair(value: Any, layer: Layer) -> Pair:
    if not isinstance(value, list | tuple) or len(value) != 2:
        fail(f"the result should be the tuple (tokens, heads), it is {describe(value)}")
    tokens, heads = value
    if all(isinstance(v, Tensor) for v in (tokens, heads)):
        if tokens.shape == layer.heads.shape and heads.shape == layer.tokens.shape:
            fail("tokens and heads are in the wrong order: tokens come first")
        for given, name in ((tokens, "tokens"), (heads, "heads")):
            if given.dtype != torch.bool:
                fail(
                    f"the {name} are {describe(given)}. The result should be a bool tensor, True for each one to keep"
                )
    expect_tensor(tokens, shape=layer.tokens.shape, dtype=torch.bool, what="the tokens")
    expect_tensor(heads, shape=layer.heads.shape, dtype=torch.bool, what="the heads")
    return tokens, heads


def expect_step(submission: Submission, layer: Layer, when: str) -> None:
    """Tokens and heads are right; else the mistake whose result they are."""
    thought = "If fewer are alive than n, keep all that are alive"
    pair = as_pair(ask(lambda: submission.cascade_step(*layer.given), when, thought), layer)
    mistakes = apply_each(WRONG["cascade_step"], *layer.given)
    rights = reference.cascade_step(*layer.given)
    for i, (name, scores, alive, n) in enumerate(layer.kinds()):
        keep, right = pair[i], rights[i]
        if torch.equal(keep, right):
            continue
        of_kind = {said: both[i] for said, both in mistakes.items()}
        recognise(keep, right, of_kind, f"{when}, of the {name}: ")
        if (keep & ~alive).any():
            fail(
                f"{when}, some {name} that were not alive came back. A dropped token or head can never come back"
            )
        if name == "tokens" and not keep[0]:
            fail(f"{when}, {CLS_DROPPED}")
        if keep.sum() != right.sum():
            said = f"{int(keep.sum())} {name} were kept instead of {int(right.sum())}"
            fail(f"{when}, {said} (n is {n}, and {int(alive.sum())} are alive)")
        if scores[keep].sort().values.equal(scores[right].sort().values):
            fail(
                f"{when}, of {name} with equal scores the wrong ones were kept. Keep the first of them. topk and argsort (without stable=True) "
                "guarantee no order among equal values"
            )
        fail(f"{when}, the {name} that were kept are not those with the largest scores")


@question("10.5", points=1, claim="of those alive, the ones with the largest scores")
def test_best_of_those_alive(submission: Submission, draw: Draw) -> None:
    layer = Layer(draw, dropped=100)
    expect_step(submission, layer, "where dropped tokens and heads have large scores")


@question(
    "10.5", points=1, claim="[CLS] is kept whatever its score, as one of n_tokens; no head is"
)
def test_cls_is_kept(submission: Submission, draw: Draw) -> None:
    layer = Layer(draw, cls=-9)
    expect_step(submission, layer, "where [CLS] and head 0 have the smallest scores")


# --- 10.6 token_macs ------------------------------------------------------------------


def macs(length: float, E: int, linear: int = 12, square: int = 2) -> float:
    return linear * length * E**2 + square * length**2 * E


def summed(layer: Callable[[int, int], float]) -> Callable[[list[int], int], float]:
    """token_macs with another number for each layer."""
    return lambda lengths, E: sum(layer(length, E) for length in lengths)


NO_SQUARE = "nothing grows with l². In Q·Kᵀ and A·V every token meets every token"
HOW_MANY = "Of how many products is one number of Q·Kᵀ the sum?"
LAYERS: dict[str, Callable[[int, int], float]] = {
    NO_SQUARE: functools.partial(macs, square=0),
    "nothing grows with l². Q·Kᵀ has one number for each pair of tokens, not for each token": (
        lambda n, E: 12 * n * E**2 + 2 * n * E
    ),
    "only one of Q·Kᵀ and A·V was counted": functools.partial(macs, square=1),
    f"each number of Q·Kᵀ was counted as one product. {HOW_MANY}": (
        lambda n, E: 12 * n * E**2 + 2 * n**2
    ),
    f"each number of Q·Kᵀ was counted as E² products. {HOW_MANY}": (
        lambda n, E: 12 * n * E**2 + 2 * n**2 * E**2
    ),
    "each product was counted twice. A multiplication with its addition counts once": (
        lambda n, E: 2 * macs(n, E)
    ),
    "the feed-forward block is missing": functools.partial(macs, linear=4),
    "only one of the two matrices of the feed-forward block was counted": functools.partial(
        macs, linear=8
    ),
    "the feed-forward block was counted as two matrices E by E. Between them it is 4·E wide": (
        functools.partial(macs, linear=6)
    ),
    "only three projections were counted. Which does a layer have beside those of Q, K and V?": (
        functools.partial(macs, linear=11)
    ),
    "the biases were counted. Count products only": lambda n, E: macs(n, E) + 9 * n * E,
}
OF_A_LAYER: Wrong = {said: summed(layer) for said, layer in LAYERS.items()}
OF_LAYERS: Wrong = {
    "the lengths of all layers were added and then squared. Compute each layer with its own length, then add": (
        lambda lengths, E: macs(sum(lengths), E)
    ),
    "all layers were counted at their mean length. The mean of l² is larger than the square of the mean": (
        lambda lengths, E: len(lengths) * macs(sum(lengths) / len(lengths), E)
    ),
    "all layers were counted at the length of the first layer. Later layers are shorter": (
        lambda lengths, E: len(lengths) * macs(lengths[0], E)
    ),
}
WRONG["token_macs"] = OF_A_LAYER | OF_LAYERS


def equal_numbers(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9)


def expect_macs(value: Any, right: int, mistakes: Mapping[str, float], when: str) -> None:
    """The number is right; else the mistake whose result it is."""
    if isinstance(value, float | int) and value != right:
        for said, wrong in mistakes.items():
            if equal_numbers(value, wrong):
                fail(f"{when}: {said}")
    if isinstance(value, float) and value == right:
        fail(f"{when} the result is {value!r}. The number of MACs should be an int")
    if expect_int(value, f"{when} the result") != right:
        fail(f"{when} the result is {int(value):,} instead of {right:,}")


@question(
    "10.6",
    points=1,
    claim="one layer: projections, feed-forward block and both products of attention",
)
def test_macs_of_a_layer(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[list[int], int]:
        return [draw.integer(30, 60)], 2 * draw.integer(40, 80)

    (lengths, E), right, mistakes = known.draw_case(case, summed(macs), OF_A_LAYER, equal_numbers)
    expect_macs(
        submission.token_macs(lengths, E),
        right,
        mistakes,
        f"for one layer on {lengths[0]} tokens of width {E}",
    )


@question("10.6", points=0.5, claim="the sum over layers, each with its own length")
def test_macs_of_layers(submission: Submission, draw: Draw) -> None:
    def case() -> tuple[list[int], int]:
        return sorted(draw.distinct(draw.integer(4, 6), 5, 60), reverse=True), 2 * draw.integer(
            20, 40
        )

    wrong = OF_LAYERS | {NO_SQUARE: OF_A_LAYER[NO_SQUARE]}
    (lengths, E), right, mistakes = known.draw_case(case, summed(macs), wrong, equal_numbers)
    value = submission.token_macs(lengths, E)
    if isinstance(value, int) and value not in (right, *mistakes.values()):
        each = [submission.token_macs([length], E) for length in lengths]
        if each != [macs(length, E) for length in lengths] and value == sum(each):
            fail(
                f"{value:,} is the sum of your function's results for each single layer, and these are not right yet. See the first claim"
            )
    expect_macs(value, right, mistakes, f"for layers on {lengths} tokens of width {E}")


# --- 10.7 two short answers -----------------------------------------------------------

OPTIONS = 4  # of 10.7a


@question(
    "10.7",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_10_7a", OPTIONS, {})
    expect_choice(submission, "answer_10_7b", 4, {})


# --- 10.8 find_bug --------------------------------------------------------------------

PROMISE = "10.1 requires for attention weights (B, H, L, L) and a bool mask (B, L)"


def by_einsum(attn: Tensor, token_mask: Tensor) -> Tensor:
    """A right version that sums in another order, and relies on its arguments."""
    real = token_mask.to(attn.dtype)
    total = (
        torch.einsum("bmji,bj->bi", attn, real / real.sum(1, keepdim=True)) / attn.shape[1] * real
    )
    return total / total.sum(-1, keepdim=True)


RIGHT = {"the library's": reference.attention_received, "one that sums in another order": by_einsum}


@question("10.8", points=0.5, claim="two plain bugs are found, and nothing right is accused")
def test_hunt_plain_bugs(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "attention_received",
        right=RIGHT,
        wrong={
            "sums rows instead of columns": WRONG["attention_received"][ROWS],
            "gives padding a score": WRONG["attention_received"][PADDING_RECEIVES],
        },
        promise=PROMISE,
    )
