"""Plain data: the only values that pass between the grader and a student's code.

A value becomes JSON data and raw blobs (tensor bytes). There is no pickle in either
direction: what arrives is built here from an allow-list of types, so a hostile sender
can at most send a wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.models import builders

MAX_BLOBS = 64 << 20  # bytes of tensors in a frame
MAX_DEPTH = 12  # nesting of lists, tuples and dicts
MAX_ITEMS = 10_000  # items of all lists, tuples and dicts of one value together
MAX_TEXT = 20_000  # characters of one string
MAX_BITS = 4096  # of one whole number
MAX_DIMENSIONS = 16  # of one tensor
MAX_EMPTY = 1 << 20  # rows of a tensor without a number in it, which as lists are as many lists

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
}


class WireError(Exception):
    """A frame that breaks the rules: too large, not JSON, an unknown type, a length
    that does not fit.
    """


@dataclass(frozen=True)
class Ref:
    """Something that stays in the worker, known to the grader by a number."""

    id: int


@dataclass(frozen=True)
class Unserializable:
    """A value that is no plain data: only the name of its type travels."""

    type: str
    note: str = ""

    def __str__(self) -> str:
        return f"a {self.type}" + (f" ({self.note})" if self.note else "")


@dataclass
class Layer:
    """One module of a model as it travels: the name of its class, its settings, its
    children.
    """

    type: str
    settings: dict[str, Any] = field(default_factory=dict)
    children: dict[str, Layer] = field(default_factory=dict)
    training: bool = True


@dataclass
class Model:
    """A module as plain data: its layers and its state dict, with the buffers that a
    state dict leaves out.
    """

    layer: Layer
    state: dict[str, Tensor]

    def build(self) -> nn.Module:
        """The same module, from classes on the allow-list only (layers of torch.nn,
        models of course_lib).

        Raises:
            WireError: if a layer is of another class (one of the student's own), or
                state and settings do not fit.
        """
        try:
            # settings from elsewhere allocate nothing: the state brings the memory
            with torch.device("meta"):
                module = _build(self.layer)
            left_out = _left_out(module)
            module.load_state_dict(
                {k: v for k, v in self.state.items() if k not in left_out}, assign=True
            )
            for name, buffer in left_out.items():
                if self.state[name].shape != buffer.shape:
                    raise ValueError(
                        f"{name} has shape {tuple(self.state[name].shape)}, not"
                        f" {tuple(buffer.shape)}"
                    )
                owner, _, last = name.rpartition(".")
                module.get_submodule(owner)._buffers[last] = self.state[name]
            for parameter in module.parameters():
                parameter.requires_grad_(parameter.is_floating_point())
            _set_modes(module, self.layer)
        except (
            TypeError,
            ValueError,
            ArithmeticError,
            RuntimeError,
            KeyError,
            AttributeError,
        ) as error:
            raise WireError(f"a {self.layer.type} that cannot be built: {error}"[:500]) from None
        return module


def built(module: nn.Module | Model) -> nn.Module:
    """The module itself: as it is, or built where it came as plain data."""
    return module.build() if isinstance(module, Model) else module


def describe(module: nn.Module) -> Model:
    """A module as plain data, without running anything of it."""
    state = {**module.state_dict(), **_left_out(module)}
    tensors = {name: value.detach() for name, value in state.items() if isinstance(value, Tensor)}
    return Model(_describe(module), tensors)


def _left_out(module: nn.Module) -> dict[str, Tensor]:
    """The buffers that are not in the state dict, such as the positions of a BERT, by
    name.
    """
    return {
        f"{path}.{name}" if path else name: buffer
        for path, owner in module.named_modules()
        for name, buffer in owner._buffers.items()
        if buffer is not None and name in owner._non_persistent_buffers_set
    }


def _describe(module: nn.Module, depth: int = 0) -> Layer:
    if depth > MAX_DEPTH:
        raise WireError("a module nested too deeply")
    children = {
        key: _describe(child, depth + 1)
        for key, child in module._modules.items()
        if child is not None
    }
    return Layer(
        builders.name_of(module), builders.settings_of(module), children, bool(module.training)
    )


def _build(layer: Layer) -> nn.Module:
    built = builders.build(layer.type, layer.settings)
    if layer.type in ("Sequential", "ModuleList"):
        for name, child in layer.children.items():
            built.add_module(name, _build(child))
    return built


def _set_modes(module: nn.Module, layer: Layer) -> None:
    module.training = layer.training
    for name, child in layer.children.items():
        _set_modes(module.get_submodule(name), child)


# --- values <-> JSON and blobs --------------------------------------------------------


class Packer:
    """Turns values into JSON data and a list of blobs.

    Args:
        export: called for what is no plain data (a function, a module to be kept by
            reference); returns JSON data, or None to let the value travel as
            :class:`Unserializable`.
    """

    def __init__(self, export: Callable[[Any], Any] | None = None) -> None:
        self.blobs: list[bytes] = []
        self.size = 0
        self.items = 0
        self.export = export

    def pack(self, value: Any, depth: int = 0) -> Any:
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        if kind is int:
            if value.bit_length() > MAX_BITS:
                return {"foreign": "int", "note": f"a whole number of {value.bit_length()} bits"}
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is str:
            return (
                value
                if len(value) <= MAX_TEXT
                else {"foreign": "str", "note": f"{len(value)} characters"}
            )
        if depth > MAX_DEPTH:
            raise WireError("a value nested too deeply (does it contain itself?)")
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, np.ndarray):
            try:
                return {"numpy": self._tensor(torch.from_numpy(np.ascontiguousarray(value)))}
            except TypeError:
                return {"foreign": "numpy.ndarray", "note": f"of dtype {value.dtype}"}
        if isinstance(value, np.generic):
            return {"scalar": type(value).__name__, "value": self.pack(value.item(), depth + 1)}
        if isinstance(value, torch.Size):
            return {"tuple": [int(n) for n in value]}
        if isinstance(value, tuple):
            return {"tuple": self._list(value, depth)}
        if isinstance(value, list):
            return {"list": self._list(value, depth)}
        if isinstance(value, Mapping):
            self._count(len(value))
            return {
                "dict": [
                    [self.pack(k, depth + 1), self.pack(v, depth + 1)] for k, v in value.items()
                ]
            }
        if isinstance(value, Ref):
            return {"ref": value.id}
        if isinstance(value, Unserializable):
            return {"foreign": value.type, "note": value.note}
        if self.export is not None:
            exported = self.export(value)
            if exported is not None:
                return exported
        if isinstance(value, nn.Module):
            value = describe(value)
        if isinstance(value, Model):
            return {"model": self._layer(value.layer), "state": self.pack(value.state, depth + 1)}
        if isinstance(value, int):  # a subclass of int: an IntEnum, say
            return int(value)
        return {"foreign": kind.__name__, "note": ""}

    def _list(self, values: Any, depth: int) -> list[Any]:
        self._count(len(values))
        return [self.pack(v, depth + 1) for v in values]

    def _count(self, n: int) -> None:
        self.items += n
        if self.items > MAX_ITEMS:
            raise WireError(f"more than {MAX_ITEMS} items in lists and dicts")

    def _layer(self, layer: Layer) -> dict[str, Any]:
        return {
            "type": layer.type,
            "settings": self.pack(layer.settings),
            "training": layer.training,
            "children": [[name, self._layer(child)] for name, child in layer.children.items()],
        }

    def _tensor(self, value: Tensor) -> dict[str, Any]:
        name = str(value.dtype).removeprefix("torch.")
        if name not in DTYPES or value.layout != torch.strided or value.device.type == "meta":
            return {"foreign": "Tensor", "note": f"of dtype {value.dtype}, layout {value.layout}"}
        # size before copy: an expanded tensor can claim far more than the memory it has
        size = value.numel() * value.element_size()
        self.size += size
        if self.size > MAX_BLOBS:
            raise WireError(f"more than {MAX_BLOBS >> 20} MB of tensors")
        data = value.detach().cpu().resolve_conj().resolve_neg()
        # a transposed tensor arrives transposed: code that takes the order in memory
        # for the order of rows is found out
        order = sorted(range(data.ndim), key=lambda d: -data.stride()[d])
        turned = not data.is_contiguous() and data.permute(order).is_contiguous()
        # a clone: a tensor of one element counts as contiguous whatever its stride, and
        # could not be viewed as bytes
        data = (data.permute(order) if turned else data).clone(
            memory_format=torch.contiguous_format
        )
        flat = (
            data.flatten().view(torch.uint8) if data.numel() else torch.empty(0, dtype=torch.uint8)
        )
        self.blobs.append(flat.numpy().tobytes())
        said = {"tensor": name, "shape": list(data.shape), "blob": len(self.blobs) - 1}
        return {**said, "order": order} if turned else said


class Unpacker:
    """Builds values from JSON data and blobs, believing nothing.

    Args:
        build: turn a :class:`Model` into a module at once (where the sender is the
            grader).
        resolve: what to make of ``{"ref": id}`` and ``{"proxy": id}``; the default
            gives a :class:`Ref`.
    """

    def __init__(
        self,
        blobs: list[bytes],
        resolve: Callable[[dict[str, Any]], Any] | None = None,
        build: bool = False,
    ) -> None:
        self.blobs = blobs
        self.resolve = resolve
        self.build = build
        self.items = 0
        # blobs: each is one tensor, or a small frame could fill the memory with copies
        self.taken: set[int] = set()

    def unpack(self, data: Any) -> Any:
        """The value that ``data`` stand for.

        Raises:
            WireError: if they break the rules, in whatever way.
        """
        try:
            return self._value(data)
        except (TypeError, ValueError, ArithmeticError, LookupError, RuntimeError) as error:
            raise WireError(
                f"data that stand for no value ({type(error).__name__}: {error})"[:300]
            ) from None

    def _value(self, data: Any, depth: int = 0) -> Any:
        self.items += 1
        if self.items > 3 * MAX_ITEMS:  # a pair of a dict is two, and what has a tag is one with it
            raise WireError("too many items")
        if isinstance(data, int) and data.bit_length() > MAX_BITS:
            raise WireError("a whole number of too many bits")
        if data is None or isinstance(data, bool | int | float | str):
            return data
        if depth > 2 * MAX_DEPTH + 4:
            raise WireError("nested too deeply")
        if not isinstance(data, dict) or not data:
            raise WireError(f"expected tagged data, got a {type(data).__name__}")
        if "tensor" in data:
            return self._tensor(data)
        if "list" in data:
            return [self._value(v, depth + 1) for v in _require_type(data["list"], list)]
        if "tuple" in data:
            return tuple(self._value(v, depth + 1) for v in _require_type(data["tuple"], list))
        if "dict" in data:
            return self._dict(_require_type(data["dict"], list), depth)
        if "float" in data:
            if data["float"] not in ("nan", "inf", "-inf"):
                raise WireError("not a float")
            return float(data["float"])
        if "numpy" in data:
            value = self._tensor(_require_type(data["numpy"], dict))
            return (
                value.numpy() if value.dtype != torch.bfloat16 else Unserializable("numpy.ndarray")
            )
        if "scalar" in data:
            value = self._value(data["value"], depth + 1)
            if not isinstance(value, bool | int | float):
                raise WireError("not a scalar")
            return (
                np.bool_(value)
                if isinstance(value, bool)
                else np.int64(value)
                if isinstance(value, int)
                else np.float64(value)
            )
        if "foreign" in data:
            return Unserializable(str(data["foreign"])[:200], str(data.get("note", ""))[:200])
        if "model" in data:
            state = self._value(data["state"], depth + 1)
            if not isinstance(state, dict) or not all(
                isinstance(v, Tensor) for v in state.values()
            ):
                raise WireError("a state dict holds tensors by name")
            model = Model(self._layer(data["model"]), state)
            return model.build() if self.build else model
        if self.resolve is not None and ("ref" in data or "proxy" in data or "helper" in data):
            return self.resolve(data)
        if "ref" in data:
            return Ref(_require_type(data["ref"], int))
        raise WireError(f"unknown tag {next(iter(data))!r}")

    def _dict(self, pairs: list[Any], depth: int) -> dict[Any, Any]:
        result = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise WireError("a dict travels as pairs")
            key = self._value(pair[0], depth + 1)
            try:
                result[key] = self._value(pair[1], depth + 1)
            except TypeError:
                raise WireError("a key that cannot be a key") from None
        return result

    def _layer(self, data: Any, depth: int = 0) -> Layer:
        if depth > MAX_DEPTH or not isinstance(data, dict):
            raise WireError("not a layer")
        settings = self._value(data.get("settings", {"dict": []}))
        children = {
            str(name): self._layer(child, depth + 1)
            for name, child in _require_type(data.get("children", []), list)
        }
        return Layer(
            str(data.get("type", ""))[:200],
            _require_type(settings, dict),
            children,
            bool(data.get("training", True)),
        )

    def _tensor(self, data: dict[str, Any]) -> Tensor:
        dtype = DTYPES.get(data.get("tensor", ""))
        shape, index = data.get("shape"), data.get("blob")
        # how many before how large: a product of a thousand large numbers takes Python
        # minutes
        if dtype is None or not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
            raise WireError("not a tensor")
        if not all(type(n) is int and 0 <= n < 1 << 40 for n in shape):
            raise WireError("a tensor whose sizes are no numbers")
        if type(index) is not int or not 0 <= index < len(self.blobs) or index in self.taken:
            raise WireError("a tensor without bytes of its own")
        self.taken.add(index)
        blob = self.blobs[index]
        if math.prod(shape) * dtype.itemsize != len(blob):
            raise WireError("a tensor whose bytes do not fit its shape")
        if not blob and math.prod(n for n in shape if n) > MAX_EMPTY:
            raise WireError(
                "a tensor without a number in it, and larger than what can be looked at"
            )
        order = data.get("order", list(range(len(shape))))
        if (
            not isinstance(order, list)
            or len(order) != len(shape)
            or any(type(d) is not int for d in order)
            or sorted(order) != list(range(len(shape)))
        ):
            raise WireError("an order of dimensions that is none")
        back = sorted(range(len(order)), key=lambda d: order[d])
        if not blob:
            return torch.empty(shape, dtype=dtype).permute(back)
        if dtype is torch.bool and blob.translate(None, b"\0\1"):
            raise WireError("a bool that is neither 0 nor 1")
        return torch.frombuffer(bytearray(blob), dtype=dtype).reshape(shape).permute(back)


def _require_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise WireError(f"expected a {kind.__name__}, got a {type(value).__name__}")
    return value
