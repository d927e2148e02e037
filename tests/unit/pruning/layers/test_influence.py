"""Influence against states that are read layer by layer, and what it must not read."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.pruning.layers import influence, take_layers
from unit.conformance.models import SMALL
from unit.small_transformers import VOCABULARY, L, hooks_of, inputs_of, model_of

FAMILIES = ["llama", "gpt2", "gemma2", "qwen2", "opt", "bloom", "mixtral"]


def texts(count=3, length=9):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(5, VOCABULARY, (count, length), generator=generator)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_the_mean_of_one_minus_the_cosine_over_all_tokens(family):
    model, batches = model_of(family), [inputs_of(family, seed=0), inputs_of(family, 1, seed=1)]
    with torch.no_grad():
        states = [model(**batch, output_hidden_states=True).hidden_states for batch in batches]
    hooks = hooks_of(model)  # transformers leaves its own there
    found = influence(model, batches)
    for i in range(len(found) - 1):  # of the last layer there is no state before the norm
        values = [
            1 - float(before[b, t] @ after[b, t] / before[b, t].norm() / after[b, t].norm())
            for (before, after), batch in zip(
                [(s[i], s[i + 1]) for s in states], batches, strict=True
            )
            for b, t in batch["attention_mask"].nonzero().tolist()
        ]
        torch.testing.assert_close(float(found[i]), sum(values) / len(values))
    assert found.shape == (len(states[0]) - 1,) and found.dtype == torch.float64
    assert hooks_of(model) == hooks


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_layers_output_is_read_before_the_final_norm(family):
    """The last layer of a model is as influential as it would be with no norm after it; and the
    model's last hidden state would say another thing.
    """
    model, ids = model_of(family), texts()
    found = influence(model, [ids])
    with torch.no_grad():
        *_, before, after_norm = model(ids, output_hidden_states=True).hidden_states
    of_norm = float((1 - F.cosine_similarity(before, after_norm, dim=-1)).mean())
    assert abs(of_norm - float(found[-1])) > 1e-3
    parent = model.get_submodule(SMALL[family].stacks[0].rpartition(".")[0])
    norms = [n for n, m in parent.named_children() if "norm" in n or n == "ln_f"]
    for name in norms:  # OPT's and BLOOM's first norm comes before the layers
        if "embed" not in name:
            setattr(parent, name, nn.Identity())
    torch.testing.assert_close(influence(model, [ids]), found)


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_left_right_and_none_are_the_same(family):
    model, lengths, longest = model_of(family, dtype=torch.float32), (3, 5, 8), 10
    alone = [texts(1, n) for n in lengths]
    expected = influence(model, alone)
    for side in ("left", "right"):
        pads = [(longest - n, 0) if side == "left" else (0, longest - n) for n in lengths]
        ids = torch.cat([F.pad(t, p, value=1) for t, p in zip(alone, pads, strict=True)])
        mask = torch.cat([F.pad(torch.ones_like(t), p) for t, p in zip(alone, pads, strict=True)])
        batch = {"input_ids": ids, "attention_mask": mask}
        torch.testing.assert_close(influence(model, [batch]), expected, atol=1e-5, rtol=0)


def test_a_layer_that_changes_nothing_has_none_and_its_removal_changes_nothing():
    model, ids = model_of("llama"), texts()
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight.zero_()
        model.model.layers[1].mlp.down_proj.weight.zero_()
    found = influence(model.train(), iter(ids.split(1)))
    assert model.training and float(found[1].abs()) < 1e-12 and (found[[0, 2]] > 0.01).all()
    smaller = take_layers(model.eval(), "model.layers", [0, 2])
    torch.testing.assert_close(smaller(ids).logits, model(ids).logits)
    assert len(influence(smaller, [ids])) == 2


@pytest.mark.parametrize("family", ["t5", "bert"])
def test_what_is_no_decoder_is_refused_by_name(family):
    model = model_of(family)
    with pytest.raises(ValueError, match=f"^{type(model).__name__} is an encoder or"):
        influence(model, [inputs_of(family)])


def test_no_batches_are_refused():
    assert L > 2
    with pytest.raises(ValueError, match="batches holds no batch"):
        influence(model_of("llama"), [])
