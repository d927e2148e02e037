"""The walk over a decoder's layers against whole forward passes with hooks; and what was reported
of other tools.
"""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.models.conv1d import is_conv1d, with_linears
from course_lib.pruning.weights import (
    encoder_weights,
    input_norms,
    per_output_masks,
    prune_and_round,
    walk_layers_,
)
from unit.conformance.models import SMALL
from unit.small_transformers import VOCABULARY, B, L, hooks_of, inputs_of, model_of, outputs

DECODERS = [
    *("bloom", "cohere2", "gemma", "gemma2", "gemma3", "gpt2", "gpt_neo", "gpt_neox", "llama"),
    *("mistral", "opt", "phi", "phi3", "qwen2", "qwen3", "smollm3"),
]
THREE = ["gpt2", "llama", "gemma2"]  # positions learnt and weights on their sides; rotary; windows


def half(name, weight, gram):
    return prune_and_round(weight, gram, 0.5)


def wanda(name, weight, squares):
    return weight * per_output_masks({name: weight.abs() * squares.sqrt()}, 0.5)[name]


def texts(count=B, length=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, VOCABULARY, (count, length), generator=generator)


def changed(model, batches, change=half, **given):
    model = copy.deepcopy(model)
    walk_layers_(model, batches, change, **given)
    return model


def slow(model, batches, change, squares):
    """For every layer a whole forward pass of the model as it is by then; nothing is captured, and
    tokens are picked out one by one.
    """
    model = with_linears(model)
    names = list(encoder_weights(model))
    layers = sorted({name.split(".layers.")[-1].split(".h.")[-1].split(".")[0] for name in names})
    for layer in layers:
        inside = [n for n in names if f".layers.{layer}." in n or f".h.{layer}." in n]
        seen = {name: [] for name in inside}
        for batch in batches:
            real = batch["attention_mask"].bool().flatten()
            hooks = []
            for name in inside:
                note = partial(_note, seen[name], real)
                module = model.get_submodule(name.removesuffix(".weight"))
                hooks.append(module.register_forward_pre_hook(note))
            outputs(model, batch)
            for hook in hooks:
                hook.remove()
        for name in inside:
            x = torch.cat(seen[name])  # (tokens, inputs)
            weight = model.get_parameter(name).data
            weight.copy_(change(name, weight.clone(), (x**2).sum(0) if squares else x.T @ x))
    return model


def _note(seen, real, module, inputs):
    seen.append(inputs[0].view(B * L, -1)[real])


def same_weights(one, other, **tolerance):
    mine, theirs = encoder_weights(with_linears(one)), encoder_weights(with_linears(other))
    assert mine.keys() == theirs.keys()
    for name, weight in mine.items():
        assert torch.equal(weight == 0, theirs[name] == 0), name
        torch.testing.assert_close(weight, theirs[name], msg=name, **tolerance)


@pytest.mark.parametrize("family", DECODERS)
def test_it_gives_what_a_whole_pass_for_every_layer_gives(family):
    model, batches = model_of(family), [inputs_of(family, seed=seed) for seed in (0, 1)]
    for change, squares in ((half, False), (wanda, True)):
        mine = changed(model, batches, change, squares=squares)
        same_weights(mine, slow(model, batches, change, squares))
        pruned = torch.cat([p.flatten() == 0 for p in encoder_weights(mine).values()])
        assert abs(float(pruned.double().mean()) - 0.5) < 0.02


@pytest.mark.parametrize("family", DECODERS)
def test_eager_and_sdpa_give_the_same_masks(family):
    """So layers that are called alone have their causal mask, and windows those of their kind. Some
    take the softmax in single precision in one of the two.
    """
    found = [
        changed(model_of(family, attention), [inputs_of(family)])
        for attention in SMALL[family].attention
    ]
    for other in found[1:]:
        same_weights(found[0], other, atol=1e-4, rtol=0)
    whole = [changed(model_of(family, a), [texts(3)]) for a in SMALL[family].attention]
    for other in whole[1:]:
        same_weights(whole[0], other, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", DECODERS)
def test_padding_left_right_and_none_give_the_same_masks(family):
    # in double precision transformers' own masks make some models' padding NaN, and then the rest
    model, lengths, longest = model_of(family, dtype=torch.float32), (3, 5, 8), 10
    alone = [texts(1, n, seed=n) for n in lengths]
    found = [changed(model, alone)]
    for side in ("left", "right"):
        pads = [(longest - n, 0) if side == "left" else (0, longest - n) for n in lengths]
        ids = torch.cat([F.pad(t, p, value=1) for t, p in zip(alone, pads, strict=True)])
        mask = torch.cat([F.pad(torch.ones_like(t), p) for t, p in zip(alone, pads, strict=True)])
        found.append(changed(model, [{"input_ids": ids, "attention_mask": mask}]))
    for other in found[1:]:
        same_weights(found[0], other, atol=1e-3, rtol=0)


@pytest.mark.parametrize("family", THREE)
def test_one_batch_or_several_are_the_same(family):
    model, ids = model_of(family), texts(4)
    same_weights(changed(model, [ids]), changed(model, ids.split(1)))
    same_weights(changed(model, [ids]), changed(model, ids))  # windows as the rows of a tensor


@pytest.mark.parametrize("family", DECODERS)
def test_use_cache_on_or_off_the_same_bits_and_the_setting_stays(family):
    model, found = model_of(family), []
    for on in (True, False):
        model.config.use_cache = on
        found.append(changed(model, [texts(), {"input_ids": texts(), "use_cache": on}]))
        assert found[-1].config.use_cache is on
    for one, other in zip(found[0].parameters(), found[1].parameters(), strict=True):
        assert torch.equal(one, other)


class Tuples(nn.Module):
    """A layer that returns a tuple, but to its model's own loop, which takes what it returned."""

    def __init__(self, layer):
        super().__init__()
        self.inside, self.in_model = layer, False

    def forward(self, hidden_states, *args, **kwargs):
        output = self.inside(hidden_states, *args, **kwargs)
        if self.in_model:
            return output
        return (output, "more") if isinstance(output, torch.Tensor) else output[0]


@pytest.mark.parametrize("family", ["llama", "gpt2", "bloom"])
def test_layers_may_return_a_tensor_or_a_tuple(family):
    plain, other = model_of(family), model_of(family)
    path = SMALL[family].stacks[0]
    stack, parent = other.get_submodule(path), other.get_submodule(path.rpartition(".")[0])
    for i, layer in enumerate(stack):
        stack[i] = Tuples(layer)

    def forward(*args, **kwargs):
        for layer in stack:
            layer.in_model = True
        try:
            return type(parent).forward(parent, *args, **kwargs)
        finally:
            for layer in stack:
                layer.in_model = False

    parent.forward = forward
    walk_layers_(plain, [texts()], half)
    walk_layers_(other, [texts()], half)
    for one, two in zip(plain.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("family", THREE)
def test_dropout_is_off_and_modes_come_back(family):
    model = model_of(family)
    expected = changed(model, [texts()])
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.5
        if hasattr(module, "attention_dropout") and isinstance(module.attention_dropout, float):
            module.attention_dropout = 0.5
    model.train()
    model.get_submodule(SMALL[family].stacks[0])[1].eval()
    modes = [m.training for m in model.modules()]
    found = changed(model, [texts()])
    assert [m.training for m in found.modules()] == modes and not hooks_of(found)
    same_weights(expected, found)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", THREE)
def test_embeddings_norms_biases_and_the_head_are_not_touched(family, tied):
    model = model_of(family)
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    head.weight = table.weight if tied else nn.Parameter(table.weight.detach().clone())
    found = changed(model, [texts()])
    inside = set(encoder_weights(model))
    for name, parameter in model.named_parameters():
        assert torch.equal(found.get_parameter(name), parameter) == (name not in inside), name
    now = found.get_input_embeddings().weight, found.get_output_embeddings().weight
    assert (now[0] is now[1]) == tied


def test_change_gets_outputs_by_inputs_and_its_copy_is_its_own():
    """Also for Conv1D; a change that fails, or works in place on what it gets, harms nothing."""
    model, seen = model_of("gpt2"), {}

    def spoil(name, weight, gram):
        seen[name] = (tuple(weight.shape), tuple(gram.shape), gram.dtype)
        result = weight.clone()
        weight.zero_()
        return result

    before = copy.deepcopy(model.state_dict())
    walk_layers_(model, [texts()], spoil)
    assert seen["transformer.h.2.mlp.c_proj.weight"] == ((32, 128), (128, 128), torch.float64)
    assert seen["transformer.h.0.attn.c_attn.weight"] == ((96, 32), (32, 32), torch.float64)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert any(map(is_conv1d, model.modules()))


@pytest.mark.parametrize("family", THREE)
def test_the_first_layers_sums_are_those_of_input_norms(family):
    model, found = with_linears(model_of(family)), {}
    names = [n for n in encoder_weights(model) if ".0." in n]
    batch = inputs_of(family)
    walk_layers_(
        model, [batch], lambda n, w, s: found.setdefault(n, s) * 0 + w, names, squares=True
    )
    for name, norms in input_norms(model, [batch], names).items():
        torch.testing.assert_close(found[name].sqrt(), norms[0])
    assert list(found) == names


def test_names_choose_and_the_layers_after_them_are_not_run():
    model = model_of("llama")
    names = ["model.layers.1.mlp.down_proj.weight", "model.layers.0.self_attn.q_proj.weight"]
    model.model.layers[2].forward = None  # calling it would fail
    before = copy.deepcopy(model.state_dict())
    walk_layers_(model, [texts()], half, names)
    changed_names = [n for n, v in model.state_dict().items() if not torch.equal(v, before[n])]
    assert sorted(changed_names) == sorted(names)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_bfloat16_stays_bfloat16(family):
    model = model_of(family, dtype=torch.bfloat16)
    found = changed(model, [texts()])
    for name, weight in encoder_weights(found).items():
        assert weight.dtype == torch.bfloat16 and weight.isfinite().all(), name
        assert abs(float((weight == 0).double().mean()) - 0.5) < 0.05


def test_the_parameters_are_the_same_objects_and_need_no_gradients():
    model = model_of("llama")
    before = list(model.parameters())
    walk_layers_(model, iter([texts()]), half)
    assert all(one is other for one, other in zip(before, model.parameters(), strict=True))
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("family", ["t5", "bart", "bert", "gpt2 with cross-attention"])
def test_what_is_no_decoder_alone_is_refused_by_name(family):
    model = model_of(family)
    with pytest.raises(
        ValueError, match=f"^{type(model).__name__} is an encoder or an encoder–decoder"
    ):
        walk_layers_(model, [inputs_of(family)], half)


def test_experts_whose_inputs_are_not_seen_are_refused_by_name_and_names_leave_them_out():
    model = model_of("mixtral")
    with pytest.raises(ValueError, match="whose inputs are seen.*'model.layers.0.mlp.gate.weight'"):
        walk_layers_(model, [texts()], half)
    names = [n for n in encoder_weights(model) if "self_attn" in n]
    found = changed(model, [texts()], names=names)
    for name, weight in encoder_weights(found).items():
        assert bool((weight == 0).any()) == (name in names)


def test_no_batches_are_refused():
    with pytest.raises(ValueError, match="batches holds no batch"):
        walk_layers_(model_of("llama"), [], half)
