"""Whole layers: dropped while a model trains, so that it can do without some, and then
taken out.

Source: Fan, Grave & Joulin 2020, "Reducing Transformer Depth on Demand with Structured
Dropout", section 3.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def layerdrop(layers: nn.ModuleList, p: float, generator: torch.Generator) -> Iterator[None]:
    """Inside the block each call of a layer that is in training mode is skipped with
    probability ``p``; nothing is rescaled.

    One number is drawn for each call of each layer, in calling order. A skipped layer
    does not run, and its call returns its first positional argument as it is. In
    evaluation mode nothing is drawn or skipped. After the block, also after an
    exception, every layer is as before.

    Args:
        layers: for example ``model.bert.encoder.layer``; their inputs and outputs are
            hidden states (B, L, E).

    Raises:
        ValueError: if ``p`` is not in 0 … 1. TypeError: if ``layers`` is one module and
            no list of such.
    """
    if isinstance(layers, nn.Module) and not isinstance(layers, nn.ModuleList | nn.Sequential):
        lists = [name for name, part in layers.named_modules() if isinstance(part, nn.ModuleList)]
        raise TypeError(
            f"layers is the nn.ModuleList of the layers, not a {type(layers).__name__}; in it there"
            f" are {', '.join(lists) or 'none'}"
        )
    if not 0 <= p <= 1:
        raise ValueError(f"p is the probability that a layer is skipped, between 0 and 1; got {p}")

    def skipping(layer: nn.Module, forward: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if layer.training and float(torch.rand((), generator=generator)) < p:
                return args[0]
            return forward(*args, **kwargs)

        return call

    changed: list[nn.Module] = []
    try:
        for layer in dict.fromkeys(layers):
            object.__setattr__(layer, "forward", skipping(layer, layer.forward))
            changed.append(layer)
        yield
    finally:
        for layer in changed:
            object.__delattr__(layer, "forward")


def layers_to_keep(layers: int, depth: int) -> list[int]:
    """⌊i · layers / depth⌋ for i = 0 … depth − 1: evenly spaced, the first always among
    them.

    For half the depth these are "every other" layer of Fan et al.; their rule, d ≡ 0
    mod ⌊1/p⌋, is not defined for every depth.

    Raises:
        ValueError: if ``depth`` is not in 1 … layers.
    """
    if not 1 <= depth <= layers:
        raise ValueError(f"of {layers} layers 1 to {layers} can stay, got depth {depth}")
    return [i * layers // depth for i in range(depth)]


def take_layers(model: nn.Module, path: str, depth: int) -> nn.Module:
    """A copy of the model with ``depth`` of its layers, those of
    :func:`layers_to_keep`.

    Args:
        path: of the ``nn.ModuleList``: "bert.encoder.layer". The configuration's number
            of layers goes with it.

    Raises:
        ValueError: if there is no ModuleList at ``path``, or as :func:`layers_to_keep`.
    """
    layers = dict(model.named_modules()).get(path)
    if not isinstance(layers, nn.ModuleList):
        lists = [
            name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)
        ]
        raise ValueError(
            f"{path!r} is no ModuleList of the model; there are {', '.join(lists) or 'none'}"
        )
    kept = layers_to_keep(len(layers), depth)
    # the layers that go are not copied
    smaller = copy.deepcopy(
        model, {id(layer): None for i, layer in enumerate(layers) if i not in kept}
    )
    parent, _, name = path.rpartition(".")
    there: Any = smaller.get_submodule(path)
    for place, old in enumerate(kept):
        for module in there[old].modules():
            if getattr(module, "layer_idx", None) == old:  # its place in the cache
                module.layer_idx = place
    setattr(smaller.get_submodule(parent), name, nn.ModuleList([there[i] for i in kept]))
    _say_depth(smaller, path, len(layers), depth)
    return smaller


def _say_depth(model: nn.Module, path: str, before: int, depth: int) -> None:
    """The configurations of the model, and of its part that the layers are in, say how
    many there are.
    """
    steps = path.split(".")
    parts = [model.get_submodule(".".join(steps[:i])) for i in range(len(steps))]
    own = ("decoder_layers", "num_decoder_layers")  # of a decoder, beside an encoder's
    others = ("num_hidden_layers", "encoder_layers", "num_layers")
    fields = (*own, *others) if "decoder" in steps else others
    for config in {id(c): c for part in parts if (c := getattr(part, "config", None))}.values():
        for field in fields:
            if getattr(config, field, None) == before:
                setattr(config, field, depth)
                break
