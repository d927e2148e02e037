"""How much a layer of a decoder changes what passes through it. Layers that change little are
removed without training (:func:`take_layers <course_lib.pruning.layers.take_layers>`).

Source: Men et al. 2024, "ShortGPT: Layers in Large Language Models are More Redundant Than You
Expect", section 3; Gromov et al. 2024, "The Unreasonable Ineffectiveness of the Deeper Layers".
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.models.decoders import Batches, decoder_inputs, decoder_layers, token_rows
from course_lib.modes import evaluating
from course_lib.wrapped import hold_hooks


@torch.no_grad()
def influence(model: nn.Module, batches: Batches) -> Tensor:
    """1 − cos(x, y) of each layer's input and output, the mean over all tokens without padding:
    (layers,), float64, on the CPU. The last layer's output is read at the layer: what a model calls
    its last hidden state is that after the final norm. Raises ValueError if the model is not a
    decoder alone, or there is no batch.
    """
    _, layers = decoder_layers(model)
    found: list[list[Tensor]] = [[] for _ in layers]

    def note(i: int, layer: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        x = token_rows(args[0] if args else kwargs["hidden_states"], mask)  # (tokens, E)
        y = token_rows(output if isinstance(output, Tensor) else output[0], mask)
        found[i].append(turned(x, y).cpu())

    with hold_hooks() as hooks, evaluating(model):
        for i, layer in enumerate(layers):
            hook = layer.register_forward_hook(partial(note, i), with_kwargs=True)
            hooks.callback(hook.remove)
        for batch in batches:
            inputs = decoder_inputs(model, batch)
            mask = inputs.get("attention_mask")
            model(**inputs)
    if not found[0]:
        raise ValueError("batches holds no batch, at least one is needed: is the iterator used up?")
    return torch.stack([torch.cat(parts).mean() for parts in found])


def turned(x: Tensor, y: Tensor) -> Tensor:
    """1 − cos(x, y) of every row, (tokens,), float64."""
    return 1 - F.cosine_similarity(x.double(), y.double())
