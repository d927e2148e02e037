"""Rows that are gone give the same as rows that are masked, in every kind of layer, under
eager and SDPA attention.
"""

import math
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from course_lib.pruning import tokens as t
from course_lib.pruning.heads import gated
from course_lib.pruning.heads.removal import remove_heads
from unit.small_transformers import BOTH, HEADS, E, hooks_of, inputs_of, model_of

TEXT, IMAGE = ["bert", "distilbert"], ["vit", "deit"]
LAYERS = 3
OF_TEXTS = pytest.mark.parametrize("family", TEXT)
EACH = pytest.mark.parametrize("family", [*TEXT, *IMAGE])
SCORES = pytest.mark.parametrize("score", ["cls", "received"])
SHARES = {0: 0.7, 1: 0.4}


def theta(*values, temperature=0.1):
    threshold = t.SoftThreshold(len(values), temperature).double().eval()
    threshold.theta.data[:] = torch.tensor(values)
    return threshold


def batch_of(*lengths, columns=None):
    """Texts of these lengths, each the same whatever the batch, padded to ``columns``."""
    ids = torch.zeros(len(lengths), columns or max(lengths), dtype=torch.int64)
    for b, n in enumerate(lengths):
        ids[b, :n] = torch.randint(5, 50, (n,), generator=torch.Generator().manual_seed(n))
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


def run(model, batch):
    with torch.no_grad():
        return model(**batch, output_hidden_states=True)


@contextmanager
def masking(model, alive):
    """The slow way, by hand: rows stay, and from layer i on nobody looks at those that
    are not in alive[i - 1].
    """

    def mask(alive, module, args, kw):
        mask = torch.zeros(alive.shape).double()[:, None, None]
        mask = mask.masked_fill(~alive[:, None, None], torch.finfo(torch.float64).min)
        if len(args) > 1:
            return (args[0], mask, *args[2:]), kw
        return args, {**kw, "attention_mask": mask}

    layers = [layer.module for layer in t.encoder_layers(model)][1:]
    with ExitStack() as hooks:
        for layer, left in zip(layers, alive, strict=False):
            handle = layer.register_forward_pre_hook(partial(mask, left), with_kwargs=True)
            hooks.callback(handle.remove)
        yield


@BOTH
@EACH
def test_dropped_equals_masked_for_the_kept_and_for_gradients(family, attention):
    model, batch = model_of(family, attention), inputs_of(family)

    def outputs(block):
        model.zero_grad()
        with block:
            made = model(**batch, output_hidden_states=True)
            made.logits.pow(2).mean().backward()
        found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        return found | {"logits": made.logits}, made.hidden_states

    plain = run(model, batch).logits  # and leaves the hooks of transformers, before those here
    drop = t.dropping(model, SHARES)
    got, rows = outputs(drop)
    expected, full = outputs(masking(model, [drop.last.alive(i) for i in range(LAYERS)]))
    assert not torch.allclose(got["logits"], plain, atol=1e-3)
    torch.testing.assert_close(got, expected)
    for i, kept in enumerate(drop.last.kept):
        assert rows[i + 1].shape[1] == kept.shape[1] < full[i].shape[1]
        for b in range(len(kept)):
            real = kept[b] >= 0
            torch.testing.assert_close(rows[i + 1][b, real], full[i + 1][b, kept[b, real]])


@SCORES
@EACH
def test_eager_and_sdpa_decide_alike_and_by_the_right_scores(family, score):
    batch, passes = inputs_of(family), []
    for attention in ("sdpa", "eager"):
        model = model_of(family, attention)
        with t.dropping(model, {1: 0.5}, score=score) as drop:
            run(model, batch)
        passes.append(drop.last)
    torch.testing.assert_close(passes[0].scores[1], passes[1].scores[1])
    assert torch.equal(passes[0].kept[1], passes[1].kept[1])
    with torch.no_grad():
        attn = model(**batch, output_attentions=True).attentions[1]  # (B, H, L, L)
    cls = attn[:, :, : 2 if family == "deit" else 1].mean((1, 2))
    expected = t.attention_received(attn, drop.last.token_mask) if score == "received" else cls
    torch.testing.assert_close(drop.last.scores[1], expected)


@EACH
def test_keeping_all_is_the_identity(family):
    model, batch = model_of(family), inputs_of(family)
    plain = run(model, batch)
    blocks = [t.dropping(model, keep) for keep in ({0: 1.0, 2: 1.0}, {1: 99}, theta(0, 0, 0), {})]
    for block in (*blocks, t.cascading(model, {0: 1.0}, {1: HEADS})):
        with block as drop:
            got = run(model, batch)
        assert torch.equal(got.logits, plain.logits)
        assert [h.shape for h in got.hidden_states] == [h.shape for h in plain.hidden_states]
        assert (drop.last.attention == drop.last.lengths).all()


@pytest.mark.parametrize("keep", [SHARES, theta(0.8, 1.0), {1: 2}, "cascade"], ids=str)
@pytest.mark.parametrize("score", ["cls", "received", "random"])
@OF_TEXTS
def test_padding_changes_nothing(family, score, keep):
    """Neither the decision nor the output: in a batch, in a wider batch, alone."""
    model, lengths, found = model_of(family), (12, 7, 10), []
    for batch in (batch_of(*lengths), batch_of(*lengths, columns=20), *map(batch_of, lengths)):
        generator = torch.Generator().manual_seed(3)
        if keep != "cascade":
            block = t.dropping(model, keep, score=score, generator=generator)
        elif score != "random":
            block = t.cascading(model, SHARES, {0: 3, 1: 1}, score=score)
        else:
            return
        with block as drop:
            found.append((run(model, batch).logits, drop.last))
    (tight, one), (wide, other), *alone = found
    torch.testing.assert_close(tight, wide)
    for i in range(LAYERS):
        assert torch.equal(F.pad(one.alive(i), (0, 8)), other.alive(i))
    for b, (logits, by_itself) in enumerate(alone if score != "random" else []):
        torch.testing.assert_close(logits[0], tight[b])
        for i in range(LAYERS):
            assert torch.equal(by_itself.alive(i)[0], one.alive(i)[b, : lengths[b]])


@EACH
def test_cls_survives_the_order_is_kept_and_nothing_grows(family):
    model, batch = model_of(family), inputs_of(family)
    first = torch.arange(2 if family == "deit" else 1)
    for keep, options in [
        ({0: 0.5, 1: 0.9, 2: 0.2}, {}),  # .9 of the text, when half is left
        ({1: 1}, {"score": lambda hidden, places, real: places.double()}),  # [CLS] has the lowest
        (theta(0.9, 50.0), {}),
        ({0: 0.4}, {"score": "random", "generator": torch.Generator()}),
    ]:
        with t.dropping(model, keep, **options) as drop:
            run(model, batch)
        last, alive = drop.last, [drop.last.alive(i) for i in range(LAYERS)]
        for kept in last.kept:
            assert (kept[:, : len(first)] == first).all()
            for row in kept:
                real = row[row >= 0]
                assert (real.diff() > 0).all() and (row[len(real) :] == -1).all()  # padding last
        assert not any((b & ~a).any() for a, b in zip(alive, alive[1:], strict=False))
        assert (last.ffn <= last.attention).all() and (last.attention[1:] <= last.ffn[:-1]).all()


def test_lengths_are_those_of_the_schedule_and_of_the_tensors():
    model, n = model_of("bert"), torch.tensor([12, 7, 10])
    with t.dropping(model, t.progressive_shares(LAYERS, 0.2)) as drop:
        states = run(model, batch_of(*n.tolist())).hidden_states
        assert [k.shape[1] for k in drop.last.kept] == [s.shape[1] for s in states[1:]]
        expected = t.progressive(n, LAYERS, 0.2)
        run(model, batch_of(3, 4))
    attention, ffn = drop.lengths()
    assert attention.shape == ffn.shape == (LAYERS, 5) and torch.equal(attention[:, :3], expected)
    assert torch.equal(ffn[:, :3], torch.stack([*expected[1:], expected[-1]]))
    with t.dropping(model, {1: torch.tensor([5, 2, 1])}) as drop:  # a number for each text
        run(model, batch_of(*n.tolist()))
    assert drop.last.ffn[1].tolist() == [5, 2, 1] and drop.last.kept[1].shape == (3, 5)


def test_random_control_is_reproducible_and_uniform():
    model, batch, state = model_of("bert"), batch_of(*(11,) * 1000), torch.get_rng_state()

    def kept(seed):
        generator = torch.Generator().manual_seed(seed)
        with t.dropping(model, {0: 6}, score="random", generator=generator) as drop:
            run(model, batch)
        return drop.last.alive(0)

    share = (once := kept(0)).double().mean(0)
    assert share[0] == 1 and (share[1:] - 0.5).abs().max() < 5 * math.sqrt(0.25 / 1000)
    assert torch.equal(once, kept(0)) and not torch.equal(once, kept(1))
    assert torch.equal(state, torch.get_rng_state())  # no global randomness


def test_scores_and_policies_of_ones_own():
    """An oracle: evidence tokens, given by their columns, stay; also when rows have
    moved since. And a policy that keeps the better half.
    """
    model, batch, evidence = model_of("bert"), batch_of(12, 7, 10), torch.zeros(3, 12)
    evidence[0, [3, 8]] = evidence[1, [5]] = evidence[2, [1, 9]] = 1.0
    seen = []

    def score(hidden, places, real):
        seen.append((hidden.shape, real.sum(1).tolist()))
        return evidence.gather(1, places)

    with t.dropping(model, {0: 0.6, 2: 3}, score=score) as drop:
        run(model, batch)
    assert drop.last.alive(2)[evidence.bool()].all()
    assert seen == [((3, 12, E), [12, 7, 10]), ((3, 8, E), [8, 5, 6])]
    half = lambda s, real: s > s.median(1, keepdim=True).values  # noqa: E731
    with t.dropping(model, {1: half}) as drop:
        run(model, batch_of(8, 8))
    assert set(drop.last.ffn[1].tolist()) <= {4, 5}


@EACH
def test_soft_becomes_hard_as_the_temperature_falls(family):
    """A token that counts 0 times among the keys is a token that was dropped."""
    model, batch, found = model_of(family), inputs_of(family), []
    threshold = theta(0.8, 0.9, 0.0, temperature=1e-5)
    for hard in (False, True):
        with t.dropping(model, threshold.train(not hard)) as drop:
            found.append((run(model, batch).logits, drop.last))
    (soft, one), (dropped, other) = found
    assert (other.ffn[1] < other.lengths).all() and not other.weights
    torch.testing.assert_close(soft, dropped)
    for i in range(LAYERS):
        assert torch.equal(one.alive(i), other.alive(i))
        assert torch.equal(one.weights[i] > 0.5, one.alive(i))


def test_the_sparsity_term_raises_thresholds_through_the_scores():
    model, threshold = model_of("bert"), theta(0.5, 0.5, 0.5, temperature=0.3)
    with t.dropping(model, threshold.train()) as drop:
        model(**inputs_of("bert"))
        share = drop.last.soft_share()
    share.backward()
    assert threshold.theta.grad.lt(0).all()  # descent raises theta
    assert model.bert.encoder.layer[0].attention.self.key.weight.grad.abs().sum() > 0


@SCORES
@EACH
def test_gated_heads_and_tokens_equal_removed_heads_and_tokens(family, score):
    model, batch = model_of(family), inputs_of(family)
    keep = torch.tensor([[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]]).bool()
    smaller = remove_heads(model, keep)
    with gated(model, keep), t.dropping(model, SHARES, score=score, heads=keep) as gates:
        expected = run(model, batch).logits
    with t.dropping(smaller, SHARES, score=score) as removed:
        torch.testing.assert_close(run(smaller, batch).logits, expected)
    assert torch.equal(gates.last.kept[1], removed.last.kept[1])
    for net, heads in ((smaller, None), (model, keep)):  # none is left to score in layer 2
        with t.dropping(net, {2: 2}, heads=heads), pytest.raises(ValueError, match="of layer 2"):
            run(net, batch)


def test_the_cascade_is_the_one_written_out_by_steps():
    """One text, sums kept by hand from the model's own attentions and head outputs,
    layer by layer.
    """
    model, batch = model_of("bert", "eager"), batch_of(12)
    with torch.no_grad():  # what the last head puts out in the first layer is all that keeps it
        for i, layer in enumerate(model.bert.encoder.layer):
            layer.attention.self.value.weight[-E // HEADS :] *= 0.01 if i else 10
            layer.attention.self.value.bias[-E // HEADS :] *= 0.01 if i else 10
    n_tokens, n_heads = {0: 9, 2: 4}, {0: 3, 1: 2}
    with t.cascading(model, n_tokens, n_heads, score="received") as cascade:
        got = run(model, batch).logits
    tokens, heads = torch.ones(12, dtype=torch.bool), torch.ones(HEADS, dtype=torch.bool)
    token_scores, head_scores = torch.zeros(12).double(), torch.zeros(HEADS).double()
    with torch.no_grad():
        x = model.bert.embeddings(batch["input_ids"])
        for i, layer in enumerate(model.bert.encoder.layer):
            assert torch.equal(cascade.working[i][0], heads)
            mask = torch.zeros(1, 1, 12, 12).double().masked_fill(~tokens, -1e300)
            context, attn = layer.attention.self(x, mask)  # (1, 12, E), (1, H, 12, 12)
            context = context.unflatten(2, (HEADS, -1)) * heads[:, None]
            token_scores += t.attention_received(attn[:, heads], tokens[None])[0]
            head_scores += context[0, tokens].abs().sum((0, 2)) / tokens.sum()
            x = layer.feed_forward_chunk(layer.attention.output(context.flatten(2), x))
            counts = n_tokens.get(i, 12), n_heads.get(i, HEADS)
            tokens, heads = t.cascade_step(token_scores, head_scores, tokens, heads, *counts)
            assert torch.equal(cascade.last.alive(i)[0], tokens)
        assert heads[-1]
        expected = model.classifier(model.bert.pooler(x))
    torch.testing.assert_close(got, expected)


@EACH
def test_a_pass_that_failed_leaves_no_trace_and_does_not_disturb_the_next(family):
    model, batch, fail = model_of(family), inputs_of(family), [False, True]
    plain, before = run(model, batch).logits, hooks_of(model)  # transformers leaves its own, once

    def score(hidden, places, real):
        if fail and fail.pop(0):  # in the second layer that drops
            raise KeyError
        return places.double()

    with pytest.raises(KeyError), t.dropping(model, {0: 0.5, 2: 0.3}, score=score) as drop:
        with pytest.raises(KeyError):
            run(model, batch)
        assert drop.last is None
        run(model, batch)
        assert drop.lengths()[0].shape == (LAYERS, len(plain))
        raise KeyError("behind it")
    assert hooks_of(model) == before
    assert torch.equal(run(model, batch).logits, plain)
