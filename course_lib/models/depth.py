"""Lists of layers that are cut, with all that a model and its configuration say of them."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from course_lib.models.parts import put_in_place

# what configurations list with an entry for each layer, beside what has "layer" in its
# name; and where they list the places of some layers
FOR_EACH = {
    *("attention_window", "indexer_types", "kv_sharing_modes", "sliding_windows"),
    *("swiglu_limits", "swiglu_limits_shared"),
}
PLACES = {
    *("mlp_only_layers", "moe_layers", "rope_scaling_layers", "cross_attention_layers"),
    *("attn_layer_indices", "global_attn_indexes", "window_block_indices", "window_block_indexes"),
    *("fullatt_block_indexes", "residual_block_indices", "value_embedding_layers"),
}


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
    _move_places(parent, kept)
    _say_depth(model, path, len(full), list(kept))


def along(model: nn.Module, path: str) -> list[nn.Module]:
    """The modules that hold what is at ``path``, from the model inwards."""
    steps = path.split(".")
    return [model.get_submodule(".".join(steps[:i])) for i in range(len(steps))]


def _indices(layers: nn.ModuleList) -> list[tuple[str, str]]:
    """Where layers keep their own index: (path from the layer, attribute). It is a
    number that equals the layer's place in every layer, whatever its name; of two layers,
    where a switch may be 0 and 1, a name tells.
    """
    found: dict[tuple[str, str], list[int]] = {}
    for layer in layers:
        for inner, module in layer.named_modules():
            for name, value in vars(module).items():
                if type(value) is int:
                    found.setdefault((inner, name), []).append(value)
    named, all_ = re.compile("layer|block|idx|index|id$"), list(range(len(layers)))
    return [
        place
        for place, values in found.items()
        if values == all_ and (len(all_) > 2 or (len(all_) > 1 and named.search(place[1])))
    ]


def _say_depth(model: nn.Module, path: str, before: int, kept: list[int]) -> None:
    """The configurations of the model, and of its part that the layers are in, say how
    many there are, and of each what they list for every layer.
    """
    own = ("decoder_layers", "num_decoder_layers")  # of a decoder, beside an encoder's
    others = ("num_hidden_layers", "encoder_layers", "num_layers", "depth")
    fields = (*own, *others) if "decoder" in path.split(".") else others
    configs = {id(c): c for part in along(model, path) if (c := getattr(part, "config", None))}
    for config in configs.values():
        field = next((field for field in fields if getattr(config, field, None) == before), None)
        if field is None:
            continue
        setattr(config, field, len(kept))
        for name, value in list(vars(config).items()):
            listed = isinstance(value, list | tuple) and len(value) == before
            if listed and name not in PLACES and ("layer" in name or name in FOR_EACH):
                setattr(config, name, type(value)(value[i] for i in kept))
        _move_places(config, kept)
        if hasattr(config, "attention_types"):  # GPT-Neo writes its attention_layers as a pattern
            config.attention_types = [[[kind], 1] for kind in config.attention_layers]
        if len(names := getattr(config, "stage_names", None) or ()) == before + 1:
            # a backbone: its stem, and the layers; the states after layer i are those after
            # the kept layers up to i
            places = sorted({sum(k < i for k in kept) for i in config.out_indices})
            config.stage_names = names[: len(kept) + 1]
            config.set_output_features_output_indices(out_features=None, out_indices=places)


def _move_places(holder: Any, kept: Sequence[int]) -> None:
    for name in PLACES & vars(holder).keys():
        if (places := getattr(holder, name)) is not None:
            setattr(holder, name, [list(kept).index(i) for i in places if i in kept])


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
