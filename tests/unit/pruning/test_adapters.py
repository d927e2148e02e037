"""Models with adapters: what is refused says to merge them, and names lead inside."""

import pytest
import torch
from torch import nn

from course_lib.pruning import heads, layers, weights
from unit.small_transformers import model_of


class Lora(nn.Module):
    """A linear layer as peft (0.21) adapts it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.base_layer = layer
        outputs, inputs = layer.weight.shape
        self.in_features, self.out_features = inputs, outputs
        self.lora_A = nn.ModuleDict({"default": nn.Linear(inputs, 2, bias=False)}).double()
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, outputs, bias=False)}).double()

    @property
    def weight(self) -> nn.Parameter:
        return self.base_layer.weight

    @property
    def bias(self) -> nn.Parameter:
        return self.base_layer.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))


def adapted(family: str = "bert", *parts: str) -> nn.Module:
    model = model_of(family)
    for name, module in list(model.named_modules()):
        if name.endswith(parts or ("self.query", "self.value", "output.dense")):
            parent, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(parent), attribute, Lora(module))
    return model


ONE_HEAD = torch.arange(4).expand(3, 4) == 0
CUTS = [
    lambda: heads.remove_heads(adapted(), ONE_HEAD),
    lambda: heads.remove_heads(adapted("gpt2", "attn.c_attn"), ONE_HEAD),
    lambda: layers.slice_ffn(adapted(), [torch.arange(48) < 5] * 3),
]


@pytest.mark.parametrize("call", CUTS)
def test_an_adapted_layer_cannot_be_cut_and_says_what_to_merge(call):
    with pytest.raises(ValueError, match=r"Lora with an adapter.*merge_and_unload"):
        call()


def test_whole_parts_are_removed_with_their_adapters():
    smaller = layers.remove_mlps(adapted(), torch.tensor([True, False, True]))
    assert sum("lora_A" in name for name, _ in smaller.named_parameters()) == 3 * 4 - 1


def test_a_name_of_the_model_without_adapters_leads_to_the_layer_inside():
    plain = "bert.encoder.layer.0.attention.self.query.weight"
    net = nn.ModuleDict({"base_model": adapted()})
    inside = "base_model." + plain.replace("query.", "query.base_layer.")
    with pytest.raises(ValueError, match=f"'{plain}': did you mean '{inside}'"):
        weights.check(net, {plain: torch.ones(32, 32) > 0})


def test_the_weights_of_adapters_are_not_the_encoders():
    expected = {name.replace(".base_layer", "") for name in weights.encoder_weights(adapted())}
    assert expected == set(weights.encoder_weights(model_of("bert"))) and len(expected) == 18
