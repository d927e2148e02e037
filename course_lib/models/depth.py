"""Lists of layers that are cut, with all that a model and its configuration say of each
layer.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from course_lib.models.parts import put_in_place


def keep_layers_(
    model: nn.Module, path: str, kept: Sequence[int], layers: nn.ModuleList | None = None
) -> None:
    """Keep the layers ``kept`` of the list at ``path``, in place: their indices become
    their new places, and the configurations say the new depth.

    Args:
        layers: where ``model`` is a copy without the other layers, the full list.
    """
    there: Any = model.get_submodule(path)
    full = there if layers is None else layers
    parent = model.get_submodule(path.rpartition(".")[0])
    new: Any = nn.ModuleList([there[i] for i in kept])
    before = getattr(full, "kept_layers", range(len(full)))
    new.kept_layers = tuple(before[i] for i in kept)  # as the full model counts them
    for inner, name in _indices(full):
        for place, layer in enumerate(new):
            part = dict(layer.named_modules()).get(inner)
            if hasattr(part, name):
                setattr(part, name, place)
    put_in_place(model, path, new)
    for name in ("num_layers", "num_hidden_layers", "n_layers", "depth"):
        if getattr(parent, name, None) == len(full):
            setattr(parent, name, len(kept))
    _say_depth(model, path, len(full), list(kept))


def along(model: nn.Module, path: str) -> list[nn.Module]:
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
    parts = along(model, path)
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
        wrong = _misfits(config_owner(model, path)[0])
        if not wrong:
            break
        again = [(c, name, old) for c, name, old in cut if name.split("_")[0] == word]
        now = [getattr(c, name) for c, name, _ in again]
        for config, name, old in again:
            setattr(config, name, old)
        if _misfits(config_owner(model, path)[0]) >= wrong:
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


def config_owner(model: nn.Module, path: str) -> tuple[nn.Module | None, str]:
    """The outermost part round ``path`` that is built from a configuration, and the path
    inside it; None if there is none.
    """
    steps = path.split(".")
    for i, part in enumerate(along(model, path)):
        if hasattr(part, "config_class"):
            return part, ".".join(steps[i:])
    return None, path


def meta_model(model: Any) -> nn.Module | None:
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


def _misfits(model: nn.Module | None) -> float:
    """How many tensors the configuration would make otherwise; inf if it is refused."""
    if model is None:
        return 0
    if (full := meta_model(model)) is None:
        return float("inf")
    mine, theirs = (
        {(name, value.shape) for name, value in m.state_dict().items()} for m in (model, full)
    )
    return len(mine ^ theirs)
