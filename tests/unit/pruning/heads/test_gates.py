"""Gates on heads; tests/unit/conformance tries them on every family.

Everything is compared in float64 and close to rounding, with eager and with SDPA
attention, unless a test says otherwise.
"""

import copy

import pytest
import torch
from torch import nn

from course_lib.pruning.heads import (
    find_attention,
    gated,
    output_projections,
    refuse_head_mask,
    remove_heads,
)
from unit.small_transformers import (
    FAMILIES,
    HEADS,
    SIZE,
    TRANSFORMERS,
    B,
    close,
    gateable,
    hooks_of,
    inputs_of,
    model_of,
    outputs,
    some_heads,
)


def test_gates_on_torchs_own_attention():
    """What tests/unit/conformance tries on every family of transformers."""
    model, inputs = gateable("torchvision vit"), inputs_of("torchvision vit")
    full, layers = outputs(model, inputs), len(find_attention(model))
    for xi in (torch.ones(layers, HEADS), torch.ones(layers, B, HEADS, dtype=torch.bool)):
        with gated(model, xi):
            assert torch.equal(outputs(model, inputs), full)
    for keep in (some_heads(layers), torch.zeros(layers, HEADS, dtype=torch.bool)):
        with gated(model, keep):
            expected = outputs(model, inputs)
        assert (full - expected).abs().max() > 1e-3  # so that the next line says something
        close(outputs(remove_heads(model, keep), inputs), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gate_scales_the_columns_of_the_output_projection_that_read_its_head(family):
    model, inputs = gateable(family), inputs_of(family)
    g = torch.Generator().manual_seed(0)
    xi = torch.rand(len(find_attention(model)), HEADS, generator=g, dtype=torch.float64) * 2
    by_hand = copy.deepcopy(model)
    for gate, out in zip(xi, output_projections(by_hand), strict=True):
        scale = gate.repeat_interleave(SIZE)
        # Conv1D: (in, out)
        out.weight.data.mul_(scale if isinstance(out, nn.Linear) else scale[:, None])
    with gated(model, xi):
        close(outputs(model, inputs), outputs(by_hand, inputs))


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
    with pytest.raises(ValueError), gated(model, torch.zeros(3, HEADS)):
        if where == "forward":
            model(inputs_embeds=torch.zeros(1), **inputs)
        raise ValueError
    assert hooks_of(model) == before
    assert torch.equal(outputs(model, inputs), expected)


def test_transformers_ignores_a_head_mask():
    """If this fails, transformers has head masks again, and the warnings about them are
    out of date.
    """
    model, inputs = model_of("bert"), inputs_of("bert")
    assert torch.equal(
        outputs(model, inputs | {"head_mask": torch.zeros(3, HEADS)}), outputs(model, inputs)
    )


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_a_head_mask_is_refused(family):
    model, inputs = model_of(family), inputs_of(family)
    expected = outputs(model, inputs)
    guard = refuse_head_mask(nn.Sequential(model))  # however deep inside
    assert torch.equal(outputs(model, inputs | {"head_mask": None}), expected)
    for name in ("head_mask", "decoder_head_mask", "cross_attn_head_mask"):
        with pytest.raises(TypeError, match=rf"was called with {name}.*gated\(model"):
            outputs(model, inputs | {name: torch.ones(3, HEADS)})
    guard.close()
    assert hooks_of(model) == 0
    xi = torch.ones(len(find_attention(model)), HEADS)
    with gated(model, xi), pytest.raises(TypeError, match="head_mask"):
        outputs(model, inputs | {"head_mask": torch.ones(3, HEADS)})
