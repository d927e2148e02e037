"""Gates on heads, given and learned; tests/unit/conformance tries them on every family.

Everything is compared in float64 and close to rounding, with eager and with SDPA
attention, unless a test says otherwise.
"""

import copy

import pytest
import torch
from torch import nn

from course_lib.models import families
from course_lib.pruning.components import hard_concrete
from course_lib.pruning.heads import (
    Layout,
    find_attention,
    gated,
    output_projections,
    remove_heads,
    train_with_gates,
)
from unit.small_transformers import (
    FAMILIES,
    HEADS,
    SIZE,
    B,
    close,
    gateable,
    hooks_of,
    inputs_of,
    model_of,
    outputs,
    some_heads,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gate_scales_the_columns_of_the_output_projection_that_read_its_head(family):
    model, inputs = gateable(family), inputs_of(family)
    g = torch.Generator().manual_seed(0)
    xi = torch.rand(len(find_attention(model)), HEADS, generator=g, dtype=torch.float64) * 2
    by_hand, full = copy.deepcopy(model), outputs(model, inputs)
    for gate, out in zip(xi, output_projections(by_hand), strict=True):
        scale = gate.repeat_interleave(SIZE)
        # Conv1D: (in, out)
        out.weight.data.mul_(scale if isinstance(out, nn.Linear) else scale[:, None])
    with gated(model, xi):
        close(outputs(model, inputs), outputs(by_hand, inputs))
    with gated(model, torch.ones(len(xi), B, HEADS, dtype=torch.bool)):
        assert torch.equal(outputs(model, inputs), full)


def test_gates_in_a_list_of_one_kind_and_nested():
    model, inputs = model_of("marian"), inputs_of("marian")
    xi = torch.ones(6, HEADS)
    xi[[3, 5], 1] = 0.5
    with gated(model, xi):
        once = outputs(model, inputs)
        with gated(model, list(xi)):
            twice = outputs(model, inputs)
        assert torch.equal(outputs(model, inputs), once)
    with gated(model, xi[[3, 5]], find_attention(model, "cross")):
        assert torch.equal(outputs(model, inputs), once)
    with gated(model, xi**2):
        close(outputs(model, inputs), twice)


@pytest.mark.parametrize("family", ["bert", "t5"])
def test_gates_and_weights_are_trained_together(family):
    model, inputs = model_of(family), inputs_of(family)
    xi = torch.ones(len(find_attention(model)), HEADS, dtype=torch.float64, requires_grad=True)
    with gated(model, xi):
        for _ in range(2):  # twice through one block: nothing of the first graph is needed again
            model(**inputs).logits.square().sum().backward()
    assert (xi.grad.abs() > 0).all()
    assert all(p.grad is not None for p in model.parameters())


def test_no_hook_stays_after_an_exception():
    model, inputs = model_of("bert"), inputs_of("bert")
    before, expected = hooks_of(model), outputs(model, inputs)
    with pytest.raises(ValueError), gated(model, torch.zeros(3, HEADS)):
        model(inputs_embeds=torch.zeros(1), **inputs)
    assert hooks_of(model) == before
    assert torch.equal(outputs(model, inputs), expected)


def test_a_family_that_is_not_in_the_table_is_refused_until_its_row_is_there(monkeypatch):
    from transformers import OlmoConfig, OlmoModel

    torch.manual_seed(0)
    config = OlmoConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    model, ids, keep = OlmoModel(config).double().eval(), torch.arange(3, 9)[None], some_heads(2)
    for call in (find_attention, lambda m: remove_heads(m, keep)):
        with pytest.raises(ValueError, match=r"o_proj \(32x32\).*register\(.*OlmoAttention"):
            call(model)
    monkeypatch.setattr(families, "TABLE", dict(families.TABLE))
    row = Layout("q_proj", "k_proj", "v_proj", "o_proj", groups="num_key_value_groups")
    families.register(type(model.layers[0].self_attn), attention=row)
    smaller = remove_heads(model, keep)
    with gated(model, keep):
        close(smaller(ids).last_hidden_state, model(ids).last_hidden_state, atol=1e-6)


def test_a_gate_that_helps_stays_open_and_others_close():
    torch.manual_seed(0)
    model, log_alpha = nn.Linear(1, 1), torch.full((3,), 1.0, requires_grad=True)
    optimizer = torch.optim.Adam(
        [{"params": model.parameters(), "lr": 0.0}, {"params": [log_alpha], "lr": 0.1}]
    )

    def loss(net, batch, gates):
        assert net.training
        return 4 * (1 - gates[0]).square()

    model.eval()
    counts = train_with_gates(
        model, log_alpha, range(150), loss, 0.1, optimizer, torch.Generator().manual_seed(0)
    )
    assert not model.training and len(counts) == 150 and counts[-1] < 1.3 < counts[0]
    gates = hard_concrete(log_alpha.detach())
    assert gates[0] > 0.9 and (gates[1:] == 0).all()
    with pytest.raises(ValueError, match="lam"):
        train_with_gates(model, log_alpha, [], loss, -1.0, optimizer, torch.Generator())
