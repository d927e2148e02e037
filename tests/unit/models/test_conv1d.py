"""GPT-2's layers that lie on their sides, set upright."""

import copy

import pytest
import torch
from torch import nn

from course_lib.models.conv1d import is_conv1d, with_linears
from course_lib.pruning import components, weights
from course_lib.pruning.heads import remove_heads
from course_lib.pruning.layers import remove_mlps
from unit.small_transformers import inputs_of, model_of


@pytest.fixture(scope="module")
def gpt2() -> nn.Module:
    return model_of("gpt2").eval()


def logits(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs_of("gpt2")).logits


def test_the_same_function_of_a_copy(gpt2: nn.Module) -> None:
    before = copy.deepcopy(gpt2.state_dict())
    gpt2.get_parameter("transformer.h.0.attn.c_attn.bias").requires_grad_(False)
    upright = with_linears(gpt2)
    assert not any(map(is_conv1d, upright.modules()))
    torch.testing.assert_close(logits(upright), logits(gpt2))
    assert dict(upright.named_parameters()).keys() == dict(gpt2.named_parameters()).keys()
    for name, mine in upright.named_parameters():
        theirs = gpt2.get_parameter(name)
        assert mine.requires_grad == theirs.requires_grad and mine is not theirs
    layer = upright.get_submodule("transformer.h.0.mlp.c_fc")
    assert isinstance(layer, nn.Linear) and not layer.training
    assert layer.weight.shape == (layer.out_features, layer.in_features)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    assert all(torch.equal(value, before[name]) for name, value in gpt2.state_dict().items())
    # other models stay as they are
    plain = nn.Sequential(nn.Linear(2, 3))
    assert torch.equal(with_linears(plain)[0].weight, plain[0].weight)


def test_heads_and_parts_go_in_either_form(gpt2: nn.Module) -> None:
    upright = with_linears(gpt2)
    heads = torch.tensor([[True, False, True, True]] * 3)
    heads[1] = False
    parts = torch.tensor([True, False, True])
    torch.testing.assert_close(
        logits(remove_mlps(remove_heads(upright, heads), parts)),
        logits(remove_mlps(remove_heads(gpt2, heads), parts)),
    )


def test_what_goes_by_rows_and_columns_says_which_form_it_takes(gpt2: nn.Module) -> None:
    ids = inputs_of("gpt2")["input_ids"]
    name = "transformer.h.1.mlp.c_fc.weight"
    with pytest.raises(ValueError, match=r"c_attn\.weight.*Conv1D.*with_linears"):
        weights.input_norms(gpt2, [ids])
    with pytest.raises(ValueError, match=r"c_fc\.weight' is that of .*with_linears"):
        components.truncate(gpt2, {name: 2})
    upright = with_linears(gpt2)
    norms = weights.input_norms(upright, [ids])
    assert norms.keys() >= weights.encoder_weights(upright).keys()
    seen: list[torch.Tensor] = []
    hook = upright.get_submodule("transformer.h.1.mlp.c_fc").register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0])
    )
    with torch.no_grad():
        upright(ids)
    hook.remove()
    torch.testing.assert_close(norms[name][0], seen[0].double().flatten(0, 1).norm(dim=0))
    whole = {n: min(w.shape) for n, w in weights.encoder_weights(upright).items() if "mlp" in n}
    torch.testing.assert_close(
        logits(components.truncate(upright, whole)), logits(gpt2), rtol=1e-4, atol=1e-4
    )
