"""Modules as plain data: which classes may travel between processes, by which settings,
and within which bounds.

Nothing that came from elsewhere is called but what stands in ``BUILDERS``, with numbers,
texts and tuples of such, none of them above its bound: a setting costs time and memory to
build, whatever the state dict holds.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from course_lib.models.convnet import SmallConvNet
from course_lib.models.lenet import LeNet300

MAX_WIDTH = 1 << 20  # of any setting that is a number
MAX_DEPTH = 64  # of a tuple
TEXTS = ("none", "tanh", "same", "valid", "zeros", "reflect", "replicate", "circular")
Settings = dict[str, Any]


@dataclass(frozen=True)
class Builder:
    """How a kind of module is taken apart and made again."""

    read: Callable[[Any], Settings]  # the settings of a module of this kind
    make: Callable[..., nn.Module]  # a module from settings, as keywords


def name_of(module: nn.Module) -> str:
    """The name of a module's class in ``BUILDERS``: its own for a layer of torch.nn,
    "module.Class" for any other.
    """
    kind = type(module)
    of_torch = getattr(nn, kind.__name__, None) is kind
    return kind.__name__ if of_torch else f"{kind.__module__}.{kind.__qualname__}"


def settings_of(module: nn.Module) -> Settings:
    """What to build a module of this class from; nothing for one that does not travel."""
    builder = BUILDERS.get(name_of(module))
    return builder.read(module) if builder is not None else {}


def build(name: str, settings: Settings) -> nn.Module:
    """A module of a class in ``BUILDERS``, on whatever device is the default.

    Raises:
        KeyError: if the class is not there. ValueError: if a setting is no plain value or
            above its bound.
    """
    if name not in BUILDERS:
        raise KeyError(f"no builder for a module of type {name}")
    for key, value in settings.items():
        _check(key, value)
    return BUILDERS[name].make(**settings)


def _check(key: str, value: Any) -> None:
    if key in ("device", "dtype"):
        raise ValueError(f"{key} does not travel")
    if isinstance(value, tuple) and len(value) <= MAX_DEPTH:
        for item in value:
            _check(key, item)
    elif isinstance(value, str):
        if value not in TEXTS:
            raise ValueError(f"{key} cannot be {value[:40]!r}")
    elif not isinstance(value, int | float) or not abs(value) <= MAX_WIDTH:
        raise ValueError(f"{key} is {str(value)[:40]}: no number, or above what is built")


def _layer(name: str) -> Builder:
    """Of a layer of torch.nn, which keeps its settings under the names of its arguments."""
    kind = getattr(nn, name)
    arguments = inspect.signature(kind).parameters

    def read(module: nn.Module) -> Settings:
        kept = {key: module.__dict__.get(key) for key in arguments}
        if "bias" in arguments and "bias" in module._parameters:
            kept["bias"] = module._parameters["bias"] is not None
        return {k: v for k, v in kept.items() if isinstance(v, int | float | str | tuple)}

    return Builder(read, kind)


def _lenet(module: LeNet300) -> Settings:
    fc1, fc2, fc3 = module.fc1, module.fc2, module.fc3
    hidden = (fc1.out_features, fc2.out_features)
    return {"in_features": fc1.in_features, "classes": fc3.out_features, "hidden": hidden}


def _convnet(module: SmallConvNet) -> Settings:
    convs = [m for m in module.children() if isinstance(m, nn.Conv2d)]
    classes, widths = module.fc.out_features, tuple(conv.out_channels for conv in convs)
    return {"in_channels": convs[0].in_channels, "classes": classes, "widths": widths}


BERT = "transformers.models.bert.modeling_bert.BertForSequenceClassification"
# of its configuration these numbers travel, up to these, and nothing else is listened to
NUMBERS = {
    **dict.fromkeys(("vocab_size", "hidden_size", "intermediate_size"), MAX_WIDTH),
    **dict.fromkeys(("num_attention_heads", "max_position_embeddings"), MAX_WIDTH),
    "type_vocab_size": MAX_WIDTH,
    "num_hidden_layers": 24,
    "num_labels": 1000,
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 1.0),
}


def _read_bert(module: nn.Module) -> Settings:
    said = getattr(module.__dict__.get("config"), "__dict__", {})
    said = {**said, "num_labels": module.__dict__.get("num_labels")}
    return {
        key: type(most)(said[key])
        for key, most in NUMBERS.items()
        if isinstance(said.get(key), int | float)
    }


def _make_bert(**settings: int | float) -> nn.Module:
    for key, most in NUMBERS.items():
        value = settings.get(key)
        if type(value) is not type(most) or not 0 <= value <= most:
            raise ValueError(f"a BERT has a {key} from 0 to {most}, got {value!r}")
    # not from transformers itself, which looks names up when asked, and fails two threads
    # that ask at once
    bert = importlib.import_module(BERT.rpartition(".")[0])
    config = bert.BertConfig(**{key: settings[key] for key in NUMBERS if key != "num_labels"})
    config.num_labels = settings["num_labels"]
    return bert.BertForSequenceClassification(config)


BUILDERS: dict[str, Builder] = {
    name: _layer(name)
    for name in (
        *("AdaptiveAvgPool2d", "AvgPool2d", "BatchNorm1d", "BatchNorm2d", "Conv1d", "Conv2d"),
        *("Conv3d", "ConvTranspose1d", "ConvTranspose2d", "Dropout", "Embedding", "Flatten"),
        *("GELU", "GroupNorm", "Identity", "LayerNorm", "Linear", "MaxPool2d", "ModuleList"),
        *("ReLU", "Sequential", "Sigmoid", "Tanh"),
    )
}
BUILDERS |= {
    "course_lib.models.lenet.LeNet300": Builder(_lenet, LeNet300),
    "course_lib.models.convnet.SmallConvNet": Builder(_convnet, SmallConvNet),
    BERT: Builder(_read_bert, _make_bert),
}
