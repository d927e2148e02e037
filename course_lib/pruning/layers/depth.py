"""Whole layers: dropped while a model trains, so that it can do without some, and then
taken out.

Source: Fan, Grave & Joulin 2020, "Reducing Transformer Depth on Demand with Structured
Dropout", section 3.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from course_lib.models.families import rows_of
from course_lib.models.parts import put_in_place


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
    for module in _along(model, path):
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
    parent = smaller.get_submodule(path.rpartition(".")[0])
    there: Any = smaller.get_submodule(path)
    new: Any = nn.ModuleList([there[i] for i in kept])
    before = getattr(layers, "kept_layers", range(len(layers)))
    new.kept_layers = tuple(before[i] for i in kept)  # as the full model counts them
    for inner, name in _indices(layers):
        for place, layer in enumerate(new):
            part = dict(layer.named_modules()).get(inner)
            if hasattr(part, name):
                setattr(part, name, place)
    put_in_place(smaller, path, new)
    for name in ("num_layers", "num_hidden_layers", "n_layers", "depth"):
        if getattr(parent, name, None) == len(layers):
            setattr(parent, name, depth)
    _say_depth(smaller, path, len(layers), kept)
    _refuse_other_numbers(model, smaller, path, kept)
    return smaller


def _along(model: nn.Module, path: str) -> list[nn.Module]:
    """The modules that hold what is at ``path``, from the model inwards."""
    steps = path.split(".")
    return [model.get_submodule(".".join(steps[:i])) for i in range(len(steps))]


def _indices(layers: nn.ModuleList) -> list[tuple[str, str]]:
    """Where layers keep their own index: (path from the layer, attribute). It is a
    number that equals the layer's place in every layer, whatever its name.
    """
    found: dict[tuple[str, str], list[bool]] = {}
    for i, layer in enumerate(layers):
        for inner, module in layer.named_modules():
            for name, value in vars(module).items():
                if type(value) is int:
                    found.setdefault((inner, name), []).append(value == i)
    named = re.compile("layer|block|idx|index|id$")  # in some of the layers only
    return [
        place
        for place, equal in found.items()
        if all(equal) and (len(equal) == len(layers) or (len(equal) > 1 and named.search(place[1])))
    ]


def _say_depth(model: nn.Module, path: str, before: int, kept: list[int]) -> None:
    """The configurations of the model, and of its part that the layers are in, say how
    many there are, and of each what they list for every layer.
    """
    own = ("decoder_layers", "num_decoder_layers")  # of a decoder, beside an encoder's
    others = ("num_hidden_layers", "encoder_layers", "num_layers")
    fields = (*own, *others) if "decoder" in path.split(".") else others
    parts = _along(model, path)
    configs = {id(c): c for part in parts if (c := getattr(part, "config", None))}
    cut: list[tuple[Any, str, Any]] = []
    for config in configs.values():
        for field in fields:
            if getattr(config, field, None) == before:
                setattr(config, field, len(kept))
                cut += [(config, field, before)]
                cut += [(config, *old) for old in _cut_lists(config, before, kept)]
                break
    # a list that is as long by chance (the convolutions of Wav2Vec2): with it cut, the
    # configuration would build another model
    for word in sorted({name.split("_")[0] for _, name, _ in cut}):
        wrong = _misfits(model)
        if not wrong:
            break
        again = [(c, name, old) for c, name, old in cut if name.split("_")[0] == word]
        now = [getattr(c, name) for c, name, _ in again]
        for config, name, old in again:
            setattr(config, name, old)
        if _misfits(model) >= wrong:
            for (config, name, _), value in zip(again, now, strict=True):
                setattr(config, name, value)


def _cut_lists(config: Any, before: int, kept: list[int]) -> list[tuple[str, Any]]:
    """Cut what ``config`` lists for every layer; returns names and old values."""
    old = []
    for name, value in list(vars(config).items()):
        new = None
        if isinstance(value, list | tuple) and name != "stage_names":
            if "layer" in name and _are_places(value, before):  # Qwen 3's mlp_only_layers
                new = type(value)(kept.index(i) for i in value if i in kept)
            elif len(value) == before:
                new = type(value)(value[i] for i in kept)
            elif value and all(isinstance(x, list | tuple) and len(x) == 2 for x in value):
                # GPT-Neo: [[["global", "local"], 3]] is a pattern, and how often it comes
                try:
                    each = [kind for kinds, times in value for _ in range(times) for kind in kinds]
                except TypeError:
                    continue
                if len(each) == before:
                    new = [[[each[i]], 1] for i in kept]
        if new is not None:
            old.append((name, value))
            setattr(config, name, new)
    names = getattr(config, "stage_names", None)
    if names is not None and len(names) == before + 1:  # a backbone: its stem, and the layers
        # the states after layer i, which are those after the kept layers up to i
        places = sorted({sum(k < i for k in kept) for i in config.out_indices})
        config.stage_names = names[: len(kept) + 1]
        config.set_output_features_output_indices(out_features=None, out_indices=places)
    return old


def _are_places(value: Sequence[Any], before: int) -> bool:
    """Whether these are numbers of layers, in order."""
    return (
        len(value) > 0
        and all(type(i) is int and 0 <= i < before for i in value)
        and all(a < b for a, b in zip(value, value[1:], strict=False))
    )


def _built(model: Any) -> nn.Module | None:
    """The model that its configuration describes, without memory for weights; None
    where there is no configuration, or it describes none.
    """
    if not hasattr(model, "config_class"):
        return None
    try:
        with torch.device("meta"):
            return type(model)(copy.deepcopy(model.config))
    except Exception:  # whatever a constructor raises on a configuration that it refuses
        return None


def _misfits(model: nn.Module) -> float:
    """How many tensors the configuration would make otherwise; inf if it is refused."""
    if not hasattr(model, "config_class"):
        return 0
    if (built := _built(model)) is None:
        return float("inf")
    mine, theirs = (
        {(name, value.shape) for name, value in m.state_dict().items()} for m in (model, built)
    )
    return len(mine ^ theirs)


def _refuse_other_numbers(model: nn.Module, smaller: nn.Module, path: str, kept: list[int]) -> None:
    """Raises ValueError where a number of a layer was made from its index (GPT-2's
    ``scale_attn_by_inverse_layer_idx``): the configuration makes another one.
    """
    full, built = _built(model), _built(smaller)
    if full is None or built is None:
        return

    def numbers(of: nn.Module, layer: int) -> dict[tuple[str, str], Any]:
        return {
            (inner, name): value
            for inner, module in of.get_submodule(f"{path}.{layer}").named_modules()
            if "Drop" not in type(module).__name__
            for name, value in vars(module).items()
            if isinstance(value, int | float | str) and "drop" not in name and name != "training"
        }

    for place, old in enumerate(kept):
        mine, theirs, before = numbers(smaller, place), numbers(built, place), numbers(full, old)
        for key, value in theirs.items():
            if before.get(key) == numbers(model, old).get(key) and mine.get(key, value) != value:
                inner, name = key
                raise ValueError(
                    f"layer {old} of {path!r} would be layer {place}, and its configuration makes"
                    f" {name} of {inner!r} {value!r} there and not {mine[key]!r}: the smaller model"
                    " could not be built again. Keep all layers, or set the number in the"
                    " configuration"
                )
