"""Heads are removed for good, and what that saves is what the formula says;
tests/unit/conformance tries removal on every family.

Everything is compared in float64 and close to rounding, with eager and with SDPA
attention, unless a test says otherwise.
"""

import copy
import io
import math
import pickle

import pytest
import torch
from torch import nn

from course_lib.cost import model_cost, pruned_transformer_macs, totals
from course_lib.pruning.heads import (
    explicit_attention,
    find_attention,
    gated,
    kept_heads,
    remove_heads,
    slice_heads,
)
from unit.small_transformers import (
    BOTH,
    FAMILIES,
    HEADS,
    SIZE,
    TRANSFORMERS,
    B,
    E,
    L,
    close,
    gateable,
    hooks_of,
    inputs_of,
    model_of,
    outputs,
    some_heads,
)


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
    assert all(s.out_features == 3 * len(keep) for s in smaller[:3]) and smaller[
        3
    ].in_features == 3 * len(keep)
    assert smaller[3].bias.shape == (6,) and smaller[3].bias is not layers[3].bias
    torch.testing.assert_close([layer.state_dict() for layer in layers], before)


@pytest.mark.parametrize("family", FAMILIES)
def test_removal_leaves_the_given_model(family):
    model = model_of(family)
    before = copy.deepcopy(model.state_dict())
    layers = len(find_attention(explicit_attention(model)))
    keep = some_heads(layers)
    smaller = remove_heads(model, keep)
    torch.testing.assert_close(model.state_dict(), before)
    assert not {p.data_ptr() for p in model.parameters()} & {
        p.data_ptr() for p in smaller.parameters() if p.numel()
    }
    assert type(smaller) is type(model) and not smaller.training


def test_kept_heads_are_numbered_as_in_the_full_model():
    model, keep, further = model_of("bert"), some_heads(3), some_heads(3, seed=3)
    first = remove_heads(model, keep)
    rows = [f[k] for k, f in zip(keep, further, strict=True)]
    twice = remove_heads(first, rows)
    grid = torch.zeros(3, max(map(len, rows)), dtype=torch.bool)  # as wide as the largest layer
    for row, kept in zip(grid, rows, strict=True):
        row[: len(kept)] = kept
    assert kept_heads(remove_heads(first, grid)) == kept_heads(twice)
    both = [k & f for k, f in zip(keep, further, strict=True)]
    assert list(kept_heads(twice).values()) == [
        tuple(k.nonzero().flatten().tolist()) for k in both if not k.all()
    ]


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
    close(
        outputs(remove_heads(model, keep[[3, 5]], find_attention(model, "cross")), inputs), expected
    )


def test_removal_inside_a_gated_block_is_refused():
    """The copy would take the gates with it, and keep them."""
    model, keep = model_of("bert"), some_heads(3)
    with gated(model, keep), pytest.raises(RuntimeError, match="leave the block"):
        remove_heads(model, keep)
    assert hooks_of(remove_heads(model, keep)) == 0


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
    names = {
        "encoder": "encoder_attentions",
        "decoder": "decoder_attentions",
        "cross": "cross_attentions",
    }
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
        target = 5 if family == "t5" and a.kind != "encoder" else L
        source = target if a.kind != "cross" else L if family == "t5" else 6
        if family == "torchvision vit":
            target = source = 5
        costs = [
            pruned_transformer_macs(B, target, E, [h], SIZE, ffn=0, S=source)
            for h in (HEADS, int(kept.sum()))
        ]
        saved["macs"] += costs[0]["total"] - costs[1]["total"]
        saved["weights"] += costs[0]["weights"] - costs[1]["weights"]
    assert before["macs"] - after["macs"] == saved["macs"]
    if family == "t5":
        kinds = [
            (a.kind, int(k.sum())) for a, k in zip(found, keep, strict=True) if a.kind != "cross"
        ]
        saved["weights"] += 8 * (2 * HEADS - sum(k for _, k in kinds))  # tables of position biases
    assert before["weights"] - after["weights"] == saved["weights"]
    assert before["uncounted"] == after["uncounted"]
