"""Rows that are gone give the same as rows that are masked, in every family, under
eager and SDPA attention.
"""

import math

import pytest
import torch
from torch import nn

import course_lib  # noqa: F401  before transformers, which may need torchvision's operators declared
from course_lib.models import families
from course_lib.pruning.heads import gated
from course_lib.pruning.heads.removal import remove_heads
from course_lib.pruning.tokens import (
    LayerLayout,
    SoftThreshold,
    attention_received,
    cascade_step,
    cascading,
    dropping,
    encoder_layers,
    kept_count,
    progressive,
    progressive_shares,
    register_encoder_layer,
)

TEXT = ("bert", "roberta", "electra", "distilbert")
IMAGE = ("vit", "deit", "deit_with_teacher")
LAYERS, WIDTH, HEADS, FFN = 4, 32, 4, 48
LENGTHS = (12, 7, 10)
THETA = SoftThreshold(2, 0.1).eval()
THETA.theta.data[:] = torch.tensor([0.8, 1.0])


def build(family, attention="sdpa", dropout=0.0):
    import transformers as t

    text = {
        "vocab_size": 60, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "intermediate_size": FFN, "max_position_embeddings": 40, "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout, "initializer_range": 0.3, "attn_implementation": attention,
    }  # fmt: skip
    image = {k: v for k, v in text.items() if k not in ("vocab_size", "max_position_embeddings")} | {
        "image_size": 8, "patch_size": 2, "num_channels": 1,
    }  # fmt: skip
    distil = {
        "vocab_size": 60, "dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": FFN, "dropout": dropout,
        "attention_dropout": dropout, "max_position_embeddings": 40, "initializer_range": 0.3,
        "attn_implementation": attention,
    }  # fmt: skip
    torch.manual_seed(0)
    model = {
        "bert": lambda: t.BertForSequenceClassification(t.BertConfig(**text)),
        "roberta": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**text)),
        "electra": lambda: t.ElectraForSequenceClassification(
            t.ElectraConfig(**text, embedding_size=16)
        ),
        "distilbert": lambda: t.DistilBertForSequenceClassification(t.DistilBertConfig(**distil)),
        "vit": lambda: t.ViTForImageClassification(t.ViTConfig(**image)),
        "deit": lambda: t.DeiTForImageClassification(t.DeiTConfig(**image)),
        "deit_with_teacher": lambda: t.DeiTForImageClassificationWithTeacher(t.DeiTConfig(**image)),
    }[family]()
    for p in model.parameters():
        if p.ndim == 3:  # the tokens and positions of DeiT start as zeros
            nn.init.normal_(p, std=0.3)
    return model.eval()


def inputs(family, lengths=LENGTHS, columns=None):
    """A batch of texts of these lengths (each text the same whatever the batch), padded
    to ``columns``; or of images.
    """
    if family in IMAGE:
        return {
            "pixel_values": torch.randn(
                len(lengths), 1, 8, 8, generator=torch.Generator().manual_seed(1)
            )
        }
    columns = columns or max(lengths)
    ids = torch.full((len(lengths), columns), 1 if family == "roberta" else 0)
    for b, n in enumerate(lengths):
        ids[b, :n] = torch.randint(5, 60, (n,), generator=torch.Generator().manual_seed(n))
    return {
        "input_ids": ids,
        "attention_mask": torch.arange(columns) < torch.tensor(lengths)[:, None],
    }


def run(model, batch):
    with torch.no_grad():
        return model(**batch, output_hidden_states=True)


class Masking:
    """The slow way, by hand: rows stay, and from layer i on nobody looks at those that
    are not in alive[i - 1].
    """

    def __init__(self, model, alive):
        self.handles = [
            layer.module.register_forward_pre_hook(
                lambda m, args, i=i: self.mask(args, alive[i - 1])
            )
            for i, layer in enumerate(encoder_layers(model))
            if i > 0
        ]
        self.boolean = model.config._attn_implementation == "sdpa"

    def mask(self, args, alive):
        mask = alive[:, None, None, :].expand(-1, 1, alive.shape[1], -1)
        if not self.boolean:
            mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
        return (args[0], mask, *args[2:])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


# ------------------------------------------------------------------- the central claims
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", TEXT + IMAGE)
def test_dropped_equals_masked_for_the_kept(family, attention):
    # in float64: in float32 the last digits depend on how the rows lie in memory
    model = build(family, attention).double()
    batch = {k: x.double() if x.is_floating_point() else x for k, x in inputs(family).items()}
    with dropping(model, {0: 0.7, 2: 0.3}) as drop:
        got = run(model, batch)
    alive = [drop.last.alive(i) for i in range(LAYERS)]
    with Masking(model, alive):
        expected = run(model, batch)
    # it makes a difference
    assert not torch.allclose(expected.logits, run(model, batch).logits, atol=1e-3)
    torch.testing.assert_close(got.logits, expected.logits, atol=1e-5, rtol=1e-5)
    for i in range(LAYERS):
        kept = drop.last.kept[i]
        rows, full = got.hidden_states[i + 1], expected.hidden_states[i + 1]
        assert rows.shape[1] == kept.shape[1] < full.shape[1]
        for b in range(len(rows)):
            real = kept[b] >= 0
            torch.testing.assert_close(rows[b, real], full[b, kept[b, real]], atol=1e-5, rtol=0)


@pytest.mark.parametrize("score", ["cls", "received"])
@pytest.mark.parametrize("family", TEXT + IMAGE)
def test_eager_and_sdpa_decide_alike_and_by_the_right_scores(family, score):
    batch = inputs(family)
    models = {a: build(family, a) for a in ("eager", "sdpa")}
    passes = {}
    for name, model in models.items():
        with dropping(model, {1: 0.5}, score=score) as drop:
            run(model, batch)
        passes[name] = drop.last
    assert torch.equal(passes["eager"].kept[1], passes["sdpa"].kept[1])
    torch.testing.assert_close(
        passes["eager"].scores[1], passes["sdpa"].scores[1], atol=1e-6, rtol=0
    )
    with torch.no_grad():
        attn = models["eager"](**batch, output_attentions=True).attentions[1]  # (B, M, L, L)
    last = passes["eager"]
    if score == "received":
        expected = attention_received(attn, last.token_mask)
    else:
        expected = attn[:, :, : 2 if "deit" in family else 1].mean((1, 2))
    torch.testing.assert_close(last.scores[1], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", TEXT + IMAGE)
def test_keeping_all_is_the_identity(family, attention):
    model, batch = build(family, attention), inputs(family, columns=15)
    plain = run(model, batch)
    zero = SoftThreshold(LAYERS, temperature=1e-3).eval()
    for keep in ({0: 1.0, 3: 1.0}, {1: 99}, zero):
        with dropping(model, keep) as drop:
            got = run(model, batch)
        assert torch.equal(got.logits, plain.logits)
        assert [h.shape for h in got.hidden_states] == [h.shape for h in plain.hidden_states]
        assert (drop.last.attention == drop.last.lengths).all()


@pytest.mark.parametrize("keep", [{0: 0.6, 2: 0.3}, THETA, {1: 2}], ids=["share", "theta", "k"])
@pytest.mark.parametrize("score", ["cls", "received", "random"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", TEXT)
def test_padding_changes_nothing(family, attention, score, keep):
    """Neither the decision nor the output: in a batch, in a wider batch, alone."""
    model = build(family, attention)
    results = []
    for columns in (None, 20):
        with dropping(model, keep, score=score, generator=torch.Generator().manual_seed(3)) as drop:
            results.append((run(model, inputs(family, columns=columns)).logits, drop.last))
    (tight, one), (wide, other) = results
    torch.testing.assert_close(tight, wide, atol=1e-5, rtol=0)
    for i in range(LAYERS):
        assert (
            torch.equal(one.alive(i), other.alive(i)[:, :12]) and not other.alive(i)[:, 12:].any()
        )
    assert torch.equal(one.attention, other.attention) and torch.equal(one.ffn, other.ffn)
    if score != "random":  # alone, the draw is another
        for b, n in enumerate(LENGTHS):
            with dropping(model, keep, score=score) as drop:
                alone = run(model, inputs(family, lengths=(n,))).logits
            torch.testing.assert_close(alone[0], tight[b], atol=1e-5, rtol=0)
            for i in range(LAYERS):
                assert torch.equal(drop.last.alive(i)[0], one.alive(i)[b, :n])


@pytest.mark.parametrize("family", TEXT + IMAGE)
def test_cls_survives_the_order_is_kept_and_nothing_grows(family):
    model, batch = build(family), inputs(family, columns=14)
    protected = 2 if "deit" in family else 1
    against = lambda now: -torch.arange(now.places.shape[1] * 1.0).flip(0).expand(now.places.shape)  # noqa: E731
    runs = [
        dropping(model, progressive_shares(LAYERS, 0.1)),
        dropping(model, {0: 0.5, 1: 0.9, 2: 0.2}),  # .9 of the text, when half is left
        dropping(model, {1: 1}, score=against),  # [CLS] has the lowest score
        dropping(model, THETA),
        dropping(model, {0: 0.4}, score="random", generator=torch.Generator()),
    ]
    for block in runs:
        with block as drop:
            run(model, batch)
        last = drop.last
        for i, kept in enumerate(last.kept):
            assert (kept[:, :protected] == torch.arange(protected)).all()
            for row in kept:
                real = row[row >= 0]
                assert (real.diff() > 0).all()
                assert (row[len(real) :] == -1).all()  # padding at the end
            if i:
                assert not (last.alive(i) & ~last.alive(i - 1)).any()
        assert (last.attention[1:] <= last.attention[:-1]).all() and (
            last.ffn <= last.attention
        ).all()
        assert (last.attention[1:] <= last.ffn[:-1]).all()


def test_lengths_are_those_of_the_schedule_and_of_the_tensors():
    model, batch = build("bert"), inputs("bert")
    n = torch.tensor(LENGTHS)
    with dropping(model, progressive_shares(LAYERS, 0.2)) as drop:
        states = run(model, batch).hidden_states
    last = drop.last
    assert torch.equal(last.attention, progressive(n, LAYERS, 0.2))
    after = torch.stack([*progressive(n, LAYERS, 0.2)[1:], kept_count(n, 0.2)])
    assert torch.equal(last.ffn, after)
    assert torch.equal(last.lengths, n)
    assert [k.shape[1] for k in last.kept] == [s.shape[1] for s in states[1:]]
    assert [a.tolist() for a in drop.lengths()] == [last.attention.tolist(), last.ffn.tolist()]
    with dropping(model, {0: 0.5}) as drop:
        run(model, batch), run(model, inputs("bert", lengths=(3, 4)))
    assert [a.shape for a in drop.lengths()] == [(LAYERS, 5), (LAYERS, 5)]


def test_counts_for_each_text():
    model = build("bert")
    with dropping(model, {1: torch.tensor([5, 2, 1])}) as drop:
        run(model, inputs("bert"))
    assert drop.last.ffn[1].tolist() == [5, 2, 1]
    assert drop.last.kept[1].shape == (3, 5)


# ----------------------------------------------------------------------------- controls
def test_random_control_is_reproducible_and_uniform():
    model, batch = build("bert"), inputs("bert", lengths=(11,) * 200)

    def kept(seed):
        with dropping(
            model, {0: 6}, score="random", generator=torch.Generator().manual_seed(seed)
        ) as drop:
            run(model, batch)
        return drop.last.alive(0)

    state = torch.get_rng_state()
    assert torch.equal(kept(0), kept(0)) and not torch.equal(kept(0), kept(1))
    assert torch.equal(state, torch.get_rng_state())  # no global randomness
    share = torch.cat([kept(s) for s in range(5)]).double().mean(0)
    assert share[0] == 1
    assert (share[1:] - 0.5).abs().max() < 5 * math.sqrt(0.25 / 1000)


def test_scores_of_ones_own_see_the_places_in_the_text():
    """An oracle: evidence tokens, given by their columns, stay; also when rows have
    moved since.
    """
    model, batch = build("bert"), inputs("bert")
    evidence = torch.zeros(3, 12)
    evidence[0, [3, 8]] = evidence[1, [5]] = evidence[2, [1, 9]] = 1.0
    with dropping(model, {0: 0.6, 2: 3}, score=lambda now: evidence.gather(1, now.places)) as drop:
        run(model, batch)
    assert drop.last.alive(3)[evidence.bool()].all()


def test_a_policy_of_ones_own():
    model, batch = build("vit"), inputs("vit")
    with dropping(
        model, lambda s, layer, mask: s > s.median(1, keepdim=True).values, at=[1]
    ) as drop:
        run(model, batch)
    assert set(drop.last.ffn[1].tolist()) <= {8, 9}


# ----------------------------------------------------------------------------- training
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", TEXT + ("vit", "deit"))
def test_gradients_are_those_of_masking(family, attention):
    model, batch = build(family, attention), inputs(family)
    labels = torch.tensor([0, 1, 1])

    def gradients(block):
        model.zero_grad()
        with block:
            nn.functional.cross_entropy(model(**batch).logits, labels).backward()
        return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    drop = dropping(model, {0: 0.7, 2: 0.3})
    got = gradients(drop)
    expected = gradients(Masking(model, [drop.last.alive(i) for i in range(LAYERS)]))
    assert got.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(got[name], gradient, atol=2e-5, rtol=1e-3, msg=name)


def test_gradient_checkpointing_is_refused():
    model = build("bert").train()
    model.gradient_checkpointing_enable()
    with (
        pytest.raises(ValueError, match="gradient_checkpointing_disable"),
        dropping(model, {0: 0.5}),
    ):
        model(**inputs("bert"))


# ------------------------------------------------------------------- learned thresholds
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", TEXT + ("vit", "deit"))
def test_soft_becomes_hard_as_the_temperature_falls(family, attention):
    """A token that counts 0 times among the keys is a token that was dropped."""
    model, batch = build(family, attention), inputs(family)
    threshold = SoftThreshold(LAYERS, temperature=1e-5)
    with torch.no_grad():
        threshold.theta[:] = torch.tensor([0.5, 0.6, 0.7, 0.0])
    results = {}
    for hard in (False, True):
        threshold.train(not hard)
        with dropping(model, threshold) as drop:
            results[hard] = run(model, batch).logits, drop.last
    (soft, one), (dropped, other) = results[False], results[True]
    assert (other.ffn[2] < other.lengths).all()
    torch.testing.assert_close(soft, dropped, atol=1e-5, rtol=0)
    assert torch.equal(one.attention, other.attention) and torch.equal(one.ffn, other.ffn)
    for i in range(LAYERS):
        assert torch.equal(one.alive(i), other.alive(i))


def test_scores_carry_gradients_only_where_thresholds_are_soft():
    model, batch = build("bert"), inputs("bert")
    threshold = SoftThreshold(LAYERS, 0.3)
    with dropping(model, threshold) as drop:
        model(**batch)
        drop.last.soft_share().backward()
    assert threshold.theta.grad.lt(0).all()
    assert model.bert.encoder.layer[0].attention.self.key.weight.grad.abs().sum() > 0


# --------------------------------------------------------------------------- with heads
@pytest.mark.parametrize("score", ["cls", "received"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", TEXT + ("vit", "deit"))
def test_gated_heads_and_tokens_equal_removed_heads_and_tokens(family, attention, score):
    model, batch = build(family, attention), inputs(family)
    keep = torch.rand(LAYERS, HEADS, generator=torch.Generator().manual_seed(2)) < 0.5
    keep[0, 0] = True
    keep[3] = False  # a layer without heads, behind the drops
    assert keep[:3].any(1).all() and not keep[:3].all()
    with gated(model, keep), dropping(model, {0: 0.7, 2: 0.4}, score=score, heads=keep) as gates:
        expected = run(model, batch).logits
    smaller = remove_heads(model, keep)
    with dropping(smaller, {0: 0.7, 2: 0.4}, score=score) as removed:
        got = run(smaller, batch).logits
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    assert torch.equal(gates.last.kept[2], removed.last.kept[2])


def test_a_layer_without_heads_cannot_score():
    model, batch = build("bert"), inputs("bert")
    keep = torch.ones(LAYERS, HEADS, dtype=torch.bool)
    keep[1] = False
    smaller = remove_heads(model, keep)
    for net, heads in ((smaller, None), (model, keep)):
        with dropping(net, {1: 0.5}, heads=heads), pytest.raises(ValueError, match="of layer 1"):
            run(net, batch)


@pytest.mark.parametrize("family", TEXT + ("vit", "deit"))
def test_a_cascade_shrinks_both_and_padding_changes_nothing(family):
    model = build(family)
    shrink = {0: 0.8, 1: 0.5, 2: 0.3}, {0: 3, 2: 1}
    with cascading(model, *shrink) as cascade:
        together = run(model, inputs(family, columns=16)).logits
        heads = cascade.working
    assert (
        [int(h.sum(1).max()) for h in heads] == [4, 3, 3, 1] == [int(h.sum(1).min()) for h in heads]
    )
    for before, after in zip(heads, heads[1:], strict=False):
        assert not (after & ~before).any()
    if family in TEXT:
        for b, n in enumerate(LENGTHS):
            with cascading(model, *shrink) as cascade:
                alone = run(model, inputs(family, lengths=(n,))).logits
            torch.testing.assert_close(alone[0], together[b], atol=1e-5, rtol=0)
    with cascading(model, {0: 1.0}, {1: HEADS}):
        got = run(model, inputs(family)).logits
    torch.testing.assert_close(got, run(model, inputs(family)).logits, atol=1e-6, rtol=0)


def test_the_cascade_is_the_one_written_out_by_steps():
    """One text, sums kept by hand from the model's own attentions and head outputs,
    layer by layer.
    """
    model, batch = build("bert", "eager"), inputs("bert", lengths=(12,))
    with torch.no_grad():  # what the last head puts out in the first layer is all that keeps it
        for i, layer in enumerate(model.bert.encoder.layer):
            layer.attention.self.value.weight[-WIDTH // HEADS :] *= 0.01 if i else 10
    n_tokens, n_heads = {0: 9, 1: 6, 2: 4}, {0: 3, 1: 3, 2: 2}
    with cascading(model, n_tokens, n_heads, score="received") as cascade:
        got = run(model, batch).logits
    tokens, heads = torch.ones(12, dtype=torch.bool), torch.ones(HEADS, dtype=torch.bool)
    token_scores, head_scores = torch.zeros(12), torch.zeros(HEADS)
    with torch.no_grad():
        x = model.bert.embeddings(batch["input_ids"])
        for i, layer in enumerate(model.bert.encoder.layer):
            assert torch.equal(cascade.working[i][0], heads)
            mask = torch.zeros(1, 1, 12, 12).masked_fill(~tokens, torch.finfo(torch.float32).min)
            context, attn = layer.attention.self(x, mask)  # (1, 12, E), (1, M, 12, 12)
            context = context.unflatten(2, (HEADS, -1)) * heads[:, None]
            token_scores += attention_received(attn[:, heads], tokens[None])[0]
            head_scores += context[0, tokens].abs().sum((0, 2)) / tokens.sum()
            x = layer.feed_forward_chunk(layer.attention.output(context.flatten(2), x))
            if i in n_tokens:  # and the rows that go here change no other in this layer
                tokens, heads = cascade_step(
                    token_scores, head_scores, tokens, heads, n_tokens[i], n_heads[i]
                )
                assert torch.equal(cascade.last.alive(i)[0], tokens)
        assert heads[-1]
        expected = model.classifier(model.bert.pooler(x))
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


# -------------------------------------------------------------------------------- masks
def test_other_implementations_are_refused():
    model = build("bert")
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(ValueError, match="set_attn_implementation"), dropping(model, {0: 0.5}):
        pass
    assert hooks(model) == 0


# -------------------------------------------------------------- in and out of the block
@pytest.mark.parametrize("family", TEXT + IMAGE)
def test_exceptions_leave_no_trace(family):
    model, batch = build(family), inputs(family)
    # transformers leaves hooks of its own, once
    plain, before = run(model, batch).logits, hooks(model)
    forwards = [m.forward for m in model.modules()]

    def fails(now):
        raise KeyError("in the middle of the model")

    for block in (dropping(model, {1: 0.5}, score=fails), dropping(model, {2: 0.5})):
        with pytest.raises(KeyError), block:
            run(model, batch)
            raise KeyError("behind it")
        assert hooks(model) == before and [m.forward for m in model.modules()] == forwards
    with pytest.raises(KeyError), cascading(model, {1: 0.5}, {1: 2}):
        run(model, batch)
        raise KeyError
    assert hooks(model) == before
    assert torch.equal(run(model, batch).logits, plain)
    with dropping(model, {1: 0.5}) as drop:  # and the next block starts afresh
        run(model, batch)
    assert drop.last.attention[0].tolist() == drop.last.lengths.tolist()


def test_a_pass_that_failed_does_not_disturb_the_next():
    model, batch = build("bert"), inputs("bert")
    fail = [True]

    def score(now):
        if now.layer == 2 and fail.pop() if fail else False:
            raise KeyError
        return torch.ones(now.places.shape)

    with dropping(model, {0: 0.5, 2: 0.3}, score=score) as drop:
        with pytest.raises(KeyError):
            run(model, batch)
        assert drop.last is None
        with pytest.raises(RuntimeError, match="no forward pass"):
            drop.lengths()
        run(model, batch)
    assert drop.last.attention[0].tolist() == list(LENGTHS)


def test_a_registered_layer_works(monkeypatch):
    from transformers.models.bert.modeling_bert import BertLayer

    class Unheard(nn.Module):
        """BERT's layer in a class of one's own, which calls its parts by itself and
        returns a tuple.
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

    class Encoder(nn.Module):
        def __init__(self, bert):
            super().__init__()
            self.embeddings, self.layers = (
                bert.embeddings,
                nn.ModuleList(Unheard(x) for x in bert.encoder.layer),
            )

        def forward(self, input_ids):
            hidden = self.embeddings(input_ids)
            for layer in self.layers:
                hidden, _ = layer(hidden, attention_mask=None)
            return hidden

    assert not issubclass(Unheard, BertLayer)
    bert, batch = build("bert"), inputs("bert", lengths=(12, 12))
    model = Encoder(bert.bert)
    monkeypatch.setattr(families, "TABLE", dict(families.TABLE))
    with pytest.raises(ValueError, match="register_encoder_layer"):
        dropping(model, {0: 0.5})
    register_encoder_layer(Unheard, LayerLayout("attention"))
    with dropping(model, {0: 0.5, 2: 0.25}), torch.no_grad():
        got = model(batch["input_ids"])
    with dropping(bert, {0: 0.5, 2: 0.25}):
        expected = run(bert, batch).hidden_states[-1]
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)
