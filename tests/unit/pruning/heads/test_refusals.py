"""What this room refuses, and the argument that it names."""

import math

import pytest
import torch
from torch import nn

from course_lib.pruning import heads as h
from unit.small_transformers import HEADS, B, data_of, hooks_of, inputs_of, loss_of, model_of

BERT, DATA, LOSS = model_of("bert"), data_of("bert"), loss_of("bert")
KEEP, SCORES = torch.ones(3, HEADS, dtype=torch.bool), torch.ones(2, 2)
MASK = torch.tensor([[True, True, False]])
ATTENTION, TARGET = torch.rand(1, 2, 3, 3), torch.tensor([[1, 0, -1]])
LEARNED = torch.rand(2, 4, 5, 5)
Q, K, V, OUT = (nn.Linear(12, 12) for _ in range(4))


def run_gated(xi):
    with h.gated(BERT, xi):
        BERT(**inputs_of("bert"))


def choose(rule="random", count=1, layers=2, least=0):
    return h.choose_heads(layers, 2, count, rule, torch.Generator(), least)


def importance(change=lambda losses: losses, batches=(DATA,), model=BERT):
    return h.head_importance(BERT, batches, lambda m, batch: change(LOSS(model or m, batch)))


REFUSED = [
    ("rule", lambda: choose("first")),
    ("count", lambda: choose(count=-1)),
    ("min_per_layer", lambda: choose(least=-1)),
    ("layers", lambda: choose(count=0, layers=0)),
    *(("count", lambda n=n: h.lowest_heads(SCORES, n, 1)) for n in (0.25, 1.6, -1, 3)),
    ("scores", lambda: h.lowest_heads(SCORES[0], 1)),
    ("counts", lambda: h.prune_heads_iteratively(BERT, lambda m: KEEP.double(), [3, 2])),
    ("score", lambda: h.prune_heads_iteratively(BERT, lambda m: KEEP.T.double(), [1])),
    *(("xi", lambda xi=xi: run_gated(xi)) for xi in (
        torch.ones(2, HEADS), torch.ones(3, HEADS + 1), torch.ones(3), torch.ones(1, 3, B, HEADS),
        torch.ones(3, 1, B, HEADS), [torch.ones(4)] * 2, [torch.ones(5)] * 3, torch.ones(3, 2, HEADS),
    )),
    *(("keep", lambda keep=keep: h.remove_heads(BERT, keep)) for keep in (
        KEEP.float(), KEEP[:2], torch.ones(3, 5) > 0, KEEP[:, None],
    )),
    *(("keep", lambda keep=keep: h.slice_heads(Q, K, V, OUT, keep, 3)) for keep in (
        [1, 0], [0, 0], [4], [-1],
    )),
    ("heads of 5", lambda: h.slice_heads(Q, K, V, OUT, [0], 5)),
    ("9", lambda: h.slice_heads(Q, K, V, nn.Linear(9, 12), [0], 3)),
    (r"\(8,\).*got \(\)", lambda: importance(torch.mean)),
    ("depend on the heads", lambda: importance(torch.detach)),
    ("'bert.encoder.layer.0.attention", lambda: importance(model=model_of("bert"))),
    ("NaN", lambda: importance(lambda losses: losses * math.nan)),
    ("batches", lambda: importance(batches=iter([]))),
    ("length", lambda: h.fixed_patterns(0)),
    ("fixed patterns", lambda: h.frozen_attention(torch.rand(1, 9, 2, 2), torch.tensor([2]))),
    ("lengths", lambda: h.frozen_attention(LEARNED, torch.tensor([6, 1]))),
    ("no query", lambda: h.points_to(ATTENTION, torch.full_like(TARGET, -1), MASK)),
    ("target .*beyond", lambda: h.points_to(ATTENTION, torch.full_like(TARGET, 6), MASK)),
    ("target .*no real token", lambda: h.points_to(ATTENTION, torch.full_like(TARGET, 2), MASK)),
    ("kind", lambda: h.prune_by_kind({"encoder": SCORES}, "both", 0.5)),
    ("fraction", lambda: h.prune_by_kind({"encoder": SCORES}, "all", 1.5)),
    ("offset", lambda: h.neighbour(MASK, 0)),
    ("targets itself", lambda: h.arc_baseline(torch.tensor([[0, 1, 2]]), MASK)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name_and_leaves_no_hook(words, call):
    with pytest.raises(ValueError, match=words):
        call()
    assert hooks_of(BERT) == 0
