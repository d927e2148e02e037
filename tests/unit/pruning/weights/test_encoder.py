"""Which weights are a transformer's layers'."""

import pytest
from torch import nn

from course_lib.pruning.weights import encoder_weights
from unit.conformance.models import SMALL
from unit.small_transformers import gateable, model_of


@pytest.mark.parametrize("family", [*SMALL, "torchvision vit"])
def test_the_layers_and_nothing_else(family):
    model = gateable(family)
    found = encoder_weights(model)
    # experts that lie in one tensor are (experts, outputs, inputs)
    assert found and all(p.ndim == 2 + ("experts." in name) for name, p in found.items())
    names = dict(model.named_parameters())
    assert all(names[name] is p for name, p in found.items())
    for word in (
        "embed",
        "pooler",
        "classifier",
        "head.",
        "lm_head",
        "shared",
        "relative_attention_bias",
        "bias_table",
        "wte",
        "wpe",
    ):
        assert not [name for name in found if word in name], word
    layers = {".".join(name.split(".")[:-1]) for name in found}
    linear = {
        n
        for n, m in model.named_modules()
        if isinstance(m, nn.Linear)
        or type(m).__name__ in ("Conv1D", "MixtralTopKRouter", "MixtralExperts")
    }
    assert layers <= linear


def test_bert_has_six_a_layer():
    model = model_of("bert")
    assert len(encoder_weights(model)) == 6 * 3
    assert all(name.startswith("bert.encoder.layer.") for name in encoder_weights(model))
