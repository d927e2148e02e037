"""A decoder changed layer by layer: each layer is calibrated on what the pruned layers before it
pass on, and one layer's inputs are in memory at a time.

Source: Frantar & Alistarh 2023, "SparseGPT", section 4; Sun et al. 2023 (Wanda), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_names
from course_lib.models.conv1d import is_conv1d
from course_lib.models.decoders import Batches, decoder_inputs, decoder_layers, token_rows
from course_lib.modes import evaluating
from course_lib.pruning.weights.encoder import encoder_weights
from course_lib.wrapped import hold_hooks


@torch.no_grad()
def walk_layers_(
    model: nn.Module,
    batches: Batches,
    change: Callable[[str, Tensor, Tensor], Tensor],
    names: Iterable[str] | None = None,
    *,
    squares: bool = False,
) -> None:
    """Replace the matrices of a decoder's layers by what ``change`` makes of them, in place.

    The batches pass through each layer twice: before ``change``, to sum up the inputs x of its
    matrices, and after, to make the next layer's inputs. Padding does not count; there is no cache,
    and no dropout. Embeddings, norms, biases and the head stay as they are.

    Args:
        change: gets the name, a copy of the weight, (outputs, inputs) also for GPT-2's Conv1D, and
            Σ xxᵀ (inputs, inputs) over all tokens, float64, 0 without any; returns the new weight.
        names: of the weights, None: all matrices of the layers. The walk ends with the last layer
            that has one. Fused experts, whose inputs are not seen, are refused.
        squares: sum up x² (inputs,) instead, which is enough for Wanda.
    """
    path, layers = decoder_layers(model)
    linear = {
        f"{name}.weight": module
        for name, module in layers.named_modules(prefix=path)
        if isinstance(module, nn.Linear) or is_conv1d(module)
    }
    wanted = [*(encoder_weights(model) if names is None else names)]
    check_names(wanted, linear, "names (of matrices of the layers whose inputs are seen here)")
    depth = 1 + max(int(name.removeprefix(f"{path}.").split(".")[0]) for name in wanted)
    with evaluating(model):
        states, calls = record_calls(model, [*layers][:depth], batches)
        for i, given in enumerate(calls):
            inside = {n: linear[n] for n in wanted if n.startswith(f"{path}.{i}.")}
            sums = _sums(inside, zip(states, given, strict=True), squares)
            for name, module in inside.items():
                weight = module.get_parameter("weight").detach()
                upright = weight.T if is_conv1d(module) else weight
                upright.copy_(change(name, upright.clone(), sums.pop(name)))
            for b, call in enumerate(given if i + 1 < depth else ()):
                states[b] = call(states[b])


class LayerCall(nn.Module):
    """A layer as a map of its states (B, L, E), with all else that a model gave it: positions and
    masks, which differ by kind of layer. ``padding`` is the batch's ``attention_mask``.
    """

    def __init__(self, layer: nn.Module, padding: Tensor | None, args: Any, kwargs: Any) -> None:
        super().__init__()
        self.layer, self.padding, self.given = layer, padding, (args, kwargs)

    def forward(self, x: Tensor) -> Tensor:
        output = self.layer(x, *self.given[0], **self.given[1])
        return output if isinstance(output, Tensor) else output[0]


class _Recorded(Exception):
    """All that is needed of a forward pass was seen."""


def record_calls(
    model: nn.Module, layers: list[nn.Module], batches: Batches
) -> tuple[list[Tensor], list[list[LayerCall]]]:
    """For each batch the first layer's states; for each layer and batch its call (what layers share
    is held once).
    """
    states, calls = list[Tensor](), [list[LayerCall]() for _ in layers]

    def note(i: int, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        others = dict(kwargs)
        x = args[0] if args else others.pop("hidden_states")
        states.extend([x] if i == 0 else [])
        calls[i].append(LayerCall(layer, inputs.get("attention_mask"), args[1:], others))
        if i + 1 == len(layers):
            raise _Recorded

    with hold_hooks() as hooks:
        for i, layer in enumerate(layers):
            hook = layer.register_forward_pre_hook(partial(note, i), with_kwargs=True)
            hooks.callback(hook.remove)
        for batch in batches:
            inputs = decoder_inputs(model, batch)
            with suppress(_Recorded):
                model(**inputs)
    if not states:
        raise ValueError("batches holds no batch, at least one is needed: is the iterator used up?")
    return states, calls


def _sums(
    matrices: dict[str, nn.Module], calls: Iterable[tuple[Tensor, LayerCall]], squares: bool
) -> dict[str, Tensor]:
    """Of each matrix of one layer Σ xxᵀ, or Σ x², over all tokens."""
    sums: dict[str, Tensor] = {}
    last: Any = (None, None)  # queries, keys and values read the same inputs

    def note(name: str, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal last
        if inputs[0] is not last[0]:
            x = token_rows(inputs[0], call.padding)  # (tokens, inputs)
            x = x.to(torch.promote_types(x.dtype, torch.float32))
            last = inputs[0], x.square().sum(0) if squares else x.T @ x
        sums[name] += last[1]

    with hold_hooks() as hooks:
        for name, module in matrices.items():
            weight = module.get_parameter("weight")
            shape = (weight.shape[0 if is_conv1d(module) else 1],) * (1 if squares else 2)
            sums[name] = weight.new_zeros(shape, dtype=torch.float64)
            hooks.callback(module.register_forward_pre_hook(partial(note, name)).remove)
        for x, call in calls if matrices else ():
            call(x)
    return sums
