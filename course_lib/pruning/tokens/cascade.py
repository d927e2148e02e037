"""Tokens and heads that go together, while the model runs: what counted little so far
is gone for good.

Each layer adds to the scores of tokens (attention received) and of heads (how much each
puts out). The sums decide after every layer, and what is gone takes no part in later
layers, nor in the scores there: so both sets only shrink. For tokens the index means
something in every layer, they are the same words. Head 3 of one layer and head 3 of the
next have nothing to do with each other; the method prunes the index all the same, and
what that costs is worth a measurement.

Source: Wang, Zhang and Han 2021, "SpAtten: Efficient Sparse Attention Architecture with
Cascade Token and Head Pruning", section III-A and III-B.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from course_lib.checks import check_count, check_mask, check_names, check_numbers
from course_lib.pruning.tokens.dropping import Dropping, Share
from course_lib.pruning.tokens.layers import EncoderLayer
from course_lib.pruning.tokens.selection import top_tokens


def cascade_step(
    token_scores: Tensor,
    head_scores: Tensor,
    alive_tokens: Tensor,
    alive_heads: Tensor,
    n_tokens: int,
    n_heads: int,
) -> tuple[Tensor, Tensor]:
    """Which tokens and heads of one text go on from one layer: the best of those that
    are still there.

    Args:
        token_scores: (L,), cumulative; alive_tokens: bool (L,), [CLS] first, which
            always stays.
        head_scores: (H,), cumulative; alive_heads: bool (H,).
        n_tokens, n_heads: how many go on, ≥ 1; where fewer are alive, all of them.
            Equal scores: the first one stays.

    Returns:
        bool (L,) and bool (H,), parts of ``alive_tokens`` and ``alive_heads``.

    Raises:
        ValueError: if shapes do not fit, a number is below 1, a score is NaN, or
            nothing is alive to keep.
    """
    if token_scores.ndim != 1 or head_scores.ndim != 1:
        raise ValueError(
            "token_scores and head_scores are of one text, (L,) and (H,); got"
            f" {tuple(token_scores.shape)} and {tuple(head_scores.shape)}"
        )
    tokens = top_tokens(token_scores[None], alive_tokens[None], n_tokens)[0]
    return tokens, _best_heads(head_scores[None], alive_heads[None], n_heads)[0]


def _best_heads(scores: Tensor, alive: Tensor, n: int) -> Tensor:
    """The n best of the heads that are alive, bool (B, H)."""
    check_mask(alive, "alive_heads", scores.shape)
    check_count(n, "n_heads", 1)
    check_numbers(scores)
    if not bool(alive.any(1).all()):
        raise ValueError("alive_heads has no head that is alive, so none can be kept")
    order = scores.masked_fill(~alive, float("-inf")).sort(dim=1, descending=True, stable=True)
    # the dead behind a live -inf
    last = (~alive).gather(1, order.indices).sort(dim=1, stable=True).indices
    best = order.indices.gather(1, last)[:, :n]
    return torch.zeros_like(alive).scatter_(1, best, True) & alive


class Cascading(Dropping):
    """Inside the ``with`` block, tokens and heads go together as ``model`` runs, each
    text by itself.

    Tokens are dropped, as :class:`~course_lib.pruning.tokens.Dropping` does, by the mean
    of their scores over the layers so far. Heads are chosen for every text, so their output
    is set to zero and not removed: that shows what it does to accuracy and counts in MACs
    (``working``), but takes no time off. For heads that are gone for every text, remove
    them and use ``dropping`` on the smaller model.

    Args:
        model: as in ``dropping``; score: "cls" or "received", as there.
        tokens: layer -> share or number of tokens that go on from it.
        heads: layer -> number of heads that go on from it, so that work in the layers
            behind it.

    Attributes:
        working: after a forward pass, for each layer bool (B, H): the heads that worked
            in it. Else as in ``dropping``.

    Raises:
        ValueError: as ``dropping`` does, or if ``heads`` does not fit the model.
    """

    def __init__(
        self,
        model: nn.Module,
        tokens: Mapping[int, Share],
        heads: Mapping[int, int],
        *,
        score: Literal["cls", "received"] = "cls",
    ) -> None:
        check_names([score], ("cls", "received"), "score")
        # a layer that drops nothing is scored, too
        scored = range(max(tokens, default=-1) + 1)
        super().__init__(model, {i: tokens.get(i, 1.0) for i in scored}, score=score)
        self.schedule = dict(heads)
        self.working: list[Tensor] = []
        self._total = torch.empty(0)  # (B, L), scores of tokens, summed over layers
        # what goes on from the layer before: bool (B, H), and scores of heads, summed
        self._alive, self._sizes = torch.empty(0), torch.empty(0)
        self._check_layers(heads)
        for n in heads.values():
            check_count(n, "heads", 1)
        each = [layer.attention.heads for layer in self.layers]
        if len(set(each)) > 1 or each[0] == 0:
            raise ValueError(
                f"model has {each} heads in its layers: to cascade indices it needs equally many"
            )

    def _hook(self, hooks: ExitStack, i: int, layer: EncoderLayer) -> None:
        super()._hook(hooks, i, layer)
        output = layer.module.get_submodule(layer.attention.out)
        hooks.callback(output.register_forward_pre_hook(partial(self._gate, i)).remove)

    def _heads_of(self, i: int) -> Tensor:
        return self.working[i]

    def _attention_score(self, i: int) -> Tensor:
        score, now = super()._attention_score(i), self._now
        before = score.new_zeros(now.record.token_mask.shape) if i == 0 else self._total
        self._total = before.scatter_add(1, now.places, score)
        return self._total.gather(1, now.places) / (i + 1)

    def _gate(self, i: int, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        real, attention = self._now.token_mask, self.layers[i].attention
        out = args[0].unflatten(-1, (attention.heads, attention.head_size))  # (B, l, H, d)
        if i == 0:
            self.working = []
            self._alive = torch.ones_like(out[:, 0, :, 0], dtype=torch.bool)
        alive = self._alive
        self.working = [*self.working, alive]
        out = out * alive[:, None, :, None]
        with torch.no_grad():
            size = out.abs().sum(-1, dtype=torch.float32) * real[:, :, None]  # (B, l, H)
            # per token, so that layers with fewer count alike
            score = size.sum(1) / real.sum(1, keepdim=True)
            self._sizes = score if i == 0 else self._sizes + score
            if i in self.schedule:
                self._alive = _best_heads(self._sizes, alive, self.schedule[i])
        return (out.flatten(-2), *args[1:])


cascading = Cascading
