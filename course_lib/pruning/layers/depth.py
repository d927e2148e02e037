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
        layers: ``model.bert.encoder.layer``, say, which take and make hidden states (B, L, E).
    """
    if isinstance(layers, nn.Module) and not isinstance(layers, nn.ModuleList | nn.Sequential):
        raise TypeError(
            f"layers is the nn.ModuleList of the layers, not a {type(layers).__name__}; in it there"
            f" are {_lists(layers)}"
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
    """
    if not 1 <= depth <= layers:
        raise ValueError(f"of {layers} layers 1 to {layers} can stay, got depth {depth}")
    return [i * layers // depth for i in range(depth)]


def take_layers(
    model: nn.Module, path: str, keep: int | Sequence[int] | Sequence[bool] | Tensor
) -> nn.Module:
    """A copy of the model with some of its layers. Its configuration says so, also where it
    lists something for every layer, and the index that a layer carries becomes its new one.

    Args:
        path: of the ``nn.ModuleList``: "bert.encoder.layer".
        keep: how many, evenly spaced (:func:`layers_to_keep`); or which: their numbers,
            counted from 0 and increasing, or a bool mask (layers,), True = kept.

    Raises:
        ValueError: if ``path`` or ``keep`` does not fit the model; if the layers share their
            weights; or if no configuration describes the smaller model, since a layer computes
            with its index, say.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    layers = dict(model.named_modules()).get(path)
    if not isinstance(layers, nn.ModuleList):
        raise ValueError(f"{path!r} is no ModuleList of the model; there are {_lists(model)}")
    for module in along(model, path):
        name = next((n for n in STATES if getattr(module, n, None)), None)
        reads = f"it reads the states after the layers of its {name}" if name else ""
        if why := next((row.depth for row in rows_of(type(module)) if row.depth), reads):
            raise ValueError(f"{path!r} cannot be cut in a {type(module).__name__}: {why}")
    kept = _kept(keep, len(layers))
    # the layers that go are not copied
    gone = {id(layer): None for i, layer in enumerate(layers) if i not in kept}
    smaller = copy.deepcopy(model, gone)
    keep_layers_(smaller, path, kept, layers)
    _refuse_other_layers(model, smaller, path, kept)
    return smaller


def _lists(model: nn.Module) -> str:
    lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    return ", ".join(lists) or "none"


def _kept(keep: Any, layers: int) -> list[int]:
    """The numbers of the layers that stay."""
    try:
        given = torch.as_tensor(keep)
    except (TypeError, ValueError, RuntimeError):
        given = torch.empty(0)
    if given.dtype == torch.bool and given.shape == (layers,):
        given = given.nonzero().flatten()
    which: Any = given.tolist()
    if type(which) is int:
        return layers_to_keep(layers, which)
    whole = given.ndim == 1 and not given.dtype.is_floating_point and given.dtype != torch.bool
    if whole and which and which == sorted({*which} & {*range(layers)}):
        return which
    raise ValueError(
        f"keep is a number of layers, or those that stay: increasing numbers from 0 to"
        f" {layers - 1}, or a bool mask ({layers},) with a True in it; got {keep!r}"
    )


def _refuse_other_layers(model: nn.Module, smaller: nn.Module, path: str, kept: list[int]) -> None:
    """Raises ValueError where the configuration makes another layer than the one that was
    kept: GPT-2's ``scale_attn_by_inverse_layer_idx`` makes a number of its index.
    """
    full, again = list[nn.Module](), list[nn.Module]()
    for step, nets in enumerate(zip(along(model, path), along(smaller, path), strict=True)):
        if not full:
            inner_path = ".".join(path.split(".")[step:])
            full, again = (_built(net, inner_path) for net in nets)
    if len(again) != len(kept) or len(full) <= kept[-1]:
        return
    for place, old in enumerate(kept):
        built = _said(again[place])
        for (inner, name), was in _said(full[old]).items():
            said = built.get((inner, name))
            if said != was and (was, said) != (old, place):
                raise ValueError(
                    f"layer {old} of {path!r} would be layer {place}, where its configuration"
                    f" makes {name} of {inner!r} {said!r} and not {was!r}: it could not be built"
                    " again. Keep other layers, or set the number in the configuration"
                )


def _built(model: nn.Module, path: str) -> list[nn.Module]:
    """The layers that a model's configuration makes, without memory for weights."""
    built: Any = meta_model(model)
    return [] if built is None else list(built.get_submodule(path))


def _said(layer: nn.Module) -> dict[tuple[str, str], Any]:
    """Classes, shapes and numbers of a layer, without those of dropout."""
    return {
        (inner, name): tuple(value.shape) if isinstance(value, Tensor) else value
        for inner, module in layer.named_modules()
        if "Drop" not in (kind := type(module).__name__)
        for name, value in (vars(module) | module._parameters | {"class": kind}).items()
        if isinstance(value, int | float | str | Tensor) and "drop" not in name
    }
