"""Heads are gated, scored, chosen, removed and stored, in every family the library knows.

Everything is compared in float64 and close to rounding, with eager and with SDPA attention, unless a test says otherwise.
"""

import copy
import io
import json
import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.cost import model_cost, pruned_transformer_macs, totals, transformer_macs
from course_lib.pruning.heads import (
    ablate_each,
    all_but_one,
    choose_heads,
    explicit_attention,
    find_attention,
    gate_evaluator,
    gated,
    head_importance,
    kept_heads,
    load_pruned,
    lowest_heads,
    normalise_by_layer,
    output_projections,
    prune_heads_iteratively,
    refuse_head_mask,
    remove_heads,
    sample_importance,
    save_pruned,
    slice_heads,
)
from course_lib.pruning.heads.placement import RULES
from unit.small_transformers import (
    FAMILIES,
    GENERATING,
    HEADS,
    SIZE,
    TEXT_CLASSIFIERS,
    TRANSFORMERS,
    B,
    E,
    L,
    full_model,
    inputs_of,
    model_of,
    outputs,
    some_heads,
)

BOTH = pytest.mark.parametrize("attention", ["sdpa", "eager"])


def gateable(family, attention="sdpa", dtype=torch.float64):
    return explicit_attention(model_of(family, attention, dtype))


def close(got, expected, atol=1e-12):
    torch.testing.assert_close(got, expected, rtol=0, atol=atol)


def hooks_of(model):
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())


# ------------------------------------------------------------------------------------------------------------------ gates
@BOTH
@pytest.mark.parametrize("family", FAMILIES)
def test_gates_of_one_change_nothing(family, attention):
    model, inputs = gateable(family, attention), inputs_of(family)
    expected = outputs(model, inputs)
    layers = len(find_attention(model))
    for xi in (torch.ones(layers, HEADS), torch.ones(layers, B, HEADS), torch.ones(layers, HEADS, dtype=torch.bool)):
        with gated(model, xi):
            assert torch.equal(outputs(model, inputs), expected)


@BOTH
@pytest.mark.parametrize("family", FAMILIES)
def test_gates_of_zero_are_removal(family, attention):
    model, inputs = gateable(family, attention), inputs_of(family)
    full, layers = outputs(model, inputs), len(find_attention(model))
    for keep in (some_heads(layers), some_heads(layers, seed=2), torch.zeros(layers, HEADS, dtype=torch.bool)):
        with gated(model, keep):
            expected = outputs(model, inputs)
        assert (full - expected).abs().max() > 1e-3  # so that the next line says something
        close(outputs(remove_heads(model, keep), inputs), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_gates_of_zero_are_removal_in_single_precision(family):
    model, inputs = gateable(family, dtype=torch.float32), inputs_of(family, dtype=torch.float32)
    keep = some_heads(len(find_attention(model)))
    with gated(model, keep):
        expected = outputs(model, inputs)
    close(outputs(remove_heads(model, keep), inputs), expected, atol=1e-5 * float(expected.abs().max().clamp(min=1)))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gate_scales_the_columns_of_the_output_projection_that_read_its_head(family):
    model, inputs = gateable(family), inputs_of(family)
    found = find_attention(model)
    xi = torch.rand(len(found), HEADS, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    by_hand = copy.deepcopy(model)
    for gate, out in zip(xi, output_projections(by_hand), strict=True):
        scale = gate.repeat_interleave(SIZE)
        out.weight.data.mul_(scale if isinstance(out, nn.Linear) else scale[:, None])  # Conv1D: (in, out)
    with gated(model, xi):
        close(outputs(model, inputs), outputs(by_hand, inputs))


@pytest.mark.parametrize("family", ["bert", "marian", "t5", "gpt2", "torchvision vit"])
def test_gates_for_each_sample(family):
    model, inputs = gateable(family), inputs_of(family)
    xi = torch.rand(len(find_attention(model)), B, HEADS, generator=torch.Generator().manual_seed(0))
    with gated(model, xi):
        together = outputs(model, inputs)
    for b in range(B):
        with gated(model, xi[:, b]):
            close(together[b : b + 1], outputs(model, {name: x[b : b + 1] for name, x in inputs.items()}))


def test_gates_in_a_list_and_for_one_kind():
    model, inputs = model_of("marian"), inputs_of("marian")
    keep = torch.ones(6, HEADS)
    keep[[3, 5], 1] = 0
    with gated(model, keep):
        expected = outputs(model, inputs)
    with gated(model, list(keep)):
        assert torch.equal(outputs(model, inputs), expected)
    with gated(model, keep[[3, 5]], find_attention(model, "cross")):
        assert torch.equal(outputs(model, inputs), expected)


def test_nested_gates_multiply_and_come_off_one_by_one():
    model, inputs = model_of("bert"), inputs_of("bert")
    a, b = torch.rand(2, 3, HEADS, dtype=torch.float64)
    with gated(model, a):
        only_a = outputs(model, inputs)
        with gated(model, b):
            both = outputs(model, inputs)
        assert torch.equal(outputs(model, inputs), only_a)
    with gated(model, a * b):
        close(outputs(model, inputs), both)


@pytest.mark.parametrize("family", ["bert", "t5"])
def test_gates_and_weights_are_trained_together(family):
    model, inputs = model_of(family), inputs_of(family)
    xi = torch.ones(len(find_attention(model)), HEADS, dtype=torch.float64, requires_grad=True)
    with gated(model, xi):
        for _ in range(2):  # twice through one block: nothing of the first graph is needed again
            model(**inputs).logits.square().sum().backward()
    assert (xi.grad.abs() > 0).all()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("where", ["block", "forward"])
def test_no_hook_stays_after_an_exception(where):
    model, inputs = model_of("bert"), inputs_of("bert")
    before, expected = hooks_of(model), outputs(model, inputs)
    with pytest.raises(RuntimeError, match="stop"), gated(model, torch.zeros(3, HEADS)):
        if where == "forward":
            raise_in = model.bert.encoder.layer[1].register_forward_hook(
                lambda *_: (_ for _ in ()).throw(RuntimeError("stop"))
            )
            try:
                model(**inputs)
            finally:
                raise_in.remove()
        raise RuntimeError("stop")
    assert hooks_of(model) == before
    assert torch.equal(outputs(model, inputs), expected)


def test_gates_that_do_not_fit_are_refused_before_anything_is_hooked():
    model = model_of("bert")
    before = hooks_of(model)
    for xi in (torch.ones(2, HEADS), torch.ones(3, HEADS + 1), torch.ones(3), torch.ones(1, 3, B, HEADS)):
        with pytest.raises(ValueError, match=r"\(3, 4\), or \(3, B, 4\)"), gated(model, xi):
            pass
    with pytest.raises(ValueError, match="gates for 2 layers, the model has 3"), gated(model, [torch.ones(4)] * 2):
        pass
    with (
        pytest.raises(ValueError, match=r"should be \(4,\) or \(B, 4\), got \(5,\)"),
        gated(model, [torch.ones(5)] * 3),
    ):
        pass
    assert hooks_of(model) == before
    of_two = torch.ones(3, 2, HEADS)
    with pytest.raises(ValueError, match="gates for 2 samples, but .* was called with 3"), gated(model, of_two):
        outputs(model, inputs_of("bert"))


@pytest.mark.parametrize("beams", [1, 3])
def test_gates_work_while_generating(beams):
    model, inputs = model_of("marian"), inputs_of("marian")
    keep = some_heads(6)
    del inputs["decoder_input_ids"]
    options = {"max_new_tokens": 8, "num_beams": beams, "do_sample": False}
    with gated(model, keep):
        expected = model.generate(**inputs, **options)
    assert torch.equal(remove_heads(model, keep).generate(**inputs, **options), expected)


# -------------------------------------------------------------------------------------------------------------- head_mask
def test_transformers_ignores_a_head_mask():
    """If this fails, transformers has head masks again, and the warnings about them are out of date."""
    model, inputs = model_of("bert"), inputs_of("bert")
    assert torch.equal(outputs(model, inputs | {"head_mask": torch.zeros(3, HEADS)}), outputs(model, inputs))


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_a_head_mask_is_refused(family):
    model, inputs = model_of(family), inputs_of(family)
    expected, before = outputs(model, inputs), hooks_of(model)
    with refuse_head_mask(model):
        assert torch.equal(outputs(model, inputs | {"head_mask": None}), expected)
        with pytest.raises(TypeError, match=r"was called with head_mask, which transformers 5 ignores.*gated\(model"):
            outputs(model, inputs | {"head_mask": torch.ones(3, HEADS)})
    assert hooks_of(model) == before
    xi = torch.ones(len(find_attention(model)), HEADS)
    with gated(model, xi), pytest.raises(TypeError, match="head_mask"):
        outputs(model, inputs | {"head_mask": torch.ones(3, HEADS)})


def test_the_other_masks_and_inner_models_are_refused_too_until_it_is_taken_off():
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model_of("marian")

    model, inputs = Mine(), inputs_of("marian")
    guard = refuse_head_mask(model)
    for name in ("decoder_head_mask", "cross_attn_head_mask"):
        with pytest.raises(TypeError, match=name):
            outputs(model.inner.model, inputs | {name: torch.ones(2, HEADS)})
    guard.remove()
    assert hooks_of(model) == 0


# ------------------------------------------------------------------------------------------------------------- importance
def loss_of(family):
    """One loss a sample: cross-entropy over classes or over the tokens of each text, against fixed labels."""

    def loss(model, batch):
        made = model(**{name: x for name, x in batch.items() if name != "labels"})
        logits = made if isinstance(made, torch.Tensor) else made.logits
        if logits.ndim == 2:
            return F.cross_entropy(logits, batch["labels"] % logits.shape[1], reduction="none")
        labels = batch["labels"][:, None].expand(logits.shape[:2]) % logits.shape[2]
        return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none").mean(1)

    return loss


def data_of(family, n=8):
    return inputs_of(family, batch=n) | {"labels": torch.arange(n) * 7}


def batches_of(data, sizes):
    index = torch.arange(sum(sizes)) if isinstance(sizes, list) else sizes
    parts = index.split(sizes) if isinstance(sizes, list) else index.split(3)
    return [{name: x[part] for name, x in data.items()} for part in parts]


@BOTH
@pytest.mark.parametrize("family", FAMILIES)
def test_importance_is_the_mean_over_samples_of_the_slope_along_each_gate(family, attention, monkeypatch):
    model, data, loss = gateable(family, attention), data_of(family, 3), loss_of(family)
    # The eager softmax of ViT and DeiT computes in single precision, whatever the model does; so does T5's norm.
    rounds = family in ("vit", "deit") and attention == "eager"
    if family == "t5":
        norm = type(model.encoder.final_layer_norm)
        monkeypatch.setattr(norm, "forward", lambda self, x: self.weight * F.rms_norm(x, x.shape[-1:], None, 1e-6))
    layers, step = len(find_attention(model)), 1e-3 if rounds else 1e-5
    expected = torch.zeros(layers, HEADS, dtype=torch.float64)
    for layer in range(layers):
        for head in range(HEADS):
            ends = []
            for side in (step, -step):
                xi = torch.ones(layers, HEADS, dtype=torch.float64)
                xi[layer, head] += side
                with gated(model, xi), torch.no_grad():
                    ends.append(loss(model, data))  # (B,)
            expected[layer, head] = ((ends[0] - ends[1]) / (2 * step)).abs().mean()
    importance = head_importance(model, [data], loss)
    assert importance.shape == (layers, HEADS) and importance.dtype == torch.float64
    assert expected.max() > 1e-2
    torch.testing.assert_close(importance, expected, rtol=1e-2 if rounds else 1e-5, atol=5e-4 if rounds else 1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_importance_does_not_depend_on_the_batch_size_or_the_order(family):
    model, data, loss = gateable(family), data_of(family), loss_of(family)
    expected = torch.stack([head_importance(model, [sample], loss) for sample in batches_of(data, [1] * 8)]).mean(0)
    for sizes in ([8], [4, 4], [3, 3, 2], [7, 1], torch.randperm(8, generator=torch.Generator().manual_seed(1))):
        close(head_importance(model, batches_of(data, sizes), loss), expected)


def test_it_is_not_the_slope_of_the_batch():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    xi = torch.ones(3, HEADS, dtype=torch.float64, requires_grad=True)
    with gated(model, xi):
        (of_batch,) = torch.autograd.grad(loss(model, data).mean(), [xi])
    importance = head_importance(model, [data], loss)
    assert (importance >= of_batch.abs() - 1e-12).all()
    assert (importance > 1.05 * of_batch.abs()).any()


@pytest.mark.parametrize("family", [*TEXT_CLASSIFIERS, "marian", "t5"])
def test_padding_changes_nothing(family):
    model, data, loss = model_of(family), data_of(family), loss_of(family)
    padded = dict(data)
    for name in ("input_ids", "attention_mask"):
        padded[name] = F.pad(data[name], (0, 5))
    close(head_importance(model, [padded], loss), head_importance(model, [data], loss), atol=1e-10)
    keep = some_heads(len(find_attention(model)))
    smaller = remove_heads(model, keep)
    inputs = [{name: x for name, x in d.items() if name != "labels"} for d in (padded, data)]
    close(outputs(smaller, inputs[0]), outputs(smaller, inputs[1]), atol=1e-10)


def test_one_forward_and_one_backward_pass_for_each_batch():
    model, data = model_of("bert"), data_of("bert")
    calls = {"forward": 0, "backward": 0}
    hook = model.register_forward_hook(lambda *_: calls.__setitem__("forward", calls["forward"] + 1))

    class Counting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            calls["backward"] += 1
            return gradient

    loss = loss_of("bert")
    head_importance(model, batches_of(data, [4, 4]), lambda m, batch: Counting.apply(loss(m, batch)))
    hook.remove()
    assert calls == {"forward": 2, "backward": 2}


@pytest.mark.parametrize("fails", [False, True])
def test_modes_gradients_and_hooks_are_left_as_they_were(fails):
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    model.train()
    model.bert.pooler.eval()
    model.bert.embeddings.requires_grad_(False)
    model.classifier.weight.grad = torch.full_like(model.classifier.weight, 3.0)
    modes = [m.training for m in model.modules()]
    wanted = [p.requires_grad for p in model.parameters()]
    before = hooks_of(model)

    def failing(m, batch):
        assert not any(module.training for module in m.modules())
        if fails:
            raise RuntimeError("stop")
        return loss(m, batch)

    try:
        head_importance(model, [data], failing)
    except RuntimeError:
        assert fails
    assert [m.training for m in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()] == wanted
    assert hooks_of(model) == before
    assert (model.classifier.weight.grad == 3).all()
    assert all(p.grad is None for p in model.bert.parameters())


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_importance_needs_no_grad_mode_round_it_and_no_trainable_weight(around):
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    expected = head_importance(model, [data], loss)
    model.requires_grad_(False)
    with around():
        close(head_importance(model, [data], loss), expected)


def test_importance_of_the_heads_left_is_that_of_the_smaller_model():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    keep = some_heads(3)
    with gated(model, keep):
        gated_off = head_importance(model, [data], loss)
    assert (gated_off[~keep] == 0).all() and (gated_off[keep] > 0).all()
    smaller = head_importance(remove_heads(model, keep), [data], loss)  # a grid as wide as the largest layer
    assert smaller.isnan().sum() == smaller.numel() - keep.sum()
    close(torch.cat([row[~row.isnan()] for row in smaller]), gated_off[keep])


def test_importance_of_one_kind():
    model, data, loss = model_of("marian"), data_of("marian"), loss_of("marian")
    everything = head_importance(model, [data], loss)
    close(head_importance(model, [data], loss, find_attention(model, "cross")), everything[[3, 5]])


def test_importance_of_samples_averages_to_importance():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    each = sample_importance(model, batches_of(data, [3, 5]), loss)
    assert each.shape == (8, 3, HEADS)
    close(each.mean(0), head_importance(model, [data], loss))
    close(each[2], head_importance(model, batches_of(data, [1] * 8)[2:3], loss))


def test_layers_are_normalised_by_their_euclidean_norm():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    raw, normal = head_importance(model, [data], loss), head_importance(model, [data], loss, normalise=True)
    close(normal.square().sum(1), torch.ones(3, dtype=torch.float64))
    close(normal * raw.norm(dim=1, keepdim=True), raw)
    close(normal, normalise_by_layer(raw))
    odd = torch.tensor([[0.0, 0.0], [3.0, 4.0], [2.0, torch.nan]])
    expected = torch.tensor([[0.0, 0.0], [0.6, 0.8], [1.0, torch.nan]])
    torch.testing.assert_close(normalise_by_layer(odd), expected, equal_nan=True)


def test_losses_that_are_not_one_for_each_sample_are_refused():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    with pytest.raises(ValueError, match=r'each of the 8 samples, shape \(8,\), got \(\).*reduction="none"'):
        head_importance(model, [data], lambda m, batch: loss(m, batch).mean())
    with pytest.raises(ValueError, match="do not depend on the heads"):
        head_importance(model, [data], lambda m, batch: loss(m, batch).detach())
    with pytest.raises(ValueError, match="'bert.encoder.layer.0.attention.self' was not called"):
        head_importance(model, [data], lambda m, batch: loss(model_of("bert"), batch))
    with pytest.raises(ValueError, match="a loss is NaN"):
        head_importance(model, [data], lambda m, batch: loss(m, batch) * math.nan)
    with pytest.raises(ValueError, match="at least one batch"):
        head_importance(model, iter([]), loss)
    assert hooks_of(model) == 0


# --------------------------------------------------------------------------------------------------------------- ablation
def test_ablation_is_of_one_head_at_a_time_against_the_full_model():
    weight = torch.arange(1.0, 7.0).view(2, 3)
    seen = []

    def evaluate(xi):
        seen.append(xi.clone())
        return float((weight * xi).sum())

    torch.testing.assert_close(ablate_each(evaluate, 2, 3), -weight.double())
    assert (
        len(seen) == 7 and sum(int(xi.sum()) == 6 for xi in seen) == 1 and sum(int(xi.sum()) == 5 for xi in seen) == 6
    )


def test_all_but_one_chooses_on_validation_and_reports_the_test():
    validation = torch.tensor([[1.0, 5.0, 2.0], [4.0, 4.0, 0.0]])  # equally good: the first
    test = torch.tensor([[9.0, 3.0, 9.0], [7.0, 8.0, 9.0]])
    tested = []

    def on_test(xi):
        tested.append(xi.clone())
        return float((test * xi).sum())

    result = all_but_one(lambda xi: float((validation * xi).sum()), on_test, 2, 3)
    assert result == [(1, 3.0 - 21.0), (0, 7.0 - 24.0)]
    assert len(tested) == 3  # the full model and one choice for each layer: the test data choose nothing


def test_an_evaluator_of_gates_runs_the_gated_model():
    model, inputs = model_of("bert"), inputs_of("bert")
    evaluate = gate_evaluator(model, lambda m: float(outputs(m, inputs).sum()))
    changes = ablate_each(evaluate, 3, HEADS)
    keep = torch.ones(3, HEADS, dtype=torch.bool)
    keep[1, 2] = False
    expected = outputs(remove_heads(model, keep), inputs).sum() - outputs(model, inputs).sum()
    assert changes[1, 2] == pytest.approx(float(expected), abs=1e-10) and hooks_of(model) == 0


# ------------------------------------------------------------------------------------------------------------------ rules
grids = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(0, 3), st.integers(0, 2**16))


@given(grids, st.floats(0, 1))
def test_the_lowest_go_exactly_as_many_as_asked(grid, share):
    layers, heads, least, seed = grid
    g = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 4, (layers, heads), generator=g).float()  # with ties
    most = layers * max(0, heads - least)
    keep = lowest_heads(scores, round(share * most), least)
    assert int((~keep).sum()) == round(share * most)
    assert (keep.sum(1) >= min(least, heads)).all()
    order = torch.stack([scores.flatten(), torch.arange(scores.numel()).float()], 1).tolist()
    for lost in (~keep.flatten()).nonzero().flatten().tolist():  # whatever stays with a lower score, its layer needed
        for stays in keep.flatten().nonzero().flatten().tolist():
            if order[stays] < order[lost]:
                assert keep[stays // heads].sum() == least


def test_equal_scores_go_in_order_and_missing_heads_do_not_count():
    scores = torch.tensor([[1.0, 0.0, 0.0], [0.0, torch.nan, torch.nan]])
    assert lowest_heads(scores, 2).tolist() == [[True, False, False], [True, False, False]]
    assert lowest_heads(-scores, 1).tolist() == [[False, True, True], [True, False, False]]
    assert lowest_heads(scores, 2, min_per_layer=1).tolist() == [[True, False, False], [True, False, False]]
    with pytest.raises(ValueError, match="0 to 2 for 'lowest_heads'.*got 3"):
        lowest_heads(scores, 3, min_per_layer=1)
    with pytest.raises(ValueError, match=r"\(layers, heads\), got the shape \(3,\)"):
        lowest_heads(scores[0], 1)


def capacity(rule, layers, heads, least):
    open_layers = (layers + 1) // 2 if rule == "no_consecutive" else layers
    return open_layers * max(0, heads - least)


@pytest.mark.parametrize("rule", RULES)
@given(grid=grids, share=st.floats(0, 1))
@settings(max_examples=60)
def test_rules_remove_exactly_so_many_where_they_may(rule, grid, share):
    layers, heads, least, seed = grid
    most = capacity(rule, layers, heads, least)
    count = round(share * most)
    state = torch.get_rng_state()
    keep, again = (
        choose_heads(layers, heads, count, rule, torch.Generator().manual_seed(seed), least) for _ in range(2)
    )
    assert torch.equal(keep, again) and torch.equal(torch.get_rng_state(), state)
    assert keep.dtype == torch.bool and keep.shape == (layers, heads) and int((~keep).sum()) == count
    assert (keep.sum(1) >= min(least, heads)).all()
    lost = (~keep).sum(1)
    losing = lost.nonzero().flatten().tolist()
    full = max(0, heads - least)
    if rule == "top":
        assert losing == list(range(layers - len(losing), layers)) and (lost[layers - len(losing) + 1 :] == full).all()
    if rule == "bottom":
        assert losing == list(range(len(losing))) and (lost[: max(0, len(losing) - 1)] == full).all()
    if rule == "middle" and losing:
        assert losing == list(range(losing[0], losing[-1] + 1)) and int((lost[losing] < full).sum()) <= 1
        assert abs((losing[0] + losing[-1]) / 2 - (layers - 1) / 2) <= 0.5
    if rule == "no_consecutive":
        assert all(b - a > 1 for a, b in zip(losing, losing[1:], strict=False))
    with pytest.raises(ValueError, match=f"0 to {most} for '{rule}'"):
        choose_heads(layers, heads, most + 1, rule, torch.Generator(), least)


def test_random_heads_and_layers_without_neighbours_are_drawn_evenly():
    g, n = torch.Generator().manual_seed(0), 3000
    lost = sum((~choose_heads(4, 3, 5, "random", g)).double() for _ in range(n)) / n
    assert ((lost - 5 / 12).abs() < 0.04).all()
    sets = [tuple((~choose_heads(4, 2, 4, "no_consecutive", g)).any(1).nonzero().flatten().tolist()) for _ in range(n)]
    assert set(sets) == {(0, 2), (0, 3), (1, 3)}
    assert all(abs(sets.count(s) / n - 1 / 3) < 0.04 for s in set(sets))


def test_rules_refuse_what_they_cannot_do():
    g = torch.Generator()
    with pytest.raises(ValueError, match="random, top, bottom, middle, no_consecutive; got 'first'"):
        choose_heads(2, 2, 1, "first", g)
    with pytest.raises(ValueError, match="count is the number of heads removed"):
        choose_heads(2, 2, -1, "random", g)
    with pytest.raises(ValueError, match="at least 0; got -1"):
        choose_heads(2, 2, 1, "random", g, -1)
    with pytest.raises(ValueError, match="at least one layer and one head"):
        choose_heads(0, 2, 0, "random", g)


# -------------------------------------------------------------------------------------------------------------- iterative
def test_heads_are_scored_anew_and_never_come_back():
    model, inputs = model_of("bert"), inputs_of("bert")
    first = torch.tensor([[1.0, 2.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]])
    then = torch.tensor([[9.0, 9.0, 3.0, 9.0], [9.0, 9.0, 9.0, 4.0], [9.0, 9.0, 9.0, 9.0]])  # would bring two back
    seen, trained = [], []

    def score(m):
        seen.append(outputs(m, inputs))
        return first if len(seen) == 1 else then

    masks = prune_heads_iteratively(model, score, [2, 4], lambda m: trained.append(outputs(m, inputs)))
    assert [(~m).nonzero().tolist() for m in masks] == [[[0, 0], [0, 1]], [[0, 0], [0, 1], [0, 2], [1, 3]]]
    assert torch.equal(seen[0], outputs(model, inputs))
    close(seen[1], outputs(remove_heads(model, masks[0]), inputs))  # scored with the first two gone
    close(trained[1], outputs(remove_heads(model, masks[1]), inputs))
    assert lowest_heads(first, 4).tolist() != masks[1].tolist()


def test_iterative_pruning_by_importance():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    masks = prune_heads_iteratively(model, lambda m: head_importance(m, [data], loss), [3, 6, 9], min_per_layer=1)
    assert [int((~m).sum()) for m in masks] == [3, 6, 9] and all((m.sum(1) >= 1).all() for m in masks)
    assert all((b <= a).all() for a, b in zip(masks, masks[1:], strict=False))
    (once,) = prune_heads_iteratively(model, lambda m: head_importance(m, [data], loss), [3], min_per_layer=1)
    assert torch.equal(once, lowest_heads(head_importance(model, [data], loss), 3, 1)) and torch.equal(once, masks[0])
    smaller = remove_heads(model, masks[0])  # on a model with unequal layers
    (more,) = prune_heads_iteratively(smaller, lambda m: head_importance(m, [data], loss), [2])
    with gated(smaller, more):
        expected = outputs(smaller, inputs_of("bert"))
    close(outputs(remove_heads(smaller, more), inputs_of("bert")), expected)


def test_iterative_pruning_refuses_counts_that_fall_and_scores_of_another_shape():
    model = model_of("bert")
    with pytest.raises(ValueError, match="cannot fall"):
        prune_heads_iteratively(model, lambda m: torch.ones(3, HEADS), [3, 2])
    with pytest.raises(ValueError, match=r"\(layers, heads\) = \(3, 4\), got \(4, 3\)"):
        prune_heads_iteratively(model, lambda m: torch.ones(HEADS, 3), [1])


# ---------------------------------------------------------------------------------------------------------------- slicing
@pytest.mark.parametrize("keep", [[0, 2], [3], [], [0, 1, 2, 3]])
@pytest.mark.parametrize("bias", [True, False])
def test_sliced_projections_are_those_heads(keep, bias):
    torch.manual_seed(0)
    layers = [nn.Linear(5, 12, bias).double() for _ in range(3)] + [nn.Linear(12, 6).double()]
    before = copy.deepcopy([layer.state_dict() for layer in layers])
    x = torch.randn(2, 4, 5, dtype=torch.float64)

    def attention(q, k, v, out, heads):
        a, b, c = (p(x).unflatten(-1, (heads, 3)).transpose(1, 2) for p in (q, k, v))
        context = (a @ b.mT / math.sqrt(3)).softmax(-1) @ c
        return context, out(context.transpose(1, 2).flatten(2))

    context, _ = attention(*layers, 4)
    gate = torch.tensor([float(h in keep) for h in range(4)], dtype=torch.float64)
    expected = layers[3]((context * gate[:, None, None]).transpose(1, 2).flatten(2))
    smaller = slice_heads(*layers, keep, 3)
    close(attention(*smaller, len(keep))[1], expected)
    assert all(s.out_features == 3 * len(keep) for s in smaller[:3]) and smaller[3].in_features == 3 * len(keep)
    assert smaller[3].bias.shape == (6,) and smaller[3].bias is not layers[3].bias
    torch.testing.assert_close([layer.state_dict() for layer in layers], before)


def test_slices_that_make_no_sense_are_refused():
    q, k, v, out = (nn.Linear(12, 12) for _ in range(4))
    for keep in ([1, 0], [0, 0], [4], [-1]):
        with pytest.raises(ValueError, match="from 0 to 3, strictly increasing"):
            slice_heads(q, k, v, out, keep, 3)
    with pytest.raises(ValueError, match="whole number of heads of 5"):
        slice_heads(q, k, v, out, [0], 5)
    with pytest.raises(ValueError, match="12, 12 and 12 made, 9 read"):
        slice_heads(q, k, v, nn.Linear(9, 12), [0], 3)


# ---------------------------------------------------------------------------------------------------------------- removal
@pytest.mark.parametrize("family", FAMILIES)
def test_removal_takes_the_parameters_away_and_leaves_the_given_model(family):
    model, inputs = model_of(family), inputs_of(family)
    before = copy.deepcopy(model.state_dict())
    layers = len(find_attention(explicit_attention(model)))
    keep = some_heads(layers)
    smaller = remove_heads(model, keep)
    torch.testing.assert_close(model.state_dict(), before)
    assert not {p.data_ptr() for p in model.parameters()} & {p.data_ptr() for p in smaller.parameters() if p.numel()}
    assert type(smaller) is type(model) and not smaller.training

    gone, self_gone = int((~keep).sum()), 0
    biases = 0 if family == "t5" else 3 * SIZE
    expected = gone * (4 * E * SIZE + biases)
    if family == "t5":  # every layer of a stack has a table of 8 buckets now, where the first alone had one
        for kind in ("encoder", "decoder"):
            kept = sum(int(k.sum()) for a, k in zip(find_attention(model), keep, strict=True) if a.kind == kind)
            self_gone += 8 * (HEADS - kept)
    count = [sum(p.numel() for p in m.parameters()) for m in (model, smaller)]
    assert count[0] - count[1] == expected + self_gone
    assert [a.heads for a in find_attention(smaller)] == keep.sum(1).tolist()
    outputs(smaller, inputs)


@pytest.mark.parametrize("family", FAMILIES)
def test_removal_twice_is_removal_once(family):
    model, inputs = model_of(family), inputs_of(family)
    layers = len(find_attention(explicit_attention(model)))
    keep, further = some_heads(layers), some_heads(layers, seed=3)
    once = remove_heads(model, keep & further)
    first = remove_heads(model, keep)
    twice = remove_heads(first, [f[k] for k, f in zip(keep, further, strict=True)])
    close(outputs(twice, inputs), outputs(once, inputs))
    assert kept_heads(twice) == kept_heads(once)
    named = [k & f for k, f in zip(keep, further, strict=True)]
    assert list(kept_heads(once).values()) == [tuple(k.nonzero().flatten().tolist()) for k in named if not k.all()]


@pytest.mark.parametrize("family", FAMILIES)
def test_training_after_removal(family):
    model, data, loss = gateable(family), data_of(family), loss_of(family)
    smaller = remove_heads(model, some_heads(len(find_attention(model))))
    smaller.train()
    for module in smaller.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    optimizer = torch.optim.AdamW(smaller.parameters(), lr=1e-3)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        value = loss(smaller, data).mean()
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
    assert losses[-1] < losses[0]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for a in find_attention(smaller) if a.heads for p in [
        smaller.get_submodule(a.out).weight, smaller.get_submodule(a.v).weight
    ])  # fmt: skip


def test_what_is_frozen_and_in_which_mode_stays():
    model = model_of("gpt2")
    model.transformer.h[1].requires_grad_(False)
    model.train()
    smaller = remove_heads(model, some_heads(3))
    assert not any(p.requires_grad for p in smaller.transformer.h[1].parameters())
    assert all(p.requires_grad for p in smaller.transformer.h[2].parameters()) and smaller.training


def test_heads_by_the_name_of_their_module_and_of_one_kind():
    model, inputs = model_of("marian"), inputs_of("marian")
    keep = torch.ones(6, HEADS, dtype=torch.bool)
    keep[3, :2] = False
    expected = outputs(remove_heads(model, keep), inputs)
    name = find_attention(model)[3].name
    close(outputs(remove_heads(model, {name: keep[3]}), inputs), expected)
    close(outputs(remove_heads(model, keep[[3, 5]], find_attention(model, "cross")), inputs), expected)
    with pytest.raises(ValueError, match="'nowhere'.* names no attention module: there are model.encoder"):
        remove_heads(model, {"nowhere": keep[0]})


def test_removal_inside_a_gated_block_is_refused():
    """The copy would take the gates with it, and keep them."""
    model, keep = model_of("bert"), some_heads(3)
    with gated(model, keep), pytest.raises(RuntimeError, match="leave the block"):
        remove_heads(model, keep)
    assert hooks_of(remove_heads(model, keep)) == 0


def test_masks_that_do_not_fit_are_refused():
    model = model_of("bert")
    with pytest.raises(ValueError, match=r"bool \(4,\), True = kept, got torch.float32 \(4,\): try xi > 0"):
        remove_heads(model, torch.ones(3, HEADS))
    with pytest.raises(ValueError, match="keep has 2 rows, the model has 3 layers"):
        remove_heads(model, torch.ones(2, HEADS, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"got torch.bool \(5,\)"):
        remove_heads(model, torch.ones(3, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="got list"):
        remove_heads(model, [[True] * 4] * 3)


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_attentions_are_recorded_for_every_layer_also_where_no_head_is_left(family):
    model, inputs = model_of(family, "eager"), inputs_of(family)
    found = find_attention(model)
    keep = some_heads(len(found))
    smaller = remove_heads(model, keep)
    with gated(model, keep), torch.no_grad():
        expected = model(**inputs, output_attentions=True)
    with torch.no_grad():
        got = smaller(**inputs, output_attentions=True)
    names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    for kind, name in names.items():
        masks = [k for a, k in zip(found, keep, strict=True) if a.kind == kind]
        name = name if masks and name in got else "attentions"
        if masks:
            assert len(got[name]) == len(masks)
            for full, small, mask in zip(expected[name], got[name], masks, strict=True):
                close(small, full[:, mask])


@pytest.mark.parametrize("family", ["bert", "marian", "t5", "gpt2", "torchvision vit"])
def test_a_smaller_model_is_copied_pickled_and_moved_like_any_other(family):
    model, inputs = model_of(family), inputs_of(family)
    layers = len(find_attention(explicit_attention(model)))
    smaller = remove_heads(model, some_heads(layers))
    expected = outputs(smaller, inputs)
    copied = copy.deepcopy(smaller)
    for parameter in smaller.parameters():
        parameter.data.zero_()
    close(outputs(copied, inputs), expected)  # its layers without heads run on its own biases
    file = io.BytesIO()
    torch.save(copied, file)
    file.seek(0)
    close(outputs(torch.load(file, weights_only=False), inputs), expected)
    assert pickle.loads(pickle.dumps(copied)).training is False
    assert outputs(copied.float(), inputs_of(family, dtype=torch.float32)).dtype == torch.float32


# ------------------------------------------------------------------------------------------------------------- generation
@BOTH
@pytest.mark.parametrize("family", GENERATING)
def test_generation_after_removal(family, attention):
    """As the gated full model generates, with a cache and without; the first layer, whose cache is asked for the length,
    has no heads. Longer than the relative positions of T5 are told apart."""
    model, inputs = model_of(family, attention), inputs_of(family)
    inputs.pop("decoder_input_ids", None)
    found = find_attention(model)
    keep = some_heads(len(found))
    first = next(i for i, a in enumerate(found) if a.kind == "decoder")
    keep[first] = False
    smaller = remove_heads(model, keep)
    options = {"max_new_tokens": 14, "min_new_tokens": 14, "do_sample": False, "output_logits": True}
    options |= {"return_dict_in_generate": True, "no_repeat_ngram_size": 1}  # these models would say one word for ever
    with gated(model, keep):
        expected = model.generate(**inputs, **options)
        beams = model.generate(**inputs, max_new_tokens=8, num_beams=3, do_sample=False)
    cached, without = (smaller.generate(**inputs, **options, use_cache=use) for use in (True, False))
    assert torch.equal(cached.sequences, expected.sequences) and torch.equal(without.sequences, expected.sequences)
    close(torch.stack(cached.logits), torch.stack(expected.logits), atol=1e-10)
    close(torch.stack(without.logits), torch.stack(expected.logits), atol=1e-10)
    assert len(set(map(tuple, expected.sequences.tolist()))) > 1  # texts differ, so the comparison says something
    assert torch.equal(smaller.generate(**inputs, max_new_tokens=8, num_beams=3, do_sample=False), beams)


# ------------------------------------------------------------------------------------------------------------------ files
@pytest.mark.parametrize("family", FAMILIES)
def test_a_smaller_model_comes_back_from_disk(family, tmp_path):
    model, inputs = model_of(family), inputs_of(family)
    layers = len(find_attention(explicit_attention(model)))
    smaller = remove_heads(model, some_heads(layers))
    save_pruned(smaller, tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    build = (lambda: full_model(family)) if family == "torchvision vit" else None
    loaded = load_pruned(tmp_path, build)
    assert type(loaded) is type(model) and not loaded.training
    assert torch.equal(outputs(loaded, inputs), outputs(smaller, inputs))
    assert kept_heads(loaded) == kept_heads(smaller)
    again = remove_heads(loaded, [torch.arange(a.heads) > 0 for a in find_attention(loaded)])
    save_pruned(again, tmp_path)  # pruned further, into the same place
    assert torch.equal(outputs(load_pruned(tmp_path, build), inputs), outputs(again, inputs))


def test_a_model_with_all_heads_is_stored_as_well_and_may_be_loaded_by_its_class(tmp_path):
    from transformers import BertForSequenceClassification

    model, inputs = model_of("bert", "eager"), inputs_of("bert")
    save_pruned(model, tmp_path)
    loaded = load_pruned(tmp_path, BertForSequenceClassification, attn_implementation="eager", dtype=torch.float32)
    assert loaded.config._attn_implementation == "eager" and loaded.dtype == torch.float32
    close(outputs(loaded, inputs), outputs(model, inputs).float(), atol=1e-4)


def test_a_loaded_translator_generates_the_same(tmp_path):
    model, inputs = model_of("marian"), inputs_of("marian")
    del inputs["decoder_input_ids"]
    model.generation_config.max_new_tokens = 9
    smaller = remove_heads(model, some_heads(6))
    save_pruned(smaller, tmp_path)
    assert torch.equal(load_pruned(tmp_path).generate(**inputs), smaller.generate(**inputs))


def test_from_pretrained_alone_fails_on_the_sizes(tmp_path):
    """If this passes one day, transformers knows removed heads again, and the file beside the weights is not needed."""
    from transformers import BertForSequenceClassification

    save_pruned(remove_heads(model_of("bert"), some_heads(3)), tmp_path)
    with pytest.raises(RuntimeError, match="(?i)size"):
        BertForSequenceClassification.from_pretrained(tmp_path)


def test_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no kept_heads.json in .*save_pruned"):
        load_pruned(tmp_path)
    smaller = remove_heads(model_of("bert"), some_heads(3))
    save_pruned(smaller, tmp_path)
    note = json.loads((tmp_path / "kept_heads.json").read_text())
    name = next(iter(note["kept"]))
    for kept in ([4], [1, 0], [0, 0]):
        changed = {"kept": note["kept"] | {name: kept}, "explicit": False}
        (tmp_path / "kept_heads.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=r"keeps heads .* the model has 4 heads there"):
            load_pruned(tmp_path)
    (tmp_path / "kept_heads.json").write_text(json.dumps({"kept": {"nowhere": [0]}, "explicit": False}))
    with pytest.raises(ValueError, match="'nowhere', but the model has no attention there"):
        load_pruned(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["MyOwnModel"]}))
    with pytest.raises(ValueError, match="transformers has no MyOwnModel"):
        load_pruned(tmp_path)
    save_pruned(explicit_attention(model_of("torchvision vit")), tmp_path / "vit")
    with pytest.raises(ValueError, match="holds no transformers model: pass build="):
        load_pruned(tmp_path / "vit")


# ------------------------------------------------------------------------------------------------------------------- cost
@BOTH
@pytest.mark.parametrize("family", FAMILIES)
def test_what_removal_saves_is_what_the_formula_says(family, attention):
    model, inputs = gateable(family, attention), inputs_of(family)
    found = find_attention(model)
    keep = some_heads(len(found))
    smaller = remove_heads(model, keep)
    before, after = (totals(model_cost(m, inputs)) for m in (model, smaller))
    saved = {"macs": 0, "weights": 0}
    for a, kept in zip(found, keep, strict=True):
        target = {"t5": 5, "bart": 5, "marian": 5}.get(family, L) if a.kind != "encoder" else L
        source = target if a.kind != "cross" else L if family in ("t5", "bart", "marian") else 6
        if family in ("vit", "torchvision vit", "deit"):
            target = source = {"deit": 6}.get(family, 5)
        costs = [pruned_transformer_macs(B, target, E, [h], SIZE, ffn=0, S=source) for h in (HEADS, int(kept.sum()))]
        saved["macs"] += costs[0]["total"] - costs[1]["total"]
        saved["weights"] += costs[0]["weights"] - costs[1]["weights"]
    assert before["macs"] - after["macs"] == saved["macs"]
    if family == "t5":
        kinds = [(a.kind, int(k.sum())) for a, k in zip(found, keep, strict=True) if a.kind != "cross"]
        saved["weights"] += 8 * (2 * HEADS - sum(k for _, k in kinds))  # tables of position biases
    assert before["weights"] - after["weights"] == saved["weights"]
    assert before["uncounted"] == after["uncounted"]


def test_the_formula_with_all_heads_is_that_of_the_lecture():
    for b, length, width, heads in ((1, 1, 4, 1), (2, 5, 12, 3), (16, 128, 768, 12)):
        expected = transformer_macs(b, length, width, heads)
        got = pruned_transformer_macs(b, length, width, [heads], width // heads)
        assert {name: got[name] for name in expected} == expected
    two = pruned_transformer_macs(2, 5, 12, [3, 0], 4)
    assert two["total"] == expected_of_two(3) and two["weights"] == 4 * 12 * 12 + 2 * 2 * 12 * 48


def expected_of_two(heads):
    """A full layer, and one that has lost all its heads and keeps its feed-forward block."""
    return transformer_macs(2, 5, 12, heads)["total"] + transformer_macs(2, 5, 12, heads)["ffn"]


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="L must be at least 1, got 0"):
        pruned_transformer_macs(1, 0, 4, [1], 4)
    with pytest.raises(ValueError, match="cannot be negative"):
        pruned_transformer_macs(1, 1, 4, [-1], 4)
