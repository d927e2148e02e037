"""How much a token matters, and which tokens stay: the best k, all above a threshold, or
above one that is learned.

A row of an attention matrix sums to 1 whatever its token is worth: it says where that
token looks. What others take from a token stands in its column: the attention that it
*receives*. So a token's score is the mean of its column, over heads and over the queries
that are real. The fast attention kernels never have the whole matrix. Where one row decides
what the model answers, that of [CLS], it alone can be computed: one query against all keys.

All rules look at real tokens only, and at each text by itself, so the same text keeps the
same tokens alone, in a batch, and padded to any length; in their order, [CLS] always. A
share is of the *real* length. Scores sum to 1 over a text of n, so a threshold on the score
itself would take more from long texts: it is on n·s, where 1 is average.

Source: Goyal et al. 2020, "PoWER-BERT", section 3.1 (significance of a word-vector);
Kim et al. 2022, "Learned Token Pruning for Transformers", section 3.2, equation 2; the
[CLS] row: Liang et al. 2022, "Not All Patches are What You Need", section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from course_lib.checks import check_count, check_mask, check_numbers


def attention_received(attn: Tensor, token_mask: Tensor) -> Tensor:
    """The mean of each token's column of ``attn``, over heads and real queries; padding
    0, the rest scaled to sum 1: (B, L).

    Args:
        attn: attention weights (B, H, L, L), [b, h, j, i] = how much query j looks at
            key i in head h.
        token_mask: bool (B, L), True = a real token; every text has one.
    """
    if attn.ndim != 4 or attn.shape[2] != attn.shape[3]:
        raise ValueError(f"attn holds attention weights (B, H, L, L), got {tuple(attn.shape)}")
    check_mask(token_mask, "token_mask", (attn.shape[0], attn.shape[3]))
    if len(empty := (~token_mask.any(1)).nonzero()):
        raise ValueError(f"token_mask says that text {int(empty[0])} has no real token")
    return of_columns(attn.mean(1), token_mask.to(attn.dtype))


def attention_rows(
    query: Tensor, key: Tensor, log_counts: Tensor, scale: float, heads: Tensor | None
) -> Tensor:
    """Attention weights of some queries, averaged over heads: (B, H, R, d), (B, H, L,
    d) -> (B, R, L), float32 at least; ``log_counts`` (B, L): as in ``dropping``.
    """
    scores = query @ key.mT * scale  # (B, H, R, L)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return mean_over_heads((scores + log_counts[:, None, None, :]).softmax(-1), heads)


def mean_over_heads(attn: Tensor, heads: Tensor | None) -> Tensor:
    """The mean of (B, H, R, L) over the heads that vote, bool (H,) or (B, H); None: all."""
    if heads is None:
        return attn.mean(1)
    B, H = attn.shape[:2]
    check_mask(heads, "heads", (H,) if heads.ndim == 1 else (B, H))
    votes = heads.reshape(-1, H).to(attn)
    return (attn * (votes / votes.sum(1, keepdim=True))[:, :, None, None]).sum(1)


def of_columns(rows: Tensor, counts: Tensor) -> Tensor:
    """The mean of the rows of (B, L, L), of which each counts ``counts`` (B, L) times;
    what counts 0 is set to 0 and the rest scaled to sum 1: (B, L).
    """
    real = counts > 0
    # filled: a padded row may be NaN
    columns = (rows * counts[:, :, None]).masked_fill(~real[:, :, None], 0).sum(1)
    columns = columns.masked_fill(~real, 0)
    return columns / columns.sum(1, keepdim=True)


def kept_count(lengths: Tensor, fraction: float) -> Tensor:
    """How many of n tokens a share in (0, 1] is: max(1, ⌈n·fraction − 1e-9⌉), so 1 (which is
    [CLS]) at least, rounded up; int64 (B,) for ``lengths`` (B,).
    """
    fraction = check_fraction(fraction)
    return (lengths.double() * fraction - 1e-9).ceil().long().clamp(min=1)


def check_fraction(fraction: float) -> float:
    if not 0 < fraction <= 1:
        hint = f" (for {fraction:g} % write {fraction / 100:g})" if 1 < fraction <= 100 else ""
        raise ValueError(
            f"fraction of the tokens to keep must be above 0 and at most 1, got {fraction:g}{hint}"
        )
    return fraction


def progressive(lengths: Tensor | Sequence[int], layers: int, final: float) -> Tensor:
    """Tokens that each of ``layers`` layers works on when the share falls geometrically:
    all in the first, ``final`` in the last; int64 (layers, B) for texts of ``lengths`` (B,), row
    l is max(1, ⌈n·final^(l/(layers−1)) − 1e-9⌉).

    Source: Goyal et al. 2020, "PoWER-BERT", section 3.3, learns the numbers; geometric
    ones are the usual shape.
    """
    lengths = torch.as_tensor(lengths)
    check_count(layers, "layers", 1)
    check_count(int(lengths.min()), "lengths", 1)
    shares = [1.0, *progressive_shares(layers, final).values()]
    return torch.stack([kept_count(lengths, share) for share in shares])


def progressive_shares(layers: int, final: float) -> dict[int, float]:
    """The same schedule as the shares that stay *after* each layer, as ``dropping``
    takes them: l−1 → final^(l/(layers−1)).
    """
    final = check_fraction(final)
    return {l - 1: final ** (l / (layers - 1)) for l in range(1, layers)}  # noqa: E741


def top_tokens(scores: Tensor, token_mask: Tensor, k: int | Tensor, protect: int = 1) -> Tensor:
    """The k tokens of each text with the largest scores, the first ``protect`` columns
    among them: bool (B, L), True = kept; real tokens only.

    Args:
        scores: (B, L), larger = more important; equal ones: the one that comes first is
            kept first.
        token_mask: bool (B, L), True = a real token. Column 0 holds [CLS], so texts are
            padded on the right.
        k: how many stay, ≥ 1; or int64 (B,), one number for each text. A text with
            fewer real tokens keeps them all.
        protect: columns at the start that always stay: 1 for [CLS], 2 where a
            distillation token follows it.
    """
    _check(scores, token_mask)
    counts = k if isinstance(k, Tensor) else torch.tensor([check_count(k, "k", 1)])
    return best(scores, token_mask, counts, protect)


def best(scores: Tensor, alive: Tensor, counts: Tensor, protect: int = 0) -> Tensor:
    """The ``counts`` (B,) or (1,) best of those that are alive, the first ``protect`` among
    them: (B, n) -> bool (B, n).
    """
    check_numbers(scores)
    ranked = scores if scores.is_floating_point() else scores.double()
    ranked = ranked.clamp(min=torch.finfo(ranked.dtype).min).masked_fill(~alive, -torch.inf)
    ranked[:, :protect] = torch.inf
    order = ranked.sort(dim=1, descending=True, stable=True).indices
    rank = torch.arange(order.shape[1], device=order.device)
    first = rank < counts.to(order.device).clamp(min=protect)[:, None]
    return torch.zeros_like(alive).scatter_(1, order, first.expand_as(order)) & alive


def threshold_policy(scores: Tensor, theta: float | Tensor, token_mask: Tensor) -> Tensor:
    """The tokens with n·s ≥ θ, n = real tokens of the text; [CLS] whatever its score: bool
    (B, L), True = kept; real tokens only.

    Args:
        scores: (B, L), summing to 1 over each text, padding 0.
        theta: in units of the average token's score: 1 is average.
        token_mask: as in :func:`top_tokens`.

    Source: Kim et al. 2022, section 3.2, with θ on n·s in place of s.
    """
    _check(scores, token_mask)
    check_numbers(torch.as_tensor(theta), "theta")
    keep = token_mask.sum(1, keepdim=True) * scores >= theta
    keep[:, 0] = True
    return keep & token_mask


def keep_tokens(
    hidden: Tensor, token_mask: Tensor, scores: Tensor, k: int, protect: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """Drop rows: the best k of each text are gathered, in their order, into a shorter tensor:
    the k' = min(k, L) rows (B, k', E), their mask (B, k') and where they stood, int64 (B, k').
    A text with fewer than k' tokens to keep is filled up with rows whose mask is False: first
    its padding, then what it dropped.

    Args:
        hidden: (B, L, E).
        token_mask, scores, k, protect: as in :func:`top_tokens`.
    """
    check_mask(token_mask, "token_mask", hidden.shape[:2])
    keep = top_tokens(scores, token_mask, k, protect)
    index, valid = positions(keep, token_mask, max(k, protect))
    return gather_rows(hidden, index), valid, index


def positions(keep: Tensor, token_mask: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Where the kept tokens stand: int64 (B, rows), ascending, and bool (B, rows),
    which of these are kept tokens. Texts with fewer of them end as in :func:`keep_tokens`.
    """
    kind = torch.where(keep, 0, torch.where(token_mask, 2, 1))  # kept first, dropped last
    index = kind.sort(dim=1, stable=True).indices[:, :rows]  # (B, rows)
    return index, keep.gather(1, index)


def gather_rows(x: Tensor, index: Tensor) -> Tensor:
    """x[b, index[b, i]] for every b and i: (B, L, E), (B, k) -> (B, k, E)."""
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[2]))


def check_cls(token_mask: Tensor) -> None:
    if not bool(token_mask[:, 0].all()):
        raise ValueError(
            "token_mask should begin with [CLS], but column 0 is padding in some text: pad on the"
            ' right (tokenizer.padding_side = "right")'
        )


def _check(scores: Tensor, token_mask: Tensor) -> None:
    if scores.ndim != 2:
        raise ValueError(f"scores should be (B, L), got {tuple(scores.shape)}")
    check_mask(token_mask, "token_mask", scores.shape)
    check_cls(token_mask)


class SoftThreshold(nn.Module):
    """σ((n·s − θ)/T) for every token while training; 1 where n·s ≥ θ, else 0, in eval
    mode. [CLS] 1, padding 0.

    A step in the score has no gradient, so while thresholds are learned it is a sigmoid: a
    token is more or less there. Then the model is trained on with the step (the *hard phase*):
    what it learned from tokens that are 20 % there is worth little.

    ::

        from course_lib.pruning import tokens

        threshold = tokens.SoftThreshold(layers=3, temperature=0.3)
        with tokens.dropping(model, threshold) as drop:  # nothing is dropped yet: soft
            loss = model(**batch).loss + 0.1 * drop.last.soft_share()
            loss.backward()                              # θ has a gradient, too
            threshold.eval()                             # and later, the hard phase:
            loss = model(**batch).loss                   # rows are dropped; train the model on

    Attributes:
        theta: Parameter (layers,), in units of the average token's score; 0 at first, so that
            all tokens stay. What raises it is the sparsity term that you add to the loss.
        temperature: T, may be changed while training: lower is closer to a step.

    Source: Kim et al. 2022, section 3.3, equations 3 and 4, with n·s in place of s.
    """

    def __init__(self, layers: int, temperature: float) -> None:
        super().__init__()
        check_count(layers, "layers", 1)
        if not (temperature > 0 and math.isfinite(temperature)):
            raise ValueError(f"temperature is how gradual the step is, above 0, got {temperature}")
        self.theta = nn.Parameter(torch.zeros(layers))
        self.temperature = temperature

    def forward(self, scores: Tensor, layer: int, token_mask: Tensor) -> Tensor:
        """How much of each token goes on: (B, L) in the dtype of ``scores``; in training mode
        with a gradient to ``theta`` and to the scores.

        ``scores`` (B, L) sum to 1 over each text, padding 0. ``token_mask`` (B, L): True = a real
        token; or how much of it is left, in [0, 1], 0 for padding. n is its sum.
        """
        if scores.ndim != 2 or scores.shape != token_mask.shape:
            raise ValueError(
                f"token_mask should be (B, L) as scores, got {tuple(token_mask.shape)}"
            )
        real = token_mask > 0
        check_cls(real)
        n = token_mask.to(scores.dtype).sum(1, keepdim=True)  # (B, 1)
        above = n * scores - self.theta[layer].to(scores.dtype)
        soft = torch.sigmoid(above / self.temperature)
        kept = soft if self.training else (above >= 0).to(scores.dtype)
        first = kept.new_ones(len(kept), 1)  # [CLS]
        return torch.cat([first, kept[:, 1:]], 1).masked_fill(~real, 0)
