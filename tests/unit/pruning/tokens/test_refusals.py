"""What this room refuses, and the argument that it names."""

import math

import pytest
import torch
from torch import nn

from course_lib.pruning import tokens as t
from unit.pruning.tokens.texts import mask_of
from unit.small_transformers import inputs_of, model_of

MASK, SCORES = mask_of([5, 3], 5), torch.rand(2, 5)
BERT, BATCH = model_of("bert", dtype=torch.float32), inputs_of("bert", dtype=torch.float32)
LEFT = {name: part.flip(1) for name, part in BATCH.items()}
SOFT = t.SoftThreshold(4, 0.3)  # BERT has three layers
SQUARE = torch.rand(2, 3, 4, 4)
NEAR = (torch.arange(7)[:, None] - torch.arange(7)).abs() <= 2  # each query sees its neighbours
MASKS = NEAR.expand(3, 1, 7, 7), -torch.rand(3, 1, 1, 7).expand(3, 1, 7, 7)
HALF, ALL = {0: 0.5}, torch.ones(2, 4, dtype=torch.bool)


def top(scores=SCORES, mask=MASK, k=2, **options):
    return t.top_tokens(scores, mask, k, **options)


def step(**changes):
    tokens, heads = torch.ones(4, dtype=torch.bool), torch.ones(3, dtype=torch.bool)
    scores = {"token_scores": torch.rand(4), "head_scores": torch.rand(3)}
    alive = {"alive_tokens": tokens, "alive_heads": heads, "n_tokens": 2, "n_heads": 2}
    return t.cascade_step(**{**scores, **alive, **changes})


def run(block, batch=BATCH):
    with block:
        BERT(**batch)


def outside(block):
    with block as drop:
        drop.layers[1].module(torch.zeros(1, 3, 32), None)


REFUSED = [
    ("k is .*at least 1", lambda: top(k=0)),
    ("k is .*whole number", lambda: top(k=0.5)),
    ("NaN", lambda: top(SCORES * math.nan)),
    ("pad on the right", lambda: top(mask=MASK.flip(1))),
    ("token_mask", lambda: top(mask=MASK.long())),
    ("protect", lambda: top(protect=0)),
    ("theta", lambda: t.threshold_policy(SCORES, math.nan, MASK)),
    ("token_mask", lambda: t.keep_tokens(SCORES[:, :2, None], MASK, SCORES, 2)),
    ("fraction .*above 0", lambda: t.kept_count(MASK.sum(1), 0.0)),
    (r"write 0\.15", lambda: t.kept_count(MASK.sum(1), 15)),
    ("lengths", lambda: t.progressive([3, 0], 4, 0.5)),
    ("fraction .*at most 1", lambda: t.progressive([3], 4, 1.5)),
    (r"attn .*\(B, H, L, L\)", lambda: t.attention_received(torch.rand(2, 3, 4, 5), ALL)),
    ("token_mask", lambda: t.attention_received(SQUARE, ALL.float())),
    ("token_mask", lambda: t.attention_received(SQUARE, ALL.T)),
    ("text 1 has no real token", lambda: t.attention_received(SQUARE, mask_of([4, 0], 4))),
    ("layers", lambda: t.SoftThreshold(0, 0.3)),
    *(("temperature", lambda T=T: t.SoftThreshold(3, T)) for T in (0.0, -1.0, math.inf)),
    ("token_scores", lambda: step(token_scores=torch.rand(1, 4))),
    ("k is .*at least 1", lambda: step(n_tokens=0)),
    ("n_heads", lambda: step(n_heads=0)),
    ("alive_heads", lambda: step(alive_heads=torch.zeros(3, dtype=torch.bool))),
    ("NaN", lambda: step(head_scores=torch.full((3,), math.nan))),
    ("layers 0 to 2", lambda: t.dropping(BERT, {3: 0.5})),
    (r"write 0\.5", lambda: t.dropping(BERT, {0: 50.0})),
    ("score", lambda: t.dropping(BERT, HALF, score="colour")),
    ("generator", lambda: t.dropping(BERT, HALF, score="random")),
    ("score", lambda: t.cascading(BERT, HALF, {}, score="random")),
    ("no layer 3", lambda: t.dropping(BERT, SOFT)),
    ("heads .*with 3 layers", lambda: t.dropping(BERT, HALF, heads=ALL)),
    ("at says", lambda: t.dropping(BERT, lambda scores, layer, mask: mask)),
    ("heads", lambda: t.cascading(BERT, HALF, {0: 0})),
    ("no layer 9", lambda: t.cascading(BERT, HALF, {9: 2})),
    ("register_encoder_layer", lambda: t.dropping(nn.Sequential(nn.Linear(3, 3)), HALF)),
    ("decoder", lambda: t.dropping(model_of("bert decoder"), HALF)),
    ("several stacks", lambda: t.dropping(nn.ModuleList([BERT, model_of("bert")]), HALF)),
    ("pad on the right", lambda: run(t.dropping(BERT, HALF), LEFT)),
    *(("attention_mask", lambda m=m: run(t.dropping(BERT, HALF), {**BATCH, "attention_mask": m})) for m in MASKS),
    ("score function", lambda: run(t.dropping(BERT, HALF, score=lambda now: now.hidden))),
    ("keep", lambda: run(t.dropping(BERT, lambda s, i, m: m[:1], at=[0]))),
]  # fmt: skip


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name(words, call):
    with pytest.raises(ValueError, match=words):
        call()


def test_what_comes_too_early_or_at_the_wrong_place_is_refused():
    drop = t.dropping(BERT, HALF)
    with pytest.raises(RuntimeError, match="no forward pass"):
        drop.lengths()
    with pytest.raises(RuntimeError, match="outside a forward pass"):
        outside(drop)
    run(drop)
    with pytest.raises(RuntimeError, match="no threshold was soft"):
        drop.last.soft_share()
    with drop, pytest.raises(RuntimeError, match="already"), t.dropping(BERT, HALF):
        pass
