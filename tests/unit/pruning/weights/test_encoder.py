"""Which weights are a transformer's layers'."""

import pytest
from torch import nn

from course_lib.pruning.weights import encoder_weights
from unit.conformance.models import SMALL
from unit.small_transformers import gateable

OUTSIDE = [
    "embed",
    "pooler",
    "classifier",
    "head.",
    "lm_head",
    "shared",
    "attention_bias",
    "bias_table",
    "wte",
    "wpe",
]


@pytest.mark.parametrize("family", [*SMALL, "torchvision vit"])
def test_the_layers_and_nothing_else(family):
    model = gateable(family)
    found, names = encoder_weights(model), dict(model.named_parameters())
    # experts that lie in one tensor are (experts, outputs, inputs)
    assert found and all(p.ndim == 2 + ("experts." in name) for name, p in found.items())
    assert all(names[name] is p for name, p in found.items())
    assert not [name for name in found if any(word in name for word in OUTSIDE)]
    for name in found:
        owner = model.get_submodule(name.rpartition(".")[0])
        others = ("Conv1D", "MixtralTopKRouter", "MixtralExperts")
        assert isinstance(owner, nn.Linear) or type(owner).__name__ in others, name
    if family == "bert":  # six a layer
        assert len(found) == 6 * 3 and all(n.startswith("bert.encoder.layer.") for n in found)
