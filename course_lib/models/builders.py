"""Modules as plain data: which classes may travel between processes, by which settings,
and within which bounds.

Nothing that came from elsewhere is called but what stands here, with numbers, texts and
tuples of such, none of them above its bound: a setting costs time and memory to build,
whatever the state dict holds. A new kind of model that is to travel is one more
:func:`register`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from course_lib.models.convnet import SmallConvNet
from course_lib.models.lenet import LeNet300

MAX_WIDTH = 1 << 20  # of any setting that is a number
MAX_DEPTH = 64  # layers of a model that is built from a number of them
Settings = dict[str, Any]


@dataclass(frozen=True)
class Builder:
    """How a kind of module is taken apart and made again.

    Attributes:
        read: the settings of a module of this kind. make: a module from settings.
    """

    read: Callable[[nn.Module], Settings]
    make: Callable[[Settings], nn.Module]


_BUILDERS: dict[str, Builder] = {}


def register(name: str, builder: Builder) -> None:
    """Let modules of a class travel.

    Args:
        name: of the class: its own for a layer of torch.nn, "module.Class" for any
            other.
    """
    _BUILDERS[name] = builder


def name_of(module: nn.Module) -> str:
    """The name under which a module's class is, or would be, registered."""
    kind = type(module)
    return (
        kind.__name__
        if getattr(nn, kind.__name__, None) is kind
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def settings_of(module: nn.Module) -> Settings:
    """What to build a module of this class from; nothing for one that is not
    registered.
    """
    builder = _BUILDERS.get(name_of(module))
    return builder.read(module) if builder is not None else {}


def build(name: str, settings: Settings) -> nn.Module:
    """A module of a registered class, on whatever device is the default.

    Raises:
        KeyError: if the class is not registered. ValueError: if a setting is no plain
            value or above its bound.
    """
    if name not in _BUILDERS:
        raise KeyError(f"no builder for a module of type {name}")
    for key, value in settings.items():
        _check(key, value)
    return _BUILDERS[name].make(settings)


def _check(key: str, value: Any) -> None:
    if isinstance(value, tuple):
        if len(value) > MAX_DEPTH:
            raise ValueError(f"{key} has {len(value)} entries, above {MAX_DEPTH}")
        for item in value:
            _check(key, item)
    elif isinstance(value, str):
        if key != "padding_mode" and value not in ("none", "tanh", "same", "valid"):
            raise ValueError(f"{key} cannot be {value[:40]!r}")
    elif not isinstance(value, int | float):
        raise ValueError(f"{key} is a {type(value).__name__}, not a number")
    elif not abs(value) <= (
        MAX_DEPTH if key in ("layers", "depth", "num_hidden_layers") else MAX_WIDTH
    ):
        raise ValueError(f"{key} is {value}, above what is built")


# --- classes that keep their settings under the names of their arguments ---------------


def _by_attributes(find: Callable[[], type[nn.Module]]) -> Builder:
    def read(module: nn.Module) -> Settings:
        asked = inspect.signature(type(module)).parameters
        kept = {key: module.__dict__.get(key) for key in asked}
        settings = {
            key: value
            for key, value in kept.items()
            if isinstance(value, int | float | str | tuple)
        }
        if "bias" in asked and "bias" in module._parameters:
            settings["bias"] = module._parameters["bias"] is not None
        return settings

    def make(settings: Settings) -> nn.Module:
        kind = find()
        known = set(inspect.signature(kind).parameters) - {"device", "dtype"}
        if unknown := settings.keys() - known:
            raise ValueError(f"a {kind.__name__} is not built from {', '.join(sorted(unknown))}")
        return kind(**settings)

    return Builder(read, make)


def _class(name: str) -> Callable[[], type[nn.Module]]:
    module, _, last = name.rpartition(".")
    return lambda: getattr(importlib.import_module(module or "torch.nn"), last)


for _name in (
    "AdaptiveAvgPool2d", "AvgPool2d", "BatchNorm1d", "BatchNorm2d", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "Dropout", "Embedding", "Flatten", "GELU", "GroupNorm",
    "Identity", "LayerNorm", "Linear", "MaxPool2d", "ModuleList", "ReLU", "Sequential", "Sigmoid",
    "Tanh",
):  # fmt: skip
    register(_name, _by_attributes(_class(_name)))


def _lenet(module: nn.Module) -> Settings:
    fc1, fc2, fc3 = (module.get_submodule(name) for name in ("fc1", "fc2", "fc3"))
    return {
        "in_features": fc1.in_features,
        "classes": fc3.out_features,
        "hidden": (fc1.out_features, fc2.out_features),
    }


def _convnet(module: nn.Module) -> Settings:
    convs = [m for m in module.children() if isinstance(m, nn.Conv2d)]
    widths = tuple(conv.out_channels for conv in convs)
    return {
        "in_channels": convs[0].in_channels,
        "classes": module.get_submodule("fc").out_features,
        "widths": widths,
    }


register("course_lib.models.lenet.LeNet300", Builder(_lenet, lambda settings: LeNet300(**settings)))
register(
    "course_lib.models.convnet.SmallConvNet",
    Builder(_convnet, lambda settings: SmallConvNet(**settings)),
)


# --- transformers: numbers of a configuration -----------------------------------------


def _by_config(
    model: str, config: str, numbers: Mapping[str, type], most: Mapping[str, int]
) -> Builder:
    """Of a configuration's many settings only these ``numbers`` travel, and nothing
    else is listened to.
    """

    def read(module: nn.Module) -> Settings:
        said = getattr(module.__dict__.get("config"), "__dict__", {})
        said = {**said, "num_labels": module.__dict__.get("num_labels")}
        return {
            key: kind(said[key])
            for key, kind in numbers.items()
            if isinstance(said.get(key), int | float)
        }

    def make(settings: Settings) -> nn.Module:
        for key, kind in numbers.items():
            if type(settings.get(key)) is not kind or settings[key] < 0:
                raise ValueError(
                    f"a {model.rpartition('.')[2]} has a {key}, got {settings.get(key)!r}"
                )
        for key, highest in most.items():
            if settings[key] > highest:
                raise ValueError(
                    f"a {model.rpartition('.')[2]} whose {key} is above {highest} does not travel"
                )
        # not from transformers itself, which looks names up when asked, and fails two
        # threads that ask at once
        made = _class(config)()(**{key: settings[key] for key in numbers if key != "num_labels"})
        made.num_labels = settings["num_labels"]
        return _class(model)()(made)

    return Builder(read, make)


BERT = "transformers.models.bert.modeling_bert.BertForSequenceClassification"
register(
    BERT,
    _by_config(
        BERT,
        "transformers.models.bert.configuration_bert.BertConfig",
        {
            "vocab_size": int,
            "hidden_size": int,
            "num_hidden_layers": int,
            "num_attention_heads": int,
            "intermediate_size": int,
            "max_position_embeddings": int,
            "type_vocab_size": int,
            "num_labels": int,
            "hidden_dropout_prob": float,
            "attention_probs_dropout_prob": float,
        },
        {"num_hidden_layers": 24, "num_labels": 1000},
    ),
)
