"""Tokens and heads that go together, while the model runs: what counted little so far
is gone for good.

Each layer adds to the scores of tokens (attention received) and of heads (how much each
puts out). The sums decide after every layer, and what is gone takes no part in later
layers, nor in the scores there: so both sets only shrink. Tokens are the same words in
every layer. Head 3 of one layer and head 3 of the next have nothing to do with each other;
the method prunes the index all the same, and what that costs is worth a measurement.

Source: Wang, Zhang and Han 2021, "SpAtten: Efficient Sparse Attention Architecture with
Cascade Token and Head Pruning", section III-A and III-B.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from course_lib.checks import check_count, check_mask, check_names
from course_lib.pruning.tokens.dropping import Dropping, EncoderLayer, Share
from course_lib.pruning.tokens.selection import best, top_tokens


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
    """
    tokens = top_tokens(token_scores[None], alive_tokens[None], n_tokens)[0]
    return tokens, _best_heads(head_scores[None], alive_heads[None], n_heads)[0]


def _best_heads(scores: Tensor, alive: Tensor, n: int) -> Tensor:
    """The n best of the heads that are alive, bool (B, H)."""
    check_mask(alive, "alive_heads", scores.shape)
    check_count(n, "n_heads", 1)
    if not bool(alive.any(1).all()):
        raise ValueError("alive_heads has no head that is alive, so none can be kept")
    return best(scores, alive, torch.tensor([n]))


class Cascading(Dropping):
    """Inside the ``with`` block, tokens and heads go together, each text by itself.

    Tokens are dropped, as :class:`~course_lib.pruning.tokens.Dropping` does, by the mean
    of their scores over the layers so far. Heads are chosen for every text, so their output
    is set to zero and not removed: that shows what it does to accuracy and counts in MACs
    (``working``), but takes no time off. For heads that are gone for every text, remove
    them and use ``dropping`` on the smaller model.

    Args:
        tokens: layer -> share or number of tokens that go on from it.
        heads: layer -> number of heads that go on from it.
        score: "cls" or "received", as in ``dropping``.

    Attributes:
        working: after a forward pass, for each layer bool (B, H): the heads that worked in it.
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
        # scores of tokens (B, L) and of heads (B, H), summed over layers
        self._total, self._sizes = torch.empty(0), torch.empty(0)
        self._check_layers(frozenset(heads))
        for n in heads.values():
            check_count(n, "heads", 1)
        each = [layer.attention.heads for layer in self.layers]
        if len(set(each)) > 1 or each[0] == 0:
            raise ValueError(f"model should have equally many heads in its layers, got {each}")

    def _hooks_of(self, i: int, layer: EncoderLayer) -> Iterator[Any]:
        yield from super()._hooks_of(i, layer)
        output = layer.module.get_submodule(layer.attention.out)
        yield output.register_forward_pre_hook(partial(self._gate, i))

    def _heads_of(self, i: int) -> Tensor:
        return self.working[i]

    def _attention_score(self, i: int) -> Tensor:
        score, now = super()._attention_score(i), self._now
        before = score.new_zeros(now.record.token_mask.shape) if i == 0 else self._total
        self._total = before.scatter_add(1, now.places, score)
        return self._total.gather(1, now.places) / (i + 1)

    def _gate(self, i: int, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        real, attention = self._now.counts > -torch.inf, self.layers[i].attention
        out = args[0].unflatten(-1, (attention.heads, attention.head_size))  # (B, l, H, d)
        if i == 0:
            self.working = [torch.ones_like(out[:, 0, :, 0], dtype=torch.bool)]
        alive = self.working[i]
        out = out * alive[:, None, :, None]
        with torch.no_grad():
            size = out.abs().sum(-1, dtype=torch.float32) * real[:, :, None]  # (B, l, H)
            # per token, so that layers with fewer count alike
            score = size.sum(1) / real.sum(1, keepdim=True)
            self._sizes = score if i == 0 else self._sizes + score
            if i + 1 < len(self.layers):
                n = self.schedule.get(i, attention.heads)
                self.working.append(_best_heads(self._sizes, alive, n))
        return (out.flatten(-2), *args[1:])


cascading = Cascading
