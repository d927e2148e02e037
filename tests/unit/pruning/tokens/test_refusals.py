"""What this room refuses, and the argument that it names."""

import math

import pytest
import torch
from torch import nn

from course_lib.pruning import tokens as t
from unit.small_transformers import inputs_of, model_of

MASK, SCORES = torch.arange(5) < torch.tensor([[5], [3]]), torch.rand(2, 5)
BERT, BATCH = model_of("bert", dtype=torch.float32), inputs_of("bert", dtype=torch.float32)
LEFT = BATCH | {"attention_mask": BATCH["attention_mask"].flip(1)}
NEAR = (torch.arange(7)[:, None] - torch.arange(7)).abs() <= 2  # each query sees its neighbours
MASKS = NEAR.expand(3, 1, 7, 7), -torch.rand(3, 1, 1, 7).expand(3, 1, 7, 7)
STATES = {"hidden_states": torch.zeros(3, 7, 32), "attention_mask": torch.ones(3, 7)}
SQUARE, HALF, ONE = torch.rand(2, 3, 4, 4), {0: 0.5}, torch.ones(3, dtype=torch.bool)
ALL = torch.ones(2, 4, dtype=torch.bool)


def run(keep=HALF, batch=BATCH, model=BERT, **options):
    with t.dropping(model, keep, **options) as drop:
        model(**batch)
    return drop


REFUSED = [
    ("k must", lambda: t.top_tokens(SCORES, MASK, 0.5)),
    ("score is NaN", lambda: t.top_tokens(SCORES * math.nan, MASK, 2)),
    ("scores", lambda: t.top_tokens(SCORES[0], MASK[0], 2)),
    ("token_mask", lambda: t.top_tokens(SCORES, MASK.flip(1), 2)),
    ("token_mask", lambda: t.top_tokens(SCORES, MASK.long(), 2)),
    ("theta", lambda: t.threshold_policy(SCORES, math.nan, MASK)),
    ("token_mask", lambda: t.keep_tokens(SCORES[:, :2, None], MASK, SCORES, 2)),
    ("fraction", lambda: t.kept_count(MASK.sum(1), 0.0)),
    (r"fraction .*write 0\.15", lambda: t.kept_count(MASK.sum(1), 15)),
    ("lengths", lambda: t.progressive([3, 0], 4, 0.5)),
    ("attn", lambda: t.attention_received(torch.rand(2, 3, 4, 5), ALL)),
    ("token_mask .*text 1", lambda: t.attention_received(SQUARE, ALL & torch.tensor([[True], [False]]))),
    ("layers", lambda: t.SoftThreshold(0, 0.3)),
    *(("temperature", lambda T=T: t.SoftThreshold(3, T)) for T in (0.0, -1.0, math.inf)),
    ("token_mask", lambda: t.SoftThreshold(3, 0.3)(SCORES, 0, MASK[:1])),
    ("n_heads", lambda: t.cascade_step(ALL[0] / 1, ONE / 1, ALL[0], ONE, 2, 0)),
    ("alive_heads", lambda: t.cascade_step(ALL[0] / 1, ONE / 1, ALL[0], ~ONE, 2, 1)),
    ("no layer 3", lambda: t.dropping(BERT, {3: 0.5})),
    ("no layer 3", lambda: t.dropping(BERT, t.SoftThreshold(4, 0.3))),
    ("fraction", lambda: t.dropping(BERT, {0: 50.0})),
    ("score", lambda: t.dropping(BERT, HALF, score="colour")),
    ("generator", lambda: t.dropping(BERT, HALF, score="random")),
    ("heads", lambda: t.dropping(BERT, HALF, heads=ALL)),
    ("heads", lambda: run(heads=ALL[:1].expand(3, 4)[:, :2])),
    ("heads", lambda: t.cascading(BERT, HALF, {0: 0})),
    ("no layer 9", lambda: t.cascading(BERT, HALF, {9: 2})),
    ("score", lambda: t.cascading(BERT, HALF, {}, score="random")),
    (r"register\(", lambda: t.dropping(nn.Sequential(nn.Linear(3, 3)), HALF)),
    ("decoder", lambda: t.dropping(model_of("bert decoder"), HALF)),
    ("several stacks", lambda: t.dropping(nn.ModuleList([BERT, model_of("bert")]), HALF)),
    ("token_mask", lambda: run(batch=LEFT)),
    *(("attention_mask", lambda m=m: run(batch=BATCH | {"attention_mask": m})) for m in MASKS),
    ("attention_mask", lambda: run(model=BERT.bert.encoder, batch=STATES)),
    ("score", lambda: run(score=lambda hidden, places, real: hidden)),
    ("keep", lambda: run({0: lambda scores, real: real[:1]})),
]  # fmt: skip


@pytest.mark.parametrize(("named", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name(named, call):
    with pytest.raises(ValueError, match=named):
        call()


def test_what_comes_too_early_or_at_the_wrong_place_is_refused():
    drop = t.dropping(BERT, HALF)
    with pytest.raises(RuntimeError, match="no forward pass"):
        drop.lengths()
    with drop, pytest.raises(RuntimeError, match="outside a forward pass"):
        drop.layers[1].module(torch.zeros(1, 3, 32), None)
    with pytest.raises(RuntimeError, match="no threshold was soft"):
        run().last.soft_share()
    with drop, pytest.raises(RuntimeError, match="already"), t.dropping(BERT, HALF):
        pass


def test_other_attention_and_gradient_checkpointing_are_refused():
    model = model_of("bert", dtype=torch.float32)
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(ValueError, match="set_attn_implementation"):
        run(model=model)
    model = model_of("bert", dtype=torch.float32).train()
    model.gradient_checkpointing_enable()
    for layer in range(3):
        refused = pytest.raises(RuntimeError, match="gradient_checkpointing_disable")
        with refused, t.dropping(model, {layer: 0.5}):
            model(**BATCH).logits.sum().backward()
