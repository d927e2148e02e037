"""GPT-2's layers that lie on their sides, set upright."""

import copy

import pytest
import torch
from torch import nn

from course_lib.models.conv1d import is_conv1d, with_linears
from course_lib.pruning import components, weights
from course_lib.pruning.heads import remove_heads
from course_lib.pruning.layers import remove_mlps
from unit.small_transformers import inputs_of, model_of, outputs

INPUTS = inputs_of("gpt2")


@pytest.fixture
def gpt2() -> nn.Module:
    return model_of("gpt2")


def test_the_same_function_of_a_copy(gpt2: nn.Module) -> None:
    before = copy.deepcopy(gpt2.state_dict())
    gpt2.get_parameter("transformer.h.0.attn.c_attn.bias").requires_grad_(False)
    upright = with_linears(gpt2)
    assert not any(map(is_conv1d, upright.modules()))
    torch.testing.assert_close(outputs(upright, INPUTS), outputs(gpt2, INPUTS))
    assert dict(upright.named_parameters()).keys() == dict(gpt2.named_parameters()).keys()
    for name, mine in upright.named_parameters():
        assert mine.requires_grad == gpt2.get_parameter(name).requires_grad
        mine.data.zero_()
    assert all(torch.equal(value, before[name]) for name, value in gpt2.state_dict().items())
    layer = upright.get_submodule("transformer.h.0.mlp.c_fc")
    assert isinstance(layer, nn.Linear) and not layer.training
    assert layer.weight.shape == (layer.out_features, layer.in_features)


def test_heads_and_parts_go_in_either_form(gpt2: nn.Module) -> None:
    heads = torch.tensor([[True, False, True, True]] * 3)
    heads[1] = False
    one, other = (
        outputs(remove_mlps(remove_heads(model, heads), heads[:, 0]), INPUTS)
        for model in (gpt2, with_linears(gpt2))
    )
    torch.testing.assert_close(one, other)


def test_what_goes_by_rows_and_columns_says_which_form_it_takes(gpt2: nn.Module) -> None:
    ids, name = INPUTS["input_ids"], "transformer.h.1.mlp.c_fc.weight"
    with pytest.raises(ValueError, match=r"c_attn\.weight.*Conv1D.*with_linears"):
        weights.input_norms(gpt2, [ids])
    with pytest.raises(ValueError, match=r"c_fc\.weight' is that of .*with_linears"):
        components.truncate(gpt2, {name: 2})
    upright = with_linears(gpt2)
    assert weights.input_norms(upright, [ids]).keys() >= weights.encoder_weights(upright).keys()
    whole = {n: min(w.shape) for n, w in weights.encoder_weights(upright).items() if "mlp" in n}
    torch.testing.assert_close(
        outputs(components.truncate(upright, whole), INPUTS), outputs(gpt2, INPUTS)
    )
