"""Heads and tokens of a BERT with random weights: importance beside switching each head
off, and smaller models beside the whole one.
"""

from __future__ import annotations

import copy
from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from run import Row
from torch import Tensor, nn

from course_lib.pruning.heads import (
    choose_heads,
    find_attention,
    gated,
    head_importance,
    remove_heads,
)
from course_lib.pruning.tokens import dropping


def bert(**options: Any) -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig(**options)).eval()


def losses(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = model(input_ids=batch["input_ids"]).logits
    return F.cross_entropy(logits, batch["labels"], reduction="none")


def importance(name: str) -> Row:
    """Of 24 heads in one backward pass; the peer's ablations change the loss by the slope,
    to first order, where gates are nearly open.
    """
    model = bert(num_hidden_layers=2)
    found = find_attention(model)
    batch = {"input_ids": torch.randint(1000, (1, 64)), "labels": torch.zeros(1).long()}
    step = 0.01

    @torch.no_grad()
    def one_by_one() -> Tensor:
        full, found_losses = losses(model, batch).sum(), torch.zeros(2, 12)
        for place in range(24):
            gates = torch.ones(24)
            gates[place] -= step
            with gated(model, gates.view(2, 12), found):
                found_losses.view(-1)[place] = losses(model, batch).sum()
        return (full - found_losses).abs() / step

    def same(ours: Tensor, theirs: Tensor) -> None:
        torch.testing.assert_close(ours.float(), theirs, rtol=0.1, atol=1e-4)

    def ours() -> Tensor:
        return head_importance(model, [batch], losses, found)

    return Row(name, ours, {"each head off in turn": one_by_one}, same, rounds=5)


def half(name: str) -> Row:
    model, ids = bert(num_hidden_layers=4), torch.randint(1000, (8, 128))
    keep = torch.cat([choose_heads(1, 12, 6, "random", torch.Generator()) for _ in range(4)])
    smaller = remove_heads(model, keep)
    with torch.inference_mode(), gated(model, keep):
        expected = model(ids).logits

    def run(which: nn.Module) -> Tensor:
        with torch.inference_mode():
            return which(ids).logits

    def same(ours: Tensor, _: Tensor) -> None:
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)

    return Row(name, lambda: run(smaller), {"all heads": lambda: run(model)}, same)


def fewer_tokens(name: str) -> Row:
    """After the second of six layers 15 % of 128 tokens are left, by the row of [CLS]."""
    model = bert(vocab_size=1000, hidden_size=256, num_hidden_layers=6, num_attention_heads=8,
        intermediate_size=1024, initializer_range=0.1)  # fmt: skip
    ids = torch.randint(5, 1000, (32, 128))
    whole, blocks = copy.deepcopy(model), ExitStack()
    drop = blocks.enter_context(dropping(model, {1: 0.15}))  # open while the clock runs

    def run(which: nn.Module) -> Tensor:
        with torch.inference_mode():
            return which(ids).logits

    def same(ours: Tensor, _: Tensor) -> None:
        """The slow way: tokens that are gone stay, and no layer behind looks at them."""
        assert drop.last is not None
        mask = drop.last.alive(1)[:, None, None, :]
        hooks = [
            layer.register_forward_pre_hook(lambda m, args: (args[0], mask, *args[2:]))
            for layer in whole.bert.encoder.layer[2:]
        ]
        expected = run(whole)
        for hook in hooks:
            hook.remove()
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)

    return Row(name, lambda: run(model), {"all tokens": lambda: run(whole)}, same, rounds=5)


ROWS = {
    "importance of all heads": importance,
    "half of the heads, BERT-base, 4 layers": half,
    "15 % of the tokens, 32 texts": fewer_tokens,
}
