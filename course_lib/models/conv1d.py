"""GPT-2's linear layers lie on their sides: transformers' ``Conv1D`` keeps its weight as
(inputs, outputs), where ``nn.Linear`` has (outputs, inputs). What goes by rows and columns
(Wanda, N:M, low rank) is written for the latter.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

REMEDY = (
    "transformers' Conv1D, which keeps its weight as (inputs, outputs): take the model that"
    " course_lib.models.conv1d.with_linears(model) makes"
)


def is_conv1d(module: object) -> bool:
    """Whether this is transformers' Conv1D."""
    return isinstance(module, nn.Module) and hasattr(module, "nf") and hasattr(module, "nx")


@torch.no_grad()
def with_linears(model: nn.Module) -> nn.Module:
    """A copy that computes the same, in which every Conv1D is an ``nn.Linear`` under the
    same name: (inputs, outputs) -> (outputs, inputs). Heads, feed-forward parts and
    layers can be scored and removed in either.

    transformers' ``from_pretrained`` knows the other form alone: keep
    ``state_dict()``, and build with ``with_linears(GPT2LMHeadModel(config))``.
    """
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if is_conv1d(layer):
                setattr(parent, name, _linear(layer))
    return model


def _linear(layer: nn.Module) -> nn.Linear:
    weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
    inputs, outputs = weight.shape
    linear = nn.Linear(inputs, outputs, device="meta")
    linear.weight = nn.Parameter(weight.t().contiguous(), weight.requires_grad)
    linear.bias = bias
    return linear.train(layer.training)
