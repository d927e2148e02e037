"""Whole layers: dropped while a model trains, so that it can do without some, and then
taken out.

Source: Fan, Grave & Joulin 2020, "Reducing Transformer Depth on Demand with Structured
Dropout", section 3.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_fraction
from course_lib.models.depth import along, keep_layers_, meta_model
from course_lib.models.families import rows_of
from course_lib.wrapped import refuse_wrapped

# where a module lists the layers whose states it reads beside the last one's
STATES = ("deepstack_visual_indexes", "intermediate_layers_indices", "extract_layers")


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


def take_layers(
    model: nn.Module, path: str, keep: int | Sequence[int] | Sequence[bool] | Tensor
) -> nn.Module:
    """A copy of the model with some of its layers.

    The configuration says the new depth. What it lists for every layer (``layer_types``
    and the like) is cut with the layers, and the index that a layer carries becomes its
    new one.

    Args:
        path: of the ``nn.ModuleList``: "bert.encoder.layer".
        keep: how many, evenly spaced (:func:`layers_to_keep`); or which: their numbers,
            counted from 0 and increasing, or a bool mask (layers,), True = kept.

    Raises:
        ValueError: if there is no ModuleList at ``path``, or ``keep`` does not fit it;
            if the layers share their weights; if no configuration describes the smaller
            model, since a layer computes with its index, say; or if a layer is under
            ``torch.nn.utils.prune``.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
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
        if name := next((n for n in STATES if getattr(module, n, None)), None):
            raise ValueError(
                f"{path!r} cannot be cut: a {type(module).__name__} reads the states after the"
                f" layers of its {name}"
            )
    kept = _kept(keep, len(layers))
    # the layers that go are not copied
    smaller = copy.deepcopy(
        model, {id(layer): None for i, layer in enumerate(layers) if i not in kept}
    )
    keep_layers_(smaller, path, kept, layers)
    _refuse_other_layers(model, smaller, path, kept)
    return smaller


def _kept(keep: Any, layers: int) -> list[int]:
    """The numbers of the layers that stay."""
    given = keep.tolist() if hasattr(keep, "tolist") else keep
    if type(given) is int:
        return layers_to_keep(layers, given)
    which = given if isinstance(given, Sequence) else []
    which = [i.tolist() if hasattr(i, "tolist") else i for i in which]
    kinds = {type(i) for i in which}
    if kinds == {bool} and len(which) == layers:
        kinds, which = {int}, [i for i, kept in enumerate(which) if kept]
    if kinds != {int} or not which or which != sorted({*which} & {*range(layers)}):
        raise ValueError(
            f"keep is a number of layers, or those that stay: increasing numbers from 0 to"
            f" {layers - 1}, or a bool mask ({layers},) with a True in it; got {keep!r}"
        )
    return which


def _refuse_other_layers(model: nn.Module, smaller: nn.Module, path: str, kept: list[int]) -> None:
    """Raises ValueError where the configuration makes another layer than the one that
    was kept: GPT-2's ``scale_attn_by_inverse_layer_idx`` makes a number of its index.
    """
    for step, whole in enumerate(along(model, path)):
        if hasattr(whole, "config_class"):
            inner_path = ".".join(path.split(".")[step:])
            part = along(smaller, path)[step]
            full, again = meta_model(whole), meta_model(part)
            break
    else:
        return
    if full is None or again is None or len(_list(again, inner_path)) != len(kept):
        return

    for place, old in enumerate(kept):
        mine, theirs = (_said(_list(net, inner_path)[place]) for net in (part, again))
        was, built = (_said(_list(net, inner_path)[old]) for net in (whole, full))
        for key, value in theirs.items():
            if built.get(key) == was.get(key) and mine.get(key, value) != value:
                inner, name = key
                raise ValueError(
                    f"layer {old} of {path!r} would be layer {place}, and its configuration makes"
                    f" {name} of {inner!r} {value!r} there and not {mine[key]!r}: the smaller model"
                    " could not be built again. Keep other layers, or set the number in the"
                    " configuration"
                )


def _list(model: nn.Module, path: str) -> Any:
    return model.get_submodule(path)


def _said(layer: nn.Module) -> dict[tuple[str, str], Any]:
    """Classes, shapes and numbers of a layer, without those of dropout."""
    said: dict[tuple[str, str], Any] = {}
    for inner, module in layer.named_modules():
        said[inner, "class"] = type(module).__name__
        said |= {(inner, n): tuple(p.shape) for n, p in module.named_parameters(recurse=False)}
        if "Drop" not in type(module).__name__:
            said |= {
                (inner, name): value
                for name, value in vars(module).items()
                if isinstance(value, int | float | str)
                and "drop" not in name
                and name != "training"
            }
    return said
