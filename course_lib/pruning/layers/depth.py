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

from course_lib.checks import check_fraction
from course_lib.models.depth import along, config_owner, keep_layers_, meta_model
from course_lib.models.families import rows_of


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
    check_fraction(p, "p", "the probability that a layer is skipped")

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

    The configuration says the new depth. What it lists for every layer (``layer_types``
    and the like) is cut with the layers, and the index that a layer carries becomes its
    new one.

    Args:
        path: of the ``nn.ModuleList``: "bert.encoder.layer".

    Raises:
        ValueError: if there is no ModuleList at ``path``, or as :func:`layers_to_keep`;
            if the layers share their weights; or if a layer computes with its index, so
            that no configuration describes the smaller model.
    """
    layers = dict(model.named_modules()).get(path)
    if not isinstance(layers, nn.ModuleList):
        lists = [
            name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)
        ]
        raise ValueError(
            f"{path!r} is no ModuleList of the model; there are {', '.join(lists) or 'none'}"
        )
    for module in along(model, path):
        for row in rows_of(type(module)):
            if row.depth:
                raise ValueError(
                    f"{path!r} cannot be cut in a {type(module).__name__}: {row.depth}"
                )
    kept = layers_to_keep(len(layers), depth)
    # the layers that go are not copied
    smaller = copy.deepcopy(
        model, {id(layer): None for i, layer in enumerate(layers) if i not in kept}
    )
    keep_layers_(smaller, path, kept, layers)
    _refuse_other_numbers(model, smaller, path, kept)
    return smaller


def _refuse_other_numbers(model: nn.Module, smaller: nn.Module, path: str, kept: list[int]) -> None:
    """Raises ValueError where a number of a layer was made from its index (GPT-2's
    ``scale_attn_by_inverse_layer_idx``): the configuration makes another one.
    """
    (whole, inner_path), (part, _) = config_owner(model, path), config_owner(smaller, path)
    full, again = meta_model(whole), meta_model(part)
    if whole is None or part is None or full is None or again is None:
        return

    def numbers(of: nn.Module, layer: int) -> dict[tuple[str, str], Any]:
        return {
            (inner, name): value
            for inner, module in of.get_submodule(f"{inner_path}.{layer}").named_modules()
            if "Drop" not in type(module).__name__
            for name, value in vars(module).items()
            if isinstance(value, int | float | str) and "drop" not in name and name != "training"
        }

    for place, old in enumerate(kept):
        mine, theirs, before = numbers(part, place), numbers(again, place), numbers(full, old)
        for key, value in theirs.items():
            if before.get(key) == numbers(whole, old).get(key) and mine.get(key, value) != value:
                inner, name = key
                raise ValueError(
                    f"layer {old} of {path!r} would be layer {place}, and its configuration makes"
                    f" {name} of {inner!r} {value!r} there and not {mine[key]!r}: the smaller model"
                    " could not be built again. Keep all layers, or set the number in the"
                    " configuration"
                )
