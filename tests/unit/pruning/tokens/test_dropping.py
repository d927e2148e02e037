"""Rows that are gone give the same as rows that are masked, in every kind of layer, under
eager and SDPA attention.
"""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.models import families
from course_lib.models.families import register
from course_lib.pruning import tokens as t
from course_lib.pruning.heads import gated
from course_lib.pruning.heads.removal import remove_heads
from unit.small_transformers import BOTH, HEADS, E, inputs_of, model_of

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


class Masking:
    """The slow way, by hand: rows stay, and from layer i on nobody looks at those that
    are not in alive[i - 1].
    """

    def __init__(self, model, alive):
        self.layers, self.alive = [layer.module for layer in t.encoder_layers(model)], alive

    def __enter__(self):
        self.handles = [
            layer.register_forward_pre_hook(
                lambda m, args, kw, i=i: self.mask(args, kw, self.alive[i]), with_kwargs=True
            )
            for i, layer in enumerate(self.layers[1:])
        ]

    def mask(self, args, kw, alive):
        mask = torch.zeros(alive.shape).double()[:, None, None]
        mask = mask.masked_fill(~alive[:, None, None], torch.finfo(torch.float64).min)
        if len(args) > 1:
            return (args[0], mask, *args[2:]), kw
        return args, {**kw, "attention_mask": mask}

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()


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
    expected, full = outputs(Masking(model, [drop.last.alive(i) for i in range(LAYERS)]))
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


@BOTH
@EACH
def test_keeping_all_is_the_identity(family, attention):
    model, batch = model_of(family, attention), inputs_of(family)
    plain = run(model, batch)
    for keep in ({0: 1.0, 2: 1.0}, {1: 99}, theta(0, 0, 0), {}):
        with t.dropping(model, keep) as drop:
            got = run(model, batch)
        assert torch.equal(got.logits, plain.logits)
        assert [h.shape for h in got.hidden_states] == [h.shape for h in plain.hidden_states]
        assert (drop.last.attention == drop.last.lengths).all()


@pytest.mark.parametrize("keep", [SHARES, theta(0.8, 1.0), {1: 2}, "cascade"], ids=str)
@pytest.mark.parametrize("score", ["cls", "received", "random"])
@BOTH
@OF_TEXTS
def test_padding_changes_nothing(family, attention, score, keep):
    """Neither the decision nor the output: in a batch, in a wider batch, alone."""
    if keep == "cascade" and score == "random":
        return
    model, lengths, found = model_of(family, attention), (12, 7, 10), []
    for batch in (batch_of(*lengths), batch_of(*lengths, columns=20), *map(batch_of, lengths)):
        if keep == "cascade":
            block = t.cascading(model, SHARES, {0: 3, 1: 1}, score=score)
        else:
            generator = torch.Generator().manual_seed(3)
            block = t.dropping(model, keep, score=score, generator=generator)
        with block as drop:
            found.append((run(model, batch).logits, drop.last))
    (tight, one), (wide, other), *alone = found
    torch.testing.assert_close(tight, wide)
    assert torch.equal(one.attention, other.attention) and torch.equal(one.ffn, other.ffn)
    for i in range(LAYERS):
        assert torch.equal(F.pad(one.alive(i), (0, 8)), other.alive(i))
    for b, (logits, by_itself) in enumerate(alone if score != "random" else []):
        torch.testing.assert_close(logits[0], tight[b])
        for i in range(LAYERS):
            assert torch.equal(by_itself.alive(i)[0], one.alive(i)[b, : lengths[b]])


@EACH
def test_cls_survives_the_order_is_kept_and_nothing_grows(family):
    model, batch = model_of(family), inputs_of(family)
    protected = 2 if family == "deit" else 1
    for keep, options in [
        (t.progressive_shares(LAYERS, 0.1), {}),
        ({0: 0.5, 1: 0.9, 2: 0.2}, {}),  # .9 of the text, when half is left
        ({1: 1}, {"score": lambda now: now.places.double()}),  # [CLS] has the lowest score
        (theta(0.9, 50.0), {}),
        ({0: 0.4}, {"score": "random", "generator": torch.Generator()}),
    ]:
        with t.dropping(model, keep, **options) as drop:
            run(model, batch)
        last = drop.last
        for i, kept in enumerate(last.kept):
            assert (kept[:, :protected] == torch.arange(protected)).all()
            for row in kept:
                real = row[row >= 0]
                assert (real.diff() > 0).all()
                assert (row[len(real) :] == -1).all()  # padding at the end
            assert not i or not (last.alive(i) & ~last.alive(i - 1)).any()
        assert (last.ffn <= last.attention).all() and (last.attention[1:] <= last.ffn[:-1]).all()


def test_lengths_are_those_of_the_schedule_and_of_the_tensors():
    model, n = model_of("bert"), torch.tensor([12, 7, 10])
    with t.dropping(model, t.progressive_shares(LAYERS, 0.2)) as drop:
        states = run(model, batch_of(*n.tolist())).hidden_states
        assert [k.shape[1] for k in drop.last.kept] == [s.shape[1] for s in states[1:]]
        expected = t.progressive(n, LAYERS, 0.2)
        assert torch.equal(drop.last.attention, expected) and torch.equal(drop.last.lengths, n)
        assert torch.equal(drop.last.ffn, torch.stack([*expected[1:], expected[-1]]))
        run(model, batch_of(3, 4))
    assert [part.shape for part in drop.lengths()] == [(LAYERS, 5)] * 2
    assert torch.equal(drop.lengths()[0][:, :3], expected)
    with t.dropping(model, {1: torch.tensor([5, 2, 1])}) as drop:  # a number for each text
        run(model, batch_of(*n.tolist()))
    assert drop.last.ffn[1].tolist() == [5, 2, 1] and drop.last.kept[1].shape == (3, 5)


def test_random_control_is_reproducible_and_uniform():
    model, batch, state = model_of("bert"), batch_of(*(11,) * 200), torch.get_rng_state()

    def kept(seed):
        generator = torch.Generator().manual_seed(seed)
        with t.dropping(model, {0: 6}, score="random", generator=generator) as drop:
            run(model, batch)
        return drop.last.alive(0)

    assert torch.equal(kept(0), kept(0)) and not torch.equal(kept(0), kept(1))
    assert torch.equal(state, torch.get_rng_state())  # no global randomness
    share = torch.cat([kept(s) for s in range(5)]).double().mean(0)
    assert share[0] == 1 and (share[1:] - 0.5).abs().max() < 5 * math.sqrt(0.25 / 1000)


def test_scores_and_policies_of_ones_own():
    """An oracle: evidence tokens, given by their columns, stay; also when rows have
    moved since. And a policy that keeps the better half.
    """
    model, batch, evidence = model_of("bert"), batch_of(12, 7, 10), torch.zeros(3, 12)
    evidence[0, [3, 8]] = evidence[1, [5]] = evidence[2, [1, 9]] = 1.0
    seen = []

    def score(now):
        seen.append((now.layer, now.hidden.shape, now.token_mask.sum(1).tolist()))
        return evidence.gather(1, now.places)

    with t.dropping(model, {0: 0.6, 2: 3}, score=score) as drop:
        run(model, batch)
    assert drop.last.alive(2)[evidence.bool()].all()
    assert seen == [(0, (3, 12, E), [12, 7, 10]), (2, (3, 8, E), [8, 5, 6])]
    half = lambda s, layer, real: s > s.median(1, keepdim=True).values  # noqa: E731
    with t.dropping(model, half, at=[1]) as drop:
        run(model, batch_of(8, 8))
    assert set(drop.last.ffn[1].tolist()) <= {4, 5}


# ------------------------------------------------------------------- learned thresholds
@BOTH
@EACH
def test_soft_becomes_hard_as_the_temperature_falls(family, attention):
    """A token that counts 0 times among the keys is a token that was dropped."""
    model, batch, found = model_of(family, attention), inputs_of(family), []
    threshold = theta(0.8, 0.9, 0.0, temperature=1e-5)
    for hard in (False, True):
        with t.dropping(model, threshold.train(not hard)) as drop:
            found.append((run(model, batch).logits, drop.last))
    (soft, one), (dropped, other) = found
    assert (other.ffn[1] < other.lengths).all() and not other.weights
    torch.testing.assert_close(soft, dropped)
    for i in range(LAYERS):
        assert torch.equal(one.alive(i), other.alive(i))
        mask = one.weights[i] > 0.5
        assert torch.equal(mask, one.alive(i))


def test_the_sparsity_term_raises_thresholds_through_the_scores():
    model, threshold = model_of("bert"), theta(0.5, 0.5, 0.5, temperature=0.3)
    with t.dropping(model, threshold.train()) as drop:
        model(**inputs_of("bert"))
        share = drop.last.soft_share()
    parts = [w.sum(1) / drop.last.lengths for w in drop.last.weights.values()]
    torch.testing.assert_close(share, torch.stack(parts).mean())
    share.backward()
    assert threshold.theta.grad.lt(0).all()  # descent raises theta
    assert model.bert.encoder.layer[0].attention.self.key.weight.grad.abs().sum() > 0


# --------------------------------------------------------------------------- with heads
@SCORES
@BOTH
@EACH
def test_gated_heads_and_tokens_equal_removed_heads_and_tokens(family, attention, score):
    model, batch = model_of(family, attention), inputs_of(family)
    keep = torch.tensor([[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]]).bool()
    smaller = remove_heads(model, keep)
    with gated(model, keep), t.dropping(model, SHARES, score=score, heads=keep) as gates:
        expected = run(model, batch).logits
    with t.dropping(smaller, SHARES, score=score) as removed:
        got = run(smaller, batch).logits
    torch.testing.assert_close(got, expected)
    assert torch.equal(gates.last.kept[1], removed.last.kept[1])
    for net, heads in ((smaller, None), (model, keep)):  # none is left to score in layer 2
        with t.dropping(net, {2: 2}, heads=heads), pytest.raises(ValueError, match="of layer 2"):
            run(net, batch)


@EACH
def test_a_cascade_shrinks_both(family):
    model, batch = model_of(family), inputs_of(family)
    with t.cascading(model, {0: 0.8, 1: 0.5}, {0: 3, 1: 1}) as cascade:
        run(model, batch)
    heads = cascade.working
    assert [h.sum(1).unique().tolist() for h in heads] == [[4], [3], [1]]
    assert not any((after & ~before).any() for before, after in zip(heads, heads[1:], strict=False))
    with t.cascading(model, {0: 1.0}, {1: HEADS}):
        got = run(model, batch).logits
    torch.testing.assert_close(got, run(model, batch).logits)


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


# -------------------------------------------------------------- in and out of the block
@EACH
def test_exceptions_leave_no_trace(family):
    def hooks():
        return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())

    def fails(now):
        raise KeyError("in the middle of the model")

    model, batch = model_of(family), inputs_of(family)
    plain, before = run(model, batch).logits, hooks()  # transformers leaves its own, once
    for block in (
        t.dropping(model, {1: 0.5}, score=fails),
        t.dropping(model, {2: 0.5}),
        t.cascading(model, {1: 0.5}, {1: 2}),
    ):
        with pytest.raises(KeyError), block:
            run(model, batch)
            raise KeyError("behind it")
        assert hooks() == before
    assert torch.equal(run(model, batch).logits, plain)


def test_a_pass_that_failed_does_not_disturb_the_next():
    model, batch, fail = model_of("bert"), batch_of(12, 7), [True]

    def score(now):
        if now.layer == 2 and fail and fail.pop():
            raise KeyError
        return torch.ones(now.places.shape)

    with t.dropping(model, {0: 0.5, 2: 0.3}, score=score) as drop:
        with pytest.raises(KeyError):
            run(model, batch)
        assert drop.last is None
        run(model, batch)
    assert drop.last.attention[0].tolist() == [12, 7] and len(drop.lengths()[0][0]) == 2


class Unheard(nn.Module):
    """BERT's layer in a class of one's own, which calls its parts by itself and returns a
    tuple.
    """

    def __init__(self, layer):
        super().__init__()
        self.attention, self.intermediate, self.output = (
            layer.attention,
            layer.intermediate,
            layer.output,
        )

    def forward(self, hidden, attention_mask=None):
        attended, _ = self.attention(hidden, attention_mask)
        return self.output(self.intermediate(attended), attended), None


def test_a_registered_layer_works(monkeypatch):
    bert, batch = model_of("bert").bert, batch_of(12, 12)
    with t.dropping(bert, SHARES):
        expected = run(bert, batch).last_hidden_state
    layers = nn.ModuleList(map(Unheard, bert.encoder.layer))
    monkeypatch.setattr(families, "TABLE", dict(families.TABLE))
    with pytest.raises(ValueError, match=r"register\("):
        t.dropping(layers, {0: 0.5})
    register(Unheard, tokens=t.LayerLayout("attention"))
    with t.dropping(layers, SHARES), torch.no_grad():
        hidden = bert.embeddings(batch["input_ids"])
        for layer in layers:
            hidden, _ = layer(hidden, attention_mask=None)
    torch.testing.assert_close(hidden, expected)
