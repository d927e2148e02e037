"""Heads that are gone; tests/unit/conformance compares them with gates on every family.

Everything is compared in float64 and close to rounding, with eager and with SDPA
attention, unless a test says otherwise.
"""

import copy
import io
import math

import pytest
import torch
from torch import nn

from course_lib.cost import model_cost, totals
from course_lib.pruning.heads import (
    explicit_attention,
    find_attention,
    gated,
    remove_heads,
    slice_heads,
)
from unit.small_transformers import (
    FAMILIES,
    HEADS,
    SIZE,
    TRANSFORMERS,
    B,
    E,
    L,
    close,
    gateable,
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

    def context(q, k, v, heads):
        a, b, c = (p(x).unflatten(-1, (heads, 3)).transpose(1, 2) for p in (q, k, v))
        return (a @ b.mT / math.sqrt(3)).softmax(-1) @ c

    gate = torch.tensor([float(h in keep) for h in range(4)], dtype=torch.float64)[:, None, None]
    expected = layers[3]((context(*layers[:3], 4) * gate).transpose(1, 2).flatten(2))
    smaller = slice_heads(*layers, keep, 3)
    close(smaller[3](context(*smaller[:3], len(keep)).transpose(1, 2).flatten(2)), expected)
    assert [s.out_features for s in smaller] == [3 * len(keep)] * 3 + [6]
    assert smaller[3].bias is not layers[3].bias
    torch.testing.assert_close([layer.state_dict() for layer in layers], before)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_smaller_model_is_one_of_its_own_copied_pickled_and_moved_like_any_other(family):
    model, inputs = model_of(family), inputs_of(family)
    next(model.children()).requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    smaller = remove_heads(model, some_heads(len(find_attention(explicit_attention(model)))))
    frozen = [n for n, p in smaller.named_parameters() if not p.requires_grad]
    assert frozen and type(smaller) is type(model) and not smaller.training
    expected = outputs(smaller, inputs)
    copied = copy.deepcopy(smaller)
    for parameter in smaller.parameters():
        parameter.data.zero_()
    torch.testing.assert_close(model.state_dict(), before)
    close(outputs(copied, inputs), expected)  # its layers without heads run on its own biases
    file = io.BytesIO()
    torch.save(copied, file)
    file.seek(0)
    close(outputs(torch.load(file, weights_only=False), inputs), expected)
    assert outputs(copied.float(), inputs_of(family, dtype=torch.float32)).dtype == torch.float32


def test_heads_of_one_kind_and_in_two_steps_by_a_grid_as_wide_as_the_largest_layer():
    model, inputs = model_of("marian"), inputs_of("marian")
    keep = some_heads(6)
    keep[:3] = keep[4] = True
    expected = outputs(remove_heads(model, keep), inputs)
    smaller = remove_heads(model, keep[[3, 5]], find_attention(model, "cross"))
    close(outputs(smaller, inputs), expected)
    grid, further = torch.zeros(6, HEADS, dtype=torch.bool), some_heads(6, seed=3)
    for row, first, then in zip(grid, keep, further, strict=True):
        row[: int(first.sum())] = then[first]
    twice = remove_heads(smaller, grid)
    close(outputs(twice, inputs), outputs(remove_heads(model, keep & further), inputs))


def test_removal_inside_a_gated_block_is_refused_as_the_copy_would_keep_the_gates():
    model, keep = model_of("bert"), some_heads(3)
    with gated(model, keep), pytest.raises(RuntimeError, match="leave the block"):
        remove_heads(model, keep)


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_attentions_are_recorded_for_every_layer_also_where_no_head_is_left(family):
    model, inputs = model_of(family, "eager"), inputs_of(family)
    found = find_attention(model)
    keep = some_heads(len(found))
    with torch.no_grad():
        got = remove_heads(model, keep)(**inputs, output_attentions=True)
        with gated(model, keep):
            expected = model(**inputs, output_attentions=True)
    for kind in {a.kind for a in found}:
        masks = [k for a, k in zip(found, keep, strict=True) if a.kind == kind]
        name = f"{kind}_attentions" if f"{kind}_attentions" in got else "attentions"
        for full, small, mask in zip(expected[name], got[name], masks, strict=True):
            close(small, full[:, mask])


@pytest.mark.parametrize("family", FAMILIES)
def test_what_removal_saves_is_what_the_formula_says(family):
    model, inputs = gateable(family), inputs_of(family)
    found = find_attention(model)
    keep = some_heads(len(found))
    before, after = (totals(model_cost(m, inputs)) for m in (model, remove_heads(model, keep)))
    saved = {"macs": 0, "weights": 0}
    for a, kept in zip(found, keep, strict=True):
        target = 5 if family == "t5" and a.kind != "encoder" else L
        source = target if a.kind != "cross" else L if family == "t5" else 6
        if family == "torchvision vit":
            target = source = 5
        features = SIZE * (HEADS - int(kept.sum()))  # that are gone
        saved["macs"] += 2 * B * features * (E * (target + source) + target * source)
        saved["weights"] += 4 * E * features
    assert before["macs"] - after["macs"] == saved["macs"]
    if family == "t5":
        kinds = [
            (a.kind, int(k.sum())) for a, k in zip(found, keep, strict=True) if a.kind != "cross"
        ]
        saved["weights"] += 8 * (2 * HEADS - sum(k for _, k in kinds))  # tables of position biases
    assert before["weights"] - after["weights"] == saved["weights"]
    assert before["uncounted"] == after["uncounted"]
