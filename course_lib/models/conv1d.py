"""GPT-2's linear layers lie on their sides: transformers' ``Conv1D`` keeps its weight as
(inputs, outputs), where ``nn.Linear`` has (outputs, inputs). What goes by rows and columns
(Wanda, N:M, low rank) is written for the latter; what takes single inputs or outputs out
(:func:`cut`) knows both.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

REMEDY = (
    "transformers' Conv1D, which keeps its weight as (inputs, outputs): take the model that"
    " course_lib.models.conv1d.with_linears(model) makes"
)


def is_conv1d(module: object) -> bool:
    """Whether this is transformers' Conv1D."""
    return isinstance(module, nn.Module) and hasattr(module, "nf") and hasattr(module, "nx")


def sizes(layer: nn.Module) -> tuple[int, int]:
    """(inputs, outputs) of a linear layer of either kind.

    Raises:
        ValueError: if it is no linear layer.
    """
    inputs, outputs = _names(layer)
    return int(getattr(layer, inputs)), int(getattr(layer, outputs))


def cut(layer: nn.Module, *, inputs: Tensor | None = None, outputs: Tensor | None = None) -> None:
    """Keep these inputs, or outputs, of a linear layer of either kind, or of the two that are
    left of one at low rank: indices, int64 (n,), in the order in which they are to stand; None
    leaves all. In place; its parameters are new, on their device and frozen where they were.

    Raises:
        ValueError: if it is no linear layer, or has an adapter beside it (peft).
    """
    part: Any = layer
    if hasattr(part, "base_layer"):
        raise ValueError(
            f"a {type(layer).__name__} with an adapter cannot be cut: merge the adapter into its"
            " base_layer first (peft: model.merge_and_unload() returns the model to pass)"
        )
    if hasattr(part, "cut"):  # two layers of low rank
        part.cut(inputs, outputs)
        return
    flip, names = is_conv1d(layer), _names(layer)
    for index, name, dim in ((inputs, names[0], 1), (outputs, names[1], 0)):
        if index is not None:
            part.weight = select_parameter(part.weight, int(flip) ^ dim, index)
            setattr(part, name, len(index))
    if outputs is not None and part.bias is not None:
        part.bias = select_parameter(part.bias, 0, outputs)


def _names(layer: nn.Module) -> tuple[str, str]:
    if is_conv1d(layer):
        return "nx", "nf"
    if hasattr(layer, "in_features") and hasattr(layer, "out_features"):
        return "in_features", "out_features"
    raise ValueError(
        f"a {type(layer).__name__} cannot be cut: its inputs and outputs are those of an"
        " nn.Linear or transformers' Conv1D"
    )


def select_parameter(parameter: Tensor, dim: int, index: Tensor) -> nn.Parameter:
    """The entries of ``parameter`` at ``index`` along ``dim``, as a new parameter."""
    chosen = parameter.detach().index_select(dim, index.to(parameter.device))
    return nn.Parameter(chosen, parameter.requires_grad)


def with_linears(model: nn.Module) -> nn.Module:
    """A copy that computes the same, in which every Conv1D is an ``nn.Linear`` under the
    same name: (inputs, outputs) -> (outputs, inputs). Heads, feed-forward parts and
    layers can be scored and removed in either.

    transformers' ``from_pretrained`` knows the other form only; ``save_pruned`` and
    ``load_pruned`` of :mod:`course_lib.pruning.heads` keep this one.
    """
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if is_conv1d(layer):
                weight = layer.get_parameter("weight")
                inputs, outputs = weight.shape
                linear = nn.Linear(inputs, outputs, device="meta").train(layer.training)
                upright = weight.detach().t().contiguous()
                linear.weight = nn.Parameter(upright, weight.requires_grad)
                linear.bias = layer.get_parameter("bias")
                setattr(parent, name, linear)
    return model
